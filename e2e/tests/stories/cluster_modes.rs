//! Clusters that are not, not yet or not now ours to reconcile: nothing is called, and nothing but the reason is written.

use anyhow::ensure;
use capa_e2e::{eventually, fixtures, objects};
use serde_json::{Value, json};

use super::machines::{INLINE, counts, text};
use super::scenario::{CORE, OURS, REGION, Scenario, WITHIN};

/// What a managed cluster carries.
const FINALIZER: &str = "awscluster.infrastructure.cluster.x-k8s.io";

#[tokio::test]
async fn a_managed_cluster_waits_for_a_later_release_and_is_let_go_when_it_becomes_unmanaged() -> anyhow::Result<()> {
    let scenario = Scenario::new("not-managed-yet").await?;
    let before = scenario.user.dump().await?;
    let manager = scenario.manager().await?;
    scenario.owned("dev", &managed(&scenario)).await?;
    let message = scenario.says("dev", "Ready", "False", "NotManagedYet").await?;
    assert!(message.contains("spec.unmanaged: true"), "{message}");
    scenario.reconciles_without_a_write(&manager, "dev", 10).await?;
    let cluster = scenario.aws_cluster("dev").await?;
    assert_eq!(cluster.data["status"]["initialization"], Value::Null);
    assert_eq!(
        cluster.metadata.finalizers.as_deref(),
        Some(&[FINALIZER.to_owned()][..])
    );
    let journal = scenario.environment.aws().manager_journal();
    assert!(journal.is_empty(), "{journal}");

    scenario.change("dev", json!({"spec": {"unmanaged": true}})).await?;
    scenario.infrastructure_provisioned("dev").await?;
    assert_eq!(scenario.aws_cluster("dev").await?.metadata.finalizers, None);
    scenario.environment.delete(CORE, "Cluster", "dev", WITHIN).await?;
    let journal = scenario.environment.aws().manager_journal();
    assert!(journal.mutating().is_empty(), "{journal}");
    assert_eq!(scenario.user.dump().await?, before);
    assert!(manager.stop().await?.success());
    scenario.environment.finish().await
}

/// A managed cluster named `dev` with our finalizer, as another release or CAPA leaves it.
fn managed(scenario: &Scenario) -> String {
    let managed = scenario.unmanaged("dev", "").replace("  unmanaged: true\n", "");
    managed.replace("{name: dev}", &format!("{{name: dev, finalizers: [{FINALIZER}]}}"))
}

#[tokio::test]
async fn a_cluster_that_another_controller_takes_over_while_it_lives_is_let_go_and_not_deleted() -> anyhow::Result<()> {
    let scenario = Scenario::new("taken-over").await?;
    let network = scenario.user.dump().await?;
    let manager = scenario.manager().await?;
    scenario.owned("dev", &managed(&scenario)).await?;
    scenario.says("dev", "Ready", "False", "NotManagedYet").await?;
    let before = scenario.aws_cluster("dev").await?;
    assert_eq!(before.metadata.finalizers, Some(vec![FINALIZER.to_owned()]));

    scenario
        .change(
            "dev",
            json!({"metadata": {"annotations": {"cluster.x-k8s.io/managed-by": "another"}}}),
        )
        .await?;
    eventually(WITHIN, "our finalizer to be off", async || {
        let finalizers = scenario.aws_cluster("dev").await?.metadata.finalizers;
        ensure!(finalizers.is_none(), "there are {finalizers:?}");
        Ok(())
    })
    .await?;
    scenario.reconciles_without_a_write(&manager, "dev", 5).await?;
    let after = scenario.aws_cluster("dev").await?;
    assert_eq!(after.metadata.uid, before.metadata.uid);
    assert_eq!(after.metadata.deletion_timestamp, None);
    assert_eq!(after.data, before.data, "spec and status are the other's now");
    let journal = scenario.environment.aws().manager_journal();
    assert!(journal.is_empty(), "{journal}");
    assert_eq!(scenario.user.dump().await?, network);
    assert!(manager.stop().await?.success());
    scenario.environment.finish().await
}

