//! Many machines, and changes that do not affect them.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::ensure;
use capa_e2e::{Manager, Story, eventually};
use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::machines::{at, condition_of};
use super::scenario::{CORE, OURS, Scenario, WITHIN, run_story, settled};

/// The changes of the cluster's condition.
const FLIPS: u32 = 10;

/// The machines of the cluster.
const MACHINES: u32 = 100;

mod long_stories {
    #[test]
    fn conditions_of_a_cluster_wake_none_of_a_hundred_machines() -> anyhow::Result<()> {
        super::flips_wake_no_machine()
    }
}

fn flips_wake_no_machine() -> anyhow::Result<()> {
    let count = MACHINES as usize;
    run_story(Story::new("fleet"), async |s| {
        // Real periods without the periodic listing: every call has a cause, and no cause is left once all machines
        // run.
        let manager = s.new_manager().flag("--instance-poll-interval=1h").start().await?;
        s.cluster("dev").await?;
        s.machine_deployment("workers", "dev", MACHINES).await?;
        s.machines_ready(count).await?;
        let aws = s.aws();
        s.launched_once()?;
        let before = machines_in_peace(&manager).await?;

        let mark = aws.mark();
        for flip in 0..FLIPS {
            set_ready(s, if flip % 2 == 0 { "False" } else { "True" }).await?;
        }
        let after = machines_in_peace(&manager).await?;
        // Cluster API may still wake a few.
        let woken = woken_since(&before, &after);
        assert!(woken.len() <= count / 10, "{FLIPS} flips have woken {woken:?}");
        let calls = || aws.manager_journal_since(mark);
        assert!(calls().is_empty(), "{}", calls());

        // A change that affects machines is noticed: a change of the network wakes each of them.
        s.change("dev", json!({"spec": {"additionalTags": {"team": "another"}}})).await?;
        eventually(WITHIN, "a pass over each machine", async || {
            let woken = woken_since(&after, &passes(&manager)?).len();
            ensure!(woken == count, "{woken} machines had one");
            Ok(())
        })
        .await?;
        // A further call is noticed too: one more machine causes one more launch.
        let one_more = json!({"spec": {"replicas": MACHINES + 1}});
        s.patch(CORE, "MachineDeployment", "workers", one_more).await?;
        s.machines_ready(count + 1).await?;
        ensure!(!calls().of("RunInstances").is_empty(), "{}", calls());
        Ok(())
    })
}

/// The number of passes over each AWSMachine.
type Passes = BTreeMap<String, usize>;

fn passes(manager: &Manager) -> anyhow::Result<Passes> {
    let passes = manager.passes_by_object()?.into_iter();
    let of_machines = passes.filter(|((controller, _), _)| controller == "awsmachine");
    Ok(of_machines.map(|((_, name), passes)| (name, passes)).collect())
}

/// The machines that have had a pass between two counts.
fn woken_since<'a>(before: &Passes, after: &'a Passes) -> Vec<&'a String> {
    let woken = after.iter().filter(|(name, passes)| before.get(*name) != Some(passes));
    woken.map(|(name, _)| name).collect()
}

/// Waits until no AWSMachine has had a pass for a second, and returns the numbers of passes.
async fn machines_in_peace(manager: &Manager) -> anyhow::Result<Passes> {
    settled("passes over machines", Duration::from_secs(1), WITHIN, async || passes(manager)).await
}

/// Sets the condition `Ready` of the AWSCluster, as its controller would, and waits until Cluster API has noticed.
async fn set_ready(scenario: &Scenario, status: &str) -> anyhow::Result<()> {
    let api = scenario.api(OURS, "AWSCluster").await?;
    let mut conditions = at(&api.get("dev").await?, "/status/conditions").clone();
    for condition in conditions.as_array_mut().into_iter().flatten() {
        if condition["type"] == "Ready" {
            condition["status"] = json!(status);
        }
    }
    let patch = Patch::Merge(json!({"status": {"conditions": conditions}}));
    api.patch_status("dev", &PatchParams::default(), &patch).await?;
    eventually(WITHIN, "the Cluster to show the condition of its infrastructure", async || {
        let cluster = scenario.get(CORE, "Cluster", "dev").await?;
        let shown = condition_of(&cluster, "InfrastructureReady")?;
        ensure!(shown.status == status, "the Cluster shows {shown:?}");
        Ok(())
    })
    .await
}
