//! A cluster comes up, grows, shrinks and goes away.

use serde_json::json;

use super::whole::{Story, is_control_plane, lettered, zones};

#[tokio::test]
async fn a_cluster_grows_and_shrinks_over_its_zones_and_goes_without_a_trace() -> anyhow::Result<()> {
    through("growth", &[(3, 2, [1, 1, 1]), (1, 0, [0, 0, 1])]).await
}

mod long_stories {
    #[tokio::test]
    async fn a_cluster_grows_to_five_control_planes_and_shrinks() -> anyhow::Result<()> {
        super::through(
            "more-growth",
            &[(3, 3, [1, 1, 1]), (5, 0, [1, 2, 2]), (3, 2, [1, 1, 1])],
        )
        .await
    }
}

/// A cluster of one control plane machine and one worker goes through these sizes: control plane, workers, and how many
/// control plane machines the zones have, sorted.
async fn through(name: &str, sizes: &[(usize, usize, [usize; 3])]) -> anyhow::Result<()> {
    let story = Story::begin(name).await?;
    let cluster = story.cluster("dev").await?;
    cluster.control_plane(1).await?;
    cluster.workers(1).await?;
    cluster.ready(1, 1).await?;

    for &(control_plane, workers, per_zone) in sizes {
        cluster.change_control_plane(json!({"replicas": control_plane})).await?;
        cluster.change_workers(json!({"replicas": workers})).await?;
        let machines = cluster.ready(control_plane, workers).await?;
        let planes = zones(machines.iter().filter(|machine| is_control_plane(machine)));
        let count = |zone: String| planes.iter().filter(|other| **other == zone).count();
        let mut counts: Vec<_> = lettered("abc").into_iter().map(count).collect();
        counts.sort_unstable();
        assert_eq!(counts, per_zone, "{planes:?}");
    }
    cluster.delete().await?;
    story.end().await
}
