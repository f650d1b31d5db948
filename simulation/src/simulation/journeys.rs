//! The way of a call: from the process that makes it to its service and back, and what goes wrong on it.

use std::time::Duration;

use super::{Event, Made, Simulation};
use crate::aws::View;
use crate::calls::{Answer, Call, Failure, Service};
use crate::coverage::{Covered, Situation};
use crate::faults::Fault;
use crate::follow_up::Occasion;
use crate::management_cluster::ManagementCluster;
use crate::process::TaskCall;
use crate::time::after;

/// How long a caller waits for an answer.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);
/// How long after it was made a slow registration takes effect at most: nobody waits for longer than a minute for what
/// may come late.
const LATEST_REGISTRATION: Duration = Duration::from_secs(30);

/// A call on its way, and what becomes of its answer.
pub(super) struct Journey {
    of: ManagementCluster,
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

impl Simulation {
    /// Sends the calls of a process, and plans when it goes on.
    pub(super) fn send(&mut self, process: usize, asked: Vec<TaskCall>) {
        for (task, call) in asked {
            // A fault on an earlier call may have ended it.
            if let Some(of) = self.processes.get(&process).map(|process| process.of) {
                self.issue(of, process, task, call);
            }
        }
        self.plan_advance(process);
    }

    fn issue(&mut self, of: ManagementCluster, process: usize, task: u64, call: Call) {
        let (now, action) = (self.now(), call.action);
        if let Service::Clock(long) = action.service {
            let answer = Answer::Given(Box::new(()));
            return self.answer(long, process, task, call.id, answer);
        }
        let number = self.made.len();
        self.made.push(Made { at: now, process, service: action.service, action: action.name, writes: action.writes });
        let chaos = now < self.chaos_until;
        let fault = self.faults.of(number, action, chaos, &mut self.random);
        self.trace.note(now, || {
            let fault = fault.map(|fault| format!("   << {fault:?}")).unwrap_or_default();
            format!("P{process} #{number} {} {}{fault}", action.name, call.about)
        });
        if let Some(fault) = fault {
            self.note_fault(of, fault, action.is_launch());
        }
        let one_way = match action.service {
            Service::Aws => Duration::from_millis(self.random.u64(20..200)),
            Service::Kubernetes | Service::Clock(_) => Duration::from_millis(self.random.u64(1..20)),
        };
        let journey = Journey {
            of,
            process,
            task,
            call,
            view: View::Current,
            answer_after: Some(one_way),
            then_crash: false,
            lag: Duration::ZERO,
        };
        self.depart(journey, one_way, fault);
    }

    /// Plans when a call takes effect, if it does.
    fn depart(&mut self, mut journey: Journey, one_way: Duration, fault: Option<Fault>) {
        let mut effect_after = one_way;
        match fault {
            None => {}
            Some(Fault::CrashBefore) => return self.crash(journey.process),
            Some(Fault::CrashAfter) => journey.then_crash = true,
            Some(Fault::LostAnswer) => {
                journey.answer_after = None;
                self.fail(&journey, CALL_TIMEOUT, Failure::NoAnswer);
            }
            Some(Fault::Dropped) => return self.fail(&journey, CALL_TIMEOUT, Failure::NoAnswer),
            Some(Fault::LateEffect(late)) => {
                journey.answer_after = None;
                effect_after = CALL_TIMEOUT + late;
                self.fail(&journey, CALL_TIMEOUT, Failure::NoAnswer);
            }
            Some(Fault::Throttled) => return self.fail(&journey, one_way, Failure::Throttled),
            Some(Fault::Refused(code)) => return self.fail(&journey, one_way, Failure::Refused(code)),
            Some(Fault::Stale) => {
                journey.view = View::Stale;
                journey.lag = Duration::from_secs(self.random.u64(20..45));
            }
            Some(Fault::Slow(long)) => {
                effect_after = long / 2;
                if journey.call.action.name.contains("egister") {
                    effect_after = effect_after.min(LATEST_REGISTRATION);
                }
                journey.answer_after = Some(long.saturating_sub(effect_after));
            }
            Some(Fault::Frozen(long)) => self.freeze(journey.process, long),
        }
        self.push(after(self.now(), effect_after), Event::Effect(Box::new(journey)));
    }

    pub(super) fn reach(&mut self, journey: Journey) {
        let Journey { of, process, task, call, view, answer_after, then_crash, lag } = journey;
        let unreachable_until = match call.action.service {
            Service::Aws => self.outside.aws.unreachable_until(),
            Service::Kubernetes | Service::Clock(_) => self.outside.server(of).unreachable_until,
        };
        let answer = if unreachable_until.is_some_and(|until| self.now() < until) {
            Answer::Failed(Failure::NoAnswer)
        } else {
            let answer = (call.effect)(&mut self.outside, view);
            self.settle(lag);
            Answer::Given(answer)
        };
        if then_crash {
            self.crash(process);
        } else if let Some(way) = answer_after {
            self.answer(way, process, task, call.id, answer);
        }
    }

    /// The caller hears so much later why its call has no answer.
    fn fail(&mut self, journey: &Journey, after: Duration, failure: Failure) {
        let Journey { process, task, call, .. } = journey;
        self.answer(after, *process, *task, call.id, Answer::Failed(failure));
    }

    fn answer(&mut self, long: Duration, process: usize, task: u64, call: u64, answer: Answer) {
        let answer = Event::Answer { process, task, call, answer };
        self.push(after(self.now(), long), answer);
    }

    /// A launch whose answer goes astray leaves an attempt open, which is an occasion.
    fn note_fault(&mut self, of: ManagementCluster, fault: Fault, is_launch: bool) {
        self.coverage.met(Covered::Fault(fault.kind()));
        if !is_launch {
            return;
        }
        self.coverage.met(Covered::LaunchFault(fault.kind()));
        if fault.kind().leaves_caller_without_answer() {
            self.coverage.situation(Situation::LaunchUnanswered);
            let open = self.outside.server(of).open_attempts();
            if let Some(machine) = self.random.choice(open) {
                self.follow(Occasion::LaunchUnanswered, of, machine);
            }
        }
    }
}
