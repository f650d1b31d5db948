//! Machines that nobody wants any more before EC2 shows their instances.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::ensure;
use capa_e2e::aws_proxy::Fault;
use capa_e2e::eventually;
use kube::ResourceExt as _;

use super::super::machines::{INLINE, text};
use super::super::scenario::{CORE, Scenario};
use super::{ALL_WITHIN, ANSWER, HIDDEN, Story, all_seeds, seed};

const MACHINES: usize = 20;
/// Real periods, ours and those of AWS, divided by this.
const DIVISOR: u32 = 5;

#[tokio::test]
async fn a_machine_deleted_as_soon_as_its_instance_has_an_id_leaves_no_instance() -> anyhow::Result<()> {
    early_deletions(seed()?).await
}

mod long_stories {
    #[tokio::test]
    async fn machines_deleted_as_soon_as_their_instances_have_ids_never_leave_one() -> anyhow::Result<()> {
        super::all_seeds(super::early_deletions).await
    }
}

async fn early_deletions(seed: u64) -> anyhow::Result<()> {
    let mut story = Story::new("early deletions", seed);
    let scenario = Scenario::new("early-deletions").await?;
    let aws = scenario.environment.aws();
    aws.set_hidden(HIDDEN / DIVISOR);
    // Each zone at its own pace, and some instances are not running yet when they are to go.
    for zone in &scenario.network.zones {
        let delay = ANSWER.mul_f64(story.moments.f64()) / DIVISOR;
        aws.fault(
            Fault::on("RunInstances")
                .in_subnet(&zone.private_subnet_id)
                .delay(delay),
        );
    }
    aws.set_pending(Duration::from_secs(story.moments.u64(0..=10)) / DIVISOR);
    aws.set_shutting_down(Duration::from_secs(story.moments.u64(0..=3)) / DIVISOR);
    let manager = scenario.environment.manager();
    let manager = manager.flag(format!("--timing-divisor={DIVISOR}")).start().await?;
    scenario.cluster("dev").await?;
    for number in 0..MACHINES {
        scenario.machine(&format!("brief-{number}"), "dev", INLINE).await?;
    }
    delete_when_launched(&scenario).await?;
    scenario.no_machines_left().await?;
    let launched = scenario.ever_launched();
    let left = scenario.user.live_instances().await?.len();
    let terminations: usize = launched.iter().map(|id| scenario.terminations(id)).sum();
    story.report(&format!(
        "{MACHINES} machines, {} instances launched, {terminations} terminations asked for, \
         {left} left; calls: {:?}",
        launched.len(),
        scenario.calls()
    ))?;
    assert_eq!((launched.len(), left), (MACHINES, 0));
    ensure!(manager.stop().await?.success());
    scenario.environment.finish().await
}

/// Deletes each Machine when its AWSMachine first tells the id of an instance.
async fn delete_when_launched(scenario: &Scenario) -> anyhow::Result<()> {
    let mut deleted = BTreeSet::new();
    eventually(ALL_WITHIN, "an instance id for each machine", async || {
        for machine in scenario.machines().await? {
            let name = machine.name_any();
            if !text(&machine, "/status/launch/instanceID").is_empty() && deleted.insert(name.clone()) {
                scenario.begin_deletion(CORE, "Machine", &name).await?;
            }
        }
        ensure!(deleted.len() == MACHINES, "{} were deleted", deleted.len());
        Ok(())
    })
    .await
}
