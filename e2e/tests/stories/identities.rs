//! The credentials of a cluster: identities of all three kinds, missing, refused and corrected.

use std::collections::BTreeSet;

use anyhow::{Context as _, ensure};
use capa_e2e::aws_proxy::AccessKey;
use capa_e2e::{Story, eventually, eventually_by_polling, objects};
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::api::events::v1::Event;
use kube::api::{DeleteParams, ListParams};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};

use super::scenario::{CORE, FASTER, IDENTITY_NAMESPACE, OURS, Scenario, WITHIN, run_story, story};

/// The kind of the manager's own identity.
const DEFAULT_KIND: &str = "AWSClusterControllerIdentity";

/// A story about the cluster `dev` and its identities, in which the manager writes nothing to AWS.
fn identity_story(name: &str, body: impl AsyncFnOnce(&Scenario) -> anyhow::Result<()>) -> anyhow::Result<()> {
    story(name, async |s| {
        body(s).await?;
        s.delete(CORE, "Cluster", "dev").await?;
        let journal = s.aws().manager_journal();
        ensure!(journal.mutating().is_empty(), "{journal}");
        Ok(())
    })
}

impl Scenario {
    /// The name of an identity of this story, with the namespace in it, because identities have no namespace.
    fn identity_name(&self, suffix: &str) -> String {
        format!("{}-{suffix}", self.namespace())
    }

    /// Applies an identity of this story; `spec` in YAML's flow style.
    async fn own_identity(&self, kind: &str, suffix: &str, spec: &str) -> anyhow::Result<()> {
        self.identity(kind, &self.identity_name(suffix), spec).await
    }

    /// Applies the Secret of a static identity, with the identity's name.
    async fn own_secret(&self, suffix: &str, key: &AccessKey) -> anyhow::Result<()> {
        self.identity_secret(&self.identity_name(suffix), key).await
    }

    /// Applies the cluster, which names an identity.
    async fn cluster_with_identity(&self, kind: &str, suffix: &str) -> anyhow::Result<()> {
        self.owned_with_identity("dev", kind, &self.identity_name(suffix)).await
    }

    /// Waits until the cluster reports this error of its identity, in a message with all these parts.
    async fn identity_trouble(&self, reason: &str, parts: &[&str]) -> anyhow::Result<()> {
        eventually(WITHIN, &format!("IdentityReady=False/{reason} with {parts:?}"), async || {
            let cluster = self.aws_cluster("dev").await?;
            let found = objects::condition(&cluster, "IdentityReady").context("no IdentityReady yet")?;
            ensure!(found.status == "False" && found.reason == reason, "the condition is {found:?}");
            ensure!(parts.iter().all(|part| found.message.contains(part)), "the condition is {found:?}");
            Ok(())
        })
        .await
    }

    /// Waits for the warning about a static identity that is gone, or whose Secret is, with all these parts. Events
    /// about objects without a namespace are in the namespace `default`.
    async fn warned_of_loss(&self, suffix: &str, parts: &[&str]) -> anyhow::Result<()> {
        let events: Api<Event> = Api::namespaced(self.environment.client(), "default");
        let name = self.identity_name(suffix);
        eventually(WITHIN, &format!("a warning about {name} with {parts:?}"), async || {
            let events = events.list(&ListParams::default()).await?.items;
            let found = events.iter().any(|event| {
                let about = event.regarding.as_ref().and_then(|about| about.name.as_ref());
                let note = event.note.as_deref().unwrap_or_default();
                about == Some(&name)
                    && event.reason.as_deref() == Some("DeletedWhileInUse")
                    && parts.iter().all(|part| note.contains(part))
            });
            ensure!(found, "the warning is not among {} events", events.len());
            Ok(())
        })
        .await
    }

    /// Waits until the cluster is complete: provisioned, with all lookups done.
    async fn is_whole(&self) -> anyhow::Result<()> {
        for condition in ["IdentityReady", "NetworkReady", "Ready"] {
            self.await_condition("dev", condition, "True", "Ready").await?;
        }
        self.infrastructure_provisioned("dev").await?;
        let status = self.aws_cluster("dev").await?.data["status"].take();
        let zones = status["failureDomains"].as_array().map_or(0, Vec::len);
        ensure!(zones == 3, "the status is {status}");
        Ok(())
    }

    async fn initialization(&self) -> anyhow::Result<Value> {
        let mut cluster = self.aws_cluster("dev").await?;
        Ok(cluster.data["status"]["initialization"].take())
    }
}