#[tokio::test]
async fn a_cluster_managed_by_another_controller_only_loses_our_finalizer() -> anyhow::Result<()> {
    let scenario = Scenario::new("managed-by").await?;
    let foreign = scenario.unmanaged("dev", "").replace(
        "{name: dev}",
        "{name: dev, annotations: {cluster.x-k8s.io/managed-by: another}}",
    );
    scenario.owned("dev", &foreign).await?;
    let finalizers = [FINALIZER, "example.org/another"];
    scenario
        .change("dev", json!({"metadata": {"finalizers": finalizers}}))
        .await?;
    // As older writers leave it.
    let api = scenario.environment.api(OURS, "AWSCluster").await?;
    let half = json!({"status": {"ready": true}});
    api.patch_status(
        "dev",
        &kube::api::PatchParams::default(),
        &kube::api::Patch::Merge(half),
    )
    .await?;

    let manager = scenario.manager().await?;
    scenario.event("AWSCluster", "dev", "ManagedByStatusIncomplete").await?;
    scenario.reconciles_without_a_write(&manager, "dev", 20).await?;
    let cluster = scenario.aws_cluster("dev").await?;
    assert_eq!(
        cluster.metadata.finalizers,
        Some(vec!["example.org/another".to_owned()])
    );
    assert_eq!(cluster.data["status"], json!({"ready": true}));
    let journal = scenario.environment.aws().manager_journal();
    assert!(journal.is_empty(), "{journal}");
    scenario
        .change("dev", json!({"metadata": {"finalizers": null}}))
        .await?;
    assert!(manager.stop().await?.success());
    scenario.environment.finish().await
}

#[tokio::test]
async fn machines_work_under_a_cluster_whose_status_was_written_by_hand() -> anyhow::Result<()> {
    let scenario = Scenario::new("by-hand").await?;
    let manager = scenario.manager().await?;
    let network = &scenario.network;
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
    scenario.owned("dev", &foreign).await?;
    let groups = json!({"node": {"id": network.node_security_group_id, "name": "node"}});
    let by_hand = json!({"status": {
        "ready": true,
        "initialization": {"provisioned": true},
        "networkStatus": {"securityGroups": groups},
    }});
    let api = scenario.environment.api(OURS, "AWSCluster").await?;
    let parameters = kube::api::PatchParams::default();
    api.patch_status("dev", &parameters, &kube::api::Patch::Merge(by_hand))
        .await?;
    let before = scenario.aws_cluster("dev").await?;
    scenario.machine("worker", "dev", INLINE).await?;
    let machine = scenario.machine_ready("worker").await?;
    let used = &machine.data["status"]["network"];
    assert_eq!(used["subnetID"], *subnet.private_subnet_id);
    assert_eq!(used["securityGroupIDs"], json!([network.node_security_group_id]));
    let after = scenario.aws_cluster("dev").await?;
    assert_eq!(
        after.metadata.resource_version, before.metadata.resource_version,
        "it is not ours"
    );
    scenario.environment.delete(CORE, "Machine", "worker", WITHIN).await?;
    assert_eq!(
        scenario.mutating(),
        counts(&[("RunInstances", 1), ("TerminateInstances", 1)])
    );
    assert_eq!(scenario.terminated(), [text(&machine, "/spec/instanceID")]);
    assert!(manager.stop().await?.success());
    scenario.environment.finish().await
}

#[tokio::test]
async fn a_cluster_waits_for_its_owner_and_knows_it_however_it_is_referenced() -> anyhow::Result<()> {
    let scenario = Scenario::new("owner").await?;
    let manager = scenario.manager().await?;
    scenario.environment.apply(&scenario.unmanaged("dev", "")).await?;
    let message = scenario.says("dev", "Ready", "False", "WaitingForOwnerCluster").await?;
    assert!(message.contains("spec.infrastructureRef"), "{message}");
    scenario.reconciles_without_a_write(&manager, "dev", 5).await?;
    assert!(scenario.calls().is_empty());

    // Cluster API does not touch the infrastructure of a Cluster that names none, so the reference stays as it is.
    scenario.environment.apply(&fixtures::cluster("owner", None)).await?;
    let owner = scenario.get(CORE, "Cluster", "owner").await?;
    let reference = json!({
        "apiVersion": "cluster.x-k8s.io/v1beta1",
        "kind": "Cluster",
        "name": "owner",
        "uid": owner.metadata.uid,
        "controller": false,
    });
    scenario
        .change("dev", json!({"metadata": {"ownerReferences": [reference]}}))
        .await?;
    scenario.says("dev", "Ready", "True", "Ready").await?;
    let status = scenario.aws_cluster("dev").await?.data["status"].take();
    assert_eq!(status["network"]["clusterTag"], "owner");
    assert!(manager.stop().await?.success());
    scenario.environment.finish().await
}

