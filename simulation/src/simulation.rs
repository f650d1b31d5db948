//! The scheduler: simulated time, the way of every call, faults on it, crashes, freezes and elections.

use std::collections::BTreeMap;
use std::time::Duration;

use capa_api::machine::LaunchRecord;
use fastrand::Rng;
use jiff::Timestamp;

use crate::aws::Aws;
use crate::calls::{Answer, Call, Failure, Service, View};
use crate::core;
use crate::faults::{Fault, Faults};
use crate::invariants::Invariants;
use crate::outside::{Outside, START, after};
use crate::process::{Process, TaskCall};
use crate::server::{Change, Object, Server, Stored};
use crate::trace::Trace;
use crate::user::Deed;

/// How long others wait before they take a lease that is not renewed.
const LEASE: Duration = Duration::from_secs(15);
/// How long a caller waits for an answer.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);
/// How long after it was made a slow registration takes effect at most: nobody waits for longer than a minute for what
/// may come late.
const LATEST_REGISTRATION: Duration = Duration::from_secs(30);
/// Events of one moment, of which a few dozens are usual. More are a loop that waits for nothing.
const MOST_AT_ONCE: usize = 10_000;
/// How soon core reacts.
const CORE_DELAY: Duration = Duration::from_millis(500);

/// What is to happen.
enum Event {
    /// A call reaches its service.
    Effect(Box<Journey>),
    /// An answer reaches the process that waits for it.
    Answer {
        process: usize,
        task: u64,
        call: u64,
        answer: Answer,
    },
    /// A process has something to do.
    Advance(usize),
    /// A frozen process goes on.
    Thaw(usize),
    /// A process ends for good.
    End(usize),
    /// The lease has run out.
    Election,
    /// Core looks at its objects.
    Core,
    /// The user does something.
    Deed(Deed),
}

/// A call on its way, and what becomes of its answer.
struct Journey {
    process: usize,
    task: u64,
    call: Call,
    view: View,
    /// How long after the effect the answer arrives; `None`: nobody waits any more.
    answer_after: Option<Duration>,
    then_crash: bool,
    /// How late the caches show what it writes, beyond the usual.
    lag: Duration,
}

/// A call that was made, for sweeps and counts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Made {
    pub(crate) at: Timestamp,
    pub(crate) process: usize,
    pub(crate) service: Service,
    pub(crate) writes: bool,
}

/// A simulation and its time.
pub(crate) struct Simulation {
    pub(crate) outside: Outside,
    pub(crate) random: Rng,
    pub(crate) faults: Faults,
    pub(crate) invariants: Invariants,
    pub(crate) trace: Trace,
    /// Every call so far.
    pub(crate) made: Vec<Made>,
    /// The most AWSMachines that there were at a time.
    pub(crate) most_machines: usize,
    /// Processes by id; at most one is meant to lead.
    pub(crate) processes: BTreeMap<usize, Process>,
    born: usize,
    frozen: BTreeMap<usize, Vec<Event>>,
    leader: Option<usize>,
    events: BTreeMap<(Timestamp, u64), Event>,
    last_event: u64,
    /// How many events time has stood still for.
    at_once: usize,
    core_is_planned: bool,
    /// Whether a second process stands by all the time.
    standby: bool,
    /// Until then no process leads.
    down_until: Timestamp,
    /// The user's last snapshot of etcd.
    pub(crate) snapshot: Option<Stored>,
}

impl Simulation {
    pub(crate) fn new(seed: u64, faults: Faults, standby: bool, traced: bool) -> Self {
        // The runtime's back-off draws its jitter from the thread's generator.
        fastrand::seed(seed);
        Self {
            outside: Outside {
                now: START,
                server: Server::default(),
                aws: Aws::new(),
            },
            random: Rng::with_seed(seed),
            faults,
            invariants: Invariants::default(),
            trace: Trace::new(traced),
            made: Vec::new(),
            most_machines: 0,
            processes: BTreeMap::new(),
            born: 0,
            frozen: BTreeMap::new(),
            leader: None,
            events: BTreeMap::new(),
            last_event: 0,
            at_once: 0,
            core_is_planned: false,
            standby,
            down_until: START,
            snapshot: None,
        }
    }

