//! Many machines within the published request rates of AWS.

use std::time::{Duration, Instant};

use anyhow::ensure;
use capa_e2e::aws_proxy::shortest_time_of_launches;
use capa_e2e::{Story, eventually};
use serde_json::json;

use super::chaos::report;
use super::scenario::{CORE, Scenario, WITHIN, run_story};

const MACHINES: usize = 40;
/// The time that an instance takes to run.
const PENDING: Duration = Duration::from_secs(15);
/// The time that Cluster API may take until the first and after the last launch.
const CREATION: Duration = Duration::from_secs(10);
/// The divisor of the periods of the manager and of AWS's buckets. It is 1, because a busy host suspends the manager
/// for a second or two, and a greater divisor would turn this into more launches at once than a bucket holds.
const FASTER: u32 = 1;

/// The test checks a rate, which depends on the load of the host: `make test` checks the rate of a fleet in simulated
/// time (simulation/tests).
mod timed_stories {
    use super::*;

    #[test]
    fn forty_machines_come_and_go_within_the_published_rates() -> anyhow::Result<()> {
        run_story(Story::new("rates"), async |s| {
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
            assert!(throttled.len() <= 2, "{throttled}");
            let waited =
                manager.metrics().await?.sum("capa_aws_throttle_wait_seconds_count", &[("action", "RunInstances")]);
            assert!(waited.is_some_and(|count| count > 0.0), "the rates were never reached");
            Ok(())
        })
    }

    #[test]
    fn a_hundred_machines_cost_little_more_than_their_launches() -> anyhow::Result<()> {
        run_story(Story::new("hundred"), async |s| {
            let aws = s.aws();
            aws.throttle(FASTER);
            aws.set_pending(PENDING);
            let manager = s.new_manager().flag(format!("--timing-divisor={FASTER}"));
            manager.start().await?;
            s.cluster("dev").await?;
            let calls = |mark| aws.manager_journal_since(mark);
            s.machine_deployment("workers", "dev", 0).await?;
            for machines in [10_u32, 100] {
                let (mark, began) = (aws.mark(), Instant::now());
                scale(s, machines).await?;
                s.machines_ready_within(machines as usize, 6 * WITHIN).await?;
                let (took, made) = (began.elapsed(), calls(mark));
                report(&format!("{machines} machines are ready after {took:?}: {:?}", made.counts()))?;
                let most = machines as usize * 6 / 5 + 10;
                ensure!(made.len() <= most, "more than {most} calls: {:?}", made.counts());
                let shortest = shortest_time_of_launches(machines) + PENDING;
                let longest = shortest.mul_f32(1.28) + CREATION;
                ensure!(took <= longest, "{machines} machines took {took:?}, and EC2 allows {shortest:?}");

                let mark = aws.mark();
                scale(s, 0).await?;
                eventually(6 * WITHIN, "all AWSMachines to be gone", async || {
                    let left = s.machines().await?.len();
                    ensure!(left == 0, "{left} are left");
                    Ok(())
                })
                .await?;
                let made = calls(mark);
                report(&format!("{machines} machines are gone: {:?}", made.counts()))?;
                let terminations = made.of("TerminateInstances").len();
                ensure!(terminations <= 10, "{terminations} calls for {machines} instances");
            }
            Ok(())
        })
    }
}

async fn scale(s: &Scenario, replicas: u32) -> anyhow::Result<()> {
    s.patch(CORE, "MachineDeployment", "workers", json!({"spec": {"replicas": replicas}})).await
}
