//! Many machines within the request rates that AWS publishes.

use anyhow::ensure;
use capa_e2e::{Story, eventually};
use serde_json::json;

use super::scenario::{CORE, WITHIN, tell};

const MACHINES: usize = 40;
/// How hurried manager and AWS's buckets are. AWS's own pace: a busy host makes the manager stand still for a second or
/// two, and the launches of a longer time, made at once, would be more than a bucket holds.
const FASTER: u32 = 1;

/// Judges a pace, which a busy host changes: `make test` has the pace of a fleet in simulated time (simulation/tests).
mod long_stories {
    use super::*;

    #[test]
    fn forty_machines_come_and_go_within_the_published_rates() -> anyhow::Result<()> {
        tell(Story::new("rates"), async |s| {
            let aws = s.aws();
            aws.throttle(FASTER);
            let builder = s.new_manager().flag(format!("--timing-divisor={FASTER}"));
            let earlier = builder.start().await?;
            s.cluster("dev").await?;
            earlier.stop().await?;
            // The machines are there before the manager is, so that all of them want to launch at once.
            s.machine_deployment("workers", "dev", u32::try_from(MACHINES)?).await?;
            eventually(WITHIN, "all AWSMachines to be there", async || {
                let made = s.machines().await?.len();
                ensure!(made == MACHINES, "{made} are there");
                Ok(())
            })
            .await?;
            let manager = builder.start().await?;
            s.machines_ready(MACHINES).await?;
            let launches = s.launches();
            assert_eq!(launches.len(), MACHINES, "{launches}");

            let scale = json!({"spec": {"replicas": 0}});
            s.patch(CORE, "MachineDeployment", "workers", scale).await?;
            eventually(WITHIN, "all AWSMachines to be gone", async || {
                let left = s.machines().await?.len();
                ensure!(left == 0, "{left} are left");
                Ok(())
            })
            .await?;
            assert!(s.user.live_instances().await?.is_empty());
            let journal = aws.manager_journal();
            let terminations = journal.of("TerminateInstances");
            assert!(terminations.len() < MACHINES, "many in one call: {terminations}");
            let throttled = journal.matching(|call| call.error.as_deref() == Some("RequestLimitExceeded"));
            assert!(throttled.len() * 100 <= journal.len(), "{throttled}");
            let waited = manager
                .metrics()
                .await?
                .sum("capa_aws_throttle_wait_seconds_count", &[("action", "RunInstances")]);
            assert!(waited.is_some_and(|count| count > 0.0), "the rates were never reached");
            Ok(())
        })
    }
}
