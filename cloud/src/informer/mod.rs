//! The instance informer: the instances that AWS shows to one identity in one region, and the machines that watch them.
//!
//! [`InstanceInformer`] contains the logic, without clock, calls or tasks. The driver gets the calls that are due
//! ([`InstanceInformer::next_read`]), makes them, passes the answers back ([`InstanceInformer::read_ended`]), and wakes
//! machines ([`InstanceInformer::take_woken`]).

mod compact;
mod coverage;
mod credentials;
mod disappearance;
mod overdue;
mod owner_tags;
mod reads;
mod record;
mod refused_reads;
mod snapshot;
mod targets;
mod terminations;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use compact::CompactInstance;
use coverage::ServedClusters;
pub use coverage::{ListingScope, UnwatchedInstance, VALUES_PER_FILTER};
use disappearance::DisappearanceGuard;
pub use disappearance::Loss;
use overdue::Overdue;
pub use reads::{InformerReport, InstanceRead};
use record::{LastNotified, Record};
use refused_reads::RefusedReads;
pub use snapshot::InformerSnapshot;
pub use terminations::TerminationBatch;
use terminations::Terminations;

use crate::targets::Targets;
use crate::{CloudError, Instance, InstanceState, MachineKey, Observation, Timing};

/// A moment in the life of one informer. Of two observations, the one whose call *began* later is newer. The result of
/// a write counts from its arrival.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Epoch(u64);

/// The last complete listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listing {
    /// The end of the listing.
    pub ended: Duration,
    /// The duration of all pages together.
    pub took: Duration,
}

struct Watch {
    id: Arc<str>,
    /// Name of the machine's cluster in tags.
    cluster: Arc<str>,
    since: Epoch,
    /// The last observation that the machine received. A change wakes the machine.
    last_notified: LastNotified,
}

/// The instances that AWS shows to one identity in one region. The time is an argument, counted from any fixed origin.
pub struct InstanceInformer {
    timing: Timing,
    epoch: Epoch,
    records: HashMap<Arc<str>, Record>,
    watches: HashMap<Arc<MachineKey>, Watch>,
    served: ServedClusters,
    woken: BTreeSet<MachineKey>,
    /// Watched instances in a transitional state.
    in_transition: BTreeSet<String>,
    /// Ids for the next lookup.
    wanted: BTreeSet<String>,
    /// Ids of the running lookup; empty if none is running.
    polled: BTreeSet<String>,
    next_poll: Option<Duration>,
    /// The beginning of the running lookup.
    poll_began: Duration,
    listing_began: Option<Duration>,
    next_listing: Duration,
    /// The beginning and the scope of the last listing.
    listed_scope: Option<(Duration, ListingScope)>,
    /// Whether a machine whose cluster the last listing does not cover has joined since that listing began.
    uncovered: bool,
    last_listing: Option<Listing>,
    overdue: Overdue,
    listing_failure: Option<CloudError>,
    poll_failure: Option<CloudError>,
    refused_listings: RefusedReads,
    refused_polls: RefusedReads,
    terminations: Terminations,
    targets: Targets,
    guard: DisappearanceGuard,
    /// Number of replacements of the credentials, and the epoch of the last one.
    credentials: u64,
    proofs_since: Epoch,
    /// The account of the credentials, if it is known, and the epoch since which it is known.
    account: Option<String>,
    account_since: Epoch,
}

impl InstanceInformer {
    /// An empty informer. No call is due until a machine watches an instance.
    pub fn new(timing: Timing) -> Self {
        Self {
            timing,
            epoch: Epoch::default(),
            records: HashMap::new(),
            watches: HashMap::new(),
            served: ServedClusters::default(),
            woken: BTreeSet::new(),
            in_transition: BTreeSet::new(),
            wanted: BTreeSet::new(),
            polled: BTreeSet::new(),
            next_poll: None,
            poll_began: Duration::ZERO,
            listing_began: None,
            next_listing: Duration::ZERO,
            listed_scope: None,
            uncovered: false,
            last_listing: None,
            overdue: Overdue::default(),
            listing_failure: None,
            poll_failure: None,
            refused_listings: RefusedReads::default(),
            refused_polls: RefusedReads::default(),
            terminations: Terminations::new(timing.rate_second),
            targets: Targets::new(timing),
            guard: DisappearanceGuard::default(),
            credentials: 0,
            proofs_since: Epoch::default(),
            account: None,
            account_since: Epoch::default(),
        }
    }

