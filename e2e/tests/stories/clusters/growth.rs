//! A cluster comes up, grows, shrinks and goes away.

use serde_json::json;

use super::whole::{Story, is_control_plane, lettered, zones};

#[tokio::test]
async fn a_cluster_grows_and_shrinks_over_its_zones_and_goes_without_a_trace() -> anyhow::Result<()> {
    let story = Story::begin("growth").await?;
    let cluster = story.cluster("dev").await?;
    cluster.control_plane(1).await?;
    cluster.workers(1).await?;
    cluster.ready(1, 1).await?;

    for (control_plane, workers, per_zone) in [(3, 3, [1, 1, 1]), (5, 0, [1, 2, 2]), (3, 2, [1, 1, 1])] {
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
