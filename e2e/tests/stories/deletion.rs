//! Every way to the end of a machine, each with exactly the calls that it takes.

use std::time::Duration;

use capa_e2e::{eventually, fixtures};
use serde_json::json;

use super::machines::{INLINE, at, counts, machine, text};
use super::scenario::{CORE, OURS, Scenario, WITHIN};

/// Longer than any story.
const HOUR: Duration = Duration::from_hours(1);

#[tokio::test]
async fn machines_that_were_never_launched_go_without_a_call() -> anyhow::Result<()> {
    let scenario = Scenario::new("never-launched").await?;
    let environment = &scenario.environment;
    let manager = scenario.manager().await?;
    // One waits for its cluster's infrastructure, the other for its bootstrap data.
    environment
        .apply(&fixtures::cluster("absent", Some("AWSCluster")))
        .await?;
    environment.apply(&machine("homeless", "absent", INLINE)).await?;
    scenario.cluster("dev").await?;
    environment.apply(&machine("empty", "dev", INLINE)).await?;
    for (name, condition, reason) in [
        ("homeless", "InstanceReady", "WaitingForClusterInfrastructure"),
        ("empty", "BootstrapDataReady", "WaitingForBootstrapData"),
    ] {
        scenario
            .condition("AWSMachine", name, condition, "False", reason)
            .await?;
        scenario.begin_deletion(CORE, "Machine", name).await?;
    }
    scenario.gone(CORE, "Machine", &["homeless", "empty"]).await?;
    scenario.gone(OURS, "AWSMachine", &["homeless", "empty"]).await?;
    assert_eq!(scenario.mutating(), []);
    assert!(manager.stop().await?.success());
    scenario.environment.finish().await
}

#[tokio::test]
async fn a_pending_machine_is_terminated_once_and_stays_until_its_instance_is_gone() -> anyhow::Result<()> {
    let scenario = Scenario::new("delete-pending").await?;
    let aws = scenario.environment.aws();
    aws.set_pending(HOUR);
    aws.set_shutting_down(HOUR);
    let manager = scenario.manager().await?;
    scenario.cluster("dev").await?;
    scenario.machine("slow", "dev", INLINE).await?;
    scenario
        .condition("AWSMachine", "slow", "InstanceReady", "False", "Pending")
        .await?;
    let id = scenario.launched("slow").await?;
    scenario.begin_deletion(CORE, "Machine", "slow").await?;
    scenario
        .condition("AWSMachine", "slow", "InstanceReady", "False", "Terminating")
        .await?;
    // Another pass does not terminate again.
    scenario.looked_again("slow", &manager).await?;
    assert_eq!(scenario.state_of(&id).await?, "shutting-down");
    assert_eq!(scenario.terminations(&id), 1);

    aws.set_shutting_down(Duration::ZERO);
    scenario.gone(OURS, "AWSMachine", &["slow"]).await?;
    scenario.gone(CORE, "Machine", &["slow"]).await?;
    let expected = counts(&[("RunInstances", 1), ("TerminateInstances", 1)]);
    assert_eq!(scenario.mutating(), expected);
    assert!(manager.stop().await?.success());
    scenario.environment.finish().await
}

#[tokio::test]
async fn a_machine_goes_though_its_awscluster_or_even_its_cluster_is_gone() -> anyhow::Result<()> {
    let scenario = Scenario::new("orphans").await?;
    let manager = scenario.manager().await?;
    for cluster in ["bare", "removed"] {
        scenario.cluster(cluster).await?;
        scenario.machine(cluster, cluster, INLINE).await?;
    }
    let mut ids = Vec::new();
    for name in ["bare", "removed"] {
        let ready = scenario.machine_ready(name).await?;
        ids.push(text(&ready, "/spec/instanceID").to_owned());
    }
    remove_by_force(&scenario, OURS, "AWSCluster", "bare").await?;
    scenario.begin_deletion(CORE, "Machine", "bare").await?;
    scenario.gone(OURS, "AWSMachine", &["bare"]).await?;
    scenario.gone(CORE, "Machine", &["bare"]).await?;

    remove_by_force(&scenario, OURS, "AWSCluster", "removed").await?;
    remove_by_force(&scenario, CORE, "Cluster", "removed").await?;
    remove_by_force(&scenario, CORE, "Machine", "removed").await?;
    scenario.gone(OURS, "AWSMachine", &["removed"]).await?;
    for id in &ids {
        assert_eq!(scenario.state_of(id).await?, "terminated");
        assert_eq!(scenario.terminations(id), 1);
    }
    let expected = counts(&[("RunInstances", 2), ("TerminateInstances", 2)]);
    assert_eq!(scenario.mutating(), expected);
    assert!(manager.stop().await?.success());
    scenario.environment.finish().await
}

/// Deletes an object without waiting for whoever holds it.
async fn remove_by_force(scenario: &Scenario, api_version: &str, kind: &str, name: &str) -> anyhow::Result<()> {
    let api = scenario.environment.api(api_version, kind).await?;
    if api
        .get_opt(name)
        .await?
        .is_some_and(|object| object.metadata.deletion_timestamp.is_none())
    {
        scenario.begin_deletion(api_version, kind, name).await?;
    }
    eventually(WITHIN, &format!("{kind} {name} to be gone"), async || {
        let Some(object) = api.get_opt(name).await? else {
            return Ok(());
        };
        scenario
            .patch(api_version, kind, name, json!({"metadata": {"finalizers": null}}))
            .await?;
        anyhow::bail!("it was held by {:?}", object.metadata.finalizers)
    })
    .await
}

#[tokio::test]
async fn deleting_a_cluster_takes_all_its_machines_along() -> anyhow::Result<()> {
    let scenario = Scenario::new("whole-cluster").await?;
    let before = scenario.user.dump().await?;
    let manager = scenario.manager().await?;
    scenario.cluster("dev").await?;
    scenario.machine_deployment("workers", "dev", 2).await?;
    let machines = scenario.machines_ready(2).await?;
    scenario.environment.delete(CORE, "Cluster", "dev", WITHIN).await?;
    for machine in &machines {
        assert_eq!(
            scenario.terminations(text(machine, "/spec/instanceID")),
            1,
            "{}",
            at(machine, "/spec")
        );
    }
    let expected = counts(&[("RunInstances", 2), ("TerminateInstances", 2)]);
    assert_eq!(scenario.mutating(), expected);
    assert!(scenario.user.live_instances().await?.is_empty());
    assert_eq!(scenario.user.dump().await?, before, "the user's network is as it was");
    assert!(manager.stop().await?.success());
    scenario.environment.finish().await
}
