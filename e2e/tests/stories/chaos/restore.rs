//! A management cluster that is restored from an hour-old snapshot, while AWS keeps its current state.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, ensure};
use capa_e2e::aws_proxy::Fault;
use capa_e2e::{Story, eventually, fixtures, objects};
use kube::ResourceExt;

use super::super::machines::{INLINE, at, machine};
use super::super::scenario::{CORE, FASTER, Scenario, WITHIN, run_story};
use super::{ALL_WITHIN, Chaos, HIDDEN};

/// Machines that had an instance when the snapshot was taken.
const LAUNCHED: usize = 4;
/// Machines whose launch was recorded and not answered.
const OPEN: usize = 4;
/// Machines whose launch was not recorded yet, because they waited for bootstrap data.
const WAITING: usize = 4;
const MACHINES: usize = LAUNCHED + OPEN + WAITING;

mod long_stories {
    #[test]
    fn a_machine_of_a_restored_etcd_never_has_a_second_instance() -> anyhow::Result<()> {
        super::restored()
    }
}

fn restored() -> anyhow::Result<()> {
    let mut chaos = Chaos::new("restored etcd")?;
    run_story(Story::new("restore").in_its_own_world(&[]), async |s| {
        let world = s.environment.world();
        let aws = s.aws();
        aws.set_hidden(HIDDEN / 20);
        let manager = s.new_manager().flag(FASTER).start().await?;
        s.cluster("dev").await?;
        let mut names: Vec<String> = (0..MACHINES).map(|number| format!("machine-{number}")).collect();
        chaos.moments.shuffle(&mut names);
        let (launched, later) = names.split_at(LAUNCHED);
        let (open, waiting) = later.split_at(OPEN);
        before(s, launched, open, waiting).await?;
        let snapshot = world.snapshot()?;
        let doomed = [chaos.moments.choice(launched), chaos.moments.choice(open), chaos.moments.choice(waiting)];
        let doomed: Vec<&str> = doomed.into_iter().flatten().map(String::as_str).collect();
        s.machine("stranger", "dev", INLINE).await?;
        bootstrap_data(s, waiting).await?;
        let stranger = after(s, &doomed).await?;
        let instances = s.ever_launched();
        manager.kill().await?;
        world.restore(&snapshot).await?;

        // The bootstrap provider creates the Secrets again that it had created after the snapshot.
        bootstrap_data(s, waiting).await?;
        s.new_manager().flag(FASTER).start().await?;
        let ends = ended(s).await?;
        let live = s.live_by_machine().await?;
        ensure!(live.values().all(|ids| ids.len() == 1), "doubled: {live:#?}");
        for name in names.iter().filter(|name| !doomed.contains(&name.as_str())) {
            let id = live.get(&format!("{}/{name}", s.namespace()));
            let id = id.and_then(|ids| ids.first()).with_context(|| format!("{name} has no instance"))?;
            ensure!(instances.contains(id), "{name} was launched again: {}", s.launches());
        }
        s.delete_all_machines().await?;
        let left = s.live_by_machine().await?;
        chaos.report(&format!(
            "{MACHINES} machines in the snapshot, {LAUNCHED} of them launched, {OPEN} open; {} \
         instances when it was restored, {} live afterwards, {ends:?}; after deletion {} left, that of the machine \
         made after the snapshot",
            instances.len(),
            live.len(),
            left.len(),
        ))?;
        let name = format!("{}/stranger", s.namespace());
        assert_eq!(left, BTreeMap::from([(name, vec![stranger.clone()])]));
        assert!(!s.has_terminated(&stranger), "unknown instances are never touched");
        Ok(())
    })
}

/// Creates the state of the snapshot: machines with an instance, with an open attempt, and before their first attempt.
async fn before(scenario: &Scenario, launched: &[String], open: &[String], waiting: &[String]) -> anyhow::Result<()> {
    for name in launched {
        scenario.machine(name, "dev", INLINE).await?;
    }
    scenario.machines_ready(LAUNCHED).await?;
    let aws = scenario.aws();
    let throttled = aws.fault(Fault::on("RunInstances").error("RequestLimitExceeded"));
    for name in open {
        scenario.machine(name, "dev", INLINE).await?;
    }
    for name in waiting {
        scenario.apply(&machine(name, "dev", INLINE)).await?;
    }
    eventually(WITHIN, "all machines to be as far as they get", async || {
        let attempts = scenario.machines().await?;
        let attempts: Vec<_> = attempts.iter().map(|machine| at(machine, "/status/launch/attempt").as_i64()).collect();
        let count = |attempt| attempts.iter().filter(|found| **found == Some(attempt)).count();
        ensure!((count(0), count(1)) == (WAITING, LAUNCHED + OPEN), "the attempts are {attempts:?}");
        Ok(())
    })
    .await?;
    throttled.lift();
    // The first attempt is refused, and another one follows. The snapshot contains neither.
    aws.fault(Fault::on("RunInstances").error("InsufficientInstanceCapacity").times(1));
    Ok(())
}

/// Creates the bootstrap data that machines wait for.
async fn bootstrap_data(scenario: &Scenario, names: &[String]) -> anyhow::Result<()> {
    for name in names {
        let secret = fixtures::bootstrap_secret(name, "#cloud-config");
        scenario.apply(&secret).await?;
    }
    Ok(())
}

/// Makes the changes that the snapshot does not contain. Returns the instance of a machine that is not in it.
async fn after(scenario: &Scenario, doomed: &[&str]) -> anyhow::Result<String> {
    scenario.machines_ready_within(MACHINES + 1, ALL_WITHIN).await?;
    for name in doomed {
        scenario.begin_deletion(CORE, "Machine", name).await?;
    }
    scenario.gone(CORE, "Machine", doomed).await?;
    scenario.launched("stranger").await
}

/// Waits until no more changes happen: each machine runs, or reports that its instance has ended. Returns the number of
/// machines in each state.
async fn ended(scenario: &Scenario) -> anyhow::Result<BTreeMap<String, usize>> {
    eventually(ALL_WITHIN, "every machine to come to an end", async || {
        let machines = scenario.machines().await?;
        let names: BTreeSet<String> = machines.iter().map(ResourceExt::name_any).collect();
        ensure!(names.len() == MACHINES, "the machines are {names:?}");
        let mut ends = BTreeMap::new();
        for machine in &machines {
            let ready = objects::condition(machine, "InstanceReady").context("no InstanceReady yet")?;
            let over = ready.status == "True" || ["Terminated", "Failed"].contains(&ready.reason.as_str());
            ensure!(over, "{} says {ready:?}", machine.name_any());
            *ends.entry(ready.reason).or_default() += 1;
        }
        Ok(ends)
    })
    .await
}
