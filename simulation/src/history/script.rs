//! The script of a seed: the behaviour of AWS, the faults, and the actions of users.

use std::time::Duration;

use capa_cloud::Timing;
use capa_fake_aws::RepeatedAfterTermination;
use fastrand::Rng;
use jiff::Timestamp;

use super::Deletion;
use crate::aws::{MAX_HIDDEN, ZONES};
use crate::faults::{FaultKind, Faults, Mix};
use crate::follow_up::{FollowUp, Occasion, ThenDo};
use crate::management_cluster::ManagementCluster;
use crate::objects;
use crate::simulation::Simulation;
use crate::simulation::user_actions::{self, Forgery, UserAction};
use crate::time::{START, after};

/// The most machines of a history.
const MACHINES: usize = 4;
/// The most machines of the neighbouring management cluster.
const NEIGHBOURS: usize = 2;
/// How much longer than the protocol repeats a call EC2 remembers its token at least: a call that was decided on at the
/// last moment may take so long.
const TOKEN_MARGIN: Duration = Duration::from_secs(300);
/// The longest that EC2 remembers a token in any history. It promises no more
/// (<https://docs.aws.amazon.com/AWSEC2/latest/APIReference/Run_Instance_Idempotency.html>).
const MAX_TOKEN_MEMORY: Duration = Duration::from_secs(24 * 3600);

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
    actions: Vec<(Timestamp, ManagementCluster, UserAction)>,
    follow_ups: Vec<FollowUp>,
}

impl Script {
    pub(super) fn draw(seed: u64) -> Self {
        // Apart from the scheduler's own numbers, so that a script stays what it is when the scheduler changes.
        let mut random = Rng::with_seed(seed ^ 0x5c21_97a4_0d5e_11ab);
        let chaos = Duration::from_secs(random.u64(60..1_200));
        let hidden = random.u64(0..=MAX_HIDDEN.as_secs());
        let least_memory = Timing::default().token_age + TOKEN_MARGIN;
        let token_memory = random.u64(least_memory.as_secs()..=MAX_TOKEN_MEMORY.as_secs());
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
            actions: Vec::new(),
            follow_ups: follow_ups(&mut random),
        };
        script.draw_deeds(&mut random);
        script.follow_ups.extend(after_address(&mut random));
        script
    }

    /// Sets everything up, and starts the managers.
    pub(super) fn begin(self, seed: u64, traced: bool) -> Simulation {
        let mut simulation = Simulation::new(seed, Faults::Random(self.mix), self.standby, traced);
        simulation.chaos(after(START, self.chaos));
        simulation.follow_ups = self.follow_ups;
        simulation.outside.aws.forget_tokens_after(self.token_memory);
        let mut behaviour = simulation.outside.aws.region().behaviour();
        behaviour.throttling = true;
        behaviour.hidden = self.hidden;
        behaviour.pending = self.pending;
        behaviour.shutting_down = self.shutting_down;
        if self.refuses_terminated {
            behaviour.repeated_after_termination = RepeatedAfterTermination::Refused;
        }
        drop(behaviour);
        user_actions::launch_look_alike(&mut simulation, 0);
        for of in ManagementCluster::ALL {
            if of == ManagementCluster::Main || self.has_neighbour {
                objects::create_cluster(simulation.outside.server_mut(of), self.zones);
                simulation.start(of);
            }
        }
        // By then it runs.
        let runs = after(START, Duration::from_secs(70));
        simulation.plan(runs, ManagementCluster::Main, UserAction::Serve);
        for (at, of, action) in self.actions {
            simulation.busy_until(after(at, Duration::from_secs(30)));
            simulation.plan(at, of, action);
        }
        simulation
    }

    fn draw_deeds(&mut self, random: &mut Rng) {
        let length = self.chaos.as_millis().try_into().unwrap_or(u64::MAX);
        let machines = random.usize(1..=MACHINES);
        let mut actions = births(random, machines, length);
        for _ in 0..random.usize(0..6) {
            actions.extend(action(random, machines, length));
        }
        if random.u32(0..3) == 0 {
            actions.extend(impostors(random, machines, length));
        }
        let main = actions.into_iter().map(|(at, action)| (at, ManagementCluster::Main, action));
        self.actions.extend(main);
        if self.has_neighbour {
            let neighbour = neighbour(random, length).into_iter();
            let neighbour = neighbour.map(|(at, action)| (at, ManagementCluster::Neighbour, action));
            self.actions.extend(neighbour);
        }
        self.actions.sort_by_key(|(at, ..)| *at);
    }
}

