//! Instances that no machine has.

use anyhow::ensure;
use capa_e2e::eventually;

use super::claimed_instances::launch_by_hand;
use super::machines::INLINE;
use super::ownership::MANAGEMENT_CLUSTER;
use super::scenario::{WITHIN, story};

#[test]
fn an_instance_without_machine_is_reported_and_never_touched() -> anyhow::Result<()> {
    story("strays", async |s| {
        for cluster in ["dev", "other"] {
            s.cluster(cluster).await?;
        }
        s.machine("known", "dev", INLINE).await?;
        s.machine_ready("known").await?;

        let (stray, elsewhere) = (launch_by_hand(s).await?, launch_by_hand(s).await?);
        let lost = format!("{}/lost", s.namespace());
        // One that this management cluster has launched for a cluster that is here, one for a cluster that is gone.
        let here = s.management_cluster().await?;
        for (id, cluster) in [(&stray, "dev"), (&elsewhere, "not-here")] {
            s.plant(id, cluster, &lost).await?;
            s.user.tag(id, MANAGEMENT_CLUSTER, &here).await?;
        }
        s.event("Cluster", "dev", "InstancesWithoutMachine").await?;
        eventually(WITHIN, "the metric to count it", async || {
            let count = s.manager().metrics().await?.sum("capa_instances_without_machine", &[]);
            ensure!(count == Some(1.0), "it says {count:?}");
            Ok(())
        })
        .await?;
        for id in [&stray, &elsewhere] {
            assert_eq!(s.state_of(id).await?, "running");
            assert_eq!(s.terminations(id), 0);
        }
        Ok(())
    })
}
