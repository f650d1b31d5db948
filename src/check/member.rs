//! Reads the facts about an API server that is to be a member of a fleet engine. All writes are dry runs, which change
//! nothing.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use capa_fleet::field_refused_in_secrets;
use capa_preflight::member::{MemberFacts, Nodes, Reached, Resource, User};
use capa_runtime::errors::described;
use capa_runtime::remote;
use futures::{StreamExt as _, pin_mut};
use jiff::Timestamp;
use jiff::fmt::rfc2822;
use k8s_openapi::api::authentication::v1::{SelfSubjectReview, TokenRequest, TokenRequestSpec};
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Node, ServiceAccount};
use kube::api::{ListParams, ObjectMeta, Patch, PatchParams, PostParams, WatchParams};
use kube::client::Body;
use kube::config::Kubeconfig;
use kube::{Api, Client, ResourceExt};
use serde_json::json;

/// How long a watch may take to deliver its first event.
const WATCH_TIMEOUT: Duration = Duration::from_secs(5);
/// Requests whose time is measured.
const REQUESTS: usize = 20;
/// The namespace of Karmada in its members.
const KARMADA_NAMESPACE: &str = "karmada-cluster";
/// The permissions that a join needs: verb, group, resource.
const RIGHTS: [(&str, &str, &str); 6] = [
    ("create", "", "namespaces"),
    ("create", "", "serviceaccounts"),
    ("create", "", "serviceaccounts/token"),
    ("create", "rbac.authorization.k8s.io", "clusterroles"),
    ("create", "rbac.authorization.k8s.io", "clusterrolebindings"),
    ("*", "*", "*"),
];

/// The permissions that Cluster API needs in a workload cluster: verb, group, resource. Source: Cluster API's remote
/// client.
const WORKLOAD_RIGHTS: [(&str, &str, &str); 9] = [
    ("list", "", "nodes"),
    ("watch", "", "nodes"),
    ("patch", "", "nodes"),
    ("delete", "", "nodes"),
    ("list", "", "namespaces"),
    ("list", "", "pods"),
    ("create", "", "pods/eviction"),
    ("get", "", "configmaps"),
    ("list", "storage.k8s.io", "volumeattachments"),
];
/// The taint of a node until a cloud controller has seen it. Source: Kubernetes.
const UNINITIALIZED: &str = "node.cloudprovider.kubernetes.io/uninitialized";

/// The facts about the API server of a kubeconfig.
///
/// # Errors
/// The kubeconfig cannot be used.
pub(super) fn facts(file: &Path, context: Option<&str>) -> Result<MemberFacts> {
    let unusable = || format!("cannot use {}", file.display());
    let kubeconfig = Kubeconfig::read_from(file).with_context(unusable)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let config = remote::config(kubeconfig.clone(), context).await.with_context(unusable)?;
        let server = config.cluster_url.to_string().trim_end_matches('/').to_owned();
        let client = Client::try_from(config).with_context(unusable)?;
        let unusable_field = field_refused_in_secrets(kubeconfig, context).map(str::to_owned);
        Ok(read(&client, server, unusable_field).await)
    })
}

async fn read(client: &Client, server: String, unusable_field: Option<String>) -> MemberFacts {
    let readiness = readiness(client).await;
    if let Reached::Unreachable(why) = &readiness {
        return unreachable(server, unusable_field, why);
    }
    let (resources, stale_groups) = resources(client).await;
    MemberFacts {
        server,
        unusable_field,
        readiness,
        version: told(client.apiserver_version().await).map(|version| version.git_version),
        user: user(client).await,
        resources,
        stale_groups,
        dry_run: told(dry_run(client).await),
        watch: watch(client).await,
        latency_milliseconds: latency(client).await,
        clock_ahead_seconds: clock(client).await,
        cluster_id: cluster_id(client).await,
        missing_rights: told(missing_rights(client, &RIGHTS).await),
        missing_workload_rights: told(missing_rights(client, &WORKLOAD_RIGHTS).await),
        token: token(client).await,
        nodes: told(nodes(client).await),
        has_karmada_namespace: told(namespaces(client).get_metadata_opt(KARMADA_NAMESPACE).await)
            .map(|namespace| namespace.is_some()),
    }
}

