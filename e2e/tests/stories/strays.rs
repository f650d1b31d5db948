//! Instances that no machine has.

use anyhow::ensure;
use capa_e2e::eventually;

use super::claimed_instances::launch_by_hand;
use super::machines::INLINE;
use super::scenario::{Scenario, WITHIN};

#[tokio::test]
async fn an_instance_with_our_tags_and_no_machine_is_reported_and_never_touched() -> anyhow::Result<()> {
    let scenario = Scenario::new("strays").await?;
    let manager = scenario.manager().await?;
    for cluster in ["dev", "other"] {
        scenario.cluster(cluster).await?;
    }
    scenario.machine("known", "dev", INLINE).await?;
    scenario.machine_ready("known").await?;

    let (stray, elsewhere) = (launch_by_hand(&scenario).await?, launch_by_hand(&scenario).await?);
    let lost = format!("{}/lost", scenario.environment.namespace());
    // One of a cluster that is here, one of another management cluster's.
    for (id, cluster) in [(&stray, "dev"), (&elsewhere, "not-here")] {
        let owned = format!("sigs.k8s.io/cluster-api-provider-aws/cluster/{cluster}");
        let tags = [
            (owned.as_str(), "owned"),
            ("MachineName", lost.as_str()),
            ("sigs.k8s.io/cluster-api-provider-aws/role", "node"),
        ];
        for (key, value) in tags {
            scenario.user.tag(id, key, value).await?;
        }
    }
    scenario.event("Cluster", "dev", "InstancesWithoutMachine").await?;
    eventually(WITHIN, "the metric to count it", async || {
        let count = manager.metrics().await?.sum("capa_instances_without_machine", &[]);
        ensure!(count == Some(1.0), "it says {count:?}");
        Ok(())
    })
    .await?;
    for id in [&stray, &elsewhere] {
        assert_eq!(scenario.state_of(id).await?, "running");
        assert_eq!(scenario.terminations(id), 0);
    }
    assert!(manager.stop().await?.success());
    scenario.environment.finish().await
}
