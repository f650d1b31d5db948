//! Batches of instances to terminate. Each batch is one call.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use crate::limits::{CallRequest, Flow};
use crate::{CloudError, ClusterKey, ErrorClass, InstanceState, MachineKey};

use super::InstanceInformer;
use super::compact::CompactInstance;
use super::record::Record;

/// Maximum number of instances in one call. EC2 terminates as many instances in two seconds; a larger batch would wait
/// longer for its turn.
const MAX_IDS: usize = 40;

/// The time after a call in which the next batch of the same cluster is gathered for longer, as a multiple of the usual
/// time: the machines of a cluster that is scaled down or deleted are submitted one after the other.
const GATHERED_LONGER: u32 = 3;

/// The instances of one TerminateInstances call, all of one cluster. The answer goes to
/// [`super::InstanceInformer::termination_ended`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TerminationBatch {
    cluster: ClusterKey,
    pub(super) ids: Vec<String>,
    /// The zone of each instance.
    zones: Vec<Arc<str>>,
}

impl TerminationBatch {
    /// The instances.
    pub fn ids(&self) -> &[String] {
        &self.ids
    }

    /// The request for a turn at the rate limiter. The batch uses the turns of its cluster, so that the terminations of
    /// one tenant do not delay those of another tenant of the same session.
    pub fn rate_request(&self) -> CallRequest {
        CallRequest::terminate(&Flow::Cluster(self.cluster.clone()), &self.ids)
    }

    /// Splits the batch to isolate the instance that AWS refuses: by zone, and a batch of one zone in two. EC2 executes
    /// a refused call in part, zone by zone, so that only the answer for a batch of one zone is valid for the whole
    /// batch.
    fn split(mut self) -> Vec<Self> {
        let mut by_zone: BTreeMap<Arc<str>, Vec<String>> = BTreeMap::new();
        for (id, zone) in self.ids.iter().zip(&self.zones) {
            by_zone.entry(zone.clone()).or_default().push(id.clone());
        }
        let cluster = self.cluster.clone();
        if by_zone.len() > 1 {
            let of_zone = |(zone, ids): (Arc<str>, Vec<String>)| Self {
                cluster: cluster.clone(),
                zones: vec![zone; ids.len()],
                ids,
            };
            return by_zone.into_iter().map(of_zone).collect();
        }
        let half = self.ids.len() / 2;
        let (ids, zones) = (self.ids.split_off(half), self.zones.split_off(half));
        vec![self, Self { cluster, ids, zones }]
    }
}

/// A batch that accepts more instances.
struct Open {
    /// The time of its call, unless it is full before.
    due: Duration,
    ids: Vec<String>,
    zones: Vec<Arc<str>>,
}

/// The state of the request to terminate an instance.
#[derive(Default)]
struct Request {
    /// Whether the instance waits for a call, or its call is under way.
    pending: bool,
    /// The error of the last call.
    failure: Option<CloudError>,
    /// Whether the machine has received the error.
    reported: bool,
    /// Whether AWS has refused a call for this instance alone. Such an instance never shares a call again, because its
    /// batch would be split again at each repetition.
    is_refused_alone: bool,
}

/// All instances to terminate.
pub(super) struct Terminations {
    /// The time for which the first batch of a cluster stays open.
    window: Duration,
    requests: HashMap<String, Request>,
    open: BTreeMap<ClusterKey, Open>,
    /// The times until which the next batches of clusters are gathered for longer.
    recent: BTreeMap<ClusterKey, Duration>,
    ready: VecDeque<TerminationBatch>,
}

impl Terminations {
    pub(super) fn new(window: Duration) -> Self {
        Self {
            window,
            requests: HashMap::new(),
            open: BTreeMap::new(),
            recent: BTreeMap::new(),
            ready: VecDeque::new(),
        }
    }

    /// Submits an instance, unless it is submitted already. After a failed call the function first returns the error,
    /// and then returns it with each new submission until a call succeeds.
    pub(super) fn submit(
        &mut self,
        id: &str,
        cluster: ClusterKey,
        zone: &str,
        now: Duration,
    ) -> Result<(), CloudError> {
        let request = self.requests.entry(id.to_owned()).or_default();
        if let Some(failure) = request.failure.clone().filter(|_| !request.reported) {
            // A machine that receives the error for the first time decides when to submit again.
            request.reported = true;
            return Err(failure);
        }
        let answer = request.failure.clone().map_or(Ok(()), Err);
        if request.pending {
            return answer;
        }
        request.pending = true;
        if request.is_refused_alone {
            let (ids, zones) = (vec![id.to_owned()], vec![zone.into()]);
            self.ready.push_back(TerminationBatch { cluster, ids, zones });
        } else {
            self.join(id, cluster, zone, now);
        }
        answer
    }

