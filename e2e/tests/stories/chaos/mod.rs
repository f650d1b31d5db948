//! Combined failures on real processes: each machine still gets exactly one instance, and no instance is left behind.
//!
//! A seed decides the moments of the failures: 1, or that of `CAPA_E2E_SEED`. One is enough each night, because the
//! simulation plays the same failures with thousands of seeds.

mod accounts;
mod crashes;
mod early_deletions;
mod leaders;
mod restore;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use capa_e2e::aws_proxy::Fault;
use capa_e2e::{Manager, eventually};
use fastrand::Rng;
use kube::ResourceExt as _;
use kube::api::{DeleteParams, ListParams};

use super::machines::text;
use super::scenario::{CORE, OURS, Scenario, WITHIN, seed};

/// The time that EC2 takes to answer a launch. Where a story divides the manager's periods, the times of AWS are
/// divided as well.
const ANSWER: Duration = Duration::from_millis(1500);
/// The longest time for which answers are held back until the manager is paused.
const HELD: Duration = Duration::from_secs(10);
/// The time for which EC2 does not show an instance after its launch.
const HIDDEN: Duration = Duration::from_secs(5);
/// The deadline for all machines of a story on a busy computer with two cores: EC2 launches two instances a second.
const ALL_WITHIN: Duration = Duration::from_mins(8);

/// The number of attempts to catch a moment that may pass before it is used.
const MOMENTS: usize = 20;

/// Prints a result into the log of the test run. Unlike `println`, the result also shows where the story succeeds.
pub(super) fn report(line: &str) -> anyhow::Result<()> {
    Ok(writeln!(std::io::stderr().lock(), "{line}")?)
}

/// The random choices of a story's seed, and the start of the story.
struct Chaos {
    name: &'static str,
    seed: u64,
    moments: Rng,
    began: Instant,
}

impl Chaos {
    fn new(name: &'static str) -> anyhow::Result<Self> {
        let seed = seed()?;
        Ok(Self { name, seed, moments: Rng::with_seed(seed), began: Instant::now() })
    }

    fn report(&self, result: &str) -> anyhow::Result<()> {
        let Self { name, seed, began, .. } = self;
        report(&format!("{name}, seed {seed}, {} s: {result}", began.elapsed().as_secs()))
    }
}

impl Scenario {
    /// Pauses the manager at a moment at which at least this many launches have taken effect and are unanswered, and
    /// returns their number. The manager knows only the answers that it received before.
    async fn pause_in_mid_launch(&self, manager: &Manager, at_least: usize) -> anyhow::Result<usize> {
        let aws = self.aws();
        for _ in 0..MOMENTS {
            // On a busy computer an answer may come between the look at the launches and the pause.
            let held = aws.fault(Fault::on("RunInstances").delay(HELD));
            aws.some_unanswered_launches(at_least, WITHIN).await?;
            manager.pause()?;
            // The number is constant while no answer reaches the manager.
            let unanswered = aws.unanswered_launches().len();
            held.lift();
            if unanswered >= at_least {
                return Ok(unanswered);
            }
            manager.resume()?;
        }
        bail!("{MOMENTS} times the answers were quicker than the pause")
    }

    /// The ids of all instances that the manager has launched, including those of unanswered launches.
    fn ever_launched(&self) -> BTreeSet<String> {
        let launches = self.aws().manager_journal().of("RunInstances");
        let ids = launches.calls().iter().flat_map(|call| call.instance_ids.iter());
        ids.cloned().collect()
    }

    /// The UIDs of all AWSMachines for which the manager has launched an instance, from the client tokens
    /// `<uid>-<attempt>`. A MachineDeployment can make more of them than it has replicas: Cluster API repeats the
    /// creation of a Machine whose answer it did not receive in time.
    fn machines_ever_launched(&self) -> BTreeSet<String> {
        let launches = self.aws().manager_journal().of("RunInstances");
        let effective = launches.calls().iter().filter(|call| !call.instance_ids.is_empty());
        let uid = |token: &str| token.rsplit_once('-').map_or(token, |(uid, _)| uid).to_owned();
        effective.filter_map(|call| call.parameter("ClientToken").map(uid)).collect()
    }

    /// The live instances by the machine in their tag.
    async fn live_by_machine(&self) -> anyhow::Result<BTreeMap<String, Vec<String>>> {
        let mut machines: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for instance in self.user.live_instances().await? {
            let tag = instance.tags().iter().find(|tag| tag.key() == Some("MachineName"));
            let machine = tag.and_then(|tag| tag.value()).context("an instance without MachineName")?;
            let id = instance.instance_id.clone().context("an instance without an id")?;
            machines.entry(machine.to_owned()).or_default().push(id);
        }
        Ok(machines)
    }

    /// Fails unless every machine has exactly one live instance, the one in its status, and no other instance is alive.
    async fn ensure_one_instance_each(&self) -> anyhow::Result<usize> {
        let live = self.live_by_machine().await?;
        let mut recorded = BTreeMap::new();
        for machine in self.machines().await? {
            let name = format!("{}/{}", self.namespace(), machine.name_any());
            recorded.insert(name, vec![text(&machine, "/status/launch/instanceID").to_owned()]);
        }
        ensure!(live == recorded, "EC2 has {live:#?}, the machines record {recorded:#?}");
        Ok(live.len())
    }

    /// Deletes all Machines and waits until they and their AWSMachines are gone.
    async fn delete_all_machines(&self) -> anyhow::Result<()> {
        for kind in ["MachineDeployment", "Machine"] {
            let api = self.api(CORE, kind).await?;
            api.delete_collection(&DeleteParams::default(), &ListParams::default()).await?;
        }
        self.no_machines_left().await
    }

    /// Waits until no AWSMachine and no Machine exists.
    async fn no_machines_left(&self) -> anyhow::Result<()> {
        for (version, kind) in [(OURS, "AWSMachine"), (CORE, "Machine")] {
            let api = self.api(version, kind).await?;
            eventually(ALL_WITHIN, &format!("every {kind} to be gone"), async || {
                let left = api.list(&ListParams::default()).await?.items;
                let conditions = left.first().map(|object| object.data["status"]["conditions"].clone());
                ensure!(left.is_empty(), "{} are left, the first says {conditions:?}", left.len());
                Ok(())
            })
            .await?;
        }
        Ok(())
    }
}
