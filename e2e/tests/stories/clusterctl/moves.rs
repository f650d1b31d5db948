//! `clusterctl move`: a cluster is moved to another management cluster and back, without a change in AWS.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, ensure};
use capa_e2e::aws_proxy::Fault;
use capa_e2e::{eventually, mostly_waits, objects};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt as _};
use serde_json::json;

use super::installed::{Installed, NAME, installed};
use crate::stories::clusters::whole::{NODES_WITHIN, instance_of};
use crate::stories::machines::{INLINE, machine};
use crate::stories::scenario::{CORE, IDENTITY_NAMESPACE, OURS, WITHIN};

const BLOCK_MOVE: &str = "clusterctl.cluster.x-k8s.io/block-move";
const IDENTITY: &str = "team-a";
const ROLE_IDENTITY: &str = "team-a-reader";

impl Installed {
    /// Creates the cluster's identity, and waits until its Secret can move.
    async fn create_identity(&self) -> anyhow::Result<()> {
        let key = self.scenario.aws().another_key();
        self.scenario.static_identity(IDENTITY, "{}", &key).await?;
        let role = format!(
            "{{roleARN: 'arn:aws:iam::111122223333:role/reader', allowedNamespaces: {{}}, \
              sourceIdentityRef: {{kind: AWSClusterStaticIdentity, name: {IDENTITY}}}}}"
        );
        self.scenario.identity("AWSClusterRoleIdentity", ROLE_IDENTITY, &role).await?;
        self.owns_secret().await?;
        let disown = json!({"metadata": {"ownerReferences": null}});
        self.identity_secrets().patch(IDENTITY, &PatchParams::default(), &Patch::Merge(&disown)).await?;
        self.owns_secret().await
    }

    /// Waits until the identity owns its Secret.
    async fn owns_secret(&self) -> anyhow::Result<()> {
        eventually(WITHIN, "the Secret to be owned by its identity", async || {
            let secret = self.identity_secret().await?.context("no Secret")?;
            ensure!(!secret.owner_references().is_empty(), "the Secret has no owner");
            Ok(())
        })
        .await
    }

    fn identity_secrets(&self) -> Api<Secret> {
        Api::namespaced(self.scenario.environment.client(), IDENTITY_NAMESPACE)
    }

    async fn identity_secret(&self) -> anyhow::Result<Option<Secret>> {
        Ok(self.identity_secrets().get_opt(IDENTITY).await?)
    }

    /// Stores a template that today's policies would refuse, like a template that was stored before the policies.
    async fn store_old_template(&self) -> anyhow::Result<()> {
        let cluster = self.scenario.get(CORE, "Cluster", NAME).await?;
        let template = json!({
            "apiVersion": OURS,
            "kind": "AWSMachineTemplate",
            "metadata": {
                "name": "old",
                "labels": {"velero.io/restore-name": "older"},
                "ownerReferences": [{"apiVersion": CORE, "kind": "Cluster", "name": NAME, "uid": cluster.uid()}],
            },
            "spec": {"template": {"spec": {"instanceType": "t3.large", "marketType": "Spot", "sshKeyName": " key"}}},
        });
        self.scenario.apply(&template.to_string()).await?;
        // From here on nothing but clusterctl itself says where it comes from.
        let plain = json!({"metadata": {"labels": {"velero.io/restore-name": null}}});
        self.scenario.patch(OURS, "AWSMachineTemplate", "old", plain).await
    }

    /// Waits until all objects are Ready in this management cluster, and returns the instances of the two machines.
    async fn ready(&self) -> anyhow::Result<BTreeSet<String>> {
        let environment = &self.scenario.environment;
        eventually(NODES_WITHIN, "the cluster and its machines to be Ready", async || {
            let mut all = Vec::new();
            for (api_version, kind, count) in [(CORE, "Machine", 2), (OURS, "AWSMachine", 2), (OURS, "AWSCluster", 1)] {
                let api = environment.api(api_version, kind).await?;
                let found = api.list(&ListParams::default()).await?.items;
                ensure!(found.len() == count, "there are {} {kind}s", found.len());
                all.extend(found);
            }
            for object in &all {
                let ready = objects::condition(object, "Ready").context("no Ready yet")?;
                ensure!(ready.status == "True", "{}: {ready:?}", object.name_any());
            }
            Ok(all.iter().take(2).map(instance_of).collect())
        })
        .await
    }

    /// The objects that clusterctl moves: the names of all objects of Cluster API and of this provider, identities too,
    /// by kind.
    async fn belongings(&self) -> anyhow::Result<BTreeSet<String>> {
        let mut names = BTreeSet::new();
        for (kind, objects) in self.scenario.environment.objects().await? {
            // This provider's manager creates the identity `default` in every management cluster.
            let moves = kind.ends_with("cluster.x-k8s.io") && !kind.starts_with("awsclustercontrolleridentities");
            if moves || kind == "secrets.core" {
                names.extend(objects.iter().map(|object| format!("{kind} {}", object.name_any())));
            }
        }
        if self.identity_secret().await?.is_some() {
            names.insert(format!("the Secret of {IDENTITY}"));
        }
        Ok(names)
    }

