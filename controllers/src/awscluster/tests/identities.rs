//! Tests of the cluster's identity, and of clusters without usable credentials.

use std::time::Duration;

use capa_api::common::{IdentityKind, IdentityReference};
use capa_api::conditions::ConditionType;
use capa_runtime::reconcile::Next;

use super::{LOOKUP, NETWORK, Pass, Scene, aws_cluster};
use crate::testing::refused;

const IDENTITY_READY: ConditionType = ConditionType::IdentityReady;
const READY: ConditionType = ConditionType::Ready;
const KEYS: [(&str, &str); 2] = [("AccessKeyID", "AKIAEXAMPLE"), ("SecretAccessKey", "hunter2")];

fn with_identity(kind: &str, name: &str) -> capa_api::cluster::AWSCluster {
    aws_cluster(&format!("{NETWORK}, identityRef: {{kind: {kind}, name: {name}}}"))
}

fn static_identity() -> capa_api::cluster::AWSCluster {
    with_identity("AWSClusterStaticIdentity", "key")
}

/// Asserts that the cluster is not provisioned and not looked up, and that no output contains a secret.
fn assert_held_back(pass: &Pass, condition: &str) {
    assert_eq!(pass.condition(IDENTITY_READY), condition);
    assert_eq!(pass.condition(READY), condition, "Ready repeats the culprit");
    assert_eq!(pass.calls, [""; 0]);
    assert!(!pass.status().provisioned());
    let shown = format!("{:?} {:?}", pass.status(), pass.events);
    assert!(!shown.contains("hunter2") && !shown.contains("AKIAEXAMPLE"), "{shown}");
}

#[tokio::test]
async fn the_default_identity_must_allow_the_namespace() {
    let scene = Scene::new();
    let pass = scene.pass(&aws_cluster(NETWORK)).await;
    assert_eq!(pass.condition(IDENTITY_READY), "True/Ready");
    for spec in ["", "allowedNamespaces: {list: [team-b]}"] {
        scene.kubernetes.identity_object("AWSClusterControllerIdentity", "default", spec);
        let pass = scene.pass(&aws_cluster(NETWORK)).await;
        assert_held_back(&pass, "False/NotAllowed");
        assert!(pass.message(IDENTITY_READY).contains("namespace team-a"));
    }
}

/// A namespace whose labels the cache does not know is not allowed by the lack of a label either.
#[tokio::test]
async fn a_namespace_is_allowed_by_its_labels() {
    for selector in ["matchLabels: {stage: prod}", "matchExpressions: [{key: tenant, operator: DoesNotExist}]"] {
        let scene = Scene::new();
        let spec = format!("allowedNamespaces: {{selector: {{{selector}}}}}");
        scene.kubernetes.identity_object("AWSClusterControllerIdentity", "default", &spec);
        assert_held_back(&scene.pass(&aws_cluster(NETWORK)).await, "False/NotAllowed");
        scene.kubernetes.label_namespace("team-a", "stage", "prod");
        let pass = scene.pass(&aws_cluster(NETWORK)).await;
        assert_eq!(pass.condition(IDENTITY_READY), "True/Ready", "{selector}");
    }
}

#[tokio::test]
async fn a_missing_identity_is_named() {
    let scene = Scene::new();
    let pass = scene.pass(&with_identity("AWSClusterRoleIdentity", "team")).await;
    assert_held_back(&pass, "False/NotFound");
    assert!(pass.message(IDENTITY_READY).contains("AWSClusterRoleIdentity/team"), "{}", pass.message(IDENTITY_READY));
    assert_eq!(pass.events.len(), 1);
}