/// The facts about an API server that cannot be reached.
fn unreachable(server: String, unusable_field: Option<String>, why: &str) -> MemberFacts {
    let unknown = || why.to_owned();
    MemberFacts {
        server,
        unusable_field,
        readiness: Reached::Unreachable(unknown()),
        version: Err(unknown()),
        user: Err(unknown()),
        resources: Err(unknown()),
        stale_groups: Vec::new(),
        dry_run: Err(unknown()),
        watch: Err(unknown()),
        latency_milliseconds: Err(unknown()),
        clock_ahead_seconds: Err(unknown()),
        cluster_id: Err(unknown()),
        missing_rights: Err(unknown()),
        missing_workload_rights: Err(unknown()),
        token: None,
        nodes: Err(unknown()),
        has_karmada_namespace: Err(unknown()),
    }
}

/// The answer with its error in the form of the report.
fn told<T>(answer: kube::Result<T>) -> Result<T, String> {
    answer.map_err(|error| described(&error))
}

fn namespaces(client: &Client) -> Api<Namespace> {
    Api::all(client.clone())
}

async fn readiness(client: &Client) -> Reached {
    let Ok(request) = http::Request::get("/readyz").body(Vec::new()) else {
        return Reached::Unreachable(String::new());
    };
    match client.request_text(request).await {
        Ok(_) => Reached::Ready,
        Err(kube::Error::Api(status)) => Reached::Answered(status.code),
        Err(error) => Reached::Unreachable(described(&error)),
    }
}

async fn user(client: &Client) -> Result<User, String> {
    let reviews: Api<SelfSubjectReview> = Api::all(client.clone());
    let review = reviews.create(&PostParams::default(), &SelfSubjectReview::default()).await;
    let user = told(review)?.status.and_then(|status| status.user_info);
    let user = user.ok_or("the API server does not say who the user is")?;
    Ok(User { name: user.username.unwrap_or_default(), groups: user.groups.unwrap_or_default() })
}

/// The resources that the API server serves, and the groups whose discovery fails.
async fn resources(client: &Client) -> (Result<BTreeSet<Resource>, String>, Vec<String>) {
    let mut resources = BTreeSet::new();
    let mut stale = Vec::new();
    match client.list_core_api_resources("v1").await {
        Ok(list) => resources.extend(list.resources.into_iter().map(|one| Resource::new("v1", one.name))),
        Err(error) => return (Err(described(&error)), stale),
    }
    let groups = match client.list_api_groups().await {
        Ok(groups) => groups.groups,
        Err(error) => return (Err(described(&error)), stale),
    };
    for group in groups {
        for version in group.versions {
            match client.list_api_group_resources(&version.group_version).await {
                Ok(list) => {
                    let of_version = |name: String| Resource::new(version.group_version.clone(), name);
                    resources.extend(list.resources.into_iter().map(|one| of_version(one.name)));
                }
                Err(_) => stale.push(version.group_version),
            }
        }
    }
    (Ok(resources), stale)
}

async fn dry_run(client: &Client) -> kube::Result<()> {
    let namespace = Namespace {
        metadata: ObjectMeta { generate_name: Some("capa-rs-check-".to_owned()), ..ObjectMeta::default() },
        ..Namespace::default()
    };
    let parameters = PostParams { dry_run: true, ..PostParams::default() };
    namespaces(client).create(&parameters, &namespace).await?;
    let name = "capa-rs-check";
    let config_maps: Api<ConfigMap> = Api::namespaced(client.clone(), "kube-system");
    let config_map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
    let parameters = PatchParams::apply("capa-rs").dry_run();
    config_maps.patch(name, &parameters, &Patch::Apply(config_map)).await?;
    Ok(())
}

async fn watch(client: &Client) -> Result<(), String> {
    let parameters = WatchParams::default().timeout(2);
    let events = told(namespaces(client).watch(&parameters, "0").await)?;
    pin_mut!(events);
    let first = tokio::time::timeout(WATCH_TIMEOUT, events.next()).await;
    match first {
        Ok(Some(Ok(_))) => Ok(()),
        Ok(Some(Err(error))) => Err(described(&error)),
        Ok(None) => Err("a watch of namespaces ended without an event".to_owned()),
        Err(_) => Err(format!("a watch of namespaces had no event within {} s", WATCH_TIMEOUT.as_secs())),
    }
}

