//! One history: a script and faults drawn from a seed, then calm, steady state, and the deletion of everything.

use std::collections::BTreeMap;
use std::time::Duration;

use capa_api::conditions::{ConditionType, Reason, find};
use capa_api::machine::AWSMachine;
use capa_cloud::Timing;
use capa_cloud::sim::RepeatedAfterTermination;
use capa_runtime::backoff::BackoffSettings;
use fastrand::Rng;
use jiff::Timestamp;
use kube::ResourceExt;

use crate::aws::{LONGEST_HIDDEN, TARGET_GROUPS, USER_KEY, ZONES, machine_of};
use crate::calls::Service;
use crate::faults::{FaultKind, Faults, Mix};
use crate::invariants::machine_key;
use crate::objects;
use crate::outside::{START, after};
use crate::simulation::{Made, Simulation};
use crate::user::{self, Deed};

/// How long after the last fault everything must have come right.
const CONVERGENCE: Duration = Duration::from_secs(40 * 60);
/// How long the steady state is watched.
const STEADY: Duration = Duration::from_secs(12 * 60);
/// How long the deletion of everything may take.
const DELETION: Duration = Duration::from_secs(40 * 60);

/// How a history ended.
#[derive(Clone, Debug)]
pub struct Report {
    /// The first rule that was broken; none is good.
    pub violation: Option<String>,
    /// How many calls were made.
    pub calls: usize,
    /// The most calls that one process made in a minute: to AWS, to Kubernetes.
    pub busiest_minute: (usize, usize),
    /// What happened, where it was asked for.
    pub trace: Vec<String>,
}

/// Runs the history of a seed. `traced`: keeps a trace.
pub fn run(seed: u64, traced: bool) -> Report {
    let script = Script::draw(seed);
    let mut simulation = script.simulation(seed, traced);
    script.play(&mut simulation);
    finish(simulation)
}

/// What a seed stands for.
struct Script {
    zones: usize,
    standby: bool,
    hidden: Duration,
    pending: Duration,
    shutting_down: Duration,
    refuses_terminated: bool,
    mix: Mix,
    deeds: Vec<(Timestamp, Deed)>,
}

impl Script {
    fn draw(seed: u64) -> Self {
        // Apart from the scheduler's own numbers, so that a script stays what it is when the scheduler changes.
        let mut random = Rng::with_seed(seed ^ 0x5c21_97a4_0d5e_11ab);
        let chaos = Duration::from_secs(random.u64(60..1_200));
        let mut kinds: Vec<FaultKind> = FaultKind::ALL.into_iter().filter(|_| random.bool()).collect();
        if kinds.is_empty() {
            kinds.push(FaultKind::CrashAfter);
        }
        let rates = [0, 10, 30, 60, 100, 200];
        let permille = random.choice(rates).unwrap_or_default();
        let hidden = random.u64(0..=LONGEST_HIDDEN.as_secs());
        Self {
            zones: random.usize(1..=ZONES.len()),
            standby: random.bool(),
            hidden: Duration::from_secs(if random.bool() { hidden } else { 0 }),
            pending: Duration::from_secs(random.u64(3..60)),
            shutting_down: Duration::from_secs(random.u64(3..60)),
            refuses_terminated: random.bool(),
            mix: Mix {
                permille,
                kinds,
                until: after(START, chaos),
            },
            deeds: deeds(&mut random, chaos),
        }
    }

    fn simulation(&self, seed: u64, traced: bool) -> Simulation {
        let mix = Mix {
            permille: self.mix.permille,
            kinds: self.mix.kinds.clone(),
            until: self.mix.until,
        };
        let mut simulation = Simulation::new(seed, Faults::Random(mix), self.standby, traced);
        let behaviour = simulation.outside.aws.region().behaviour();
        behaviour.throttling = true;
        behaviour.hidden = self.hidden;
        behaviour.pending = self.pending;
        behaviour.shutting_down = self.shutting_down;
        if self.refuses_terminated {
            behaviour.repeated_after_termination = RepeatedAfterTermination::Refused;
        }
        simulation
    }

    fn play(&self, simulation: &mut Simulation) {
        objects::create_cluster(&mut simulation.outside.server, self.zones);
        user::launch_look_alike(simulation, 0);
        simulation.start();
        // By then it runs.
        simulation.plan(after(START, Duration::from_secs(70)), Deed::Serve);
        for (at, deed) in &self.deeds {
            simulation.plan(*at, *deed);
        }
        let last = self
            .deeds
            .last()
            .map_or(START, |(at, _)| after(*at, Duration::from_secs(30)));
        simulation.run_until(self.mix.until.max(last));
        for deed in repairs() {
            simulation.plan(simulation.now(), deed);
        }
        calm(simulation);
    }
}

