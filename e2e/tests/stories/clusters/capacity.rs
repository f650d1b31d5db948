//! A zone in which there is nothing to launch.

use anyhow::ensure;
use capa_e2e::aws_proxy::Fault;
use capa_e2e::{eventually, objects};

use super::whole::{NODES_WITHIN, Story, is_control_plane, lettered, zones};
use crate::stories::scenario::REGION;

mod long_stories {
    use super::*;

    #[tokio::test]
    async fn workers_avoid_a_zone_without_capacity_and_a_control_plane_says_that_it_waits_for_it() -> anyhow::Result<()>
    {
        let story = Story::begin("no-zone").await?;
        let zone = format!("{REGION}b");
        let shortage = Fault::on("RunInstances")
            .in_zone(&zone)
            .error("InsufficientInstanceCapacity");
        let shortage = story.aws().fault(shortage);
        let cluster = story.cluster("dev").await?;
        cluster.control_plane(3).await?;
        cluster.workers(2).await?;

        eventually(
            NODES_WITHIN,
            "a machine to say that its zone has no capacity",
            async || {
                let machines = story.scenario.machines().await?;
                let says = machines
                    .iter()
                    .filter_map(|machine| objects::condition(machine, "InstanceReady"))
                    .find(|condition| condition.reason == "InsufficientCapacity");
                ensure!(
                    says.is_some_and(|condition| condition.message.contains(&zone)),
                    "nobody says so"
                );
                Ok(())
            },
        )
        .await?;
        shortage.lift();
        let machines = cluster.ready(3, 2).await?;
        let (planes, workers): (Vec<_>, Vec<_>) = machines.iter().partition(|machine| is_control_plane(machine));
        assert_eq!(zones(planes), lettered("abc"));
        assert!(!zones(workers).contains(&zone));
        cluster.delete().await?;
        story.end().await
    }
}
