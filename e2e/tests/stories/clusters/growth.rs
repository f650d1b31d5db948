//! A cluster comes up, grows, shrinks and goes away.

use super::whole::{CONTROL_PLANE, Whole, is_control_plane, three_zones, zones};
use crate::stories::scenario::CORE;

#[tokio::test]
async fn a_cluster_grows_and_shrinks_over_its_zones_and_goes_without_a_trace() -> anyhow::Result<()> {
    let whole = Whole::new("growth").await?;
    let before = whole.scenario.user.dump().await?;
    let manager = whole.manager().await?;
    whole.control_plane(1).await?;
    whole.workers("workers", 1).await?;
    whole.nodes_ready(1, 1).await?;

    whole
        .scale(CONTROL_PLANE, "KubeadmControlPlane", &whole.name, 3)
        .await?;
    whole.scale(CORE, "MachineDeployment", "workers", 2).await?;
    let machines = whole.nodes_ready(3, 2).await?;
    let planes: Vec<_> = machines.into_iter().filter(is_control_plane).collect();
    assert_eq!(zones(&planes), three_zones());

    whole.delete().await?;
    assert_eq!(
        whole.scenario.user.dump().await?,
        before,
        "the user's network is as it was"
    );
    assert!(manager.stop().await?.success());
    whole.scenario.environment.finish().await
}