#[tokio::test]
async fn the_copy_that_is_deleted_for_a_move_is_left_alone() -> anyhow::Result<()> {
    let scenario = Scenario::new("moved").await?;
    let manager = scenario.manager().await?;
    let moved = scenario.unmanaged("dev", "").replace(
        "{name: dev}",
        "{name: dev, annotations: {clusterctl.cluster.x-k8s.io/delete-for-move: \"\"}}",
    );
    scenario.environment.apply(&moved).await?;
    scenario.reconciles_without_a_write(&manager, "dev", 10).await?;
    assert_eq!(scenario.aws_cluster("dev").await?.data.get("status"), None);
    assert!(scenario.calls().is_empty());
    assert!(manager.stop().await?.success());
    scenario.environment.finish().await
}

#[tokio::test]
async fn a_cluster_is_left_alone_while_the_cluster_api_cluster_is_paused() -> anyhow::Result<()> {
    let scenario = Scenario::new("paused-cluster").await?;
    let manager = scenario.manager().await?;
    scenario.cluster("dev").await?;
    let pause = |paused: bool| json!({"spec": {"paused": paused}});
    scenario.patch(CORE, "Cluster", "dev", pause(true)).await?;
    changes_wait(&scenario, async || {
        scenario.patch(CORE, "Cluster", "dev", pause(false)).await
    })
    .await?;
    assert!(manager.stop().await?.success());
    scenario.environment.finish().await
}

#[tokio::test]
async fn a_cluster_is_left_alone_while_it_carries_the_annotation_paused() -> anyhow::Result<()> {
    let scenario = Scenario::new("paused-annotation").await?;
    let manager = scenario.manager().await?;
    let annotate = |value: Value| json!({"metadata": {"annotations": {"cluster.x-k8s.io/paused": value}}});
    let paused = scenario.unmanaged("dev", "").replace(
        "{name: dev}",
        "{name: dev, annotations: {cluster.x-k8s.io/paused: \"\"}}",
    );
    scenario.owned("dev", &paused).await?;
    scenario.says("dev", "Paused", "True", "Paused").await?;
    let cluster = scenario.aws_cluster("dev").await?;
    let status = cluster.data["status"].as_object().cloned().unwrap_or_default();
    assert_eq!(
        status.keys().collect::<Vec<_>>(),
        ["conditions"],
        "nothing else is written"
    );
    assert_eq!(cluster.data["status"]["conditions"].as_array().map(Vec::len), Some(1));
    assert!(scenario.calls().is_empty());
    scenario.change("dev", annotate(Value::Null)).await?;
    scenario.infrastructure_provisioned("dev").await?;

    scenario.change("dev", annotate("".into())).await?;
    changes_wait(&scenario, async || scenario.change("dev", annotate(Value::Null)).await).await?;
    assert!(manager.stop().await?.success());
    scenario.environment.finish().await
}

/// A change of a paused cluster has no effect, no call and no write but the condition, until `resume`. The change also
/// puts our finalizer on, which comes off an unmanaged cluster that is not paused.
async fn changes_wait(scenario: &Scenario, resume: impl AsyncFnOnce() -> anyhow::Result<()>) -> anyhow::Result<()> {
    scenario.says("dev", "Paused", "True", "Paused").await?;
    let before = scenario.aws_cluster("dev").await?;
    let calls = scenario.calls();
    let mut spec = before.data["spec"].clone();
    spec["additionalTags"] = json!({"cost-centre": "42"});
    scenario
        .change("dev", json!({"metadata": {"finalizers": [FINALIZER]}, "spec": spec}))
        .await?;
    eventually(WITHIN, "the condition to be about the changed spec", async || {
        let cluster = scenario.aws_cluster("dev").await?;
        let generation = json!(cluster.metadata.generation);
        let conditions = cluster.data["status"]["conditions"]
            .as_array()
            .cloned()
            .unwrap_or_default();
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
        assert_eq!(
            objects::condition(&paused, condition),
            objects::condition(&before, condition)
        );
    }
    assert_eq!(scenario.calls(), calls);

    resume().await?;
    scenario.says("dev", "Paused", "False", "NotPaused").await?;
    eventually(WITHIN, "the change to have its effect", async || {
        let network = scenario.aws_cluster("dev").await?.data["status"]["network"].take();
        ensure!(
            network["additionalTags"]["cost-centre"] == "42",
            "the network is {network}"
        );
        Ok(())
    })
    .await?;
    assert_eq!(scenario.aws_cluster("dev").await?.metadata.finalizers, None);
    Ok(())
}
