//! Whose credentials a cluster works with: identities of all three kinds, missing, refused and mended.

use std::sync::Arc;

use anyhow::{Context as _, ensure};
use capa_e2e::aws_proxy::AccessKey;
use capa_e2e::{Manager, World, eventually, objects};
use serde_json::{Value, json};

use super::scenario::{CORE, FASTER, OURS, Scenario, WITHIN};

/// Where the manager looks for the Secrets of static identities: its own namespace.
const IDENTITY_NAMESPACE: &str = "capa-rs-system";

/// The kind of the manager's own identity.
const DEFAULT_KIND: &str = "AWSClusterControllerIdentity";

/// A story whose identities, which have no namespace, are called after its namespace.
struct Identities {
    scenario: Scenario,
    manager: Manager,
}

impl Identities {
    async fn new(story: &str) -> anyhow::Result<Self> {
        let scenario = Scenario::new(story).await?;
        let manager = scenario.manager().await?;
        Ok(Self { scenario, manager })
    }

    fn namespace(&self) -> &str {
        self.scenario.environment.namespace()
    }

    /// The name of an identity of this story.
    fn name(&self, suffix: &str) -> String {
        format!("{}-{suffix}", self.namespace())
    }

    /// Applies an identity; `spec` in YAML's flow style.
    async fn identity(&self, kind: &str, suffix: &str, spec: &str) -> anyhow::Result<()> {
        let name = self.name(suffix);
        let identity = format!(
            "
apiVersion: {OURS}
kind: {kind}
metadata: {{name: {name}}}
spec: {spec}
"
        );
        self.scenario.environment.apply(&identity).await?;
        Ok(())
    }

    /// Applies the Secret of a static identity, called like it.
    async fn secret(&self, suffix: &str, key: &AccessKey) -> anyhow::Result<()> {
        let secret = json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": self.name(suffix), "namespace": IDENTITY_NAMESPACE},
            "stringData": {"AccessKeyID": key.access_key_id, "SecretAccessKey": key.secret_access_key},
        });
        self.scenario.environment.apply(&secret.to_string()).await?;
        Ok(())
    }

    /// Applies a cluster that names an identity.
    async fn cluster(&self, kind: &str, suffix: &str) -> anyhow::Result<()> {
        let reference = format!("  identityRef: {{kind: {kind}, name: {}}}", self.name(suffix));
        let cluster = self.scenario.unmanaged("dev", &reference);
        self.scenario.owned("dev", &cluster).await
    }

    /// Waits until the cluster names this trouble with its identity, in a message that has all these parts.
    async fn trouble(&self, reason: &str, parts: &[&str]) -> anyhow::Result<()> {
        eventually(
            WITHIN,
            &format!("IdentityReady=False/{reason} with {parts:?}"),
            async || {
                let cluster = self.scenario.aws_cluster("dev").await?;
                let found = objects::condition(&cluster, "IdentityReady").context("no IdentityReady yet")?;
                ensure!(found.status == "False" && found.reason == reason, "it says {found:?}");
                ensure!(
                    parts.iter().all(|part| found.message.contains(part)),
                    "it says {found:?}"
                );
                Ok(())
            },
        )
        .await
    }

    /// Waits until the cluster is whole: provisioned, with everything looked up.
    async fn whole(&self) -> anyhow::Result<()> {
        for condition in ["IdentityReady", "NetworkReady", "Ready"] {
            self.scenario.says("dev", condition, "True", "Ready").await?;
        }
        self.scenario.infrastructure_provisioned("dev").await?;
        let status = self.scenario.aws_cluster("dev").await?.data["status"].take();
        let zones = status["failureDomains"].as_array().map_or(0, Vec::len);
        ensure!(zones == 3, "the status is {status}");
        Ok(())
    }

    async fn provisioned(&self) -> anyhow::Result<Value> {
        let mut cluster = self.scenario.aws_cluster("dev").await?;
        Ok(cluster.data["status"]["initialization"].take())
    }

    async fn finish(self, secrets: &[&AccessKey]) -> anyhow::Result<()> {
        let log = self.manager.log()?;
        for key in secrets {
            ensure!(!log.contains(&key.secret_access_key), "a secret key is in the log");
        }
        self.scenario.environment.delete(CORE, "Cluster", "dev", WITHIN).await?;
        let journal = self.scenario.environment.aws().manager_journal();
        ensure!(journal.mutating().is_empty(), "{journal}");
        ensure!(self.manager.stop().await?.success());
        self.scenario.environment.finish().await
    }
}

