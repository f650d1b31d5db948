//! Many machines within the request rates that AWS publishes.

use anyhow::ensure;
use capa_e2e::eventually;
use serde_json::json;

use super::scenario::{CORE, Scenario, WITHIN};

const MACHINES: usize = 40;
/// How hurried manager and AWS's buckets are; more, and Cluster API would not make machines as fast as they may launch.
const FASTER: u32 = 2;

#[tokio::test]
async fn forty_machines_come_and_go_within_the_published_rates() -> anyhow::Result<()> {
    let scenario = Scenario::new("rates").await?;
    let aws = scenario.environment.aws();
    aws.throttle(FASTER);
    let manager = scenario.environment.manager();
    let manager = manager.flag(format!("--timing-divisor={FASTER}")).start().await?;
    scenario.cluster("dev").await?;
    scenario
        .machine_deployment("workers", "dev", u32::try_from(MACHINES)?)
        .await?;
    scenario.machines_ready(MACHINES).await?;
    let launches = scenario.launches();
    assert_eq!(launches.len(), MACHINES, "{launches}");

    let scale = json!({"spec": {"replicas": 0}});
    scenario.patch(CORE, "MachineDeployment", "workers", scale).await?;
    eventually(WITHIN, "all AWSMachines to be gone", async || {
        let left = scenario.machines().await?.len();
        ensure!(left == 0, "{left} are left");
        Ok(())
    })
    .await?;
    assert!(scenario.user.live_instances().await?.is_empty());
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
    assert!(manager.stop().await?.success());
    scenario.environment.finish().await
}
