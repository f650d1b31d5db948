//! The scheduler: simulated time, and what happens in it. Calls are on their way in `journeys`, processes lead and end
//! in `managers`.

mod journeys;
mod managers;
pub(crate) mod user_actions;

use std::collections::BTreeMap;
use std::time::Duration;

use fastrand::Rng;
use jiff::Timestamp;

use self::user_actions::UserAction;
use crate::calls::{Answer, Service};
use crate::core;
use crate::coverage::{Coverage, Covered};
use crate::faults::Faults;
use crate::follow_up::{FollowUp, Occasion};
use crate::invariants::Invariants;
use crate::management_cluster::ManagementCluster;
use crate::nodes::BOOT;
use crate::outside::Outside;
use crate::process::Process;
use crate::server::Stored;
use crate::time::{START, after};
use crate::trace::Trace;
use journeys::Journey;
use managers::Managers;

/// Events of one moment, of which a few dozens are usual. More are a loop that waits for nothing.
const MAX_AT_ONCE: usize = 10_000;
/// The calls of a history, of which some thousands are usual. More are a loop that would never end.
const MAX_CALLS: usize = 300_000;
/// How soon core reacts.
const CORE_DELAY: Duration = Duration::from_millis(500);
/// How long faults go on after the end of an outage.
const AFTER_OUTAGE: Duration = Duration::from_secs(300);
/// So many outages are followed by faults. A fault may be an outage itself, so a history might never end otherwise.
const MAX_OUTAGES_WITH_FAULTS: usize = 10;

/// A planned event.
enum Event {
    /// A call reaches its service.
    Effect(Box<Journey>),
    /// An answer reaches the process that waits for it.
    Answer { process: usize, task: u64, call: u64, answer: Answer },
    /// A process has something to do.
    Advance(usize),
    /// A frozen process goes on.
    Thaw(usize),
    /// A process ends for good.
    End(usize),
    /// The lease has run out.
    Election(ManagementCluster),
    /// Core looks at its objects.
    Core(ManagementCluster),
    /// The user does something.
    UserAction(ManagementCluster, UserAction),
    /// Calls go wrong again.
    Chaos,
}

/// A call that was made, for sweeps and counts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Made {
    pub(crate) at: Timestamp,
    pub(crate) process: usize,
    pub(crate) service: Service,
    pub(crate) action: &'static str,
    pub(crate) writes: bool,
}

/// A simulation and its time.
pub(crate) struct Simulation {
    pub(crate) outside: Outside,
    pub(crate) random: Rng,
    pub(crate) faults: Faults,
    /// Until then calls go wrong at random; after a long outage they do so again.
    chaos_until: Timestamp,
    /// Until then something happens, outages among it.
    busy_until: Timestamp,
    /// The actions of the user on certain occasions.
    pub(crate) follow_ups: Vec<FollowUp>,
    pub(crate) invariants: Invariants,
    pub(crate) coverage: Coverage,
    pub(crate) trace: Trace,
    /// Every call so far.
    pub(crate) made: Vec<Made>,
    /// The most AWSMachines that one management cluster had at a time.
    pub(crate) most_machines: usize,
    /// Processes by id; of each management cluster at most one is meant to lead.
    pub(crate) processes: BTreeMap<usize, Process>,
    born: usize,
    /// The events that wait for suspended processes.
    frozen: BTreeMap<usize, Vec<Event>>,
    main: Managers,
    neighbour: Managers,
    events: BTreeMap<(Timestamp, u64), Event>,
    last_event: u64,
    /// How many events time has stood still for.
    at_once: usize,
    /// The outages so far.
    outages: usize,
    /// The user's last snapshot of etcd, of the main management cluster.
    pub(crate) snapshot: Option<Stored>,
}

impl Simulation {
    pub(crate) fn new(seed: u64, faults: Faults, standby: bool, traced: bool) -> Self {
        // The runtime's back-off draws its jitter from the thread's generator.
        fastrand::seed(seed);
        Self {
            outside: Outside::new(),
            random: Rng::with_seed(seed),
            faults,
            chaos_until: START,
            busy_until: START,
            follow_ups: Vec::new(),
            invariants: Invariants::default(),
            coverage: Coverage::default(),
            trace: Trace::new(traced),
            made: Vec::new(),
            most_machines: 0,
            processes: BTreeMap::new(),
            born: 0,
            frozen: BTreeMap::new(),
            main: Managers::new(ManagementCluster::Main, standby),
            neighbour: Managers::new(ManagementCluster::Neighbour, false),
            events: BTreeMap::new(),
            last_event: 0,
            at_once: 0,
            outages: 0,
            snapshot: None,
        }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.outside.now
    }

    /// Plans an action of the user.
    pub(crate) fn plan(&mut self, at: Timestamp, of: ManagementCluster, action: UserAction) {
        self.push(at, Event::UserAction(of, action));
    }

    /// Lets everything happen up to a time; ends early where an invariant is violated.
    pub(crate) fn run_until(&mut self, end: Timestamp) {
        while self.invariants.violation.is_none()
            && let Some(entry) = self.events.first_entry()
            && entry.key().0 <= end
        {
            let ((at, _), event) = entry.remove_entry();
            self.at_once = if at > self.now() { 0 } else { self.at_once + 1 };
            self.outside.set_now(at);
            self.happen(event);
            if self.at_once > MAX_AT_ONCE {
                self.invariants.violate(at, "hot: passes follow each other without any wait");
            }
            if self.made.len() > MAX_CALLS {
                self.invariants.violate(at, "hot: calls follow each other for ever");
            }
        }
        self.outside.set_now(end);
    }

