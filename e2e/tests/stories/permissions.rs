//! The permissions of the released manifests, evaluated by the API server.

use std::collections::BTreeSet;

use anyhow::{Context, ensure};
use capa_e2e::{LocalWorld, eventually};
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec, SubjectRulesReviewStatus,
};
use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::api::{ListParams, PostParams};
use kube::{Api, Client};
use serde_json::json;

use super::scenario::WITHIN;

const OUR_GROUP: &str = "infrastructure.cluster.x-k8s.io";
/// The namespace of the manager.
const OUR_NAMESPACE: &str = "capa-rs-system";
/// The ServiceAccount of the manager.
const MANAGER: (&str, &str) = (OUR_NAMESPACE, "capa-controller-manager");
/// A ServiceAccount without any permissions of its own, in a namespace without any of this provider.
const NOBODY: (&str, &str) = ("default", "nobody");
/// The label of ClusterRoles by which an administrator lets the manager read other kinds.
const AGGREGATED: &str = "infrastructure.cluster.x-k8s.io/aggregate-to-capa-rs=true";

/// The verb, the API group, the resource (possibly with its subresource) and the namespace of a request.
type Request = (&'static str, &'static str, &'static str, &'static str);

/// The ServiceAccount of Cluster API's core.
const CORE: (&str, &str) = ("capi-system", "capi-manager");
/// The ServiceAccount of the control plane provider of kubeadm.
const CONTROL_PLANE: (&str, &str) = ("capi-kubeadm-control-plane-system", "capi-kubeadm-control-plane-manager");

/// The API group, the resources, the names of objects (none for all) and the verbs of a rule.
type Rule = (&'static str, &'static str, &'static str, &'static str);

/// The manager's permissions in every namespace.
const EVERYWHERE: [Rule; 13] = [
    (OUR_GROUP, "awsclusters awsmachines", "", "get list watch patch"),
    (OUR_GROUP, "awsmachinetemplates", "", "get list watch"),
    (
        OUR_GROUP,
        "awsclusters/status awsmachines/status awsmachinetemplates/status awsclustercontrolleridentities/status \
         awsclusterroleidentities/status awsclusterstaticidentities/status awsnetworkmappings/status",
        "",
        "update",
    ),
    (OUR_GROUP, "awsclusterroleidentities awsclusterstaticidentities awsnetworkmappings", "", "get list watch"),
    (OUR_GROUP, "awsclustercontrolleridentities", "", "get list watch create"),
    ("cluster.x-k8s.io", "clusters machines", "", "get list watch"),
    ("", "secrets configmaps", "", "get"),
    ("", "namespaces", "", "get list watch"),
    ("apiextensions.k8s.io", "customresourcedefinitions", "", "get"),
    (
        "admissionregistration.k8s.io",
        "validatingadmissionpolicies validatingadmissionpolicybindings",
        "capa-rs-cluster-transitions capa-rs-create-only capa-rs-identity-immutable capa-rs-machine-immutable \
         capa-rs-template-immutable",
        "get",
    ),
    ("authentication.k8s.io", "tokenreviews", "", "create"),
    ("authorization.k8s.io", "subjectaccessreviews", "", "create"),
    ("events.k8s.io", "events", "", "create patch"),
];

/// The manager's further permissions in its own namespace.
const AT_HOME: [Rule; 3] = [
    ("", "secrets", "", "get update"),
    ("coordination.k8s.io", "leases", "", "create"),
    ("coordination.k8s.io", "leases", "controller-leader-elect-capa", "get update"),
];

#[tokio::test]
async fn the_permissions_of_the_manager_are_exactly_those_it_uses() -> anyhow::Result<()> {
    let world = LocalWorld::shared().await?;
    let client = world.admin().await?;
    for (namespace, rules) in
        [("team-a", EVERYWHERE.to_vec()), (OUR_NAMESPACE, [EVERYWHERE.as_slice(), &AT_HOME].concat())]
    {
        let wanted = permissions(rules.into_iter().map(|(groups, resources, names, verbs)| {
            [groups, resources, names, verbs].map(|words| words.split(' ').map(str::to_owned).collect())
        }));
        // Other stories add permissions, and take them away.
        eventually(WITHIN, "these permissions and no others", async || {
            let granted = granted(&client, namespace).await?;
            let missing: Vec<_> = wanted.difference(&granted).collect();
            ensure!(missing.is_empty(), "in {namespace} the manager may not {missing:?}");
            let further: Vec<_> = granted.difference(&wanted).collect();
            ensure!(further.is_empty(), "in {namespace} the manager may as well {further:?}");
            Ok(())
        })
        .await?;
    }
    Ok(())
}

/// The permissions of rules, one verb on one resource at a time. Each rule has API groups, resources, names and verbs.
fn permissions(rules: impl IntoIterator<Item = [Vec<String>; 4]>) -> BTreeSet<String> {
    let mut permissions = BTreeSet::new();
    for [groups, resources, names, verbs] in rules {
        for group in &groups {
            for resource in &resources {
                for name in &names {
                    permissions.extend(verbs.iter().map(|verb| format!("{verb} {group}/{resource} {name}")));
                }
            }
        }
    }
    permissions
}