#[test]
fn a_static_identity_is_mended_with_its_secret_and_its_key() -> anyhow::Result<()> {
    identity_story("static", async |s| {
        let aws = s.aws();
        let (revoked, valid) = (aws.another_key(), aws.another_key());
        aws.revoke(&revoked.access_key_id);
        s.cluster_with_identity("AWSClusterStaticIdentity", "key").await?;
        s.identity_trouble("NotFound", &[&s.identity_name("key")]).await?;
        s.await_condition("dev", "Ready", "False", "NotFound").await?;
        s.await_condition("dev", "NetworkReady", "Unknown", "NotReady").await?;
        assert_eq!(s.initialization().await?, Value::Null);

        let spec = format!("{{secretRef: {}, allowedNamespaces: {{}}}}", s.identity_name("key"));
        s.own_identity("AWSClusterStaticIdentity", "key", &spec).await?;
        let secret = format!("Secret {IDENTITY_NAMESPACE}/{}", s.identity_name("key"));
        s.identity_trouble("NotFound", &[&secret, "AccessKeyID"]).await?;
        assert_eq!(s.initialization().await?, Value::Null);
        let journal = aws.manager_journal();
        assert!(journal.is_empty(), "no call without an identity: {journal}");

        s.own_secret("key", &revoked).await?;
        s.identity_trouble("CredentialsFailed", &["InvalidClientTokenId", "correct the Secret"]).await?;
        s.event("AWSCluster", "dev", "CredentialsFailed").await?;
        s.own_secret("key", &valid).await?;
        s.is_whole().await?;
        let by_valid = aws.manager_journal().by(&valid.access_key_id);
        assert!(!by_valid.of("DescribeSubnets").is_empty(), "{by_valid}");
        assert!(aws.manager_journal().by(&aws.key().access_key_id).is_empty());
        Ok(())
    })
}

#[test]
fn an_identity_serves_only_namespaces_that_it_allows() -> anyhow::Result<()> {
    identity_story("allowed", async |s| {
        let key = s.aws().another_key();
        s.own_secret("key", &key).await?;
        let reference = s.identity_name("key");
        let allow = async |allowed: &str| {
            let spec = format!("{{secretRef: {reference}, allowedNamespaces: {allowed}}}");
            s.own_identity("AWSClusterStaticIdentity", "key", &spec).await
        };
        allow("{list: [another]}").await?;
        s.cluster_with_identity("AWSClusterStaticIdentity", "key").await?;
        let parts = [reference.as_str(), s.namespace(), "allowedNamespaces"];
        s.identity_trouble("NotAllowed", &parts).await?;
        s.await_condition("dev", "Ready", "False", "NotAllowed").await?;
        assert_eq!(s.initialization().await?, Value::Null);
        assert!(s.calls().is_empty());
        allow(&format!("{{list: [another, {}]}}", s.namespace())).await?;
        s.is_whole().await?;

        let before = s.aws_cluster("dev").await?.data["status"].take();
        allow("{list: [], selector: {matchLabels: {team: a}}}").await?;
        s.identity_trouble("NotAllowed", &parts).await?;
        s.await_condition("dev", "Ready", "False", "NotAllowed").await?;
        let after = s.aws_cluster("dev").await?.data["status"].take();
        for field in ["initialization", "failureDomains", "network"] {
            assert_eq!(after[field], before[field], "{field} stays");
        }
        let label = json!({"metadata": {"labels": {"team": "a"}}});
        let namespace = s.namespace().to_owned();
        s.patch("v1", "Namespace", &namespace, label).await?;
        s.is_whole().await
    })
}

