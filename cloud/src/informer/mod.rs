//! The instance informer: the instances that AWS shows to one identity in one region, and the machines that watch them.
//!
//! [`InstanceInformer`] is the whole logic without time, calls or tasks of its own. The driver asks for the calls that
//! are due ([`InstanceInformer::next_read`]), makes them, tells their answers ([`InstanceInformer::read_ended`]) and
//! wakes machines ([`InstanceInformer::take_woken`]).

mod compact;
mod coverage;
mod credentials;
mod disappearance;
mod overdue;
mod owner_tags;
mod reads;
mod record;
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
use record::{Record, Told};
pub use snapshot::InformerSnapshot;
pub use terminations::TerminationBatch;
use terminations::Terminations;

use crate::targets::Targets;
use crate::{CloudError, Instance, InstanceState, MachineKey, Observation, Timing};

/// A moment in the life of one informer. Of two observations the one whose call *began* later is the newer one; a
/// result of a write counts from when it came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Epoch(u64);

/// The last complete listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listing {
    /// When it ended.
    pub ended: Duration,
    /// How long it took, all pages together.
    pub took: Duration,
}

struct Watch {
    id: Arc<str>,
    /// Name of the machine's cluster in tags.
    cluster: Arc<str>,
    since: Epoch,
    /// What the machine was told last; it is woken when this changes.
    told: Told,
}

/// What AWS shows of the instances of one identity in one region. Time is passed in, counted from any fixed origin.
pub struct InstanceInformer {
    timing: Timing,
    epoch: Epoch,
    records: HashMap<Arc<str>, Record>,
    watches: HashMap<Arc<MachineKey>, Watch>,
    served: ServedClusters,
    woken: BTreeSet<MachineKey>,
    /// Watched instances whose state is about to change.
    in_transition: BTreeSet<String>,
    /// Ids to look up as soon as no lookup is under way.
    wanted: BTreeSet<String>,
    /// Ids of the lookup under way; empty when there is none.
    looking: BTreeSet<String>,
    next_look: Option<Duration>,
    /// When the lookup under way began.
    look_began: u32,
    listing_began: Option<Duration>,
    next_listing: Duration,
    /// What the last listing asked for, and when it began.
    listed_scope: Option<(Duration, ListingScope)>,
    /// Whether a machine has come since whose cluster that listing does not cover.
    uncovered: bool,
    last_listing: Option<Listing>,
    overdue: Overdue,
    listing_failure: Option<CloudError>,
    look_failure: Option<CloudError>,
    terminations: Terminations,
    targets: Targets,
    guard: DisappearanceGuard,
    /// How often the credentials have been replaced, and when that was noticed last.
    credentials: u64,
    proofs_since: Epoch,
    /// Whose account it is, as far as it is known, and since when.
    account: Option<String>,
    account_since: Epoch,
}

