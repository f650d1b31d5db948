//! Clusters whose objects are deleted in any order, as `helm uninstall` and GitOps tools do it.

use anyhow::{Context, ensure};
use capa_e2e::{eventually, objects};
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::DeleteParams;

use super::machines::{INLINE, text};
use super::scenario::{CORE, IDENTITY_NAMESPACE, OURS, Scenario, WITHIN, story};

/// The objects of a cluster of the story: version, kind, and the end of the name behind that of the cluster.
const OBJECTS: [(&str, &str, &str); 5] = [
    (OURS, "AWSCluster", ""),
    (CORE, "Cluster", ""),
    (CORE, "Machine", "-w0"),
    (OURS, "AWSMachine", "-w0"),
    ("v1", "Secret", "-w0"),
];

impl Scenario {
    /// Deletes an object of a cluster without waiting. Another deletion may have taken it along.
    async fn delete_of(&self, cluster: &str, (version, kind, end): (&str, &str, &str)) -> anyhow::Result<()> {
        let api = self.api(version, kind).await?;
        match api.delete(&format!("{cluster}{end}"), &DeleteParams::default()).await {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            answer => Ok(answer.map(drop)?),
        }
    }

    /// Waits until nothing of a cluster is left.
    async fn nothing_left_of(&self, cluster: &str) -> anyhow::Result<()> {
        for (version, kind, end) in OBJECTS {
            self.gone(version, kind, &[&format!("{cluster}{end}")]).await?;
        }
        Ok(())
    }
}

#[test]
fn an_awscluster_that_is_deleted_first_waits_for_its_machines() -> anyhow::Result<()> {
    story("cluster-first", async |s| {
        s.cluster("dev").await?;
        s.machine("dev-w0", "dev", INLINE).await?;
        let ready = s.machine_ready("dev-w0").await?;
        s.delete_of("dev", (OURS, "AWSCluster", "")).await?;
        let message = s.await_condition("dev", "Ready", "True", "DeletionBlocked").await?;
        assert!(message.contains("until they are gone: dev-w0;"), "{message}");
        s.looked_again("dev-w0").await?;
        let state = s.state_of(text(&ready, "/spec/instanceID")).await?;
        assert_eq!(state, "running", "the machine keeps its network");

        // Even the status of the machine may be lost by now: the network is still there to find its instance by.
        s.lose_status("dev-w0").await?;
        s.delete_of("dev", (CORE, "Cluster", "")).await?;
        for object in &OBJECTS[..4] {
            let (version, kind, end) = object;
            s.gone(version, kind, &[&format!("dev{end}")]).await?;
        }
        eventually(WITHIN, "no instance to be left", async || {
            let left = s.user.live_instances().await?;
            ensure!(left.is_empty(), "{left:?}");
            Ok(())
        })
        .await
    })
}

mod long_stories {
    use super::*;

    #[test]
    fn the_objects_of_a_cluster_are_deleted_in_any_order() -> anyhow::Result<()> {
        story("any-order", async |s| {
            let clusters = ["first", "second", "third", "fourth", "fifth"];
            for name in clusters {
                s.cluster(name).await?;
                s.machine(&format!("{name}-w0"), name, INLINE).await?;
            }
            for name in clusters {
                s.machine_ready(&format!("{name}-w0")).await?;
            }
            // Five orders: each object is the first of one and the last of one.
            for (rotation, name) in clusters.into_iter().enumerate() {
                let mut objects = OBJECTS;
                objects.rotate_left(rotation);
                for object in objects {
                    s.delete_of(name, object).await?;
                }
            }
            for name in clusters {
                s.nothing_left_of(name).await?;
            }
            assert_eq!(s.user.live_instances().await?, []);
            Ok(())
        })
    }

    #[test]
    fn a_deletion_waits_for_an_identity_that_was_deleted_first() -> anyhow::Result<()> {
        story("identity-first", async |s| {
            let identity = format!("{}-key", s.namespace());
            let key = s.aws().another_key();
            s.static_identity(&identity, "{}", &key).await?;
            s.owned_with_identity("dev", "AWSClusterStaticIdentity", &identity).await?;
            s.infrastructure_provisioned("dev").await?;
            s.machine("dev-w0", "dev", INLINE).await?;
            s.machine_ready("dev-w0").await?;

            let secrets: Api<Secret> = Api::namespaced(s.environment.client(), IDENTITY_NAMESPACE);
            secrets.delete(&identity, &DeleteParams::default()).await?;
            s.delete(OURS, "AWSClusterStaticIdentity", &identity).await?;
            for object in OBJECTS {
                s.delete_of("dev", object).await?;
            }
            eventually(WITHIN, "the AWSMachine to name the identity", async || {
                let machine = s.get(OURS, "AWSMachine", "dev-w0").await?;
                let found = objects::condition(&machine, "IdentityReady").context("no IdentityReady yet")?;
                ensure!(found.status == "False" && found.message.contains(&identity), "{found:?}");
                Ok(())
            })
            .await?;
            assert_eq!(s.user.live_instances().await?.len(), 1, "nobody may end it");

            s.static_identity(&identity, "{}", &key).await?;
            s.nothing_left_of("dev").await?;
            assert_eq!(s.user.live_instances().await?, []);
            Ok(())
        })
    }
}
