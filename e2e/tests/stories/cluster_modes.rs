//! Clusters that the manager does not, not yet or not now reconcile: it makes no call, and writes nothing but the
//! reason.

use anyhow::ensure;
use capa_e2e::{Story, eventually, fixtures, objects};
use serde_json::{Value, json};

use super::machines::{INLINE, text};
use super::scenario::{CORE, OURS, REGION, Scenario, WITHIN, run_story, story};

/// The finalizer of a managed cluster.
const FINALIZER: &str = "awscluster.infrastructure.cluster.x-k8s.io";

#[test]
fn a_managed_cluster_waits_and_is_released_once_unmanaged() -> anyhow::Result<()> {
    story("not-managed-yet", async |s| {
        let before = s.user.details().await?;
        s.owned("dev", &managed(s)).await?;
        let message = s.await_condition("dev", "Ready", "False", "NotManagedYet").await?;
        assert!(message.contains("spec.unmanaged: true"), "{message}");
        s.reconciles_without_a_write("dev", 10).await?;
        let cluster = s.aws_cluster("dev").await?;
        assert_eq!(cluster.data["status"]["initialization"], Value::Null);
        assert_eq!(cluster.metadata.finalizers.as_deref(), Some(&[FINALIZER.to_owned()][..]));
        let journal = s.aws().manager_journal();
        assert!(journal.is_empty(), "{journal}");

        s.change("dev", json!({"spec": {"unmanaged": true}})).await?;
        s.infrastructure_provisioned("dev").await?;
        assert_eq!(s.aws_cluster("dev").await?.metadata.finalizers, None);
        s.delete(CORE, "Cluster", "dev").await?;
        let journal = s.aws().manager_journal();
        assert!(journal.mutating().is_empty(), "{journal}");
        assert_eq!(s.user.details().await?, before);
        Ok(())
    })
}

/// A managed cluster named `dev` that this release does not offer, with the provider's finalizer, as another release or
/// CAPA leaves it.
fn managed(scenario: &Scenario) -> String {
    let managed = scenario.unmanaged("dev", "").replace("  unmanaged: true\n", "");
    let managed = managed.replace("vpc: {", "vpc: {ipv6: {}, ");
    managed.replace("{name: dev}", &format!("{{name: dev, finalizers: [{FINALIZER}]}}"))
}

#[test]
fn a_cluster_of_another_controller_only_loses_our_finalizer() -> anyhow::Result<()> {
    run_story(Story::new("managed-by"), async |s| {
        let foreign = s
            .unmanaged("dev", "")
            .replace("{name: dev}", "{name: dev, annotations: {cluster.x-k8s.io/managed-by: another}}");
        s.owned("dev", &foreign).await?;
        let finalizers = [FINALIZER, "example.org/another"];
        s.change("dev", json!({"metadata": {"finalizers": finalizers}})).await?;
        // A controller for an older contract writes only this field of the status.
        let api = s.api(OURS, "AWSCluster").await?;
        let half = json!({"status": {"ready": true}});
        api.patch_status("dev", &kube::api::PatchParams::default(), &kube::api::Patch::Merge(half)).await?;

        s.start_manager().await?;
        s.event("AWSCluster", "dev", "ManagedByStatusIncomplete").await?;
        s.reconciles_without_a_write("dev", 20).await?;
        let cluster = s.aws_cluster("dev").await?;
        assert_eq!(cluster.metadata.finalizers, Some(vec!["example.org/another".to_owned()]));
        assert_eq!(cluster.data["status"], json!({"ready": true}));
        let journal = s.aws().manager_journal();
        assert!(journal.is_empty(), "{journal}");
        s.change("dev", json!({"metadata": {"finalizers": null}})).await?;
        Ok(())
    })
}