impl InstanceInformer {
    /// An empty informer. It wants no call until a machine watches an instance.
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
            looking: BTreeSet::new(),
            next_look: None,
            look_began: 0,
            listing_began: None,
            next_listing: Duration::ZERO,
            listed_scope: None,
            uncovered: false,
            last_listing: None,
            overdue: Overdue::default(),
            listing_failure: None,
            look_failure: None,
            terminations: Terminations::new(timing.rate_second / 5),
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
        self.listing_failure.as_ref().or(self.look_failure.as_ref())
    }

    /// What is known of an instance. From the first call on the machine is woken whenever that changes. A machine
    /// watches one instance: another id replaces the first. `cluster`: name of the machine's cluster in tags; with
    /// another one everything that is to prove an absence begins anew.
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
        let (told, observation) = (record.tells(since), record.observation(&id, since));
        let watch = Watch {
            id: id.clone(),
            cluster,
            since,
            told,
        };
        self.watches.insert(machine, watch);
        self.settle(&id);
        observation
    }

    /// How long ago the looks began that prove the absence of an instance: the earlier of its two. An instance that was
    /// too young to be shown then may be there all the same.
    pub fn absence_age(&self, id: &str, now: Duration) -> Duration {
        let record = self.records.get(id);
        let looked = record.map(|record| record.listing_missed_at.min(record.lookup_missed_at));
        looked.map_or(Duration::ZERO, |at| now.saturating_sub(Duration::from_secs(at.into())))
    }

    /// Ends a machine's interest.
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

    /// Nobody is told anything any more, and no listing would drop what is known.
    fn forget_all(&mut self) {
        self.records.clear();
        self.guard = DisappearanceGuard::default();
    }

    /// An instance as a launch answered it.
    pub fn launched(&mut self, instance: &Instance) {
        let at = self.tick();
        self.saw(instance, at);
    }

    /// The state of an instance as a write answered it. An instance that was never seen stays so: nothing but its state
    /// is known.
    pub fn changed_state(&mut self, id: &str, state: InstanceState) {
        let known = self.records.get(id).and_then(|record| record.kept().cloned());
        if let Some(known) = known {
            let at = self.tick();
            self.keep(id, known.in_state(state), at);
        }
    }

    /// The moment a lookup outside the informer begins, for [`InstanceInformer::lookup_ended`].
    pub fn lookup_began(&mut self) -> Epoch {
        self.tick()
    }

    /// Instances that a lookup outside the informer showed. What it did not show means nothing.
    pub fn lookup_ended(&mut self, began: Epoch, instances: &[Instance]) {
        if self.watches.is_empty() {
            // Of earlier lookups whose machines did not come to watch what they found.
            self.forget_all();
        }
        for instance in instances {
            self.saw(instance, began);
        }
    }

    /// When [`InstanceInformer::next_read`], [`InstanceInformer::next_termination`] or
    /// [`InstanceInformer::next_target_call`] will have a call if nothing happens before; a time in the past means now.
    pub fn next_due(&self) -> Option<Duration> {
        let batched = self
            .terminations
            .next_due()
            .into_iter()
            .chain(self.targets.next_due())
            .min();
        if self.watches.is_empty() {
            return batched;
        }
        let listing = self.listing_began.is_none().then(|| self.listing_due());
        let look = self.looking.is_empty().then_some(self.next_look).flatten();
        let wanted = (self.looking.is_empty() && !self.wanted.is_empty()).then_some(Duration::ZERO);
        let overdue = self.overdue.due(&self.timing);
        [listing, look, wanted, overdue, batched].into_iter().flatten().min()
    }

    /// When the next listing is due: soon after a machine has come whose cluster the last one does not cover.
    fn listing_due(&self) -> Duration {
        match &self.listed_scope {
            Some((began, _)) if self.uncovered => self.next_listing.min(*began + self.timing.transition_interval),
            _ => self.next_listing,
        }
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

    /// The one copy of an id.
    fn shared(&self, id: &str) -> Arc<str> {
        let known = self.records.get_key_value(id);
        known.map_or_else(|| id.into(), |(id, _)| id.clone())
    }

    /// Brings everything that follows from one record up to date: who is woken, what is looked up, whether it is kept.
    fn settle(&mut self, id: &str) {
        let Some(record) = self.records.get_mut(id) else {
            return;
        };
        record.conclude();
        for machine in &record.watchers {
            let Some(watch) = self.watches.get_mut(machine) else {
                continue;
            };
            let told = record.tells(watch.since);
            if watch.told != told {
                watch.told = told;
                self.woken.insert(machine.as_ref().clone());
            }
        }
        let undecided = record.watchers.iter().filter_map(|machine| self.watches.get(machine));
        let wants_lookup = undecided
            .map(|watch| watch.since)
            .any(|since| record.wants_lookup(since));
        let in_transition = record.is_watched_in_transition();
        if record.is_of_no_use() {
            self.records.remove(id);
        }
        set_membership(&mut self.in_transition, id, in_transition);
        if wants_lookup && !self.looking.contains(id) {
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