    /// Adds an instance to the open batch of its cluster.
    fn join(&mut self, id: &str, cluster: ClusterKey, zone: &str, now: Duration) {
        let times = if self.recent.get(&cluster).is_some_and(|until| now < *until) { GATHERED_LONGER } else { 1 };
        let due = now + self.window * times;
        let open = self.open.entry(cluster.clone()).or_insert_with(|| Open { due, ids: Vec::new(), zones: Vec::new() });
        open.ids.push(id.to_owned());
        open.zones.push(zone.into());
        if open.ids.len() >= MAX_IDS {
            self.close(cluster, now);
        }
    }

    /// Makes an open batch ready for its call.
    fn close(&mut self, cluster: ClusterKey, now: Duration) {
        if let Some(Open { ids, zones, .. }) = self.open.remove(&cluster) {
            self.recent.insert(cluster.clone(), now + self.window * GATHERED_LONGER);
            self.ready.push_back(TerminationBatch { cluster, ids, zones });
        }
    }

    /// The next batch that is due.
    pub(super) fn begin(&mut self, now: Duration) -> Option<TerminationBatch> {
        self.recent.retain(|_, until| now < *until);
        let due = self.open.iter().find(|(_, open)| open.due <= now);
        if let Some(cluster) = due.map(|(cluster, _)| cluster.clone()) {
            self.close(cluster, now);
        }
        self.ready.pop_front()
    }

    /// The time of the next batch from [`Terminations::begin`].
    pub(super) fn next_due(&self) -> Option<Duration> {
        if !self.ready.is_empty() {
            return Some(Duration::ZERO);
        }
        self.open.values().map(|open| open.due).min()
    }

    pub(super) fn succeeded(&mut self, batch: &TerminationBatch) {
        for id in &batch.ids {
            self.requests.remove(id);
        }
    }

    /// Processes a failed call: splits or repeats the batch. Returns the instances whose machines must be woken.
    pub(super) fn failed(&mut self, batch: TerminationBatch, error: &CloudError) -> BTreeSet<String> {
        if error.class == ErrorClass::Throttled {
            self.ready.push_front(batch);
            return BTreeSet::new();
        }
        let may_concern_one = concerns_single_instances(error);
        if batch.ids.len() > 1 && may_concern_one {
            self.ready.extend(batch.split());
            return BTreeSet::new();
        }
        let mut news = BTreeSet::new();
        for id in batch.ids {
            let request = self.requests.entry(id.clone()).or_default();
            request.pending = false;
            request.is_refused_alone |= may_concern_one;
            if request.failure.as_ref() != Some(error) {
                request.failure = Some(error.clone());
                request.reported = false;
                news.insert(id);
            }
        }
        news
    }

    /// Number of stored instances.
    pub(super) fn entries(&self) -> usize {
        let batches = self.ready.iter().map(|batch| batch.ids.len());
        self.requests.len() + self.open.values().map(|open| open.ids.len()).chain(batches).sum::<usize>()
    }

    /// Forgets the failure of an instance that no machine watches any more. A submitted instance stays submitted.
    pub(super) fn forget(&mut self, id: &str) {
        if self.requests.get(id).is_some_and(|request| !request.pending) {
            self.requests.remove(id);
        }
    }
}

/// Whether one instance may have caused the error, so that a call for the others can succeed.
fn concerns_single_instances(error: &CloudError) -> bool {
    matches!(error.class, ErrorClass::NotFound | ErrorClass::Invalid)
        // An IAM policy may allow some instances only. Invalid credentials have other codes.
        || error.is_denial()
}

impl InstanceInformer {
    /// Submits an instance for termination. Another submission has no effect until AWS has answered. The new state, or
    /// an error, wakes the machine. If the process ends before the call, the next process submits the instance again.
    ///
    /// # Errors
    /// The error of the last call for this instance: once after that call without a new submission, and then with each
    /// new submission until a call succeeds.
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
        let cluster = ClusterKey { namespace: machine.namespace.clone(), name: cluster.to_owned() };
        self.terminations.submit(id, cluster, zone, now)
    }

    /// The next batch that is due. Call this function until it returns `None`.
    pub fn next_termination(&mut self, now: Duration) -> Option<TerminationBatch> {
        self.terminations.begin(now)
    }

    /// Processes the answer of a termination. A refusal that may concern one instance splits the batch, so that no
    /// instance delays another one. A throttled batch is repeated.
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
                        // The machine was removed during the call.
                        self.terminations.forget(&id);
                    } else if news.contains(&id) {
                        self.woken.extend(watchers.iter().map(|machine| machine.as_ref().clone()));
                    }
                }
            }
        }
    }
}