    /// Starts the first process, and the one that stands by.
    pub(crate) fn start(&mut self) {
        self.settle(Duration::ZERO);
        self.be_born();
        if self.standby {
            self.be_born();
        }
        self.elect();
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.outside.now
    }

    /// Plans a deed of the user.
    pub(crate) fn plan(&mut self, at: Timestamp, deed: Deed) {
        self.push(at, Event::Deed(deed));
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
            if self.at_once > MOST_AT_ONCE {
                self.invariants
                    .violate(at, "hot: passes follow each other without any wait");
            }
        }
        self.outside.set_now(end);
    }

    /// All processes end; new ones come after so long, or later if they were stopped for longer before.
    pub(crate) fn stop(&mut self, long: Duration) {
        self.processes.clear();
        self.frozen.clear();
        self.leader = None;
        self.down_until = self.down_until.max(after(self.now(), long));
        self.push(self.down_until, Event::Election);
    }

    /// Whatever they were stopped for, processes come now.
    pub(crate) fn end_stop(&mut self) {
        self.down_until = self.now();
        self.push(self.down_until, Event::Election);
    }

    /// Processes get credentials of this key from now on, those that run already among them.
    pub(crate) fn replace_key(&mut self, access_key: &'static str) {
        self.outside.aws.given_key = access_key;
        for process in self.processes.values() {
            process.manager.replace_key(access_key);
        }
    }

    /// Core and caches get to know what has changed; the invariants see it first.
    pub(crate) fn settle(&mut self, lag: Duration) {
        let changes = self.outside.server.take_changes();
        self.most_machines = self.most_machines.max(self.outside.server.stored.aws_machines.len());
        for change in &changes {
            self.note_change(change);
            self.invariants.changed(change, &self.outside);
        }
        self.invariants.look(&mut self.outside);
        if changes.is_empty() {
            return;
        }
        let now = self.now();
        for change in changes {
            for process in self.processes.values_mut() {
                let usual = Duration::from_millis(self.random.u64(5..100));
                process.expect(after(now, usual + lag), change.clone());
            }
        }
        if !self.core_is_planned {
            self.core_is_planned = true;
            self.push(after(now, CORE_DELAY), Event::Core);
        }
        let all: Vec<usize> = self.processes.keys().copied().collect();
        for process in all {
            self.plan_advance(process);
        }
    }

    fn push(&mut self, at: Timestamp, event: Event) {
        self.last_event += 1;
        self.events.insert((at, self.last_event), event);
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Effect(journey) => self.reach(*journey),
            Event::Answer { process, .. } | Event::Advance(process) if self.frozen.contains_key(&process) => {
                self.frozen.entry(process).or_default().push(event);
            }
            Event::Answer {
                process,
                task,
                call,
                answer,
            } => {
                let now = self.now();
                if let Some(running) = self.processes.get_mut(&process) {
                    let asked = running.answered(task, call, answer, now);
                    self.send(process, asked);
                }
            }
            Event::Advance(process) => {
                let now = self.now();
                if let Some(running) = self.processes.get_mut(&process) {
                    running.planned = None;
                    let asked = running.advance(now);
                    self.send(process, asked);
                }
            }
            Event::Thaw(process) => self.thaw(process),
            Event::End(process) => self.end(process),
            Event::Election => self.elect(),
            Event::Core => {
                self.core_is_planned = false;
                let now = self.now();
                core::run(&mut self.outside.server, now);
                self.settle(Duration::ZERO);
            }
            Event::Deed(deed) => {
                let now = self.now();
                self.trace.note(now, || format!("user: {deed:?}"));
                deed.perform(self);
                self.settle(Duration::ZERO);
            }
        }
    }

    /// Sends the calls of a process, and plans when it goes on.
    fn send(&mut self, process: usize, asked: Vec<TaskCall>) {
        for (task, call) in asked {
            // A fault on an earlier call may have ended it.
            if self.processes.contains_key(&process) {
                self.issue(process, task, call);
            }
        }
        self.plan_advance(process);
    }

    fn plan_advance(&mut self, process: usize) {
        let now = self.now();
        let Some(running) = self.processes.get_mut(&process) else {
            return;
        };
        let Some(due) = running.next_due().map(|due| due.max(now)) else {
            return;
        };
        if running.planned.is_none_or(|planned| due < planned) {
            running.planned = Some(due);
            self.push(due, Event::Advance(process));
        }
    }

    fn issue(&mut self, process: usize, task: u64, call: Call) {
        let (now, action) = (self.now(), call.action);
        if let Service::Clock(long) = action.service {
            let answer = Event::Answer {
                process,
                task,
                call: call.id,
                answer: Answer::Given(Box::new(())),
            };
            return self.push(after(now, long), answer);
        }
        let number = self.made.len();
        self.made.push(Made {
            at: now,
            process,
            service: action.service,
            writes: action.writes,
        });
        let fault = self.faults.of(number, action, now, &mut self.random);
        self.trace.note(now, || {
            let fault = fault.map(|fault| format!("   << {fault:?}")).unwrap_or_default();
            format!("P{process} #{number} {} {}{fault}", action.name, call.about)
        });
        let id = call.id;
        let one_way = match action.service {
            Service::Aws => Duration::from_millis(self.random.u64(20..200)),
            Service::Kubernetes | Service::Clock(_) => Duration::from_millis(self.random.u64(1..20)),
        };
        let mut journey = Journey {
            process,
            task,
            call,
            view: View::Current,
            answer_after: Some(one_way),
            then_crash: false,
            lag: Duration::ZERO,
        };
        let mut effect_after = one_way;
        let gives_up = |failure| Event::Answer {
            process,
            task,
            call: id,
            answer: Answer::Failed(failure),
        };
        match fault {
            None => {}
            Some(Fault::CrashBefore) => return self.crash(process),
            Some(Fault::CrashAfter) => journey.then_crash = true,
            Some(Fault::LostAnswer) => {
                journey.answer_after = None;
                self.push(after(now, CALL_TIMEOUT), gives_up(Failure::NoAnswer));
            }
            Some(Fault::Dropped) => return self.push(after(now, CALL_TIMEOUT), gives_up(Failure::NoAnswer)),
            Some(Fault::LateEffect(late)) => {
                journey.answer_after = None;
                effect_after = CALL_TIMEOUT + late;
                self.push(after(now, CALL_TIMEOUT), gives_up(Failure::NoAnswer));
            }
            Some(Fault::Throttled) => return self.push(after(now, one_way), gives_up(Failure::Throttled)),
            Some(Fault::Refused(code)) => return self.push(after(now, one_way), gives_up(Failure::Refused(code))),
            Some(Fault::Stale) => {
                journey.view = View::Stale;
                journey.lag = Duration::from_secs(self.random.u64(20..45));
            }
            Some(Fault::Slow(long)) => {
                effect_after = long / 2;
                if action.name.contains("egister") {
                    effect_after = effect_after.min(LATEST_REGISTRATION);
                }
                journey.answer_after = Some(long.saturating_sub(effect_after));
            }
            Some(Fault::Frozen(long)) => self.freeze(process, long),
        }
        self.push(after(now, effect_after), Event::Effect(Box::new(journey)));
    }

    fn reach(&mut self, journey: Journey) {
        let Journey {
            process,
            task,
            call,
            view,
            answer_after,
            then_crash,
            lag,
        } = journey;
        let answer = Answer::Given((call.effect)(&mut self.outside, view));
        self.settle(lag);
        if then_crash {
            self.crash(process);
        } else if let Some(way) = answer_after {
            let answer = Event::Answer {
                process,
                task,
                call: call.id,
                answer,
            };
            self.push(after(self.now(), way), answer);
        }
    }

    fn be_born(&mut self) -> usize {
        let id = self.born;
        self.born += 1;
        let stored = self.outside.server.stored.clone();
        let process = Process::new(id, stored, self.outside.aws.given_key);
        self.processes.insert(id, process);
        id
    }

    /// A process dies; where it led, another leads once the lease has run out.
    fn crash(&mut self, process: usize) {
        let now = self.now();
        self.trace.note(now, || format!("P{process} crashes"));
        self.end(process);
    }

    pub(crate) fn end(&mut self, process: usize) {
        self.processes.remove(&process);
        self.frozen.remove(&process);
        if self.leader == Some(process) {
            self.leader = None;
            self.plan_election();
        }
        if self.standby && self.processes.len() < 2 {
            self.be_born();
        }
    }

    fn plan_election(&mut self) {
        let delay = LEASE + Duration::from_millis(self.random.u64(0..2_500));
        self.push(after(self.now(), delay), Event::Election);
    }

    fn elect(&mut self) {
        if self.now() < self.down_until {
            return;
        }
        if self.standby && self.processes.len() < 2 {
            self.be_born();
        }
        if let Some(leader) = self.leader
            && !self.frozen.contains_key(&leader)
        {
            return;
        }
        let awake = |id: &&usize| !self.frozen.contains_key(*id) && Some(**id) != self.leader;
        let elected = self.processes.keys().find(awake).copied();
        let elected = elected.unwrap_or_else(|| self.be_born());
        let now = self.now();
        self.trace.note(now, || format!("P{elected} leads"));
        self.leader = Some(elected);
        if let Some(process) = self.processes.get_mut(&elected) {
            process.lead(now);
        }
        self.plan_advance(elected);
    }

    fn freeze(&mut self, process: usize, long: Duration) {
        if self.frozen.contains_key(&process) {
            return;
        }
        let now = self.now();
        self.trace.note(now, || format!("P{process} stands still for {long:?}"));
        self.frozen.insert(process, Vec::new());
        self.push(after(now, long), Event::Thaw(process));
        if self.leader == Some(process) {
            self.plan_election();
        }
    }

    /// The process goes on; where another leads by now it ends soon, but not at once.
    fn thaw(&mut self, process: usize) {
        let Some(held) = self.frozen.remove(&process) else {
            return;
        };
        let now = self.now();
        self.trace.note(now, || format!("P{process} goes on"));
        for event in held {
            let moment = Duration::from_millis(self.random.u64(0..300));
            self.push(after(now, moment), event);
        }
        if self.leader != Some(process) {
            if let Some(process) = self.processes.get(&process) {
                process.manager.state().overtaken = true;
            }
            let grace = Duration::from_millis(self.random.u64(0..3_000));
            self.push(after(now, grace), Event::End(process));
        }
    }

    fn note_change(&mut self, change: &Change) {
        let now = self.now();
        self.trace.note(now, || match change {
            Change::Deleted(object) => format!("    {:?} {} is gone", object.kind(), object.name()),
            Change::Applied(Object::AwsMachine(machine)) => describe(machine),
            Change::Applied(object) => format!("    {:?} {} changed", object.kind(), object.name()),
        });
    }
}