    /// The failure of the last listing, or of the last lookup of instances in transition. `None` while both succeed.
    pub fn reading_failure(&self) -> Option<&CloudError> {
        self.listing_failure.as_ref().or(self.poll_failure.as_ref())
    }

    /// Returns the observation of an instance, and watches the instance: every change wakes the machine. A machine
    /// watches one instance, so another id replaces the former one. `cluster` is the name of the machine's cluster in
    /// tags. If the cluster changes, the proof of an absence starts again.
    pub fn watch(&mut self, machine: &MachineKey, cluster: &str, id: &str) -> Observation {
        let is_same = |watch: &&Watch| *watch.id == *id && *watch.cluster == *cluster;
        if let Some(watch) = self.watches.get(machine).filter(is_same) {
            let record = self.records.get(id);
            return record.map_or(Observation::Unknown, |record| record.observation(id, watch.since));
        }
        self.unwatch(machine);
        let since = self.tick();
        let cluster = self.served.add(cluster, &machine.namespace);
        let scope = self.listed_scope.as_ref().map(|(_, scope)| scope);
        self.uncovered |= scope.is_some_and(|scope| !scope.covers(&cluster));
        let id = self.shared(id);
        let record = self.records.entry(id.clone()).or_default();
        let machine = Arc::new(machine.clone());
        record.watchers.push(machine.clone());
        let (notified, observation) = (record.notification(since), record.observation(&id, since));
        let watch = Watch { id: id.clone(), cluster, since, last_notified: notified };
        self.watches.insert(machine, watch);
        self.settle(&id);
        observation
    }

    /// The time since the beginning of the reads that prove the absence of an instance: the earlier one of the two
    /// reads. An instance that was too young for these reads may exist in spite of the proof.
    pub fn absence_age(&self, id: &str, now: Duration) -> Duration {
        let record = self.records.get(id);
        let looked = record.map(|record| record.listing_missed_at.min(record.lookup_missed_at));
        looked.map_or(Duration::ZERO, |at| now.saturating_sub(Duration::from_secs(at.into())))
    }

    /// Ends the watch of a machine.
    pub fn forget(&mut self, machine: &MachineKey) {
        self.targets.forget(machine);
        self.unwatch(machine);
    }

    fn unwatch(&mut self, machine: &MachineKey) {
        self.woken.remove(machine);
        let Some(watch) = self.watches.remove(machine) else {
            return;
        };
        self.served.remove(&watch.cluster, &machine.namespace);
        if let Some(record) = self.records.get_mut(&watch.id) {
            record.watchers.retain(|watcher| **watcher != *machine);
            if record.watchers.is_empty() {
                self.terminations.forget(&watch.id);
            }
        }
        self.settle(&watch.id);
        if self.watches.is_empty() {
            self.forget_all();
        }
    }

    /// Removes all instances after the last watch has ended, because no listing would remove them any more.
    fn forget_all(&mut self) {
        self.records.clear();
        self.guard = DisappearanceGuard::default();
    }

    /// Records an instance from the answer of a launch. If no machine has watched an instance before, the first listing
    /// is due when instances in transition would be read, and replaces that read.
    pub fn launched(&mut self, instance: &Instance, now: Duration) {
        if self.watches.is_empty() {
            self.next_listing = self.next_listing.max(now + self.timing.transition_interval);
        }
        let at = self.tick();
        self.saw(instance, at);
    }

    /// Records the state of an instance from the answer of a write. An instance that no read has shown stays unknown,
    /// because the answer contains only the state.
    pub fn changed_state(&mut self, id: &str, state: InstanceState) {
        let known = self.records.get(id).and_then(|record| record.kept().cloned());
        if let Some(known) = known {
            let at = self.tick();
            self.keep(id, known.in_state(state), at);
        }
    }

    /// Records the change of an instance by a successful write.
    pub fn changed(&mut self, id: &str, change: impl FnOnce(&mut Instance)) {
        let known = self.records.get(id).and_then(|record| record.kept().cloned());
        if let Some(known) = known {
            let at = self.tick();
            let mut instance = known.instance(id);
            change(&mut instance);
            self.saw(&instance, at);
        }
    }