/// What a user puts right before things may be expected to converge.
fn repairs() -> Vec<Deed> {
    let zones = (0..ZONES.len()).map(|zone| Deed::Capacity(zone, true));
    let machines = (0..MACHINES).map(|machine| Deed::PauseMachine(machine, false));
    let others = [
        Deed::DieInPending(false),
        Deed::ReplaceKey(false),
        Deed::PauseCluster(false),
        Deed::EndStop,
    ];
    zones.chain(machines).chain(others).collect()
}

/// The most machines of a history.
const MACHINES: usize = 4;

fn deeds(random: &mut Rng, chaos: Duration) -> Vec<(Timestamp, Deed)> {
    let machines = random.usize(1..=MACHINES);
    let length = chaos.as_millis().try_into().unwrap_or(u64::MAX);
    let mut deeds = Vec::new();
    // Machines of one MachineDeployment come within seconds.
    let births = if random.bool() { 3_000 } else { length / 2 };
    for machine in 0..machines {
        let deed = if random.u32(0..20) == 0 {
            Deed::CreateClaim(machine)
        } else {
            Deed::CreateMachine(machine)
        };
        let at = moment(random, births);
        deeds.push((at, deed));
        // Most of a launch is over within half a minute.
        if random.u32(0..5) < 2 {
            let soon = Duration::from_millis(random.u64(0..60_000));
            deeds.push((after(at, soon), Deed::DeleteMachine(machine)));
        }
    }
    for _ in 0..random.usize(0..6) {
        let at = moment(random, length);
        match random.u32(0..13) {
            0..2 => deeds.push((at, Deed::DeleteMachine(random.usize(0..machines)))),
            2 => {
                deeds.push((at, Deed::PauseCluster(true)));
                deeds.push((after(at, Duration::from_secs(60)), Deed::PauseCluster(false)));
            }
            3 => deeds.push((at, Deed::PauseMachine(random.usize(0..machines), true))),
            4 => deeds.push((at, Deed::Touch(random.usize(0..machines)))),
            5 => deeds.push((at, Deed::RenewSecret(random.usize(0..machines), random.u32(1..9)))),
            6 => deeds.push((at, Deed::AddGroup)),
            7 => deeds.push((at, Deed::LoseStatus(random.usize(0..machines)))),
            8 => deeds.push((at, Deed::KillInstance(random.usize(0..machines)))),
            9 => deeds.push((at, Deed::TakeOut(random.usize(0..machines)))),
            10 => deeds.push((at, Deed::Capacity(random.usize(0..ZONES.len()), false))),
            _ => deeds.extend(disaster(random, at)),
        }
    }
    deeds.sort_by_key(|(at, _)| *at);
    deeds
}

fn disaster(random: &mut Rng, at: Timestamp) -> Vec<(Timestamp, Deed)> {
    let later = |seconds| after(at, Duration::from_secs(seconds));
    match random.u32(0..9) {
        // The managers are stopped for long enough that everything launched shows.
        0 | 1 => {
            let stopped = random.u64(1..300);
            let down = random.u64(300..600);
            vec![
                (at, Deed::TakeSnapshot),
                (later(stopped), Deed::Stop(Duration::from_secs(down + 10))),
                (later(stopped + down), Deed::RestoreSnapshot),
            ]
        }
        2 => vec![(at, Deed::Move)],
        3 => vec![(at, Deed::DieInPending(true)), (later(90), Deed::DieInPending(false))],
        4 => vec![
            (at, Deed::OtherAccount(true)),
            (later(random.u64(10..600)), Deed::OtherAccount(false)),
        ],
        5 => vec![
            (at, Deed::ReplaceKey(true)),
            (later(random.u64(10..600)), Deed::ReplaceKey(false)),
        ],
        6 => vec![(
            later(300),
            Deed::Overlook(random.usize(0..MACHINES), Duration::from_secs(random.u64(10..1_200))),
        )],
        7 => vec![(at, Deed::Unreachable(Duration::from_secs(random.u64(10..600))))],
        _ => vec![(at, Deed::Stop(Duration::from_secs(random.u64(10..50_000))))],
    }
}

fn moment(random: &mut Rng, millis: u64) -> Timestamp {
    after(START, Duration::from_millis(random.u64(0..millis.max(1))))
}

