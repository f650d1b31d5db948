//! Two clusters of one name.

use anyhow::{Context, ensure};
use capa_e2e::eventually;

use super::whole::{Story, instance_of};
use crate::stories::scenario::WITHIN;

mod long_stories {
    use super::*;

    #[tokio::test]
    async fn clusters_of_one_name_in_two_namespaces_on_one_vpc_do_not_know_each_other() -> anyhow::Result<()> {
        let story = Story::begin("same-name").await?;
        let neighbour = Story::on(story.scenario.neighbour("same-name-too").await?).await?;
        let (first, second) = (story.cluster("dev").await?, neighbour.cluster("dev").await?);
        for cluster in [&first, &second] {
            cluster.control_plane(1).await?;
            cluster.workers(1).await?;
        }
        let (machines, others) = (first.ready(1, 1).await?, second.ready(1, 1).await?);
        for machine in &others {
            assert!(!machines.iter().any(|one| instance_of(one) == instance_of(machine)));
        }
        for story in [&story, &neighbour] {
            eventually(WITHIN, "the manager to have counted strays", async || {
                let metrics = story.manager.metrics().await?;
                let strays = metrics.sum("capa_instances_without_machine", &[]);
                let strays = strays.context("it has not counted yet")?;
                ensure!(
                    strays < 0.5,
                    "it counts {strays}: the neighbour's instances are no strays"
                );
                Ok(())
            })
            .await?;
        }
        let user = &story.scenario.user;
        let group = second.target_group.as_deref().context("no target group")?;
        let registered = user.targets(group).await?;
        assert_eq!(registered.len(), 1);
        first.delete().await?;
        assert_eq!(user.targets(group).await?, registered);
        second.ready(1, 1).await?;
        assert_eq!(story.scenario.user.live_instances().await?.len(), 2);
        second.delete().await?;
        story.end().await?;
        neighbour.end().await
    }
}
