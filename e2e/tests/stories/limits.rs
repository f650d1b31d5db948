//! Many machines within the published request rates of AWS.

use anyhow::ensure;
use capa_e2e::{Story, eventually};
use serde_json::json;

use super::scenario::{CORE, WITHIN, tell};

const MACHINES: usize = 40;
/// The divisor of the periods of the manager and of AWS's buckets. It is 1, because a busy host suspends the manager
/// for a second or two, and a greater divisor would turn this into more launches at once than a bucket holds.
const FASTER: u32 = 1;

/// The test checks a rate, which depends on the load of the host: `make test` checks the rate of a fleet in simulated
/// time (simulation/tests).
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
            // The machines exist before the manager starts, so that all of them request a launch at the same time.
            s.machine_deployment("workers", "dev", u32::try_from(MACHINES)?).await?;
            eventually(WITHIN, "all AWSMachines to be there", async || {
                let made = s.machines().await?.len();
                ensure!(made == MACHINES, "{made} are there");
                Ok(())
            })
            .await?;
            let manager = builder.start().await?;
            s.machines_ready(MACHINES).await?;
            // A host that stands still for a second bunches calls together: AWS may throttle single ones.
            let launches = s.launches().matching(|call| call.error.is_none());
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