#[test]
fn machines_launch_under_a_cluster_with_a_handwritten_status() -> anyhow::Result<()> {
    story("by-hand", async |s| {
        let network = &s.network;
        let subnet = &network.zones[1];
        let foreign = format!(
            "
apiVersion: {OURS}
kind: AWSCluster
metadata: {{name: dev, annotations: {{cluster.x-k8s.io/managed-by: terraform}}}}
spec:
  region: {REGION}
  controlPlaneEndpoint: {{host: api.dev.example.org, port: 6443}}
  network:
    vpc: {{id: {}}}
    subnets: [{{id: {}, availabilityZone: {}}}]
",
            network.vpc_id, subnet.private_subnet_id, subnet.name
        );
        s.owned("dev", &foreign).await?;
        let groups = json!({"node": {"id": network.node_security_group_id, "name": "node"}});
        let by_hand = json!({"status": {
            "ready": true,
            "initialization": {"provisioned": true},
            "networkStatus": {"securityGroups": groups},
        }});
        let api = s.api(OURS, "AWSCluster").await?;
        let parameters = kube::api::PatchParams::default();
        api.patch_status("dev", &parameters, &kube::api::Patch::Merge(by_hand)).await?;
        let before = s.aws_cluster("dev").await?;
        s.machine("worker", "dev", INLINE).await?;
        let machine = s.machine_ready("worker").await?;
        let used = &machine.data["status"]["network"];
        assert_eq!(used["subnetID"], *subnet.private_subnet_id);
        assert_eq!(used["securityGroupIDs"], json!([network.node_security_group_id]));
        let after = s.aws_cluster("dev").await?;
        assert_eq!(
            after.metadata.resource_version, before.metadata.resource_version,
            "the manager wrote to the cluster of another controller"
        );
        s.delete(CORE, "Machine", "worker").await?;
        s.assert_mutating(&[("RunInstances", 1), ("TerminateInstances", 1)]);
        assert!(s.has_terminated(text(&machine, "/spec/instanceID")));
        Ok(())
    })
}

#[test]
fn a_cluster_waits_for_its_owner_and_knows_any_reference_to_it() -> anyhow::Result<()> {
    story("owner", async |s| {
        s.apply(&s.unmanaged("dev", "")).await?;
        let message = s.await_condition("dev", "Ready", "False", "WaitingForOwnerCluster").await?;
        assert!(message.contains("spec.infrastructureRef"), "{message}");
        s.reconciles_without_a_write("dev", 5).await?;
        assert!(s.calls().is_empty());

        // Cluster API does not touch the infrastructure object of a Cluster without an `infrastructureRef`, so the
        // owner reference stays as it is.
        s.apply(&fixtures::cluster("owner", None)).await?;
        let owner = s.get(CORE, "Cluster", "owner").await?;
        let reference = json!({
            "apiVersion": "cluster.x-k8s.io/v1beta1",
            "kind": "Cluster",
            "name": "owner",
            "uid": owner.metadata.uid,
            "controller": false,
        });
        s.change("dev", json!({"metadata": {"ownerReferences": [reference]}})).await?;
        s.await_condition("dev", "Ready", "True", "Ready").await?;
        let status = s.aws_cluster("dev").await?.data["status"].take();
        assert_eq!(status["network"]["clusterTag"], "owner");
        Ok(())
    })
}

#[test]
fn the_copy_that_is_deleted_for_a_move_is_left_alone() -> anyhow::Result<()> {
    story("moved", async |s| {
        // Paused until it is being deleted, as clusterctl has it; somebody's finalizer holds it.
        let moved = s.unmanaged("dev", "").replace(
            "{name: dev}",
            "{name: dev, finalizers: [example.org/kept], annotations: {cluster.x-k8s.io/paused: \"\", \
             clusterctl.cluster.x-k8s.io/delete-for-move: \"\"}}",
        );
        s.apply(&moved).await?;
        s.await_condition("dev", "Paused", "True", "Paused").await?;
        let paused = s.aws_cluster("dev").await?.data["status"].take();
        s.begin_deletion(OURS, "AWSCluster", "dev").await?;
        s.change("dev", json!({"metadata": {"annotations": {"cluster.x-k8s.io/paused": null}}})).await?;
        s.reconciles_without_a_write("dev", 10).await?;
        assert_eq!(s.aws_cluster("dev").await?.data["status"], paused);
        assert!(s.calls().is_empty());
        s.change("dev", json!({"metadata": {"finalizers": null}})).await
    })
}

#[test]
fn an_awscluster_is_left_alone_while_its_cluster_is_paused() -> anyhow::Result<()> {
    story("paused-cluster", async |s| {
        s.cluster("dev").await?;
        let pause = |paused: bool| json!({"spec": {"paused": paused}});
        s.patch(CORE, "Cluster", "dev", pause(true)).await?;
        let message = s.await_condition("dev", "Paused", "True", "Paused").await?;
        assert_eq!(message, "Cluster spec.paused is set to true");
        changes_wait(s, async || s.patch(CORE, "Cluster", "dev", pause(false)).await).await?;
        Ok(())
    })
}