/// The second slowest of twenty requests over one connection.
async fn latency(client: &Client) -> Result<u64, String> {
    let mut times = Vec::with_capacity(REQUESTS);
    for _ in 0..REQUESTS {
        let began = Instant::now();
        told(client.apiserver_version().await)?;
        times.push(began.elapsed());
    }
    times.sort_unstable();
    let slow = times.iter().rev().nth(1).copied().unwrap_or_default();
    Ok(u64::try_from(slow.as_millis()).unwrap_or(u64::MAX))
}

async fn clock(client: &Client) -> Result<i64, String> {
    let request = http::Request::get("/version").body(Body::empty());
    let request = request.map_err(|error| error.to_string())?;
    let answer = told(client.send(request).await)?;
    let date = answer.headers().get(http::header::DATE).and_then(|date| date.to_str().ok());
    let date = date.ok_or("its answers have no date")?;
    let date = rfc2822::parse(date).map_err(|error| format!("its date {date:?} cannot be read: {error}"))?;
    Ok(date.timestamp().as_second() - Timestamp::now().as_second())
}

async fn cluster_id(client: &Client) -> Result<String, String> {
    let namespace = told(namespaces(client).get_metadata("kube-system").await)?;
    namespace.metadata.uid.ok_or_else(|| "the namespace kube-system has no UID".to_owned())
}

async fn missing_rights(client: &Client, rights: &[(&str, &str, &str)]) -> kube::Result<Vec<String>> {
    let reviews: Api<SelfSubjectAccessReview> = Api::all(client.clone());
    let mut missing = Vec::new();
    for (verb, group, resource) in rights {
        let (name, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        let review = SelfSubjectAccessReview {
            spec: SelfSubjectAccessReviewSpec {
                resource_attributes: Some(ResourceAttributes {
                    verb: Some((*verb).to_owned()),
                    group: Some((*group).to_owned()),
                    resource: Some(name.to_owned()),
                    subresource: Some(subresource.to_owned()),
                    ..ResourceAttributes::default()
                }),
                ..SelfSubjectAccessReviewSpec::default()
            },
            ..SelfSubjectAccessReview::default()
        };
        let answer = reviews.create(&PostParams::default(), &review).await?;
        if !answer.status.is_some_and(|status| status.allowed) {
            let text = if *verb == "*" { "do everything".to_owned() } else { format!("{verb} {resource}") };
            missing.push(text);
        }
    }
    Ok(missing)
}

/// Requests a token for any ServiceAccount as a dry run; `None` if there is no ServiceAccount.
async fn token(client: &Client) -> Option<Result<(), String>> {
    let accounts: Api<ServiceAccount> = Api::all(client.clone());
    let first = match told(accounts.list_metadata(&ListParams::default().limit(1)).await) {
        Ok(list) => list.items.into_iter().next()?,
        Err(why) => return Some(Err(why)),
    };
    let (name, namespace) = (first.metadata.name?, first.metadata.namespace?);
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), &namespace);
    let request = TokenRequest {
        spec: TokenRequestSpec { expiration_seconds: Some(600), ..TokenRequestSpec::default() },
        ..TokenRequest::default()
    };
    let parameters = PostParams { dry_run: true, ..PostParams::default() };
    let answer = accounts.create_token_request(&name, &parameters, &request).await;
    Some(told(answer).map(drop))
}

async fn nodes(client: &Client) -> kube::Result<Nodes> {
    let api: Api<Node> = Api::all(client.clone());
    let mut nodes = Nodes::default();
    for node in api.list(&ListParams::default()).await? {
        nodes.ready += usize::from(is_ready(&node));
        if !is_initialized(&node) {
            nodes.uninitialized.push(node.name_any());
        }
    }
    Ok(nodes)
}

fn is_ready(node: &Node) -> bool {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let mut conditions = conditions.into_iter();
    conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

fn is_initialized(node: &Node) -> bool {
    let Some(spec) = &node.spec else { return false };
    let mut taints = spec.taints.iter().flatten();
    spec.provider_id.is_some() && !taints.any(|taint| taint.key == UNINITIALIZED)
}
