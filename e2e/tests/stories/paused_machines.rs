//! Machines that are paused: no AWS call of any kind on their account, and on they go afterwards.

use anyhow::ensure;
use capa_api::meta::MACHINE_FINALIZER;
use capa_e2e::aws_proxy::Mark;
use capa_e2e::{Manager, eventually};
use serde_json::json;

use super::machines::{INLINE, condition_of, counts, text};
use super::scenario::{CORE, OURS, REGION, Scenario, WITHIN};

#[tokio::test]
async fn a_paused_cluster_launches_nothing_until_it_goes_on() -> anyhow::Result<()> {
    let scenario = Scenario::new("paused-cluster").await?;
    let manager = scenario.manager().await?;
    scenario.cluster("dev").await?;
    scenario
        .patch(CORE, "Cluster", "dev", json!({"spec": {"paused": true}}))
        .await?;
    scenario
        .condition("AWSCluster", "dev", "Paused", "True", "Paused")
        .await?;
    let mark = scenario.environment.aws().mark();
    scenario.machine("single", "dev", INLINE).await?;
    // Core gives no owner to the machines of a paused cluster. With one, nothing but the pause keeps our finalizer off.
    let machine = scenario.get(CORE, "Machine", "single").await?.metadata.uid;
    let owned = json!({"metadata": {
        "labels": {"cluster.x-k8s.io/cluster-name": "dev"},
        "ownerReferences": [{"apiVersion": CORE, "kind": "Machine", "name": "single", "uid": machine}],
    }});
    scenario.patch(OURS, "AWSMachine", "single", owned).await?;
    scenario
        .condition("AWSMachine", "single", "Paused", "True", "Paused")
        .await?;
    scenario.looked_again("single", &manager).await?;
    no_call_since(&scenario, mark);
    let paused = scenario.get(OURS, "AWSMachine", "single").await?;
    assert_eq!(paused.metadata.finalizers, None);
    assert_eq!(paused.metadata.generation, Some(1), "nobody has written to the spec");

    scenario
        .patch(CORE, "Cluster", "dev", json!({"spec": {"paused": false}}))
        .await?;
    let ready = scenario.machine_ready("single").await?;
    scenario
        .condition("AWSMachine", "single", "Paused", "False", "NotPaused")
        .await?;
    assert_eq!(scenario.mutating(), counts(&[("RunInstances", 1)]));

    // Not even a deletion gets through a pause.
    scenario
        .patch(CORE, "Cluster", "dev", json!({"spec": {"paused": true}}))
        .await?;
    no_instance_is_followed(&manager).await?;
    let mark = scenario.environment.aws().mark();
    scenario.begin_deletion(OURS, "AWSMachine", "single").await?;
    scenario.looked_again("single", &manager).await?;
    no_call_since(&scenario, mark);
    let held = scenario.get(OURS, "AWSMachine", "single").await?;
    assert_eq!(held.metadata.finalizers, Some(vec![MACHINE_FINALIZER.to_owned()]));
    scenario
        .patch(CORE, "Cluster", "dev", json!({"spec": {"paused": false}}))
        .await?;
    scenario.gone(OURS, "AWSMachine", &["single"]).await?;
    let expected = counts(&[("RunInstances", 1), ("TerminateInstances", 1)]);
    assert_eq!(scenario.mutating(), expected);
    assert_eq!(scenario.terminated(), [text(&ready, "/spec/instanceID")]);
    assert!(manager.stop().await?.success());
    scenario.environment.finish().await
}

#[tokio::test]
async fn a_paused_machine_is_left_alone_even_while_it_is_deleted() -> anyhow::Result<()> {
    let scenario = Scenario::new("paused-machine").await?;
    let manager = scenario.manager().await?;
    scenario.cluster("dev").await?;
    scenario.machine("asleep", "dev", INLINE).await?;
    let ready = scenario.machine_ready("asleep").await?;
    let id = text(&ready, "/spec/instanceID").to_owned();
    // The annotation counts, not what it says.
    pause(&scenario, "asleep", json!("false")).await?;
    scenario
        .condition("AWSMachine", "asleep", "Paused", "True", "Paused")
        .await?;
    let still = scenario.get(OURS, "AWSMachine", "asleep").await?;
    assert_eq!(
        condition_of(&still, "Ready")?.status,
        "True",
        "pausing says nothing about the instance"
    );
    no_instance_is_followed(&manager).await?;

    let mark = scenario.environment.aws().mark();
    scenario.begin_deletion(CORE, "Machine", "asleep").await?;
    eventually(WITHIN, "core to delete the AWSMachine", async || {
        let machine = scenario.get(OURS, "AWSMachine", "asleep").await?;
        ensure!(machine.metadata.deletion_timestamp.is_some(), "it has not");
        Ok(())
    })
    .await?;
    scenario.looked_again("asleep", &manager).await?;
    no_call_since(&scenario, mark);
    assert_eq!(scenario.state_of(&id).await?, "running");

    pause(&scenario, "asleep", json!(null)).await?;
    scenario.gone(OURS, "AWSMachine", &["asleep"]).await?;
    assert_eq!(scenario.terminations(&id), 1);
    assert!(manager.stop().await?.success());
    scenario.environment.finish().await
}

async fn pause(scenario: &Scenario, name: &str, value: serde_json::Value) -> anyhow::Result<()> {
    let patch = json!({"metadata": {"annotations": {"cluster.x-k8s.io/paused": value}}});
    scenario.patch(OURS, "AWSMachine", name, patch).await
}

/// Waits until the instance store of the region has nothing left to follow, and so makes no call any more.
async fn no_instance_is_followed(manager: &Manager) -> anyhow::Result<()> {
    eventually(WITHIN, "the instance store to follow nothing", async || {
        let followed = manager
            .metrics()
            .await?
            .sum("capa_instance_store_instances", &[("region", REGION)]);
        ensure!(followed.is_none(), "it follows {followed:?}");
        Ok(())
    })
    .await
}

fn no_call_since(scenario: &Scenario, mark: Mark) {
    let aws = scenario.environment.aws();
    let calls = aws.journal_since(mark).except(&aws.user_key().access_key_id);
    assert!(calls.is_empty(), "{calls}");
}