/// Tests that a change of a paused cluster has no effect, and causes no call and no write but the condition, until
/// `resume`. The change also adds the provider's finalizer, which the manager removes from an unmanaged cluster that is
/// not paused.
async fn changes_wait(scenario: &Scenario, resume: impl AsyncFnOnce() -> anyhow::Result<()>) -> anyhow::Result<()> {
    scenario.await_condition("dev", "Paused", "True", "Paused").await?;
    let before = scenario.aws_cluster("dev").await?;
    let calls = scenario.calls();
    let mut spec = before.data["spec"].clone();
    spec["additionalTags"] = json!({"cost-centre": "42"});
    scenario.change("dev", json!({"metadata": {"finalizers": [FINALIZER]}, "spec": spec})).await?;
    eventually(WITHIN, "the condition to be about the changed spec", async || {
        let cluster = scenario.aws_cluster("dev").await?;
        let generation = json!(cluster.metadata.generation);
        let conditions = cluster.data["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let current =
            |condition: &Value| condition["type"] == "Paused" && condition["observedGeneration"] == generation;
        ensure!(conditions.iter().any(current), "the conditions are {conditions:?}");
        Ok(())
    })
    .await?;
    let paused = scenario.aws_cluster("dev").await?;
    assert_eq!(paused.data["spec"], spec);
    assert_eq!(paused.metadata.finalizers, Some(vec![FINALIZER.to_owned()]));
    for field in ["ready", "initialization", "failureDomains", "network"] {
        assert_eq!(paused.data["status"][field], before.data["status"][field], "{field}");
    }
    for condition in ["Ready", "IdentityReady", "NetworkReady"] {
        assert_eq!(objects::condition(&paused, condition), objects::condition(&before, condition));
    }
    assert_eq!(scenario.calls(), calls);

    resume().await?;
    scenario.await_condition("dev", "Paused", "False", "NotPaused").await?;
    eventually(WITHIN, "the change to have its effect", async || {
        let network = scenario.aws_cluster("dev").await?.data["status"]["network"].take();
        ensure!(network["additionalTags"]["cost-centre"] == "42", "the network is {network}");
        Ok(())
    })
    .await?;
    assert_eq!(scenario.aws_cluster("dev").await?.metadata.finalizers, None);
    Ok(())
}

mod long_stories {
    use super::*;

    #[test]
    fn a_cluster_taken_over_by_another_controller_is_released() -> anyhow::Result<()> {
        story("taken-over", async |s| {
            let network = s.user.details().await?;
            s.owned("dev", &managed(s)).await?;
            s.await_condition("dev", "Ready", "False", "NotManagedYet").await?;
            let before = s.aws_cluster("dev").await?;
            assert_eq!(before.metadata.finalizers, Some(vec![FINALIZER.to_owned()]));

            s.change("dev", json!({"metadata": {"annotations": {"cluster.x-k8s.io/managed-by": "another"}}})).await?;
            eventually(WITHIN, "our finalizer to be off", async || {
                let finalizers = s.aws_cluster("dev").await?.metadata.finalizers;
                ensure!(finalizers.is_none(), "there are {finalizers:?}");
                Ok(())
            })
            .await?;
            s.reconciles_without_a_write("dev", 5).await?;
            let after = s.aws_cluster("dev").await?;
            assert_eq!(after.metadata.uid, before.metadata.uid);
            assert_eq!(after.metadata.deletion_timestamp, None);
            assert_eq!(after.data, before.data, "spec and status are the other's now");
            let journal = s.aws().manager_journal();
            assert!(journal.is_empty(), "{journal}");
            assert_eq!(s.user.details().await?, network);
            Ok(())
        })
    }

    #[test]
    fn an_awscluster_with_the_paused_annotation_is_left_alone() -> anyhow::Result<()> {
        story("paused-annotation", async |s| {
            let annotate = |value: Value| json!({"metadata": {"annotations": {"cluster.x-k8s.io/paused": value}}});
            let paused = s
                .unmanaged("dev", "")
                .replace("{name: dev}", "{name: dev, annotations: {cluster.x-k8s.io/paused: \"\"}}");
            s.owned("dev", &paused).await?;
            let message = s.await_condition("dev", "Paused", "True", "Paused").await?;
            assert_eq!(message, "AWSCluster has the cluster.x-k8s.io/paused annotation");
            let cluster = s.aws_cluster("dev").await?;
            let status = cluster.data["status"].as_object().cloned().unwrap_or_default();
            assert_eq!(status.keys().collect::<Vec<_>>(), ["conditions"], "nothing else is written");
            assert_eq!(cluster.data["status"]["conditions"].as_array().map(Vec::len), Some(1));
            assert!(s.calls().is_empty());
            s.change("dev", annotate(Value::Null)).await?;
            s.infrastructure_provisioned("dev").await?;

            s.change("dev", annotate("".into())).await?;
            changes_wait(s, async || s.change("dev", annotate(Value::Null)).await).await?;
            Ok(())
        })
    }
}