/// The repairs of a user, without which the objects need not converge.
pub(super) fn repairs() -> Vec<UserAction> {
    let zones = (0..ZONES.len()).map(|zone| UserAction::Capacity(zone, true));
    let others = [
        UserAction::ResumeMachines,
        UserAction::DieInPending(false),
        UserAction::ReplaceKey(false),
        UserAction::PauseCluster(false),
        UserAction::Image(true),
        UserAction::Groups(true),
        UserAction::DeleteImpostors,
    ];
    zones.chain(others).collect()
}

/// How everything is deleted at the end.
pub(super) fn deletion(seed: u64) -> Deletion {
    let mut random = Rng::with_seed(seed ^ 0x3b8e_44d1_9c60_72f5);
    let mut delay = || Duration::from_secs(random.choice([0, 0, 1, 60]).unwrap_or_default());
    Deletion { cluster: delay(), infrastructure: delay() }
}

fn mix(random: &mut Rng) -> Mix {
    let mut kinds: Vec<FaultKind> = FaultKind::ALL.into_iter().filter(|_| random.bool()).collect();
    if kinds.is_empty() {
        kinds.push(FaultKind::CrashAfter);
    }
    let (unanswered, others): (Vec<FaultKind>, Vec<FaultKind>) =
        FaultKind::ALL.into_iter().partition(|kind| kind.leaves_caller_without_answer());
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

/// The actions that follow lost answers and launches.
fn follow_ups(random: &mut Rng) -> Vec<FollowUp> {
    let mut follow_ups = Vec::new();
    if random.u32(0..4) < 3 {
        for _ in 0..random.usize(1..=3) {
            follow_ups.push(FollowUp { occasion: Occasion::LaunchUnanswered, actions: after_lost_answer(random) });
        }
    }
    if random.u32(0..3) == 0 {
        follow_ups.push(FollowUp { occasion: Occasion::Launched, actions: after_launch(random) });
    }
    follow_ups
}

/// What happens while an attempt is open: an outage, and something that changes what the next call would be, or what
/// the attempt has launched.
fn after_lost_answer(random: &mut Rng) -> Vec<(Duration, ThenDo)> {
    let mut actions = Vec::new();
    // A manager that leads again closes the attempt within half a minute.
    let latest = if random.bool() { 10_000 } else { 60_000 };
    let begins = Duration::from_millis(random.u64(0..latest));
    let mut meanwhile = Duration::from_secs(60);
    if random.bool() {
        // Managers that work while AWS is away make thousands of calls a day.
        let (long, action): (Duration, fn(Duration) -> UserAction) = match random.u32(0..40) {
            0..8 => return after_pause(random),
            8..17 => (age_of_tokens(random), UserAction::Stop),
            17..23 => (Duration::from_secs(random.u64(60..300_000)), UserAction::Stop),
            23..30 => (age_of_tokens(random), UserAction::LoseServer),
            30..34 => (Duration::from_secs(random.u64(5..100_000)), UserAction::LoseServer),
            34..39 => (Duration::from_secs(random.u64(10..1_800)), UserAction::LoseAws),
            _ => (age_of_tokens(random), UserAction::LoseAws),
        };
        actions.push((begins, ThenDo::from(move |_| action(long))));
        meanwhile = long;
    }
    if actions.is_empty() || random.bool() {
        let millis = meanwhile.as_millis().try_into().unwrap_or(u64::MAX);
        let at = begins + Duration::from_millis(random.u64(0..millis));
        actions.push((at, change(random)));
    }
    actions
}

/// The user pauses the machine of an open attempt for so long that EC2 may forget the token. The process that has made
/// the attempt goes on, and makes few calls meanwhile.
fn after_pause(random: &mut Rng) -> Vec<(Duration, ThenDo)> {
    // The process waits for ten seconds for an answer, and then repeats the call.
    let begins = Duration::from_millis(random.u64(0..10_000));
    let resumed = begins + age_of_tokens(random);
    vec![
        (begins, ThenDo::from(|machine| UserAction::PauseMachine(machine, true))),
        (resumed, ThenDo::from(|machine| UserAction::PauseMachine(machine, false))),
    ]
}

/// About as long as the protocol repeats a call, and EC2 remembers its token.
fn age_of_tokens(random: &mut Rng) -> Duration {
    let repeated = Timing::default().token_age.as_secs();
    let remembered = MAX_TOKEN_MEMORY.as_secs();
    Duration::from_secs(random.u64(repeated - 1_800..remembered + 7_200))
}

/// Something that a launch under way depends on changes.
fn change(random: &mut Rng) -> ThenDo {
    let version = random.u32(1..9);
    let (first, count) = (random.usize(0..ZONES.len()), random.usize(1..=ZONES.len()));
    match random.u32(0..16) {
        0 | 1 => ThenDo::from(move |machine| UserAction::RenewSecret(machine, version)),
        2 | 3 => ThenDo::from(move |_| UserAction::TagCluster(version)),
        4 | 5 => ThenDo::from(move |machine| UserAction::TagMachine(machine, version)),
        6 => ThenDo::from(|_| UserAction::AddGroup),
        7 => ThenDo::from(move |_| UserAction::UseZones(first, count)),
        8 => ThenDo::from(|_| UserAction::Image(false)),
        9 => ThenDo::from(|_| UserAction::Groups(false)),
        10 | 11 => ThenDo::from(UserAction::LoseStatus),
        12 => ThenDo::from(UserAction::KillInstance),
        13 => ThenDo::from(|_| UserAction::Move),
        _ => ThenDo::from(UserAction::DeleteMachine),
    }
}

/// The actions on an instance that AWS may not show yet, or that has just begun to run.
fn after_launch(random: &mut Rng) -> Vec<(Duration, ThenDo)> {
    let soon = Duration::from_millis(random.u64(0..90_000));
    let later = Duration::from_secs(random.u64(0..5_400));
    match random.u32(0..6) {
        0..3 => vec![(soon, ThenDo::from(UserAction::LoseStatus))],
        3 | 4 => vec![
            (soon + MAX_HIDDEN, ThenDo::from(UserAction::KillInstance)),
            (soon + MAX_HIDDEN + later, ThenDo::from(UserAction::LoseStatus)),
        ],
        _ => vec![(soon, ThenDo::from(UserAction::DeleteMachine))],
    }
}

/// The actions on a machine whose address AWS may not show yet.
fn after_address(random: &mut Rng) -> Option<FollowUp> {
    let soon = Duration::from_millis(random.u64(0..30_000));
    let later = soon + Duration::from_millis(random.u64(0..30_000));
    random.bool().then(|| FollowUp {
        occasion: Occasion::AddressAllocated,
        actions: vec![(soon, ThenDo::from(UserAction::LoseStatus)), (later, ThenDo::from(UserAction::DeleteMachine))],
    })
}

/// The creation of all machines, and the early end of some.
fn births(random: &mut Rng, machines: usize, length: u64) -> Vec<(Timestamp, UserAction)> {
    let mut actions = Vec::new();
    // Machines of one MachineDeployment come within seconds.
    let births = if random.bool() { 3_000 } else { length / 2 };
    for machine in 0..machines {
        let action =
            if random.u32(0..20) == 0 { UserAction::CreateClaim(machine) } else { UserAction::CreateMachine(machine) };
        let at = moment(random, births);
        actions.push((at, action));
        // Most of a launch is over within half a minute.
        if random.u32(0..5) < 2 {
            let soon = Duration::from_millis(random.u64(0..60_000));
            actions.push((after(at, soon), UserAction::DeleteMachine(machine)));
        }
    }
    actions
}

/// Something that happens at some time.
fn action(random: &mut Rng, machines: usize, length: u64) -> Vec<(Timestamp, UserAction)> {
    let at = moment(random, length);
    let machine = random.usize(0..machines);
    let one = match random.u32(0..16) {
        0 | 1 => UserAction::DeleteMachine(machine),
        2 => {
            let resumed = after(at, Duration::from_secs(60));
            return vec![(at, UserAction::PauseCluster(true)), (resumed, UserAction::PauseCluster(false))];
        }
        3 => UserAction::PauseMachine(machine, true),
        4 => UserAction::Touch(machine),
        5 => UserAction::RenewSecret(machine, random.u32(1..9)),
        6 => UserAction::AddGroup,
        7 => UserAction::LoseStatus(machine),
        8 => UserAction::KillInstance(machine),
        9 => {
            let lost = after(at, Duration::from_secs(random.u64(0..7_200)));
            return vec![(at, UserAction::KillInstance(machine)), (lost, UserAction::LoseStatus(machine))];
        }
        10 => UserAction::TakeOut(machine),
        11 => UserAction::Capacity(random.usize(0..ZONES.len()), false),
        12 => UserAction::UseZones(random.usize(0..ZONES.len()), random.usize(1..=ZONES.len())),
        13 => {
            let back = after(at, Duration::from_secs(random.u64(10..900)));
            return vec![(at, UserAction::Image(false)), (back, UserAction::Image(true))];
        }
        _ => return disaster(random, at),
    };
    vec![(at, one)]
}

fn disaster(random: &mut Rng, at: Timestamp) -> Vec<(Timestamp, UserAction)> {
    let later = |seconds| after(at, Duration::from_secs(seconds));
    match random.u32(0..12) {
        // The managers are stopped for long enough that everything launched shows.
        0 | 1 => {
            let stopped = random.u64(1..300);
            let down = random.u64(300..600);
            vec![
                (at, UserAction::TakeSnapshot),
                (later(stopped), UserAction::Stop(Duration::from_secs(down + 10))),
                (later(stopped + down), UserAction::RestoreSnapshot),
            ]
        }
        2 => vec![(at, UserAction::Move)],
        3 => vec![(at, UserAction::DieInPending(true)), (later(90), UserAction::DieInPending(false))],
        4 => vec![(at, UserAction::OtherAccount(true)), (later(random.u64(10..600)), UserAction::OtherAccount(false))],
        5 | 9 | 10 => {
            vec![(at, UserAction::ReplaceKey(true)), (later(random.u64(10..600)), UserAction::ReplaceKey(false))]
        }
        6 => vec![(
            later(300),
            UserAction::Overlook(random.usize(0..MACHINES), Duration::from_secs(random.u64(10..1_200))),
        )],
        7 => vec![(at, UserAction::LoseAws(outage(random)))],
        8 => vec![(at, UserAction::LoseServer(outage(random)))],
        _ => vec![(at, UserAction::Stop(Duration::from_secs(random.u64(10..200_000))))],
    }
}

/// How long something is away: minutes, and seldom hours.
fn outage(random: &mut Rng) -> Duration {
    let longest = if random.u32(0..8) == 0 { 20_000 } else { 600 };
    Duration::from_secs(random.u64(10..longest))
}

/// A copy of a machine, or a forged one, that is deleted after a while.
fn impostors(random: &mut Rng, machines: usize, length: u64) -> Vec<(Timestamp, UserAction)> {
    let at = moment(random, length);
    let machine = random.usize(0..machines);
    let action = match random.u32(0..8) {
        0..4 => UserAction::Copy(machine, random.bool()),
        4 => UserAction::Forge(Forgery::AnyMachine),
        5 => UserAction::Forge(Forgery::Nobody),
        6 => UserAction::Forge(Forgery::NameOf(machine)),
        _ => UserAction::Forge(Forgery::NameAndUidOf(machine)),
    };
    let deleted = after(at, Duration::from_secs(random.u64(1..900)));
    vec![(at, action), (deleted, UserAction::DeleteImpostors)]
}

/// The actions in the neighbouring management cluster.
fn neighbour(random: &mut Rng, length: u64) -> Vec<(Timestamp, UserAction)> {
    let machines = random.usize(1..=NEIGHBOURS);
    let mut actions = births(random, machines, length);
    actions.retain(|(_, action)| !matches!(action, UserAction::CreateClaim(_)));
    for _ in 0..random.usize(0..3) {
        let at = moment(random, length);
        let machine = random.usize(0..machines);
        let action = match random.u32(0..4) {
            0 => UserAction::DeleteMachine(machine),
            1 => UserAction::LoseStatus(machine),
            2 => UserAction::Move,
            _ => UserAction::Stop(Duration::from_secs(random.u64(10..600))),
        };
        actions.push((at, action));
    }
    actions
}

fn moment(random: &mut Rng, millis: u64) -> Timestamp {
    after(START, Duration::from_millis(random.u64(0..millis.max(1))))
}
