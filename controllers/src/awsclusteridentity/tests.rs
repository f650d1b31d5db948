//! The conditions of identities.

use capa_api::conditions::find;
use capa_api::machine::AWSMachine;
use jiff::Timestamp;

use super::*;
use crate::kubernetes_api::{Identity, Kubernetes as _};
use crate::testing::{FakeKubernetes, Journal, read};

const NAMESPACE: &str = "capa-rs-system";
const CONTROLLER: &str = "AWSClusterControllerIdentity";
const ROLE: &str = "AWSClusterRoleIdentity";
const STATIC: &str = "AWSClusterStaticIdentity";
const KEYS: [(&str, &str); 2] = [("AccessKeyID", "AKIAEXAMPLE"), ("SecretAccessKey", "hunter2")];
const REFUSED: &str = "AWS refuses the credentials: AssumeRole: AccessDenied";

/// Kubernetes with identities, and a manager that reconciles everything.
struct Scene {
    kubernetes: Arc<FakeKubernetes>,
    context: IdentityContext,
}

/// The condition `Ready` after a pass, and what follows it.
#[derive(Debug, PartialEq)]
struct Said {
    /// Status and reason.
    ready: String,
    message: String,
    next: Next,
    events: usize,
}

impl Scene {
    fn new() -> Self {
        let kubernetes = Arc::new(FakeKubernetes::new(&Journal::default()));
        let context = IdentityContext {
            kubernetes: kubernetes.clone(),
            timing: Timing::default(),
            identity_namespace: NAMESPACE.into(),
            reconciles_everything: true,
        };
        Self { kubernetes, context }
    }

    /// A scene with the static identity `key`, whose Secret is `keys`.
    fn with_key() -> Self {
        let scene = Self::new();
        scene.kubernetes.identity_object(STATIC, "key", "secretRef: keys, allowedNamespaces: {}");
        scene
    }

    fn role(&self, name: &str, source: &str) {
        let spec = format!("roleARN: 'arn:aws:iam::1:role/a', allowedNamespaces: {{}}, sourceIdentityRef: {source}");
        self.kubernetes.identity_object(ROLE, name, &spec);
    }

    async fn reported(&self, kind: &str, name: &str) -> Said {
        let reference = read(&format!("{{kind: {kind}, name: {name}}}"));
        match self.kubernetes.identity(&reference).unwrap() {
            Identity::Controller(identity) => self.pass(identity.as_ref().clone()).await,
            Identity::Role(identity) => self.pass(identity.as_ref().clone()).await,
            Identity::Static(identity) => self.pass(identity.as_ref().clone()).await,
        }
    }

    async fn pass<K: IdentityObject>(&self, identity: K) -> Said {
        let outcome = reconcile(identity, &self.context).await;
        let conditions = outcome.status.unwrap().conditions;
        let ready = find(&conditions, ConditionType::Ready).unwrap();
        Said {
            ready: format!("{}/{}", ready.status, ready.reason),
            message: ready.message.clone(),
            next: outcome.next,
            events: outcome.events.len(),
        }
    }

    /// An AWSCluster that uses the static identity `key` and has this condition about it.
    fn cluster_says(&self, name: &str, reason: &str, more: &str) {
        self.kubernetes.put_aws_cluster(read(&format!(
            "{{metadata: {{name: {name}, namespace: team-a}}, \
             spec: {{unmanaged: true, identityRef: {{kind: {STATIC}, name: key}}}}, \
             status: {{conditions: [{}{more}]}}}}",
            condition("IdentityReady", "False", reason, REFUSED)
        )));
    }
}

fn condition(kind: &str, status: &str, reason: &str, message: &str) -> String {
    format!(
        "{{type: {kind}, status: '{status}', reason: {reason}, message: '{message}', \
         lastTransitionTime: '2026-01-01T00:00:00Z'}}"
    )
}

fn timing() -> Timing {
    Timing::default()
}

#[tokio::test]
async fn a_static_identity_is_ready_with_a_whole_secret() {
    let scene = Scene::with_key();
    let missing = scene.reported(STATIC, "key").await;
    assert_eq!((missing.ready.as_str(), missing.next), ("False/NotFound", Next::Retry));
    assert!(missing.message.contains("capa-rs-system/keys"), "{}", missing.message);
    assert_eq!(missing.events, 1);

    scene.kubernetes.put_secret(NAMESPACE, "keys", &KEYS[..1]);
    let half = scene.reported(STATIC, "key").await;
    assert_eq!(half.ready, "False/CredentialsFailed");
    assert!(half.message.contains("SecretAccessKey"), "{}", half.message);

    scene.kubernetes.put_secret(NAMESPACE, "keys", &KEYS);
    let whole = scene.reported(STATIC, "key").await;
    let expected = Said {
        ready: "True/Ready".into(),
        message: String::new(),
        next: Next::Requeue(timing().source_retry_cap),
        events: 0,
    };
    assert_eq!(whole, expected, "the Secret is read again, because it has no watch");

    scene.kubernetes.refuse_secret(NAMESPACE, "keys", Some((403, "Forbidden")));
    assert_eq!(scene.reported(STATIC, "key").await.ready, "Unknown/Failed");
}