#[tokio::test]
async fn a_static_identity_is_mended_by_creating_it_its_secret_and_another_key() -> anyhow::Result<()> {
    let story = Identities::new("static").await?;
    let aws = story.scenario.environment.aws();
    let (revoked, valid) = (aws.another_key(), aws.another_key());
    aws.revoke(&revoked.access_key_id);
    story.cluster("AWSClusterStaticIdentity", "key").await?;
    story.trouble("NotFound", &[&story.name("key")]).await?;
    story.scenario.says("dev", "Ready", "False", "NotFound").await?;
    story
        .scenario
        .says("dev", "NetworkReady", "Unknown", "NotReady")
        .await?;
    assert_eq!(story.provisioned().await?, Value::Null);

    let spec = format!("{{secretRef: {}, allowedNamespaces: {{}}}}", story.name("key"));
    story.identity("AWSClusterStaticIdentity", "key", &spec).await?;
    let secret = format!("Secret {IDENTITY_NAMESPACE}/{}", story.name("key"));
    story.trouble("NotFound", &[&secret, "AccessKeyID"]).await?;
    assert_eq!(story.provisioned().await?, Value::Null);
    let journal = aws.manager_journal();
    assert!(journal.is_empty(), "no call without an identity: {journal}");

    story.secret("key", &revoked).await?;
    story
        .trouble("CredentialsFailed", &["InvalidClientTokenId", "correct the Secret"])
        .await?;
    story.scenario.event("AWSCluster", "dev", "CredentialsFailed").await?;
    story.secret("key", &valid).await?;
    story.whole().await?;
    let by_valid = aws.manager_journal().by(&valid.access_key_id);
    assert_eq!(by_valid.of("DescribeSubnets").len(), 1);
    assert!(aws.manager_journal().by(&aws.key().access_key_id).is_empty());
    story.finish(&[&revoked, &valid]).await
}

#[tokio::test]
async fn an_identity_serves_only_namespaces_that_it_allows() -> anyhow::Result<()> {
    let story = Identities::new("allowed").await?;
    let key = story.scenario.environment.aws().another_key();
    story.secret("key", &key).await?;
    let reference = story.name("key");
    let allow = async |allowed: &str| {
        let spec = format!("{{secretRef: {reference}, allowedNamespaces: {allowed}}}");
        story.identity("AWSClusterStaticIdentity", "key", &spec).await
    };
    allow("{list: [another]}").await?;
    story.cluster("AWSClusterStaticIdentity", "key").await?;
    let parts = [reference.as_str(), story.namespace(), "allowedNamespaces"];
    story.trouble("NotAllowed", &parts).await?;
    story.scenario.says("dev", "Ready", "False", "NotAllowed").await?;
    assert_eq!(story.provisioned().await?, Value::Null);
    assert!(story.scenario.calls().is_empty());
    allow(&format!("{{list: [another, {}]}}", story.namespace())).await?;
    story.whole().await?;

    let before = story.scenario.aws_cluster("dev").await?.data["status"].take();
    allow("{list: [], selector: {matchLabels: {team: a}}}").await?;
    // An identity that changes concerns clusters at their next pass.
    story
        .scenario
        .change("dev", json!({"metadata": {"labels": {"touch": "1"}}}))
        .await?;
    story.trouble("NotAllowed", &parts).await?;
    story.scenario.says("dev", "Ready", "False", "NotAllowed").await?;
    let after = story.scenario.aws_cluster("dev").await?.data["status"].take();
    for field in ["initialization", "failureDomains", "network"] {
        assert_eq!(after[field], before[field], "{field} stays");
    }
    let label = json!({"metadata": {"labels": {"team": "a"}}});
    let namespace = story.namespace().to_owned();
    story.scenario.patch("v1", "Namespace", &namespace, label).await?;
    story.whole().await?;
    story.finish(&[&key]).await
}

#[tokio::test]
async fn a_role_is_assumed_with_its_external_id_once_aws_allows_it() -> anyhow::Result<()> {
    let story = Identities::new("role").await?;
    let aws = story.scenario.environment.aws();
    let role = aws.role_arn("clusters");
    let spec = format!(
        "{{roleARN: \"{role}\", externalID: agreed, allowedNamespaces: {{}}, sourceIdentityRef: {{kind: AWSClusterControllerIdentity, name: default}}}}"
    );
    story.identity("AWSClusterRoleIdentity", "role", &spec).await?;
    story.cluster("AWSClusterRoleIdentity", "role").await?;
    story
        .trouble("CredentialsFailed", &["AssumeRole: AccessDenied", "trust policy"])
        .await?;
    aws.allow_assume_role(&role, Some("agreed"));
    story.whole().await?;

    let journal = aws.manager_journal();
    let assumed = journal.matching(|call| call.action == "AssumeRole" && call.error.is_none());
    assert_eq!(assumed.len(), 1, "one session for all calls: {journal}");
    let session = format!("capa-rs-{}-dev", story.namespace());
    for (parameter, value) in [
        ("RoleArn", role.as_str()),
        ("ExternalId", "agreed"),
        ("RoleSessionName", session.as_str()),
    ] {
        assert_eq!(assumed.calls()[0].parameter(parameter), Some(value));
    }
    for call in journal.matching(|call| call.service == "ec2").calls() {
        let acting = call
            .role
            .as_ref()
            .with_context(|| format!("{call} is not the role's"))?;
        assert_eq!((&acting.arn, &acting.session_name), (&role, &session));
    }
    assert!(!story.manager.log()?.contains("agreed"), "the external id is a secret");
    story.finish(&[]).await
}