#[tokio::test]
async fn every_hop_of_a_chain_of_roles_must_allow_the_namespace() {
    let scene = Scene::new();
    let source = "sourceIdentityRef: {kind: AWSClusterRoleIdentity, name: hub}";
    let team = format!("roleARN: 'arn:aws:iam::1:role/team', allowedNamespaces: {{}}, {source}");
    scene.kubernetes.identity_object("AWSClusterRoleIdentity", "team", &team);
    let hub = "roleARN: 'arn:aws:iam::1:role/hub', allowedNamespaces: {list: [team-b]}";
    scene.kubernetes.identity_object("AWSClusterRoleIdentity", "hub", hub);
    let pass = scene.pass(&with_identity("AWSClusterRoleIdentity", "team")).await;
    assert_held_back(&pass, "False/SourceNotAllowed");
    assert!(pass.message(IDENTITY_READY).contains("AWSClusterRoleIdentity/hub"));
}

#[tokio::test]
async fn roles_that_assume_each_other_end_in_a_condition() {
    let scene = Scene::new();
    for (name, source) in [("a", "b"), ("b", "a")] {
        let spec = format!(
            "roleARN: 'arn:aws:iam::1:role/{name}', allowedNamespaces: {{}}, \
             sourceIdentityRef: {{kind: AWSClusterRoleIdentity, name: {source}}}"
        );
        scene.kubernetes.identity_object("AWSClusterRoleIdentity", name, &spec);
    }
    let pass = scene.pass(&with_identity("AWSClusterRoleIdentity", "a")).await;
    assert_held_back(&pass, "False/NotFound");
    assert!(pass.message(IDENTITY_READY).contains("cycle"));
}

#[tokio::test]
async fn an_incomplete_secret_is_named_and_a_complete_one_recovers() {
    let scene = Scene::new();
    let spec = "secretRef: keys, allowedNamespaces: {}";
    scene.kubernetes.identity_object("AWSClusterStaticIdentity", "key", spec);
    let missing = scene.pass(&static_identity()).await;
    assert_held_back(&missing, "False/NotFound");
    assert!(missing.message(IDENTITY_READY).contains("Secret capa-rs-system/keys"));

    scene.kubernetes.put_secret("capa-rs-system", "keys", &KEYS[1..]);
    let incomplete = scene.after(&missing, Duration::from_secs(5)).await;
    assert_held_back(&incomplete, "False/CredentialsFailed");
    assert!(incomplete.message(IDENTITY_READY).contains("AccessKeyID"));

    scene.kubernetes.put_secret("capa-rs-system", "keys", &KEYS);
    let complete = scene.after(&incomplete, Duration::from_secs(5)).await;
    assert_eq!(complete.condition(IDENTITY_READY), "True/Ready");
    assert!(complete.status().provisioned());
}

#[tokio::test]
async fn the_network_is_looked_up_as_soon_as_the_identity_can_be_used() {
    let scene = Scene::new();
    let without = scene.pass(&static_identity()).await;
    assert_held_back(&without, "False/NotFound");
    assert_eq!(without.condition(ConditionType::NetworkReady), "Unknown/NotReady");
    assert!(matches!(without.next, Next::Requeue(_)), "its Secret is not watched");

    let spec = "secretRef: keys, allowedNamespaces: {}";
    scene.kubernetes.identity_object("AWSClusterStaticIdentity", "key", spec);
    scene.kubernetes.put_secret("capa-rs-system", "keys", &KEYS);
    let mended = scene.after(&without, Duration::from_secs(5)).await;
    assert_eq!(mended.calls, LOOKUP);
    assert_eq!(mended.condition(ConditionType::NetworkReady), "True/Ready");
    assert_eq!(mended.zones(), ["eu-west-1a", "eu-west-1b"]);
}

