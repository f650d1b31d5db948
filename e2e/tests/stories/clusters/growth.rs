//! A cluster that is created, scaled out, scaled in and deleted.

use serde_json::json;

use super::whole::{is_control_plane, whole_clusters};
use crate::stories::machines::spread;

mod long_stories {
    #[test]
    fn a_cluster_grows_to_five_control_planes_and_shrinks() -> anyhow::Result<()> {
        super::through("more-growth", &[(3, 3, [1, 1, 1]), (5, 0, [1, 2, 2]), (3, 2, [1, 1, 1])])
    }
}

/// Tests a cluster of one control plane machine and one worker that is scaled through these sizes: control plane
/// machines, workers, and the sorted numbers of control plane machines in the zones.
fn through(name: &str, sizes: &[(usize, usize, [usize; 3])]) -> anyhow::Result<()> {
    whole_clusters(name, async |s| {
        let cluster = s.kubeadm_cluster("dev").await?;
        cluster.control_plane(1).await?;
        cluster.workers(1).await?;
        cluster.ready(1, 1).await?;

        for &(control_plane, workers, per_zone) in sizes {
            cluster.change_control_plane(json!({"replicas": control_plane})).await?;
            cluster.change_workers(json!({"replicas": workers})).await?;
            let machines = cluster.ready(control_plane, workers).await?;
            let planes = machines.iter().filter(|machine| is_control_plane(machine));
            assert_eq!(spread(planes), per_zone);
        }
        cluster.delete().await
    })
}
