//! Two clusters with the same name.

use anyhow::{Context, ensure};
use capa_e2e::eventually_by_polling;

use super::whole::{instance_of, whole_clusters};
use crate::stories::scenario::{FASTER, WITHIN};

mod long_stories {
    use super::*;

    #[test]
    fn clusters_of_one_name_on_one_vpc_do_not_interfere() -> anyhow::Result<()> {
        whole_clusters("same-name", async |s| {
            let neighbour = s.neighbour("same-name-too").await?;
            let before = neighbour.begin_whole_clusters(&[FASTER]).await?;
            let (first, second) = (s.kubeadm_cluster("dev").await?, neighbour.kubeadm_cluster("dev").await?);
            for cluster in [&first, &second] {
                cluster.control_plane(1).await?;
                cluster.workers(1).await?;
            }
            let (machines, others) = (first.ready(1, 1).await?, second.ready(1, 1).await?);
            for machine in &others {
                assert!(!machines.iter().any(|one| instance_of(one) == instance_of(machine)));
            }
            for s in [s, &neighbour] {
                eventually_by_polling(WITHIN, "the manager to have counted orphaned instances", async || {
                    let metrics = s.manager().metrics().await?;
                    let orphans = metrics.sum("capa_instances_without_machine", &[]);
                    let orphans = orphans.context("the manager has not counted orphaned instances yet")?;
                    ensure!(orphans < 0.5, "the manager counts {orphans}: the neighbour's instances are no orphans");
                    Ok(())
                })
                .await?;
            }
            let user = &s.user;
            let group = second.target_group.as_deref().context("no target group")?;
            let registered = user.targets(group).await?;
            assert_eq!(registered.len(), 1);
            first.delete().await?;
            assert_eq!(user.targets(group).await?, registered);
            second.ready(1, 1).await?;
            assert_eq!(s.user.live_instances().await?.len(), 2);
            second.delete().await?;
            neighbour.end_whole_clusters(&before).await
        })
    }
}
