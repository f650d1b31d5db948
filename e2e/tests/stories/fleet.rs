//! Many machines, and changes that concern none of them.

use anyhow::ensure;
use capa_e2e::{Manager, eventually};
use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::machines::{at, condition_of, counts, passes};
use super::scenario::{CORE, OURS, Scenario, WITHIN};

/// Calls that all machines share, however many there are: whose account it is, what the cluster's network is, and looks at
/// all instances that are pending. Fewer than machines: one further call for each of them is too many.
const SHARED: usize = 9;

#[tokio::test]
async fn conditions_of_a_cluster_wake_no_machine() -> anyhow::Result<()> {
    flips_wake_no_machine("flips", 10).await
}

mod long_stories {
    #[tokio::test]
    async fn conditions_of_a_cluster_wake_none_of_a_hundred_machines() -> anyhow::Result<()> {
        super::flips_wake_no_machine("fleet", 100).await
    }
}

async fn flips_wake_no_machine(name: &str, count: usize) -> anyhow::Result<()> {
    let scenario = Scenario::new(name).await?;
    // Real periods, without the periodic listing: every call has a cause, and none is left once all machines run.
    let manager = scenario.environment.manager();
    let manager = manager.flag("--instance-poll-interval=1h").start().await?;
    scenario.cluster("dev").await?;
    scenario
        .machine_deployment("workers", "dev", u32::try_from(count)?)
        .await?;
    scenario.machines_ready(count).await?;
    let aws = scenario.environment.aws();
    assert_eq!(scenario.mutating(), counts(&[("RunInstances", count)]));
    let calls = scenario.calls();
    super::chaos::report(&format!("FLEET {count} {calls:?}"))?;
    assert!(calls.values().sum::<usize>() <= count + SHARED, "{calls:?}");
    let before = settled(&manager).await?;

    let mark = aws.mark();
    for flip in 0..10 {
        set_ready(&scenario, if flip % 2 == 0 { "False" } else { "True" }).await?;
    }
    let after = settled(&manager).await?;
    assert!(after <= before, "{} passes over machines", after - before);
    let calls = || aws.journal_since(mark).except(&aws.user_key().access_key_id);
    assert!(calls().is_empty(), "{}", calls());

    // What does concern machines would have been noticed: a change of the network wakes each of them.
    scenario
        .change("dev", json!({"spec": {"additionalTags": {"team": "another"}}}))
        .await?;
    eventually(WITHIN, "a pass over each machine", async || {
        let woken = passes(&manager).await? - after;
        ensure!(woken >= f64::from(u32::try_from(count)?), "{woken} passes");
        Ok(())
    })
    .await?;
    // So would a call be: one more machine is one more launch.
    let one_more = json!({"spec": {"replicas": count + 1}});
    scenario.patch(CORE, "MachineDeployment", "workers", one_more).await?;
    scenario.machines_ready(count + 1).await?;
    assert_eq!(calls().of("RunInstances").len(), 1, "{}", calls());
    assert!(manager.stop().await?.success());
    scenario.environment.finish().await
}

/// Waits until no AWSMachine has had a pass for a second, and gives how many passes there were.
async fn settled(manager: &Manager) -> anyhow::Result<f64> {
    let mut last = 0.0;
    let mut looks = 0;
    eventually(WITHIN, "machines that are left in peace", async || {
        let now = passes(manager).await?;
        looks = if now > last { 0 } else { looks + 1 };
        last = now;
        ensure!(looks >= 10, "{now} passes, {looks} looks ago");
        Ok(now)
    })
    .await
}

/// Sets the condition `Ready` of the AWSCluster, as its controller would, and waits until Cluster API has noticed.
async fn set_ready(scenario: &Scenario, status: &str) -> anyhow::Result<()> {
    let api = scenario.environment.api(OURS, "AWSCluster").await?;
    let mut conditions = at(&api.get("dev").await?, "/status/conditions").clone();
    for condition in conditions.as_array_mut().into_iter().flatten() {
        if condition["type"] == "Ready" {
            condition["status"] = json!(status);
        }
    }
    let patch = Patch::Merge(json!({"status": {"conditions": conditions}}));
    api.patch_status("dev", &PatchParams::default(), &patch).await?;
    eventually(WITHIN, "the Cluster to show what its infrastructure says", async || {
        let cluster = scenario.get(CORE, "Cluster", "dev").await?;
        let shown = condition_of(&cluster, "InfrastructureReady")?;
        ensure!(shown.status == status, "it shows {shown:?}");
        Ok(())
    })
    .await
}
