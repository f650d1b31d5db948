//! Lookups of the instances of machines before their launch. Machines that wait at the same time share a call.
//!
//! A machine asks as soon as it waits for its launch, and needs the answer at its turn. A call looks for all machines
//! whose turns come soon. Its answer counts only for machines that had asked before the call began, and only once: the
//! answer cannot contain an instance that a machine launches after the call.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use capa_api::meta;

use crate::informer::{Epoch, VALUES_PER_FILTER};
use crate::{CloudError, ErrorClass, Instance, MachineKey, Query, Timing, doubled_wait};

/// The time after a call in which requests are gathered for longer, as a multiple of the usual time, because the
/// machines of a growing cluster ask one after the other.
const FOLLOWS: u32 = 15;
/// The time for which requests are gathered then, as a multiple of the usual time.
const GATHERED_LONGER: u32 = 5;
/// The time for which an answer is kept, as a multiple of its maximum age.
const KEPT: u32 = 20;

/// What a machine looks for before a call of its launch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstanceLookup {
    /// Client token of the call. It names the AWSMachine by its UID, so that no answer counts for another AWSMachine of
    /// the same name, or for another call.
    pub client_token: String,
    /// Value of the tag `MachineName`. It contains no wildcards and is at most as long as a tag value.
    pub machine_name: String,
}

/// The answer to a lookup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LookupAnswer {
    /// The instances with this machine name. Their other tags may belong to another cluster.
    Found(Vec<Instance>),
    /// There is no answer yet; its arrival wakes the machine. Contains the error of the last call if that call failed.
    Pending(Option<CloudError>),
    /// The answer is too old to prove anything. The machine makes a call of its own at once: it came late for the
    /// answer, and may come late for the next one, too.
    Expired,
}

/// The lookups of one call of DescribeInstances.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LookupBatch {
    pub(crate) began: Epoch,
    /// The time at which the call began.
    began_at: Duration,
    names: BTreeSet<String>,
    /// The machines, each with the number of its request.
    requests: Vec<(MachineKey, u64)>,
}

impl LookupBatch {
    /// The query of the call.
    pub fn query(&self) -> Query {
        Query::filter(format!("tag:{}", meta::MACHINE_NAME_TAG), self.names.iter().cloned())
    }
}

enum Progress {
    Waiting,
    UnderWay,
    Answered { at: Duration, found: Vec<Instance> },
}

struct Request {
    number: u64,
    wanted: InstanceLookup,
    /// Number of replacements of the credentials when the machine asked.
    replacements: u64,
    /// The time until which requests of other machines are gathered.
    gathered: Duration,
    /// The time from which the machine waits for the answer.
    needed: Duration,
    progress: Progress,
}

/// The time since the origin of the session, and the number of replacements of its credentials until then.
#[derive(Clone, Copy, Debug)]
pub(crate) struct At {
    pub(crate) now: Duration,
    pub(crate) replacements: u64,
}

/// All lookups of a session.
pub(crate) struct Lookups {
    timing: Timing,
    requests: HashMap<MachineKey, Request>,
    /// The number of the last request.
    last: u64,
    woken: BTreeSet<MachineKey>,
    last_call: Option<Duration>,
    /// Number of calls that are under way.
    under_way: usize,
    /// The error of the last call, if it has failed.
    failure: Option<CloudError>,
    /// Number of failures in a row.
    failures: u32,
    /// The time of the last failure that was counted.
    failed_at: Duration,
    /// The time before which no call is made after a failure.
    not_before: Duration,
    replacements: u64,
}

impl Lookups {
    pub(crate) fn new(timing: Timing) -> Self {
        Self {
            timing,
            requests: HashMap::new(),
            last: 0,
            woken: BTreeSet::new(),
            last_call: None,
            under_way: 0,
            failure: None,
            failures: 0,
            failed_at: Duration::ZERO,
            not_before: Duration::ZERO,
            replacements: 0,
        }
    }

    /// Records that a machine will need the answer after `turn_in`, when its turn to launch comes.
    pub(crate) fn announce(&mut self, machine: &MachineKey, wanted: &InstanceLookup, turn_in: Duration, at: At) {
        let needed = at.now + turn_in;
        match self.current(machine, wanted, at) {
            Some(request) => request.needed = needed,
            None => self.ask(machine, wanted, needed, at),
        }
    }

    /// The answer for a machine whose turn to launch has come. An answer is returned once.
    pub(crate) fn look_up(&mut self, machine: &MachineKey, wanted: &InstanceLookup, at: At) -> LookupAnswer {
        let age = self.timing.lookup_age;
        let Some(request) = self.current(machine, wanted, at) else {
            self.ask(machine, wanted, at.now, at);
            return LookupAnswer::Pending(self.failure.clone());
        };
        request.needed = request.needed.min(at.now);
        match &mut request.progress {
            Progress::Answered { at: answered, found } if at.now.saturating_sub(*answered) <= age => {
                let found = std::mem::take(found);
                self.forget(machine);
                return LookupAnswer::Found(found);
            }
            Progress::Answered { .. } => {
                self.forget(machine);
                return LookupAnswer::Expired;
            }
            Progress::Waiting | Progress::UnderWay => {}
        }
        LookupAnswer::Pending(self.failure.clone())
    }

    /// Forgets what a machine has asked for. An answer that is under way no longer counts.
    pub(crate) fn forget(&mut self, machine: &MachineKey) {
        self.requests.remove(machine);
        self.woken.remove(machine);
    }