fn describe(machine: &capa_api::machine::AWSMachine) -> String {
    let metadata = &machine.metadata;
    let status = machine.status.clone().unwrap_or_default();
    let launch = status.launch.as_ref().map(|launch| {
        let request = launch.request();
        let token = request.map(|request| request.client_token.as_str()).unwrap_or_default();
        let subnet = request.map(|request| request.subnet_id.as_str()).unwrap_or_default();
        let instance = launch.instance_id().unwrap_or("-");
        let phase = match launch {
            LaunchRecord::Planned => "Planned",
            LaunchRecord::Requested(_) => "Requested",
            LaunchRecord::Refused(_) => "Refused",
            LaunchRecord::Answered { .. } => "Answered",
            LaunchRecord::Unreadable(_) => "unreadable",
        };
        format!(
            "{phase} {} {token} {subnet} instance {instance}",
            launch.attempt_number()
        )
    });
    let conditions = status.conditions.iter().filter(|condition| condition.status != "True");
    let conditions =
        conditions.map(|condition| format!("{}={}: {}", condition.type_, condition.reason, condition.message));
    let conditions: Vec<String> = conditions.collect();
    format!(
        "    AWSMachine {}@{}{}{} launch: {}; network {}; {}",
        metadata.name.as_deref().unwrap_or_default(),
        metadata.resource_version.as_deref().unwrap_or_default(),
        if metadata.deletion_timestamp.is_some() {
            " deleted"
        } else {
            ""
        },
        if metadata
            .finalizers
            .as_ref()
            .is_some_and(|finalizers| !finalizers.is_empty())
        {
            " held"
        } else {
            ""
        },
        launch.as_deref().unwrap_or("none"),
        if status.network.is_some() { "frozen" } else { "none" },
        conditions.join("; ")
    )
}