    async fn move_to(&self, other: &Self) -> anyhow::Result<()> {
        let kubeconfig = other.cluster.world().admin_kubeconfig().display().to_string();
        let namespace = self.scenario.namespace();
        let arguments = ["move", "--namespace", namespace, "--to-kubeconfig", &kubeconfig];
        self.run(&arguments).await?;
        Ok(())
    }

    /// Moves the cluster, and checks that all objects moved, that the cluster works there, and that the move wrote
    /// nothing to AWS.
    async fn moves_whole_to(&self, other: &Self) -> anyhow::Result<()> {
        let (belongings, instances) = (self.belongings().await?, self.ready().await?);
        let mark = self.scenario.aws().mark();
        self.move_to(other).await?;
        let left = self.belongings().await?;
        assert!(left.is_subset(&for_every_namespace(&belongings)), "{left:?} stays behind");
        assert_eq!(other.ready().await?, instances, "the same instances");
        assert_eq!(other.belongings().await?, belongings);
        let writes = self.scenario.aws().journal_since(mark).mutating();
        assert!(writes.is_empty(), "a move only reads: {writes}");
        Ok(())
    }

    /// Tests that a machine with an unanswered launch blocks a move until the answer.
    async fn an_open_launch_holds_back_the_move_to(&self, other: &Self) -> anyhow::Result<()> {
        let scenario = &self.scenario;
        let slow = Fault::on("RunInstances").delay(Duration::from_secs(12));
        let slow = scenario.aws().fault(slow);
        let secret = capa_e2e::fixtures::bootstrap_secret("late", "#cloud-config");
        scenario.apply(&secret).await?;
        let label = json!({"metadata": {"labels": {"clusterctl.cluster.x-k8s.io/move": ""}}});
        scenario.patch("v1", "Secret", "late", label).await?;
        scenario.apply(&machine("late", NAME, INLINE)).await?;
        eventually(WITHIN, "the launch to block a move", async || {
            ensure!(self.is_blocked().await?, "the launch does not block a move yet");
            Ok(())
        })
        .await?;
        // clusterctl looks for the node of each machine before it looks for objects that block the move, so it misses a
        // launch that begins in between. This write simulates such a launch.
        let node = json!({"status": {"nodeRef": {"name": "late"}}});
        let machines = scenario.api(CORE, "Machine").await?;
        machines.patch_status("late", &PatchParams::default(), &Patch::Merge(&node)).await?;

        let watch = async {
            let before = other.belongings().await?;
            while self.is_blocked().await? {
                tokio::time::sleep(Duration::from_millis(200)).await;
                let there = other.belongings().await?;
                // Checked once more: the launch may have ended between the two reads.
                ensure!(there == before || !self.is_blocked().await?, "the move did not wait: {there:?}");
            }
            Ok(())
        };
        tokio::try_join!(self.move_to(other), watch)?;
        slow.lift();
        let launches = scenario.launches();
        assert_eq!(launches.len(), 3, "{launches}");
        let moved = other.scenario.machine_ready("late").await?;
        let instance = moved.data["spec"]["instanceID"].as_str().context("no instance")?;
        let ids: Vec<_> = launches.calls().iter().flat_map(|call| &call.instance_ids).collect();
        assert!(ids.iter().any(|id| *id == instance), "{instance} is not of {launches}");
        Ok(())
    }

    async fn is_blocked(&self) -> anyhow::Result<bool> {
        let machines = self.scenario.api(OURS, "AWSMachine").await?;
        let late = machines.get_opt("late").await?;
        Ok(late.is_some_and(|late| late.annotations().contains_key(BLOCK_MOVE)))
    }
}

/// The objects that other namespaces may use too: a move of one namespace copies them.
fn for_every_namespace(belongings: &BTreeSet<String>) -> BTreeSet<String> {
    let of_identities = belongings.iter().filter(|name| {
        let last = name.rsplit(' ').next();
        last == Some(IDENTITY) || last == Some(ROLE_IDENTITY)
    });
    of_identities.cloned().collect()
}

mod long_stories {
    use super::*;

    #[test]
    fn a_cluster_moves_there_and_back_with_identity_and_instances() -> anyhow::Result<()> {
        mostly_waits();
        installed("moves", async |home| {
            home.create_identity().await?;
            home.apply_cluster(json!({"kind": "AWSClusterStaticIdentity", "name": IDENTITY})).await?;
            home.store_old_template().await?;
            let away = home.beside().await?;
            let instances = home.ready().await?;
            assert_eq!(instances.len(), 2);
            home.is_described().await?;
            assert!(home.belongings().await?.contains(&format!("the Secret of {IDENTITY}")));

            home.moves_whole_to(&away).await?;
            away.moves_whole_to(home).await?;
            home.an_open_launch_holds_back_the_move_to(&away).await?;

            away.scenario.environment.delete(CORE, "Cluster", NAME, NODES_WITHIN).await?;
            assert!(away.scenario.user.live_instances().await?.is_empty());
            away.end().await
        })
    }
}
