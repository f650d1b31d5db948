//! The script of a seed: the behaviour of AWS, the faults, and the deeds of users.

use std::time::Duration;

use capa_cloud::Timing;
use capa_cloud::sim::RepeatedAfterTermination;
use fastrand::Rng;
use jiff::Timestamp;

use super::Deletion;
use crate::aftermath::{Aftermath, Occasion, ThenDo};
use crate::aws::{LONGEST_HIDDEN, ZONES};
use crate::deeds::{self, Deed, Forgery};
use crate::faults::{FaultKind, Faults, Mix};
use crate::objects;
use crate::outside::{ManagementCluster, START, after};
use crate::simulation::Simulation;

/// The most machines of a history.
const MACHINES: usize = 4;
/// The most machines of the neighbouring management cluster.
const NEIGHBOURS: usize = 2;
/// How much longer than the protocol repeats a call EC2 remembers its token at least: a call that was decided on at the
/// last moment may take so long.
const TOKEN_MARGIN: Duration = Duration::from_secs(300);
/// The longest that EC2 remembers a token in any history. It promises no more
/// (<https://docs.aws.amazon.com/AWSEC2/latest/APIReference/Run_Instance_Idempotency.html>).
const LONGEST_TOKEN_MEMORY: Duration = Duration::from_secs(24 * 3600);

/// The script of a seed.
pub(super) struct Script {
    zones: usize,
    standby: bool,
    hidden: Duration,
    pending: Duration,
    shutting_down: Duration,
    refuses_terminated: bool,
    token_memory: Duration,
    chaos: Duration,
    mix: Mix,
    has_neighbour: bool,
    deeds: Vec<(Timestamp, ManagementCluster, Deed)>,
    aftermaths: Vec<Aftermath>,
}

impl Script {
    pub(super) fn draw(seed: u64) -> Self {
        // Apart from the scheduler's own numbers, so that a script stays what it is when the scheduler changes.
        let mut random = Rng::with_seed(seed ^ 0x5c21_97a4_0d5e_11ab);
        let chaos = Duration::from_secs(random.u64(60..1_200));
        let hidden = random.u64(0..=LONGEST_HIDDEN.as_secs());
        let least_memory = Timing::default().token_age + TOKEN_MARGIN;
        let token_memory = random.u64(least_memory.as_secs()..=LONGEST_TOKEN_MEMORY.as_secs());
        let has_neighbour = random.u32(0..3) == 0;
        let mut script = Self {
            zones: random.usize(1..=ZONES.len()),
            standby: random.bool(),
            hidden: Duration::from_secs(if random.bool() { hidden } else { 0 }),
            pending: Duration::from_secs(random.u64(3..60)),
            shutting_down: Duration::from_secs(random.u64(3..60)),
            refuses_terminated: random.bool(),
            token_memory: Duration::from_secs(token_memory),
            chaos,
            mix: mix(&mut random),
            has_neighbour,
            deeds: Vec::new(),
            aftermaths: aftermaths(&mut random),
        };
        script.draw_deeds(&mut random);
        script.aftermaths.extend(after_address(&mut random));
        script
    }

    /// Sets everything up, and starts the managers.
    pub(super) fn begin(self, seed: u64, traced: bool) -> Simulation {
        let mut simulation = Simulation::new(seed, Faults::Random(self.mix), self.standby, traced);
        simulation.chaos(after(START, self.chaos));
        simulation.aftermaths = self.aftermaths;
        simulation.outside.aws.forget_tokens_after(self.token_memory);
        let behaviour = simulation.outside.aws.region().behaviour();
        behaviour.throttling = true;
        behaviour.hidden = self.hidden;
        behaviour.pending = self.pending;
        behaviour.shutting_down = self.shutting_down;
        if self.refuses_terminated {
            behaviour.repeated_after_termination = RepeatedAfterTermination::Refused;
        }
        deeds::launch_look_alike(&mut simulation, 0);
        for of in ManagementCluster::ALL {
            if of == ManagementCluster::Main || self.has_neighbour {
                objects::create_cluster(simulation.outside.server_mut(of), self.zones);
                simulation.start(of);
            }
        }
        // By then it runs.
        let runs = after(START, Duration::from_secs(70));
        simulation.plan(runs, ManagementCluster::Main, Deed::Serve);
        for (at, of, deed) in self.deeds {
            simulation.busy_until(after(at, Duration::from_secs(30)));
            simulation.plan(at, of, deed);
        }
        simulation
    }