#[test]
fn a_lost_identity_or_secret_is_told_by_its_clusters_and_an_event() -> anyhow::Result<()> {
    identity_story("lost-identity", async |s| {
        let key = s.aws().another_key();
        let name = s.identity_name("key");
        let spec = format!("{{secretRef: {name}, allowedNamespaces: {{}}}}");
        s.own_secret("key", &key).await?;
        s.own_identity("AWSClusterStaticIdentity", "key", &spec).await?;
        let role = s.aws().role_arn("clusters");
        s.aws().allow_assume_role(&role, None);
        let assumed = format!(
            "{{roleARN: \"{role}\", allowedNamespaces: {{}}, \
             sourceIdentityRef: {{kind: AWSClusterStaticIdentity, name: {name}}}}}"
        );
        s.own_identity("AWSClusterRoleIdentity", "role", &assumed).await?;
        s.cluster_with_identity("AWSClusterRoleIdentity", "role").await?;
        s.is_whole().await?;
        let user = format!("{}/dev", s.namespace());

        // The manager looks at the Secret once a minute, divided; nothing else wakes the cluster.
        let secrets: Api<Secret> = Api::namespaced(s.environment.client(), IDENTITY_NAMESPACE);
        secrets.delete(&name, &DeleteParams::default()).await?;
        s.identity_trouble("NotFound", &[&format!("Secret {IDENTITY_NAMESPACE}/{name}")]).await?;
        s.await_condition("dev", "Ready", "False", "NotFound").await?;
        s.warned_of_loss("key", &["its Secret", &user]).await?;
        s.own_secret("key", &key).await?;
        s.is_whole().await?;

        s.delete(OURS, "AWSClusterStaticIdentity", &name).await?;
        s.identity_trouble("NotFound", &[&format!("AWSClusterStaticIdentity/{name}")]).await?;
        s.warned_of_loss("key", &["AWSClusterStaticIdentity/", &user]).await
    })
}

#[test]
fn a_chain_of_roles_is_allowed_and_assumed_hop_by_hop() -> anyhow::Result<()> {
    identity_story("chain", async |s| {
        let aws = s.aws();
        let (hub, leaf) = (aws.role_arn("hub"), aws.role_arn("leaf"));
        for role in [&hub, &leaf] {
            aws.allow_assume_role(role, None);
        }
        let key = aws.another_key();
        s.own_secret("key", &key).await?;
        let reference = format!("{{secretRef: {}, allowedNamespaces: {{}}}}", s.identity_name("key"));
        s.own_identity("AWSClusterStaticIdentity", "key", &reference).await?;
        let hop = async |suffix: &str, arn: &str, allowed: &str, kind: &str, source: &str| {
            let spec = format!(
                "{{roleARN: \"{arn}\", sessionName: {suffix}, allowedNamespaces: {allowed}, \
                 sourceIdentityRef: {{kind: {kind}, name: {}}}}}",
                s.identity_name(source)
            );
            s.own_identity("AWSClusterRoleIdentity", suffix, &spec).await
        };
        let own_namespace = format!("{{list: [{}]}}", s.namespace());
        hop("leaf", &leaf, "{}", "AWSClusterRoleIdentity", "hub").await?;
        hop("hub", &hub, "{list: []}", "AWSClusterStaticIdentity", "key").await?;
        s.cluster_with_identity("AWSClusterRoleIdentity", "leaf").await?;
        s.identity_trouble("SourceNotAllowed", &[&s.identity_name("hub")]).await?;
        assert!(s.calls().is_empty());

        hop("hub", &hub, &own_namespace, "AWSClusterRoleIdentity", "leaf").await?;
        s.identity_trouble("NotFound", &[&s.identity_name("leaf"), "cycle"]).await?;
        hop("hub", &hub, &own_namespace, "AWSClusterStaticIdentity", "key").await?;
        s.is_whole().await?;
        let journal = aws.manager_journal();
        let hops = journal.of("AssumeRole");
        let assumed: BTreeSet<_> = hops
            .calls()
            .iter()
            .map(|call| (call.parameter("RoleArn"), call.role.as_ref().map(|role| role.arn.as_str())))
            .collect();
        let expected = [(Some(hub.as_str()), None), (Some(leaf.as_str()), Some(hub.as_str()))];
        assert_eq!(assumed, BTreeSet::from(expected));
        let by_key = hops.matching(|call| call.role.is_none());
        assert!(by_key.except(&key.access_key_id).is_empty(), "{by_key}");
        let looks = journal.of("DescribeSubnets");
        let by_leaf = looks.matching(|call| call.role.as_ref().is_some_and(|role| role.arn == leaf));
        assert!(!looks.is_empty() && by_leaf.len() == looks.len(), "{looks}");
        Ok(())
    })
}

mod long_stories {
    use super::*;