/// After the last fault: everything converges, nothing happens any more, everything can be deleted.
pub(crate) fn calm(simulation: &mut Simulation) {
    simulation.plan(after(simulation.now(), CONVERGENCE / 2), Deed::GiveUp);
    simulation.run_until(after(simulation.now(), CONVERGENCE));
    converged(simulation);
    steady(simulation);
    simulation.plan(simulation.now(), Deed::DeleteCluster);
    simulation.plan(after(simulation.now(), DELETION / 2), Deed::GiveUp);
    simulation.run_until(after(simulation.now(), DELETION));
    deleted(simulation);
}

fn converged(simulation: &mut Simulation) {
    let now = simulation.now();
    let machines: Vec<_> = simulation
        .outside
        .server
        .stored
        .aws_machines
        .values()
        .cloned()
        .collect();
    for machine in machines {
        if let Some(complaint) = unfinished(&machine, simulation) {
            let name = machine.name_any();
            simulation.invariants.violate(now, format!("stuck: {name} {complaint}"));
        }
    }
}

/// What is wrong with a machine when nothing has gone wrong for a long time.
fn unfinished(machine: &AWSMachine, simulation: &Simulation) -> Option<String> {
    if machine.metadata.deletion_timestamp.is_some() {
        return Some(format!("is still being deleted: {}", said(machine)));
    }
    let (now, key) = (simulation.now(), machine_key(&machine.name_any()));
    let live: Vec<&str> = simulation
        .outside
        .aws
        .live(now)
        .filter(|instance| machine_of(instance) == Some(&key))
        .map(|instance| instance.id.as_str())
        .collect();
    let status = machine.status.clone().unwrap_or_default();
    let ready = find(&status.conditions, ConditionType::Ready).is_some_and(|condition| condition.status == "True");
    let published = machine.spec.provider_id.as_deref().and_then(|id| id.rsplit('/').next());
    let reason_of = |condition| find(&status.conditions, condition).map(|condition| condition.reason.as_str());
    let elsewhere = reason_of(ConditionType::IdentityReady) == Some(Reason::AccountMismatch.as_str());
    match live.as_slice() {
        [id] if ready && status.provisioned() && published == Some(id) => {
            let missing = objects::is_control_plane(&machine.name_any()) && !simulation.outside.aws.is_served(now, id);
            missing.then(|| format!("is ready, and {id} is not in all its load balancers"))
        }
        // Neither what was launched nor what may have been in another account can be looked up: only given up.
        [] if elsewhere => None,
        [_] if elsewhere && status.has_open_attempt() => None,
        [id] => Some(format!("has {id}, but says {}", said(machine))),
        [] => {
            let reason = reason_of(ConditionType::InstanceReady);
            let ended = simulation
                .outside
                .aws
                .ec2
                .launched()
                .any(|instance| machine_of(instance) == Some(&key) && instance.launched_by != USER_KEY);
            let explained = match reason {
                Some("Terminated" | "Failed" | "NotFound") => ended || machine.spec.instance_id.is_some(),
                Some("NotOwned") => machine.spec.instance_id.is_some(),
                _ => false,
            };
            (!explained).then(|| format!("has no instance, and says {}", said(machine)))
        }
        ids => Some(format!("has {}", ids.join(", "))),
    }
}

fn said(machine: &AWSMachine) -> String {
    let status = machine.status.clone().unwrap_or_default();
    let bad = status.conditions.iter().filter(|condition| condition.status != "True");
    let bad = bad.map(|condition| format!("{}={}: {}", condition.type_, condition.reason, condition.message));
    let bad: Vec<String> = bad.collect();
    bad.join("; ")
}

fn steady(simulation: &mut Simulation) {
    let before = simulation.made.len();
    simulation.run_until(after(simulation.now(), STEADY));
    let (now, calls) = (simulation.now(), simulation.made.iter().skip(before));
    let writes = calls.clone().filter(|call| call.writes).count();
    // Listings once a minute, and whoever looks again at what nobody watches.
    let machines = simulation.outside.server.stored.aws_machines.len();
    let minutes = usize::try_from(STEADY.as_secs() / 60).unwrap_or_default();
    // And one look at each target group, or two at the turn of its period.
    let looks = 2 * 2 * TARGET_GROUPS.len();
    let (bound, calls) = (2 * minutes * (1 + machines) + looks, calls.count());
    if writes > 0 {
        simulation
            .invariants
            .violate(now, format!("restless: {writes} writes in the steady state"));
    }
    if calls > bound {
        simulation
            .invariants
            .violate(now, format!("restless: {calls} calls in the steady state"));
    }
}

