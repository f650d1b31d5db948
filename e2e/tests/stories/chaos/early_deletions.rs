//! Machines that are deleted before EC2 shows their instances.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::ensure;
use capa_e2e::aws_proxy::Fault;
use capa_e2e::{Story, eventually};
use kube::ResourceExt as _;

use super::super::machines::{INLINE, text};
use super::super::scenario::{CORE, Scenario, run_story};
use super::{ALL_WITHIN, ANSWER, Chaos, HIDDEN};

const MACHINES: usize = 20;
/// The divisor of the real periods of the manager and of AWS.
const DIVISOR: u32 = 5;

mod long_stories {
    #[test]
    fn machines_deleted_right_after_their_launch_leave_no_instance() -> anyhow::Result<()> {
        super::early_deletions()
    }
}

fn early_deletions() -> anyhow::Result<()> {
    let mut chaos = Chaos::new("early deletions")?;
    run_story(Story::new("early-deletions"), async |s| {
        let aws = s.aws();
        aws.set_hidden(HIDDEN / DIVISOR);
        // Each zone has its own timing, and some instances are not running yet when they are deleted.
        for zone in &s.network.zones {
            let delay = ANSWER.mul_f64(chaos.moments.f64()) / DIVISOR;
            aws.fault(Fault::on("RunInstances").in_subnet(&zone.private_subnet_id).delay(delay));
        }
        aws.set_pending(Duration::from_secs(chaos.moments.u64(0..=10)) / DIVISOR);
        aws.set_shutting_down(Duration::from_secs(chaos.moments.u64(0..=3)) / DIVISOR);
        s.new_manager().flag(format!("--timing-divisor={DIVISOR}")).start().await?;
        s.cluster("dev").await?;
        for number in 0..MACHINES {
            s.machine(&format!("brief-{number}"), "dev", INLINE).await?;
        }
        delete_when_launched(s).await?;
        s.no_machines_left().await?;
        let launched = s.ever_launched();
        let left = s.user.live_instances().await?.len();
        let terminations = s.terminated().len();
        chaos.report(&format!(
            "{MACHINES} machines, {} instances launched, {terminations} terminations asked for, \
         {left} left; calls: {:?}",
            launched.len(),
            s.calls()
        ))?;
        assert_eq!((launched.len(), left), (MACHINES, 0));
        Ok(())
    })
}

/// Deletes each Machine when its AWSMachine first shows the id of an instance.
async fn delete_when_launched(scenario: &Scenario) -> anyhow::Result<()> {
    let mut deleted = BTreeSet::new();
    eventually(ALL_WITHIN, "an instance id for each machine", async || {
        for machine in scenario.machines().await? {
            let name = machine.name_any();
            if !text(&machine, "/status/launch/instanceID").is_empty() && deleted.insert(name.clone()) {
                scenario.begin_deletion(CORE, "Machine", &name).await?;
            }
        }
        ensure!(deleted.len() == MACHINES, "{} were deleted", deleted.len());
        Ok(())
    })
    .await
}
