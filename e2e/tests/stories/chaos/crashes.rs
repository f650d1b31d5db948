//! A manager that is killed whenever it hurts.

use anyhow::ensure;
use capa_e2e::aws_proxy::Fault;

use super::super::scenario::Scenario;
use super::{ALL_WITHIN, ANSWER, HIDDEN, Story, all_seeds, seed};

const MACHINES: u32 = 50;
const KILLS: usize = 8;

#[tokio::test]
async fn fifty_machines_have_fifty_instances_though_the_manager_is_killed_eight_times_in_mid_launch()
-> anyhow::Result<()> {
    crashes(seed()?).await
}

mod long_stories {
    #[tokio::test]
    async fn fifty_machines_have_fifty_instances_whenever_the_manager_is_killed() -> anyhow::Result<()> {
        super::all_seeds(super::crashes).await
    }
}

async fn crashes(seed: u64) -> anyhow::Result<()> {
    let mut story = Story::new("crashes", seed);
    let scenario = Scenario::new("crashes").await?;
    let aws = scenario.environment.aws();
    aws.set_hidden(HIDDEN);
    aws.fault(Fault::on("RunInstances").delay(ANSWER));
    let builder = scenario.environment.manager();
    let mut manager = builder.start().await?;
    scenario.cluster("dev").await?;
    scenario.machine_deployment("workers", "dev", MACHINES).await?;
    let mut unanswered = Vec::new();
    for _ in 0..KILLS {
        let at_least = story.moments.usize(1..=3);
        unanswered.push(scenario.pause_in_mid_launch(&manager, at_least).await?);
        manager.kill().await?;
        manager = builder.start().await?;
    }
    scenario.machines_ready_within(MACHINES as usize, ALL_WITHIN).await?;
    let live = scenario.ensure_one_instance_each().await?;
    let launched = scenario.ever_launched().len();
    scenario.delete_all_machines().await?;
    let left = scenario.user.live_instances().await?.len();
    let calls = scenario.calls();
    story.report(&format!(
        "{MACHINES} machines, {KILLS} kills with {unanswered:?} launches unanswered, {} RunInstances \
         sent, {launched} instances launched, {live} live, {left} left after deletion; calls: {calls:?}",
        scenario.launches().len(),
    ))?;
    assert_eq!((launched, live, left), (MACHINES as usize, MACHINES as usize, 0));
    ensure!(manager.stop().await?.success());
    scenario.environment.finish().await
}