    /// The epoch at the beginning of a lookup outside of the informer, for [`InstanceInformer::lookup_ended`].
    pub fn lookup_began(&mut self) -> Epoch {
        self.tick()
    }

    /// Records the instances from a lookup outside of the informer. Such a lookup proves no absence.
    pub fn lookup_ended(&mut self, began: Epoch, instances: &[Instance]) {
        if self.watches.is_empty() {
            // Removes instances from earlier lookups that no machine watched afterwards.
            self.forget_all();
        }
        for instance in instances {
            self.saw(instance, began);
        }
    }

    /// The time of the next call from [`InstanceInformer::next_read`], [`InstanceInformer::next_termination`] or
    /// [`InstanceInformer::next_target_call`], unless an event makes a call due earlier. A time in the past means now.
    pub fn next_due(&self) -> Option<Duration> {
        let batched = self.terminations.next_due().into_iter().chain(self.targets.next_due()).min();
        if self.watches.is_empty() {
            return batched;
        }
        let listing = self.listing_began.is_none().then(|| self.listing_due());
        let may_poll = self.refused_polls.until();
        let poll = self.next_poll.map(|next| next.max(may_poll));
        let poll = poll.filter(|_| self.polled.is_empty());
        let wanted = (self.polled.is_empty() && !self.wanted.is_empty()).then_some(may_poll);
        let overdue = self.overdue.due(&self.timing);
        [listing, poll, wanted, overdue, batched].into_iter().flatten().min()
    }

    /// The time of the next listing. The next listing is soon if a machine has joined whose cluster the last listing
    /// does not cover. While AWS refuses listings, the next listing is at the end of the wait after the last refusal.
    fn listing_due(&self) -> Duration {
        let due = match &self.listed_scope {
            Some((began, _)) if self.uncovered => self.next_listing.min(*began + self.timing.transition_interval),
            _ => self.next_listing,
        };
        due.max(self.refused_listings.until())
    }

    /// The machines to wake since the last call of this function.
    pub fn take_woken(&mut self) -> BTreeSet<MachineKey> {
        let mut woken = std::mem::take(&mut self.woken);
        woken.append(&mut self.targets.take_woken());
        woken
    }

    fn tick(&mut self) -> Epoch {
        self.epoch.0 += 1;
        self.epoch
    }

    fn saw(&mut self, instance: &Instance, at: Epoch) {
        self.keep(&instance.id, CompactInstance::new(instance), at);
    }

    fn keep(&mut self, id: &str, instance: CompactInstance, at: Epoch) {
        if at < self.account_since {
            return;
        }
        let id = self.shared(id);
        self.records.entry(id.clone()).or_default().saw(instance, at);
        self.settle(&id);
    }

    /// The shared copy of an id.
    fn shared(&self, id: &str) -> Arc<str> {
        let known = self.records.get_key_value(id);
        known.map_or_else(|| id.into(), |(id, _)| id.clone())
    }

    /// Updates the state that depends on one record: the machines to wake, the ids to look up, and whether the record
    /// stays.
    fn settle(&mut self, id: &str) {
        let Some(record) = self.records.get_mut(id) else {
            return;
        };
        record.conclude();
        for machine in &record.watchers {
            let Some(watch) = self.watches.get_mut(machine) else {
                continue;
            };
            let notified = record.notification(watch.since);
            if watch.last_notified != notified {
                watch.last_notified = notified;
                self.woken.insert(machine.as_ref().clone());
            }
        }
        let undecided = record.watchers.iter().filter_map(|machine| self.watches.get(machine));
        let wants_lookup = undecided.map(|watch| watch.since).any(|since| record.wants_lookup(since));
        let in_transition = record.is_watched_in_transition();
        if record.can_be_removed() {
            self.records.remove(id);
        }
        set_membership(&mut self.in_transition, id, in_transition);
        if wants_lookup && !self.polled.contains(id) {
            self.wanted.insert(id.to_owned());
        } else if !wants_lookup && !in_transition {
            self.wanted.remove(id);
        }
    }
}

fn set_membership(set: &mut BTreeSet<String>, id: &str, member: bool) {
    if !member {
        set.remove(id);
    } else if !set.contains(id) {
        set.insert(id.to_owned());
    }
}

#[cfg(test)]
mod tests;
