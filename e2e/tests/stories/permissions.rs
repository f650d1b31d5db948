//! What our manifests allow, as the API server judges it.

use capa_e2e::{World, eventually};
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use kube::api::PostParams;
use kube::{Api, Client};

use super::scenario::WITHIN;

const OUR_GROUP: &str = "infrastructure.cluster.x-k8s.io";
const CORE_GROUP: &str = "cluster.x-k8s.io";

/// Verb, API group, resource (perhaps with its subresource), namespace.
type Request = (&'static str, &'static str, &'static str, &'static str);

/// The ServiceAccount of our manager.
const MANAGER: (&str, &str) = ("capa-rs-system", "capa-controller-manager");
/// The ServiceAccount of Cluster API's core.
const CORE: (&str, &str) = ("capi-system", "capi-manager");
/// The ServiceAccount of the control plane provider of kubeadm.
const CONTROL_PLANE: (&str, &str) = (
    "capi-kubeadm-control-plane-system",
    "capi-kubeadm-control-plane-manager",
);

#[tokio::test]
async fn the_manager_may_do_what_it_does() -> anyhow::Result<()> {
    let mut requests: Vec<Request> = Vec::new();
    for resource in ["awsclusters", "awsmachines"] {
        requests.extend(["get", "list", "watch", "patch"].map(|verb| (verb, OUR_GROUP, resource, "team-a")));
    }
    requests.extend([
        ("update", OUR_GROUP, "awsclusters/status", "team-a"),
        ("update", OUR_GROUP, "awsmachines/status", "team-a"),
        ("update", OUR_GROUP, "awsmachinetemplates/status", "team-a"),
        ("watch", OUR_GROUP, "awsmachinetemplates", "team-a"),
        ("create", OUR_GROUP, "awsclustercontrolleridentities", ""),
        ("watch", OUR_GROUP, "awsclusterroleidentities", ""),
        ("watch", CORE_GROUP, "clusters", "team-a"),
        ("watch", CORE_GROUP, "machines", "team-a"),
        ("get", "", "secrets", "team-a"),
        ("update", "", "secrets", "capa-rs-system"),
        ("watch", "", "namespaces", ""),
        ("get", "apiextensions.k8s.io", "customresourcedefinitions", ""),
        ("create", "events.k8s.io", "events", "team-a"),
        ("update", "coordination.k8s.io", "leases", "capa-rs-system"),
    ]);
    assert_eq!(judged(MANAGER, &requests, false).await?, []);
    Ok(())
}

#[tokio::test]
async fn the_manager_may_do_nothing_else() -> anyhow::Result<()> {
    let mut requests: Vec<Request> = Vec::new();
    for resource in ["secrets", "configmaps"] {
        let verbs = [
            "list",
            "watch",
            "create",
            "update",
            "patch",
            "delete",
            "deletecollection",
        ];
        requests.extend(verbs.map(|verb| (verb, "", resource, "team-a")));
        let others = verbs.iter().filter(|verb| **verb != "update");
        requests.extend(others.map(|verb| (*verb, "", resource, "capa-rs-system")));
    }
    for resource in [
        "awsclusters",
        "awsmachines",
        "awsclusterroleidentities",
        "awsmachinetemplates",
    ] {
        requests.extend(
            ["create", "update", "delete", "deletecollection"].map(|verb| (verb, OUR_GROUP, resource, "team-a")),
        );
    }
    for resource in ["clusters", "machines", "clusters/status", "machines/status"] {
        requests.extend(["create", "update", "patch", "delete"].map(|verb| (verb, CORE_GROUP, resource, "team-a")));
    }
    requests.extend([
        ("update", OUR_GROUP, "awsclusterstaticidentities", ""),
        ("get", OUR_GROUP, "foreignclusters", "team-a"),
        ("get", "", "pods", "team-a"),
        ("create", "", "serviceaccounts/token", "capa-rs-system"),
        ("list", "apiextensions.k8s.io", "customresourcedefinitions", ""),
        ("patch", "apiextensions.k8s.io", "customresourcedefinitions", ""),
        ("update", "coordination.k8s.io", "leases", "team-a"),
        ("escalate", "rbac.authorization.k8s.io", "clusterroles", ""),
        ("bind", "rbac.authorization.k8s.io", "clusterroles", ""),
        ("impersonate", "", "users", ""),
        ("*", "*", "*", ""),
    ]);
    assert_eq!(judged(MANAGER, &requests, true).await?, []);
    Ok(())
}

#[tokio::test]
async fn cluster_api_may_use_our_kinds() -> anyhow::Result<()> {
    let mut requests: Vec<Request> = Vec::new();
    for resource in [
        "awsclusters",
        "awsmachines",
        "awsmachinetemplates",
        "awsclustertemplates",
    ] {
        let verbs = ["get", "list", "watch", "create", "patch", "delete"];
        requests.extend(verbs.map(|verb| (verb, OUR_GROUP, resource, "team-a")));
    }
    assert_eq!(judged(CORE, &requests, false).await?, []);
    World::shared().await?.start_kubeadm().await?;
    // It makes machines of templates, and owns these.
    let asked: Vec<_> = requests
        .into_iter()
        .filter(|(_, _, resource, _)| ["awsmachines", "awsmachinetemplates"].contains(resource))
        .collect();
    assert_eq!(judged(CONTROL_PLANE, &asked, false).await?, []);
    Ok(())
}

/// The requests that are (`wrong`: true) or are not (false) allowed, although they should be the other way round. Roles
/// are aggregated some time after they were applied, so what is missing is waited for.
async fn judged(account: (&str, &str), requests: &[Request], wrong: bool) -> anyhow::Result<Vec<Request>> {
    let world = World::shared().await?;
    world.install_provider().await?;
    let client = world.admin().await?;
    let judge = async || {
        let mut misjudged = Vec::new();
        for request in requests {
            if allowed(&client, account, request).await? == wrong {
                misjudged.push(*request);
            }
        }
        anyhow::Ok(misjudged)
    };
    if wrong {
        return judge().await;
    }
    eventually(WITHIN, "all permissions to be granted", async || {
        let missing = judge().await?;
        anyhow::ensure!(missing.is_empty(), "these are not: {missing:?}");
        Ok(missing)
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
                name: (resource == "leases").then(|| "controller-leader-elect-capa".to_owned()),
                ..ResourceAttributes::default()
            }),
            ..SubjectAccessReviewSpec::default()
        },
        ..SubjectAccessReview::default()
    };
    let answer = Api::all(client.clone()).create(&PostParams::default(), &review).await?;
    Ok(answer.status.is_some_and(|status| status.allowed))
}
