//! A leader that is suspended, replaced, and resumed with work in progress.

use anyhow::{Context as _, ensure};
use capa_cloud::Timing;
use capa_e2e::aws_proxy::Fault;
use capa_e2e::{Story, eventually, eventually_by_polling};

use super::super::manager::leads;
use super::super::scenario::{WITHIN, run_story};
use super::{ALL_WITHIN, ANSWER, Chaos, HIDDEN};

/// The divisor of the real periods of the manager and of AWS.
const DIVISOR: u32 = 10;
/// The machines, launched before the first leader is suspended or during its suspension.
const MACHINES: u32 = 24;

mod long_stories {
    #[test]
    fn a_leader_that_hangs_and_wakes_never_doubles_an_instance() -> anyhow::Result<()> {
        super::leaders()
    }
}

fn leaders() -> anyhow::Result<()> {
    let mut chaos = Chaos::new("leaders")?;
    run_story(Story::new("leaders"), async |s| {
        let aws = s.aws();
        aws.set_hidden(HIDDEN / DIVISOR);
        aws.fault(Fault::on("RunInstances").delay(ANSWER / DIVISOR));
        let builder = s
            .new_manager()
            .flag(format!("--timing-divisor={DIVISOR}"))
            .leader_election()
            .flag("--leader-elect-lease-duration=30s")
            .flag("--leader-elect-renew-deadline=25s")
            .flag("--leader-elect-retry-period=1s");
        let first = builder.start().await?;
        eventually(WITHIN, "the first to lead", async || leads(&first, true).await).await?;
        let second = builder.start().await?;
        s.cluster("dev").await?;
        s.machine_deployment("workers", "dev", MACHINES).await?;
        let at_least = chaos.moments.usize(1..=3);
        let hung = s.pause_in_mid_launch(&first, at_least).await?;

        // In one zone, the launches of the successor are refused until the suspended leader resumes. The refusal of a
        // repeated launch proves nothing to the successor, because the suspended leader's own call may still arrive.
        let zone = chaos.moments.choice(&s.network.zones).context("no zones")?;
        let zone = zone.name.as_str();
        let no_capacity = Fault::on("RunInstances").in_zone(zone);
        let no_capacity = aws.fault(no_capacity.error("InsufficientInstanceCapacity"));
        eventually(WITHIN, "the second to lead", async || leads(&second, true).await).await?;
        let mark = aws.mark();
        // A quick first leader has left few machines to its successor.
        let unlaunched = (MACHINES as usize).saturating_sub(s.ever_launched().len());
        let wakes_after = chaos.moments.usize(1..=8).min(unlaunched);
        eventually(WITHIN, "the second to launch", async || {
            let launches = aws.journal_since(mark).of("RunInstances").len();
            ensure!(launches >= wakes_after, "{launches} launches");
            Ok(())
        })
        .await?;
        no_capacity.lift();
        first.resume()?;
        let ended =
            eventually_by_polling(WITHIN, "the first to notice that it leads no more, and to end", async || {
                first.ended()?.context("it still runs")
            })
            .await?;
        ensure!(!ended.success(), "a leader that lost its lease ended with {ended}");

        // The call of the suspended leader may never have reached EC2. Its successor looks the instance up for this
        // safety age before it launches again.
        let looked_up = Timing::default().launch_lookup_age;
        s.machines_ready_within(MACHINES as usize, ALL_WITHIN + looked_up).await?;
        let live = s.ensure_one_instance_each().await?;
        let (launched, machines) = (s.ever_launched().len(), s.machines_ever_launched().len());
        s.delete_all_machines().await?;
        let left = s.user.live_instances().await?.len();
        chaos.report(&format!(
            "{MACHINES} machines, hung with {hung} launches unanswered, woken after {wakes_after} calls \
         of its successor, {} refusals in {zone}, {} RunInstances sent, {launched} instances launched for \
         {machines} AWSMachines, {live} live, {left} left after deletion",
            no_capacity.hits(),
            s.aws().manager_journal().of("RunInstances").len(),
        ))?;
        assert_eq!((launched, live, left), (machines, MACHINES as usize, 0));
        Ok(())
    })
}
