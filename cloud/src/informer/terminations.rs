//! Instances that are to be terminated: collected into batches, each one call.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::time::Duration;

use crate::{CloudError, ErrorClass, InstanceState, MachineKey};

use super::InstanceInformer;
use super::compact::CompactInstance;
use super::record::Record;

/// Instances in one call. Two seconds of what EC2 terminates a second: a larger batch would only wait longer for its
/// turn.
const MOST: usize = 40;

/// Instances that one TerminateInstances call names. Its answer goes to [`super::InstanceInformer::termination_ended`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TerminationBatch {
    pub(super) ids: Vec<String>,
}

impl TerminationBatch {
    /// The instances.
    pub fn ids(&self) -> &[String] {
        &self.ids
    }

    /// The same in two, so that what AWS refuses for one of them is found.
    fn halves(mut self) -> [Self; 2] {
        let second = self.ids.split_off(self.ids.len() / 2);
        [self, Self { ids: second }]
    }
}

/// A batch that is still being filled.
struct Open {
    since: Duration,
    ids: Vec<String>,
}

/// What became of the request to terminate an instance.
#[derive(Default)]
struct Request {
    /// Whether it waits for a call or is in one.
    pending: bool,
    /// What AWS said to the last call.
    failure: Option<CloudError>,
    /// Whether the machine was told of that.
    told: bool,
}

/// Everything that is to be terminated.
pub(super) struct Terminations {
    /// How long a batch stays open.
    window: Duration,
    requests: HashMap<String, Request>,
    /// By zone: EC2 carries a refused call out in part, zone by zone, so what it says of a batch of one zone holds for
    /// all of it.
    open: BTreeMap<String, Open>,
    ready: VecDeque<TerminationBatch>,
}

impl Terminations {
    pub(super) fn new(window: Duration) -> Self {
        Self {
            window,
            requests: HashMap::new(),
            open: BTreeMap::new(),
            ready: VecDeque::new(),
        }
    }

    /// Submits an instance unless it is submitted already. After a failed call it gives that failure first, and then
    /// with each new submission until one succeeds.
    pub(super) fn submit(&mut self, id: &str, zone: &str, now: Duration) -> Result<(), CloudError> {
        let request = self.requests.entry(id.to_owned()).or_default();
        if let Some(failure) = request.failure.clone().filter(|_| !request.told) {
            // The machine that is told for the first time decides when to try again.
            request.told = true;
            return Err(failure);
        }
        let answer = request.failure.clone().map_or(Ok(()), Err);
        if !request.pending {
            request.pending = true;
            let open = self.open.entry(zone.to_owned()).or_insert_with(|| Open {
                since: now,
                ids: Vec::new(),
            });
            open.ids.push(id.to_owned());
            if open.ids.len() >= MOST {
                let ids = std::mem::take(&mut open.ids);
                self.open.remove(zone);
                self.ready.push_back(TerminationBatch { ids });
            }
        }
        answer
    }

    /// The next batch that is due.
    pub(super) fn begin(&mut self, now: Duration) -> Option<TerminationBatch> {
        let window = self.window;
        let due = |open: &Open| open.since + window <= now;
        let zone = self
            .open
            .iter()
            .find(|(_, open)| due(open))
            .map(|(zone, _)| zone.clone());
        if let Some(open) = zone.and_then(|zone| self.open.remove(&zone)) {
            self.ready.push_back(TerminationBatch { ids: open.ids });
        }
        self.ready.pop_front()
    }

    /// When [`Terminations::begin`] will have a batch.
    pub(super) fn next_due(&self) -> Option<Duration> {
        if !self.ready.is_empty() {
            return Some(Duration::ZERO);
        }
        self.open.values().map(|open| open.since + self.window).min()
    }

    pub(super) fn succeeded(&mut self, batch: &TerminationBatch) {
        for id in &batch.ids {
            self.requests.remove(id);
        }
    }

    /// Sees to what a failed call leaves open, and gives the instances of which something new is to be told.
    pub(super) fn failed(&mut self, batch: TerminationBatch, error: &CloudError) -> BTreeSet<String> {
        if error.class == ErrorClass::Throttled {
            self.ready.push_front(batch);
            return BTreeSet::new();
        }
        if batch.ids.len() > 1 && concerns_single_instances(error) {
            self.ready.extend(batch.halves());
            return BTreeSet::new();
        }
        let mut news = BTreeSet::new();
        for id in batch.ids {
            let request = self.requests.entry(id.clone()).or_default();
            request.pending = false;
            if request.failure.as_ref() != Some(error) {
                request.failure = Some(error.clone());
                request.told = false;
                news.insert(id);
            }
        }
        news
    }

    /// How many instances are kept here.
    pub(super) fn entries(&self) -> usize {
        let batches = self.ready.iter().map(|batch| batch.ids.len());
        self.requests.len()
            + self
                .open
                .values()
                .map(|open| open.ids.len())
                .chain(batches)
                .sum::<usize>()
    }

    /// Forgets the failure of an instance that no machine watches any more. A submitted instance stays submitted.
    pub(super) fn forget(&mut self, id: &str) {
        if self.requests.get(id).is_some_and(|request| !request.pending) {
            self.requests.remove(id);
        }
    }
}

/// Whether a call may have failed for one instance that it names, and succeeds for the others without it.
fn concerns_single_instances(error: &CloudError) -> bool {
    matches!(error.class, ErrorClass::NotFound | ErrorClass::Invalid)
        // The policy may tell instances apart; broken credentials have other codes.
        || error.code.as_deref() == Some("UnauthorizedOperation")
}

impl InstanceInformer {
    /// Submits an instance to be terminated; doing so again changes nothing until AWS has answered. The new state, or a
    /// failure, wakes the machine. Nothing is lost with a process that ends: the instance lives on, and the next
    /// process submits it again.
    ///
    /// # Errors
    /// What AWS said to the last call for this instance: once after that call without submitting it, and then with each
    /// new submission until one succeeds.
    pub fn terminate(
        &mut self,
        machine: &MachineKey,
        cluster: &str,
        id: &str,
        now: Duration,
    ) -> Result<(), CloudError> {
        self.watch(machine, cluster, id);
        let kept = self.records.get(id).and_then(Record::kept);
        let zone = kept.map_or("", CompactInstance::availability_zone);
        self.terminations.submit(id, zone, now)
    }

    /// The next batch of instances that is due to be terminated. Call it until it gives none.
    pub fn next_termination(&mut self, now: Duration) -> Option<TerminationBatch> {
        self.terminations.begin(now)
    }

    /// The answer to a termination: the new states that it shows. A refusal that may concern one instance splits the
    /// batch, so that none is held up by another; a throttle repeats it.
    pub fn termination_ended(
        &mut self,
        batch: TerminationBatch,
        answer: Result<Vec<(String, InstanceState)>, CloudError>,
    ) {
        match answer {
            Ok(states) => {
                self.terminations.succeeded(&batch);
                for (id, state) in states {
                    self.changed_state(&id, state);
                }
            }
            Err(error) => {
                let ids = batch.ids.clone();
                let news = self.terminations.failed(batch, &error);
                for id in ids {
                    let record = self.records.get(id.as_str());
                    let watchers = record.map_or(&[][..], |record| record.watchers.as_slice());
                    if watchers.is_empty() {
                        // Its machine went while the call was under way.
                        self.terminations.forget(&id);
                    } else if news.contains(&id) {
                        self.woken
                            .extend(watchers.iter().map(|machine| machine.as_ref().clone()));
                    }
                }
            }
        }
    }
}