/// A rule in the form of [`permissions`].
fn flat(
    groups: Option<Vec<String>>,
    resources: Option<Vec<String>>,
    names: Option<Vec<String>>,
    verbs: Vec<String>,
) -> [Vec<String>; 4] {
    let all = || vec![String::new()];
    let names = names.filter(|names| !names.is_empty()).unwrap_or_else(all);
    [groups.unwrap_or_default(), resources.unwrap_or_default(), names, verbs]
}

/// The manager's permissions in a namespace, without those of all users, and without those that an administrator has
/// granted by [`AGGREGATED`], as other stories in the same world do.
async fn granted(client: &Client, namespace: &str) -> anyhow::Result<BTreeSet<String>> {
    let mut granted = rules_of(client, MANAGER, namespace).await?;
    let everybodys = rules_of(client, NOBODY, namespace).await?;
    granted.retain(|permission| !everybodys.contains(permission));
    let aggregated = ListParams::default().labels(AGGREGATED);
    let administrators = Api::<ClusterRole>::all(client.clone()).list(&aggregated).await?;
    let rules = administrators.items.into_iter().flat_map(|role| role.rules.unwrap_or_default());
    let allowed = permissions(rules.map(|rule| flat(rule.api_groups, rule.resources, rule.resource_names, rule.verbs)));
    granted.retain(|permission| !allowed.contains(permission));
    Ok(granted)
}

/// The permissions of a ServiceAccount, given as its namespace and name, in a namespace, including paths of the API
/// server.
async fn rules_of(client: &Client, (home, name): (&str, &str), namespace: &str) -> anyhow::Result<BTreeSet<String>> {
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectRulesReview",
        "spec": {"namespace": namespace},
    });
    let request = http::Request::post("/apis/authorization.k8s.io/v1/selfsubjectrulesreviews")
        .header("content-type", "application/json")
        .header("impersonate-user", format!("system:serviceaccount:{home}:{name}"))
        .header("impersonate-group", "system:serviceaccounts")
        .header("impersonate-group", format!("system:serviceaccounts:{home}"))
        .header("impersonate-group", "system:authenticated")
        .body(review.to_string().into_bytes())?;
    let answer: serde_json::Value = client.request(request).await?;
    let status = answer.get("status").cloned().context("no status")?;
    let status: SubjectRulesReviewStatus = serde_json::from_value(status)?;
    ensure!(!status.incomplete, "not all rules are listed: {:?}", status.evaluation_error);
    let of_resources = status.resource_rules.into_iter();
    let of_resources = of_resources.map(|rule| flat(rule.api_groups, rule.resources, rule.resource_names, rule.verbs));
    let of_paths = status.non_resource_rules.into_iter();
    let of_paths = of_paths.map(|rule| flat(Some(vec![String::new()]), rule.non_resource_urls, None, rule.verbs));
    Ok(permissions(of_resources.chain(of_paths)))
}

#[tokio::test]
async fn cluster_api_may_use_our_kinds() -> anyhow::Result<()> {
    let mut requests: Vec<Request> = Vec::new();
    for resource in ["awsclusters", "awsmachines", "awsmachinetemplates", "awsclustertemplates"] {
        let verbs = ["get", "list", "watch", "create", "patch", "delete"];
        requests.extend(verbs.map(|verb| (verb, OUR_GROUP, resource, "team-a")));
    }
    may(CORE, &requests).await?;
    LocalWorld::shared().await?.start_kubeadm().await?;
    // The control plane provider creates machines from templates, and owns the templates.
    let asked: Vec<_> = requests
        .into_iter()
        .filter(|(_, _, resource, _)| ["awsmachines", "awsmachinetemplates"].contains(resource))
        .collect();
    may(CONTROL_PLANE, &asked).await
}

/// Waits until all of these requests are allowed: roles are aggregated some time after they were applied.
async fn may(account: (&str, &str), requests: &[Request]) -> anyhow::Result<()> {
    let world = LocalWorld::shared().await?;
    let client = world.admin().await?;
    eventually(WITHIN, "all permissions to be granted", async || {
        for request in requests {
            ensure!(allowed(&client, account, request).await?, "{request:?} is not allowed");
        }
        Ok(())
    })
    .await
}

async fn allowed(client: &Client, account: (&str, &str), request: &Request) -> anyhow::Result<bool> {
    let (namespace, name) = account;
    let (verb, group, resource, target) = *request;
    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    let review = SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            user: Some(format!("system:serviceaccount:{namespace}:{name}")),
            groups: Some(vec![
                "system:serviceaccounts".to_owned(),
                format!("system:serviceaccounts:{namespace}"),
                "system:authenticated".to_owned(),
            ]),
            resource_attributes: Some(ResourceAttributes {
                verb: Some(verb.to_owned()),
                group: Some(group.to_owned()),
                resource: Some(resource.to_owned()),
                subresource: Some(subresource.to_owned()),
                namespace: Some(target.to_owned()),
                ..ResourceAttributes::default()
            }),
            ..SubjectAccessReviewSpec::default()
        },
        ..SubjectAccessReview::default()
    };
    let answer = Api::all(client.clone()).create(&PostParams::default(), &review).await?;
    Ok(answer.status.is_some_and(|status| status.allowed))
}