#[tokio::test]
async fn a_chain_of_roles_is_allowed_and_assumed_hop_by_hop() -> anyhow::Result<()> {
    let story = Identities::new("chain").await?;
    let aws = story.scenario.environment.aws();
    let (hub, leaf) = (aws.role_arn("hub"), aws.role_arn("leaf"));
    for role in [&hub, &leaf] {
        aws.allow_assume_role(role, None);
    }
    let key = aws.another_key();
    story.secret("key", &key).await?;
    let reference = format!("{{secretRef: {}, allowedNamespaces: {{}}}}", story.name("key"));
    story.identity("AWSClusterStaticIdentity", "key", &reference).await?;
    let hop = async |suffix: &str, arn: &str, allowed: &str, kind: &str, source: &str| {
        let spec = format!(
            "{{roleARN: \"{arn}\", sessionName: {suffix}, allowedNamespaces: {allowed}, sourceIdentityRef: {{kind: {kind}, name: {}}}}}",
            story.name(source)
        );
        story.identity("AWSClusterRoleIdentity", suffix, &spec).await
    };
    let own_namespace = format!("{{list: [{}]}}", story.namespace());
    hop("leaf", &leaf, "{}", "AWSClusterRoleIdentity", "hub").await?;
    hop("hub", &hub, "{list: []}", "AWSClusterStaticIdentity", "key").await?;
    story.cluster("AWSClusterRoleIdentity", "leaf").await?;
    story.trouble("SourceNotAllowed", &[&story.name("hub")]).await?;
    assert!(story.scenario.calls().is_empty());

    hop("hub", &hub, &own_namespace, "AWSClusterRoleIdentity", "leaf").await?;
    story.trouble("NotFound", &[&story.name("leaf"), "cycle"]).await?;
    hop("hub", &hub, &own_namespace, "AWSClusterStaticIdentity", "key").await?;
    story.whole().await?;
    let journal = aws.manager_journal();
    let hops = journal.of("AssumeRole");
    let assumed: Vec<_> = hops
        .calls()
        .iter()
        .map(|call| {
            (
                call.parameter("RoleArn"),
                call.role.as_ref().map(|role| role.arn.as_str()),
            )
        })
        .collect();
    assert_eq!(
        assumed,
        [(Some(hub.as_str()), None), (Some(leaf.as_str()), Some(hub.as_str()))]
    );
    assert_eq!(hops.calls()[0].access_key_id, key.access_key_id);
    assert_eq!(
        journal.of("DescribeSubnets").calls()[0]
            .role
            .as_ref()
            .map(|role| &role.arn),
        Some(&leaf)
    );
    story.finish(&[&key]).await
}

#[tokio::test]
async fn the_controllers_own_identity_is_created_behind_its_gate_only() -> anyhow::Result<()> {
    // A world of its own: in the other one every manager has it created.
    let world = Arc::new(World::start().await?);
    world.install_provider().await?;
    let scenario = Scenario::in_world(&world, "gate").await?;
    let identities = scenario.environment.api(OURS, DEFAULT_KIND).await?;
    let gate_off = "--feature-gates=AutoControllerIdentityCreator=false";
    let without = scenario
        .environment
        .manager()
        .flag(FASTER)
        .flag(gate_off)
        .start()
        .await?;
    scenario.owned("dev", &scenario.unmanaged("dev", "")).await?;
    scenario.says("dev", "IdentityReady", "False", "NotFound").await?;
    assert!(identities.get_opt("default").await?.is_none());
    assert!(without.stop().await?.success());

    let with = scenario.manager().await?;
    scenario.says("dev", "IdentityReady", "True", "Ready").await?;
    scenario.infrastructure_provisioned("dev").await?;
    let created = identities.get("default").await?;
    assert_eq!(created.data["spec"], json!({"allowedNamespaces": {}}));
    assert!(with.stop().await?.success());

    // One that the user has made stays as it is.
    scenario
        .environment
        .delete(OURS, DEFAULT_KIND, "default", WITHIN)
        .await?;
    let theirs = format!(
        "{{apiVersion: {OURS}, kind: {DEFAULT_KIND}, metadata: {{name: default}}, spec: {{allowedNamespaces: {{list: [elsewhere]}}}}}}"
    );
    scenario.environment.apply(&theirs).await?;
    let kept = identities.get("default").await?;
    let again = scenario.manager().await?;
    scenario.owned("other", &scenario.unmanaged("other", "")).await?;
    scenario.says("other", "IdentityReady", "False", "NotAllowed").await?;
    assert_eq!(identities.get("default").await?, kept);
    assert!(again.stop().await?.success());
    scenario.environment.finish().await
}