    #[test]
    fn a_role_is_assumed_with_its_external_id_once_aws_allows_it() -> anyhow::Result<()> {
        identity_story("role", async |s| {
            let aws = s.aws();
            let role = aws.role_arn("clusters");
            let spec = format!(
                "{{roleARN: \"{role}\", externalID: agreed, allowedNamespaces: {{}}, \
                 sourceIdentityRef: {{kind: AWSClusterControllerIdentity, name: default}}}}"
            );
            s.own_identity("AWSClusterRoleIdentity", "role", &spec).await?;
            s.cluster_with_identity("AWSClusterRoleIdentity", "role").await?;
            s.identity_trouble("CredentialsFailed", &["AssumeRole: AccessDenied", "trust policy"]).await?;
            aws.allow_assume_role(&role, Some("agreed"));
            s.is_whole().await?;

            let journal = aws.manager_journal();
            let assumed = journal.matching(|call| call.action == "AssumeRole" && call.error.is_none());
            let of_session = journal.matching(|call| call.service == "ec2");
            assert!(assumed.len() < of_session.len(), "calls share a session: {journal}");
            let session = format!("capa-rs-{}-dev", s.namespace());
            for call in assumed.calls() {
                for (parameter, value) in
                    [("RoleArn", role.as_str()), ("ExternalId", "agreed"), ("RoleSessionName", session.as_str())]
                {
                    assert_eq!(call.parameter(parameter), Some(value));
                }
            }
            for call in of_session.calls() {
                let acting = call.role.as_ref().with_context(|| format!("{call} is not the role's"))?;
                assert_eq!((&acting.arn, &acting.session_name), (&role, &session));
            }
            assert!(!s.manager().log()?.contains("agreed"), "the external id is a secret");
            Ok(())
        })
    }

    #[test]
    fn the_controllers_own_identity_is_created_behind_its_gate_only() -> anyhow::Result<()> {
        // A separate world: in the shared world every manager creates the identity.
        run_story(Story::new("gate").in_its_own_world(&[]), async |s| {
            let identities = s.api(OURS, DEFAULT_KIND).await?;
            let gate_off = "--feature-gates=AutoControllerIdentityCreator=false";
            let without = s.new_manager().flag(FASTER).flag(gate_off).start().await?;
            s.owned("dev", &s.unmanaged("dev", "")).await?;
            s.await_condition("dev", "IdentityReady", "False", "NotFound").await?;
            assert!(identities.get_opt("default").await?.is_none());
            without.stop().await?;

            let with = s.start_manager().await?;
            s.await_condition("dev", "IdentityReady", "True", "Ready").await?;
            s.infrastructure_provisioned("dev").await?;
            let created = identities.get("default").await?;
            assert_eq!(created.data["spec"], json!({"allowedNamespaces": {}}));
            with.stop().await?;

            // An identity that the user has created stays unchanged.
            s.delete(OURS, DEFAULT_KIND, "default").await?;
            s.identity(DEFAULT_KIND, "default", "{allowedNamespaces: {list: [elsewhere]}}").await?;
            let kept = identities.get("default").await?;
            let beside = s.start_manager().await?;
            s.owned("other", &s.unmanaged("other", "")).await?;
            s.await_condition("other", "IdentityReady", "False", "NotAllowed").await?;
            let left = identities.get("default").await?;
            assert_eq!((left.uid(), &left.data["spec"]), (kept.uid(), &kept.data["spec"]));
            beside.stop().await?;
            a_deleted_identity_stays_deleted(s).await
        })
    }
}

/// Without an identity of the name no namespace may use the manager's credentials: somebody may have wanted that.
async fn a_deleted_identity_stays_deleted(s: &Scenario) -> anyhow::Result<()> {
    let identities = s.api(OURS, DEFAULT_KIND).await?;
    let leases = s.api("coordination.k8s.io/v1", "Lease").await?;
    let first = s.new_manager().leader_election().flag(FASTER).start().await?;
    eventually(WITHIN, "the Lease to remember the identity", async || {
        let lease = leases.get("controller-leader-elect-capa").await?;
        let annotation = "infrastructure.cluster.x-k8s.io/controller-identity-was-there";
        ensure!(lease.annotations().contains_key(annotation), "{:?}", lease.metadata);
        Ok(())
    })
    .await?;
    s.delete(OURS, DEFAULT_KIND, "default").await?;
    first.stop().await?;
    let again = s.new_manager().leader_election().flag(FASTER).start().await?;
    s.owned("late", &s.unmanaged("late", "")).await?;
    s.await_condition("late", "IdentityReady", "False", "NotFound").await?;
    eventually_by_polling(WITHIN, "the manager to recall the identity", async || {
        ensure!(again.log()?.contains("it is not created again"), "not yet");
        Ok(())
    })
    .await?;
    again.stop().await?;
    assert!(identities.get_opt("default").await?.is_none());
    Ok(())
}