#[tokio::test]
async fn a_lost_identity_makes_ready_false_and_keeps_the_network() {
    let scene = Scene::new();
    let before = scene.pass(&aws_cluster(NETWORK)).await;
    scene.kubernetes.remove_identity(&IdentityReference::controller_default());
    let lost = scene.after(&before, Duration::from_secs(600)).await;
    assert_eq!(lost.condition(READY), "False/NotFound");
    assert!(lost.status().provisioned());
    assert_eq!(lost.status().network, before.status().network);
    assert_eq!(lost.zones(), before.zones());

    scene.kubernetes.identity_object("AWSClusterControllerIdentity", "default", "allowedNamespaces: {}");
    let found = scene.after(&lost, Duration::from_secs(5)).await;
    assert_eq!(found.condition(READY), "True/Ready");
    assert_eq!(found.condition(ConditionType::NetworkReady), "True/Ready");
}

#[tokio::test]
async fn refused_credentials_delay_provisioned_and_hold_ready_back() {
    let scene = Scene::new();
    for _ in 0..2 {
        let error = refused("GetCallerIdentity", "InvalidClientTokenId");
        scene.aws.fail_next("GetCallerIdentity", error);
    }
    let first = scene.pass(&aws_cluster(NETWORK)).await;
    let after_grace = scene.after(&first, Duration::from_secs(60)).await;
    for (refused, provisioned) in [(&first, false), (&after_grace, true)] {
        assert_eq!(refused.condition(IDENTITY_READY), "False/CredentialsFailed");
        assert_eq!(refused.condition(READY), "False/CredentialsFailed");
        assert_eq!(refused.status().provisioned(), provisioned);
    }
    let mended = scene.after(&after_grace, Duration::from_secs(60)).await;
    assert_eq!(mended.condition(IDENTITY_READY), "True/Ready");
    assert_eq!(mended.condition(READY), "True/Ready");
    assert!(mended.status().provisioned());
    assert_eq!(mended.zones(), ["eu-west-1a", "eu-west-1b"]);
}

#[tokio::test]
async fn a_rotated_secret_is_another_client_at_the_next_pass() {
    let scene = Scene::new();
    let spec = "secretRef: keys, allowedNamespaces: {}";
    scene.kubernetes.identity_object("AWSClusterStaticIdentity", "key", spec);
    scene.kubernetes.put_secret("capa-rs-system", "keys", &KEYS);
    let before = scene.pass(&static_identity()).await;
    let unchanged = scene.pass(&before.cluster).await;
    assert_eq!(unchanged.calls, [""; 0]);
    scene.kubernetes.put_secret("capa-rs-system", "keys", &KEYS);
    let rotated = scene.pass(&before.cluster).await;
    assert_eq!(rotated.calls, ["GetCallerIdentity"]);
    let kind = IdentityKind::AWSClusterStaticIdentity;
    assert_eq!(before.status().network.as_ref().unwrap().identity_ref.as_ref().unwrap().kind, kind);
}

#[tokio::test]
async fn an_unread_secret_is_named_and_keeps_a_cluster_ready() {
    let scene = Scene::new();
    let spec = "secretRef: keys, allowedNamespaces: {}";
    scene.kubernetes.identity_object("AWSClusterStaticIdentity", "key", spec);
    let refuse = || {
        let answer = Some((403, "Forbidden"));
        scene.kubernetes.refuse_secret("capa-rs-system", "keys", answer);
    };
    refuse();
    let unread = scene.pass(&static_identity()).await;
    assert_held_back(&unread, "False/Failed");
    assert_eq!(unread.message(IDENTITY_READY), "Secret capa-rs-system/keys cannot be read: 403 Forbidden");
    assert!(matches!(unread.next, Next::Requeue(_)));
    scene.kubernetes.put_secret("capa-rs-system", "keys", &KEYS);
    let read = scene.after(&unread, Duration::from_secs(5)).await;
    assert!(read.status().provisioned());
    refuse();
    let again = scene.after(&read, Duration::from_secs(600)).await;
    assert_eq!(again.condition(IDENTITY_READY), "False/Failed");
    assert_eq!(again.condition(READY), "True/Failed", "the failure may be temporary");
    assert_eq!(again.status().network, read.status().network);
}