    fn draw_deeds(&mut self, random: &mut Rng) {
        let length = self.chaos.as_millis().try_into().unwrap_or(u64::MAX);
        let machines = random.usize(1..=MACHINES);
        let mut deeds = births(random, machines, length);
        for _ in 0..random.usize(0..6) {
            deeds.extend(deed(random, machines, length));
        }
        if random.u32(0..3) == 0 {
            deeds.extend(impostors(random, machines, length));
        }
        let main = deeds.into_iter().map(|(at, deed)| (at, ManagementCluster::Main, deed));
        self.deeds.extend(main);
        if self.has_neighbour {
            let neighbour = neighbour(random, length).into_iter();
            let neighbour = neighbour.map(|(at, deed)| (at, ManagementCluster::Neighbour, deed));
            self.deeds.extend(neighbour);
        }
        self.deeds.sort_by_key(|(at, ..)| *at);
    }
}

/// The repairs of a user, without which the objects need not converge.
pub(super) fn repairs() -> Vec<Deed> {
    let zones = (0..ZONES.len()).map(|zone| Deed::Capacity(zone, true));
    let others = [
        Deed::ResumeMachines,
        Deed::DieInPending(false),
        Deed::ReplaceKey(false),
        Deed::PauseCluster(false),
        Deed::Image(true),
        Deed::Groups(true),
        Deed::DeleteImpostors,
    ];
    zones.chain(others).collect()
}

/// How everything is deleted at the end.
pub(super) fn deletion(seed: u64) -> Deletion {
    let mut random = Rng::with_seed(seed ^ 0x3b8e_44d1_9c60_72f5);
    let mut delay = || Duration::from_secs(random.choice([0, 0, 1, 60]).unwrap_or_default());
    Deletion {
        cluster: delay(),
        infrastructure: delay(),
    }
}

fn mix(random: &mut Rng) -> Mix {
    let mut kinds: Vec<FaultKind> = FaultKind::ALL.into_iter().filter(|_| random.bool()).collect();
    if kinds.is_empty() {
        kinds.push(FaultKind::CrashAfter);
    }
    let (unanswered, others): (Vec<FaultKind>, Vec<FaultKind>) = FaultKind::ALL
        .into_iter()
        .partition(|kind| kind.leaves_caller_without_answer());
    let mut launch_kinds: Vec<FaultKind> = random.choice(&unanswered).copied().into_iter().collect();
    launch_kinds.extend(unanswered.into_iter().filter(|_| random.bool()));
    launch_kinds.extend(others.into_iter().filter(|_| random.u32(0..4) == 0));
    Mix {
        permille: random.choice([0, 10, 30, 60, 100, 200]).unwrap_or_default(),
        kinds,
        launch_permille: random.choice([0, 500, 600, 700, 800, 900]).unwrap_or_default(),
        launch_kinds,
    }
}

/// The deeds that follow lost answers and launches.
fn aftermaths(random: &mut Rng) -> Vec<Aftermath> {
    let mut aftermaths = Vec::new();
    if random.u32(0..4) < 3 {
        for _ in 0..random.usize(1..=3) {
            aftermaths.push(Aftermath {
                occasion: Occasion::LaunchUnanswered,
                deeds: after_lost_answer(random),
            });
        }
    }
    if random.u32(0..3) == 0 {
        aftermaths.push(Aftermath {
            occasion: Occasion::Launched,
            deeds: after_launch(random),
        });
    }
    aftermaths
}