    /// Calls go wrong at random until then.
    pub(crate) fn chaos(&mut self, until: Timestamp) {
        self.chaos_until = self.chaos_until.max(until);
        self.busy_until(until);
    }

    /// Something happens until then.
    pub(crate) fn busy_until(&mut self, until: Timestamp) {
        self.busy_until = self.busy_until.max(until);
    }

    /// Lets everything happen that a script has in store, and what outages prolong.
    pub(crate) fn run_script(&mut self) {
        while self.now() < self.busy_until {
            self.run_until(self.busy_until);
        }
    }

    /// An outage begins that lasts for so long: when it has ended calls go wrong again. Gives the time of the end.
    pub(crate) fn outage(&mut self, long: Duration) -> Timestamp {
        self.coverage.outage(long);
        self.outages += 1;
        let end = after(self.now(), long);
        self.busy_until(after(end, AFTER_OUTAGE));
        if self.outages <= MAX_OUTAGES_WITH_FAULTS {
            self.push(end, Event::Chaos);
        }
        end
    }

    /// Core and caches of all management clusters get to know what has changed; the invariants see it first.
    pub(crate) fn settle(&mut self, lag: Duration) {
        for of in ManagementCluster::ALL {
            self.settle_objects(of, lag);
        }
        for (occasion, of, machine) in self.invariants.check(&mut self.outside) {
            self.follow(occasion, of, machine);
            if occasion == Occasion::Launched {
                self.push(after(self.now(), BOOT), Event::Core(of));
            }
        }
    }

    fn settle_objects(&mut self, of: ManagementCluster, lag: Duration) {
        let changes = self.outside.server_mut(of).take_changes();
        if changes.is_empty() {
            return;
        }
        let machines = self.outside.server(of).stored.aws_machines.len();
        self.most_machines = self.most_machines.max(machines);
        let now = self.now();
        for change in &changes {
            self.trace.change(now, of, change);
            self.invariants.changed(of, change, &self.outside);
            self.coverage.changed(of, change, &self.outside);
        }
        for change in changes {
            for process in self.processes.values_mut().filter(|process| process.of == of) {
                let usual = Duration::from_millis(self.random.u64(5..100));
                process.expect(after(now, usual + lag), change.clone());
            }
        }
        if !self.managers(of).core_is_planned {
            self.managers(of).core_is_planned = true;
            self.push(after(now, CORE_DELAY), Event::Core(of));
        }
        for process in self.ids_of(of) {
            self.plan_advance(process);
        }
    }

    /// Plans what the user does on such an occasion, if anything.
    fn follow(&mut self, occasion: Occasion, of: ManagementCluster, machine: usize) {
        if of == ManagementCluster::Main
            && let Some(place) = self.follow_ups.iter().position(|next| next.occasion == occasion)
        {
            let FollowUp { actions, .. } = self.follow_ups.remove(place);
            for (delay, action) in actions {
                let at = after(self.now(), delay);
                self.busy_until(after(at, AFTER_OUTAGE));
                self.plan(at, of, action.action(machine));
            }
        }
    }

    fn push(&mut self, at: Timestamp, event: Event) {
        self.last_event += 1;
        self.events.insert((at, self.last_event), event);
    }

    fn happen(&mut self, event: Event) {
        let now = self.now();
        match event {
            Event::Effect(journey) => self.reach(*journey),
            Event::Answer { process, .. } | Event::Advance(process) if self.frozen.contains_key(&process) => {
                self.frozen.entry(process).or_default().push(event);
            }
            Event::Answer { process, task, call, answer } => {
                if let Some(running) = self.processes.get_mut(&process) {
                    let asked = running.answered(task, call, answer, now);
                    self.send(process, asked);
                }
            }
            Event::Advance(process) => {
                if let Some(running) = self.processes.get_mut(&process) {
                    running.planned.retain(|planned| *planned > now);
                    let asked = running.advance(now);
                    self.send(process, asked);
                }
            }
            Event::Thaw(process) => self.thaw(process),
            Event::End(process) => self.end(process),
            Event::Election(of) => self.elect(of),
            Event::Chaos => self.chaos(after(now, AFTER_OUTAGE)),
            Event::Core(of) => match self.outside.server(of).unreachable_until {
                Some(until) if now < until => self.push(until, Event::Core(of)),
                _ => {
                    self.managers(of).core_is_planned = false;
                    core::run(of, &mut self.outside);
                    self.settle(Duration::ZERO);
                }
            },
            Event::UserAction(of, action) => match self.outside.server(of).unreachable_until {
                Some(until) if now < until && action.needs_server() => self.plan(until, of, action),
                _ => self.perform(of, action),
            },
        }
    }

    fn perform(&mut self, of: ManagementCluster, action: UserAction) {
        let now = self.now();
        self.trace.note(now, || format!("user of {of:?}: {action:?}"));
        self.coverage.met(Covered::UserAction(action.into()));
        action.perform(of, self);
        self.settle(Duration::ZERO);
    }

    fn plan_advance(&mut self, process: usize) {
        let now = self.now();
        let Some(running) = self.processes.get_mut(&process) else {
            return;
        };
        let Some(due) = running.next_due().map(|due| due.max(now)) else {
            return;
        };
        if running.planned.first().is_none_or(|planned| due < *planned) {
            running.planned.insert(due);
            self.push(due, Event::Advance(process));
        }
    }
}