#[tokio::test]
async fn a_role_is_ready_with_its_whole_chain() {
    let scene = Scene::new();
    scene.role("leaf", "{kind: AWSClusterRoleIdentity, name: hub}");
    let missing = scene.reported(ROLE, "leaf").await;
    assert_eq!(missing.ready, "False/NotFound");
    assert!(missing.message.contains("AWSClusterRoleIdentity/hub"), "{}", missing.message);
    scene.role("hub", "{kind: AWSClusterRoleIdentity, name: leaf}");
    let circle = scene.reported(ROLE, "leaf").await;
    assert!(circle.message.contains("cycle"), "{}", circle.message);
    scene.role("hub", "{kind: AWSClusterControllerIdentity, name: default}");
    let whole = scene.reported(ROLE, "leaf").await;
    assert_eq!((whole.ready.as_str(), whole.next), ("True/Ready", Next::AwaitChange));
}

#[tokio::test]
async fn an_identity_without_namespaces_says_that_nobody_may_use_it() {
    let scene = Scene::new();
    assert_eq!(scene.reported(CONTROLLER, "default").await.message, "");
    scene.kubernetes.identity_object(CONTROLLER, "default", "");
    let said = scene.reported(CONTROLLER, "default").await;
    assert_eq!(said.ready, "True/Ready");
    assert!(said.message.contains("no namespace may use"), "{}", said.message);
}

#[tokio::test]
async fn an_identity_that_aws_refuses_to_a_cluster_is_not_ready() {
    let scene = Scene::with_key();
    scene.kubernetes.put_secret(NAMESPACE, "keys", &KEYS);
    scene.cluster_says("second", "CredentialsFailed", "");
    scene.cluster_says("first", "CredentialsFailed", "");
    let said = scene.reported(STATIC, "key").await;
    assert_eq!(said.ready, "False/CredentialsFailed");
    assert_eq!(said.message, format!("AWSCluster team-a/first reports: {REFUSED}"));
    assert_eq!(said.next, Next::Requeue(timing().source_retry_cap));
    assert_eq!(scene.reported(CONTROLLER, "default").await.ready, "True/Ready", "another identity");
}

#[tokio::test]
async fn an_identity_that_aws_refuses_to_a_machine_is_not_ready() {
    let scene = Scene::with_key();
    scene.kubernetes.put_secret(NAMESPACE, "keys", &KEYS);
    let machine: AWSMachine = read(&format!(
        "{{metadata: {{name: m, namespace: team-a}}, \
         spec: {{instanceType: t3.large, identityRef: {{kind: {STATIC}, name: key}}}}, \
         status: {{conditions: [{}]}}}}",
        condition("IdentityReady", "False", "CredentialsFailed", REFUSED)
    ));
    scene.kubernetes.put_aws_machine(machine);
    let said = scene.reported(STATIC, "key").await;
    assert_eq!(said.message, format!("AWSMachine team-a/m reports: {REFUSED}"));
}

#[tokio::test]
async fn other_troubles_and_paused_clusters_leave_an_identity_ready() {
    let scene = Scene::with_key();
    scene.kubernetes.put_secret(NAMESPACE, "keys", &KEYS);
    scene.cluster_says("withdrawn", "NotAllowed", "");
    let paused = format!(", {}", condition("Paused", "True", "Paused", ""));
    scene.cluster_says("paused", "CredentialsFailed", &paused);
    assert_eq!(scene.reported(STATIC, "key").await.ready, "True/Ready");
}

#[tokio::test]
async fn a_manager_of_one_namespace_does_not_judge_by_its_clusters() {
    let mut scene = Scene::with_key();
    scene.kubernetes.put_secret(NAMESPACE, "keys", &KEYS);
    scene.cluster_says("dev", "CredentialsFailed", "");
    scene.context.reconciles_everything = false;
    assert_eq!(scene.reported(STATIC, "key").await.ready, "True/Ready");
}

#[test]
fn only_a_refusal_changes_the_report_of_a_cluster() {
    let cluster = |reason: &str, message: &str| {
        cluster_report(&read(&format!(
            "{{metadata: {{name: dev, namespace: team-a}}, spec: {{}}, status: {{conditions: [{}]}}}}",
            condition("IdentityReady", "False", reason, message)
        )))
    };
    assert_eq!(cluster("NotFound", "a"), cluster("NotAllowed", "b"));
    assert_ne!(cluster("NotFound", "a"), cluster("CredentialsFailed", "a"));
    assert_ne!(cluster("CredentialsFailed", "a"), cluster("CredentialsFailed", "b"));
    let launched = "identityRef: {kind: AWSClusterStaticIdentity, name: key}";
    assert_eq!(
        machine_report(&read("{metadata: {name: m}, spec: {instanceType: a}}")),
        machine_report(&read(&format!("{{metadata: {{name: m}}, spec: {{instanceType: b, {launched}}}}}")))
    );
}

#[tokio::test]
async fn a_deleted_identity_keeps_its_status() {
    let scene = Scene::new();
    let mut identity: AWSClusterRoleIdentity = read("{metadata: {name: a}, spec: {roleARN: a}}");
    identity.metadata.deletion_timestamp =
        Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(Timestamp::UNIX_EPOCH));
    assert_eq!(reconcile(identity, &scene.context).await.status, None);
}