/// What happens while an attempt is open: an outage, and something that changes what the next call would be, or what
/// the attempt has launched.
fn after_lost_answer(random: &mut Rng) -> Vec<(Duration, ThenDo)> {
    let mut deeds = Vec::new();
    // A manager that leads again closes the attempt within half a minute.
    let latest = if random.bool() { 10_000 } else { 60_000 };
    let begins = Duration::from_millis(random.u64(0..latest));
    let mut meanwhile = Duration::from_secs(60);
    if random.bool() {
        // Managers that work while AWS is away make thousands of calls a day.
        let (long, deed): (Duration, fn(Duration) -> Deed) = match random.u32(0..40) {
            0..8 => return after_pause(random),
            8..17 => (age_of_tokens(random), Deed::Stop),
            17..23 => (Duration::from_secs(random.u64(60..300_000)), Deed::Stop),
            23..30 => (age_of_tokens(random), Deed::LoseServer),
            30..34 => (Duration::from_secs(random.u64(5..100_000)), Deed::LoseServer),
            34..39 => (Duration::from_secs(random.u64(10..1_800)), Deed::LoseAws),
            _ => (age_of_tokens(random), Deed::LoseAws),
        };
        deeds.push((begins, ThenDo::from(move |_| deed(long))));
        meanwhile = long;
    }
    if deeds.is_empty() || random.bool() {
        let millis = meanwhile.as_millis().try_into().unwrap_or(u64::MAX);
        let at = begins + Duration::from_millis(random.u64(0..millis));
        deeds.push((at, change(random)));
    }
    deeds
}

/// The user pauses the machine of an open attempt for so long that EC2 may forget the token. The process that has made
/// the attempt goes on, and makes few calls meanwhile.
fn after_pause(random: &mut Rng) -> Vec<(Duration, ThenDo)> {
    // The process waits for ten seconds for an answer, and then repeats the call.
    let begins = Duration::from_millis(random.u64(0..10_000));
    let resumed = begins + age_of_tokens(random);
    vec![
        (begins, ThenDo::from(|machine| Deed::PauseMachine(machine, true))),
        (resumed, ThenDo::from(|machine| Deed::PauseMachine(machine, false))),
    ]
}

/// About as long as the protocol repeats a call, and EC2 remembers its token.
fn age_of_tokens(random: &mut Rng) -> Duration {
    let repeated = Timing::default().token_age.as_secs();
    let remembered = LONGEST_TOKEN_MEMORY.as_secs();
    Duration::from_secs(random.u64(repeated - 1_800..remembered + 7_200))
}

/// Something that a launch under way depends on changes.
fn change(random: &mut Rng) -> ThenDo {
    let version = random.u32(1..9);
    let (first, count) = (random.usize(0..ZONES.len()), random.usize(1..=ZONES.len()));
    match random.u32(0..16) {
        0 | 1 => ThenDo::from(move |machine| Deed::RenewSecret(machine, version)),
        2 | 3 => ThenDo::from(move |_| Deed::TagCluster(version)),
        4 | 5 => ThenDo::from(move |machine| Deed::TagMachine(machine, version)),
        6 => ThenDo::from(|_| Deed::AddGroup),
        7 => ThenDo::from(move |_| Deed::UseZones(first, count)),
        8 => ThenDo::from(|_| Deed::Image(false)),
        9 => ThenDo::from(|_| Deed::Groups(false)),
        10 | 11 => ThenDo::from(Deed::LoseStatus),
        12 => ThenDo::from(Deed::KillInstance),
        13 => ThenDo::from(|_| Deed::Move),
        _ => ThenDo::from(Deed::DeleteMachine),
    }
}

/// The deeds on an instance that AWS may not show yet, or that has just begun to run.
fn after_launch(random: &mut Rng) -> Vec<(Duration, ThenDo)> {
    let soon = Duration::from_millis(random.u64(0..90_000));
    let later = Duration::from_secs(random.u64(0..5_400));
    match random.u32(0..6) {
        0..3 => vec![(soon, ThenDo::from(Deed::LoseStatus))],
        3 | 4 => vec![
            (soon + LONGEST_HIDDEN, ThenDo::from(Deed::KillInstance)),
            (soon + LONGEST_HIDDEN + later, ThenDo::from(Deed::LoseStatus)),
        ],
        _ => vec![(soon, ThenDo::from(Deed::DeleteMachine))],
    }
}

/// The deeds on a machine whose address AWS may not show yet.
fn after_address(random: &mut Rng) -> Option<Aftermath> {
    let soon = Duration::from_millis(random.u64(0..30_000));
    let later = soon + Duration::from_millis(random.u64(0..30_000));
    random.bool().then(|| Aftermath {
        occasion: Occasion::AddressAllocated,
        deeds: vec![
            (soon, ThenDo::from(Deed::LoseStatus)),
            (later, ThenDo::from(Deed::DeleteMachine)),
        ],
    })
}

/// The creation of all machines, and the early end of some.
fn births(random: &mut Rng, machines: usize, length: u64) -> Vec<(Timestamp, Deed)> {
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
    deeds
}