fn deleted(simulation: &mut Simulation) {
    let now = simulation.now();
    let left: Vec<String> = simulation
        .outside
        .server
        .stored
        .aws_machines
        .values()
        .map(|machine| format!("{} ({})", machine.name_any(), said(machine)))
        .collect();
    if !left.is_empty() {
        simulation
            .invariants
            .violate(now, format!("undeletable: {}", left.join(", ")));
    } else if !simulation.outside.server.stored.clusters.is_empty() {
        simulation.invariants.violate(now, "undeletable: the cluster");
    }
    let live = simulation.outside.aws.live(now);
    let leaked: Vec<String> = live
        .filter(|instance| !machine_of(instance).is_some_and(|machine| simulation.invariants.unknown.contains(machine)))
        .map(|instance| instance.id.clone())
        .collect();
    if !leaked.is_empty() {
        simulation
            .invariants
            .violate(now, format!("leaked: {}", leaked.join(", ")));
    }
    let invariants = &simulation.invariants;
    let unknown = invariants.unknown.union(&invariants.addresses_lost).cloned().collect();
    let left = simulation.outside.aws.targets_left(now, &unknown);
    if !left.is_empty() {
        let text = format!("leaked: {} in load balancers", left.join(", "));
        simulation.invariants.violate(now, text);
    }
}

/// Sums a simulation up.
pub(crate) fn finish(mut simulation: Simulation) -> Report {
    let now = simulation.now();
    if let Some(id) = simulation.outside.aws.no_longer_served(now) {
        let text = format!("foreign: {id} is the user's, and was taken out of its load balancer");
        simulation.invariants.violate(now, text);
    }
    if let Some(id) = simulation.outside.aws.touched().first() {
        let text = format!("foreign: {id} is the user's, and was touched");
        simulation.invariants.violate(now, text);
    }
    let (to_aws, allowed) = (
        busiest_minute(&simulation.made, Service::Aws),
        allowed_a_minute(simulation.most_machines),
    );
    if to_aws > allowed {
        let text = format!("hot: {to_aws} calls to AWS in a minute of a process, of at most {allowed}");
        simulation.invariants.violate(now, text);
    }
    Report {
        violation: simulation.invariants.violation,
        calls: simulation.made.len(),
        busiest_minute: (to_aws, busiest_minute(&simulation.made, Service::Kubernetes)),
        trace: simulation.trace.into_lines(),
    }
}

/// How often in a minute something is done that is done once in every such interval.
fn regularly(interval: Duration) -> usize {
    let times = 60_u64.div_ceil(interval.as_secs().max(1)) + 1;
    usize::try_from(times).unwrap_or(usize::MAX)
}

/// How often in a minute something is tried whose waits double from the first one on, each cut short by up to a
/// quarter; once more for what wakes an object besides.
fn backing_off(first: Duration) -> usize {
    let waits = (1..u32::BITS).take_while(|count| first.as_secs() * (2_u64.pow(*count) - 1) * 3 <= 60 * 4);
    2 + waits.count()
}

/// The most calls to AWS that a process may make in a minute, by the intervals of the protocol. A loop that waits for
/// nothing but its answers makes hundreds.
fn allowed_a_minute(machines: usize) -> usize {
    let timing = Timing::default();
    let stores = regularly(timing.listing_interval) + regularly(timing.transition_interval);
    let account = regularly(timing.resolve_retry);
    // VPC, subnets, groups and route tables.
    let cluster = 4 * backing_off(timing.resolve_retry);
    // Looked for by tags and by token at the shortest interval; and what fails, a launch or a termination.
    let machine = 2 * regularly(timing.transition_interval) + backing_off(BackoffSettings::default().start);
    // Looked at while something settles; for each machine brought in and out, what fails of it.
    // Facts and delay once, and tags as long as they cannot be read.
    let once = 2 + backing_off(timing.resolve_retry);
    let group = once + regularly(timing.target_poll) + 2 * machines * backing_off(timing.resolve_retry);
    stores + account + cluster + machines * machine + TARGET_GROUPS.len() * group
}

fn busiest_minute(made: &[Made], service: Service) -> usize {
    let mut minutes: BTreeMap<(usize, i64), usize> = BTreeMap::new();
    for call in made.iter().filter(|call| call.service == service) {
        *minutes.entry((call.process, call.at.as_second() / 60)).or_default() += 1;
    }
    minutes.into_values().max().unwrap_or_default()
}