    /// The next call that is due. Call this function until it returns `None`.
    pub(crate) fn begin(&mut self, now: Duration, epoch: impl FnOnce() -> Epoch) -> Option<LookupBatch> {
        self.drop_unused(now);
        if self.next_due().is_none_or(|due| now < due) {
            return None;
        }
        let until = now + self.timing.lookup_ahead;
        let waiting = self.requests.iter_mut();
        let mut waiting: Vec<_> = waiting
            .filter(|(_, request)| matches!(request.progress, Progress::Waiting) && request.needed <= until)
            .collect();
        waiting.sort_unstable_by_key(|(_, request)| (request.needed, request.number));
        let (mut names, mut requests) = (BTreeSet::new(), Vec::new());
        for (machine, request) in waiting.into_iter().take(VALUES_PER_FILTER) {
            request.progress = Progress::UnderWay;
            names.insert(request.wanted.machine_name.clone());
            requests.push((machine.clone(), request.number));
        }
        self.under_way += 1;
        self.last_call = Some(now);
        Some(LookupBatch { began: epoch(), began_at: now, names, requests })
    }

    /// Processes the answer of a call.
    pub(crate) fn ended(&mut self, batch: LookupBatch, answer: &Result<Vec<Instance>, CloudError>, now: Duration) {
        self.under_way = self.under_way.saturating_sub(1);
        let is_news = answer.as_ref().err() != self.failure.as_ref();
        for (machine, number) in batch.requests {
            let Some(request) = self.requests.get_mut(&machine).filter(|request| request.number == number) else {
                continue;
            };
            request.progress = match answer {
                Ok(instances) => {
                    Progress::Answered { at: now, found: of_machine(instances, &request.wanted.machine_name) }
                }
                Err(_) => Progress::Waiting,
            };
            if request.needed <= now && (answer.is_ok() || is_news) {
                self.woken.insert(machine);
            }
        }
        match answer {
            Ok(_) => self.recover(),
            Err(error) => {
                // Calls that were under way together count once.
                if self.failures == 0 || batch.began_at >= self.failed_at {
                    self.not_before = now + self.pause(error.class);
                    self.failures = self.failures.saturating_add(1);
                    self.failed_at = now;
                }
                self.failure = Some(error.clone());
            }
        }
    }

    /// The time of the next call from [`Lookups::begin`].
    pub(crate) fn next_due(&self) -> Option<Duration> {
        if self.failures > 0 && self.under_way > 0 {
            // One call shows whether AWS answers again.
            return None;
        }
        let waiting = self.requests.values();
        let waiting = waiting.filter(|request| matches!(request.progress, Progress::Waiting));
        let early = self.timing.rate_second * 2;
        let due = waiting.map(|request| request.gathered.max(request.needed.saturating_sub(early)));
        due.min().map(|due| due.max(self.not_before))
    }

    pub(crate) fn take_woken(&mut self) -> BTreeSet<MachineKey> {
        std::mem::take(&mut self.woken)
    }

    /// Number of stored entries.
    pub(crate) fn entries(&self) -> usize {
        self.requests.len() + self.woken.len()
    }

    /// The request of a machine, if it is for the same lookup with the same credentials.
    fn current(&mut self, machine: &MachineKey, wanted: &InstanceLookup, at: At) -> Option<&mut Request> {
        let request = self.requests.get_mut(machine)?;
        (request.wanted == *wanted && request.replacements == at.replacements).then_some(request)
    }

    fn ask(&mut self, machine: &MachineKey, wanted: &InstanceLookup, needed: Duration, at: At) {
        if self.replacements != at.replacements {
            // AWS may answer calls with other credentials.
            self.replacements = at.replacements;
            self.recover();
        }
        let gathering = self.timing.lookup_gathering;
        let follows = self.last_call.is_some_and(|last| at.now < last + gathering * FOLLOWS);
        let times = if follows { GATHERED_LONGER } else { 1 };
        self.last += 1;
        let request = Request {
            number: self.last,
            wanted: wanted.clone(),
            replacements: at.replacements,
            gathered: at.now + gathering * times,
            needed,
            progress: Progress::Waiting,
        };
        self.requests.insert(machine.clone(), request);
    }

    fn recover(&mut self) {
        self.failure = None;
        self.failures = 0;
        self.not_before = Duration::ZERO;
    }

    /// The pause after a failed call. All machines of the session share it.
    fn pause(&self, failure: ErrorClass) -> Duration {
        let timing = &self.timing;
        match failure {
            ErrorClass::Throttled => timing.source_retry / 4,
            class if class.is_permanent() => timing.refusal_wait(self.failures),
            _ => doubled_wait(timing.source_retry, self.failures, timing.source_retry_cap),
        }
    }

    /// Drops answers that nobody will use. Those that have become too old are kept for a while, for machines that come
    /// late: see [`LookupAnswer::Expired`].
    fn drop_unused(&mut self, now: Duration) {
        let age = self.timing.lookup_age * KEPT;
        self.requests.retain(|_, request| match request.progress {
            Progress::Answered { at, .. } => now.saturating_sub(at) <= age,
            Progress::Waiting | Progress::UnderWay => true,
        });
    }
}

/// The instances with exactly this name of a machine.
fn of_machine(instances: &[Instance], name: &str) -> Vec<Instance> {
    let has_name = |instance: &&Instance| instance.tags.get(meta::MACHINE_NAME_TAG).is_some_and(|tag| tag == name);
    instances.iter().filter(has_name).cloned().collect()
}

#[cfg(test)]
mod tests;