/// Something that happens at some time.
fn deed(random: &mut Rng, machines: usize, length: u64) -> Vec<(Timestamp, Deed)> {
    let at = moment(random, length);
    let machine = random.usize(0..machines);
    let one = match random.u32(0..16) {
        0 | 1 => Deed::DeleteMachine(machine),
        2 => {
            let resumed = after(at, Duration::from_secs(60));
            return vec![(at, Deed::PauseCluster(true)), (resumed, Deed::PauseCluster(false))];
        }
        3 => Deed::PauseMachine(machine, true),
        4 => Deed::Touch(machine),
        5 => Deed::RenewSecret(machine, random.u32(1..9)),
        6 => Deed::AddGroup,
        7 => Deed::LoseStatus(machine),
        8 => Deed::KillInstance(machine),
        9 => {
            let lost = after(at, Duration::from_secs(random.u64(0..7_200)));
            return vec![(at, Deed::KillInstance(machine)), (lost, Deed::LoseStatus(machine))];
        }
        10 => Deed::TakeOut(machine),
        11 => Deed::Capacity(random.usize(0..ZONES.len()), false),
        12 => Deed::UseZones(random.usize(0..ZONES.len()), random.usize(1..=ZONES.len())),
        13 => {
            let back = after(at, Duration::from_secs(random.u64(10..900)));
            return vec![(at, Deed::Image(false)), (back, Deed::Image(true))];
        }
        _ => return disaster(random, at),
    };
    vec![(at, one)]
}

fn disaster(random: &mut Rng, at: Timestamp) -> Vec<(Timestamp, Deed)> {
    let later = |seconds| after(at, Duration::from_secs(seconds));
    match random.u32(0..12) {
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
        5 | 9 | 10 => vec![
            (at, Deed::ReplaceKey(true)),
            (later(random.u64(10..600)), Deed::ReplaceKey(false)),
        ],
        6 => vec![(
            later(300),
            Deed::Overlook(random.usize(0..MACHINES), Duration::from_secs(random.u64(10..1_200))),
        )],
        7 => vec![(at, Deed::LoseAws(outage(random)))],
        8 => vec![(at, Deed::LoseServer(outage(random)))],
        _ => vec![(at, Deed::Stop(Duration::from_secs(random.u64(10..200_000))))],
    }
}

/// How long something is away: minutes, and seldom hours.
fn outage(random: &mut Rng) -> Duration {
    let longest = if random.u32(0..8) == 0 { 20_000 } else { 600 };
    Duration::from_secs(random.u64(10..longest))
}

/// A copy of a machine, or a forged one, that is deleted after a while.
fn impostors(random: &mut Rng, machines: usize, length: u64) -> Vec<(Timestamp, Deed)> {
    let at = moment(random, length);
    let machine = random.usize(0..machines);
    let deed = match random.u32(0..8) {
        0..4 => Deed::Copy(machine, random.bool()),
        4 => Deed::Forge(Forgery::AnyMachine),
        5 => Deed::Forge(Forgery::Nobody),
        6 => Deed::Forge(Forgery::NameOf(machine)),
        _ => Deed::Forge(Forgery::NameAndUidOf(machine)),
    };
    let deleted = after(at, Duration::from_secs(random.u64(1..900)));
    vec![(at, deed), (deleted, Deed::DeleteImpostors)]
}

/// The deeds in the neighbouring management cluster.
fn neighbour(random: &mut Rng, length: u64) -> Vec<(Timestamp, Deed)> {
    let machines = random.usize(1..=NEIGHBOURS);
    let mut deeds = births(random, machines, length);
    deeds.retain(|(_, deed)| !matches!(deed, Deed::CreateClaim(_)));
    for _ in 0..random.usize(0..3) {
        let at = moment(random, length);
        let machine = random.usize(0..machines);
        let deed = match random.u32(0..4) {
            0 => Deed::DeleteMachine(machine),
            1 => Deed::LoseStatus(machine),
            2 => Deed::Move,
            _ => Deed::Stop(Duration::from_secs(random.u64(10..600))),
        };
        deeds.push((at, deed));
    }
    deeds
}

fn moment(random: &mut Rng, millis: u64) -> Timestamp {
    after(START, Duration::from_millis(random.u64(0..millis.max(1))))
}
