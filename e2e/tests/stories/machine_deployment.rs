//! A MachineDeployment on infrastructure that the user brought, up and away.

use std::collections::BTreeSet;

use anyhow::ensure;
use capa_e2e::eventually;
use serde_json::json;

use super::machines::counts;
use super::scenario::{CORE, Scenario, WITHIN};

#[tokio::test]
async fn machines_come_up_on_brought_infrastructure_and_go_without_a_trace() -> anyhow::Result<()> {
    let scenario = Scenario::new("up-and-away").await?;
    let before = scenario.user.dump().await?;
    let manager = scenario.manager().await?;
    scenario.cluster("dev").await?;
    scenario.machine_deployment("workers", "dev", 0).await?;
    scenario.machines_ready(0).await?;

    scenario
        .patch(CORE, "MachineDeployment", "workers", json!({"spec": {"replicas": 3}}))
        .await?;
    let machines = scenario.machines_ready(3).await?;
    let mut zones: Vec<_> = machines
        .iter()
        .map(|machine| machine.data["status"]["failureDomain"].clone())
        .collect();
    zones.sort_by_key(ToString::to_string);
    assert_eq!(
        zones,
        ["eu-west-1a", "eu-west-1b", "eu-west-1c"],
        "three zones are filled evenly"
    );
    assert_eq!(scenario.mutating(), counts(&[("RunInstances", 3)]));

    scenario
        .patch(CORE, "MachineDeployment", "workers", json!({"spec": {"replicas": 0}}))
        .await?;
    eventually(WITHIN, "all AWSMachines to be gone", async || {
        let left = scenario.machines().await?.len();
        ensure!(left == 0, "{left} are left");
        Ok(())
    })
    .await?;
    scenario.environment.delete(CORE, "Cluster", "dev", WITHIN).await?;
    assert!(scenario.user.live_instances().await?.is_empty());
    assert_eq!(scenario.user.dump().await?, before, "the user's network is as it was");
    let expected = counts(&[("RunInstances", 3), ("TerminateInstances", 3)]);
    assert_eq!(scenario.mutating(), expected);
    let journal = scenario.environment.aws().manager_journal();
    let ids = |action: &str| -> BTreeSet<String> {
        let calls = journal.of(action);
        calls
            .calls()
            .iter()
            .flat_map(|call| call.instance_ids.clone())
            .collect()
    };
    assert_eq!(ids("TerminateInstances"), ids("RunInstances"), "{journal}");
    assert_eq!(ids("RunInstances").len(), 3, "{journal}");
    assert!(manager.stop().await?.success());
    scenario.environment.finish().await
}
