//! The instance store: what AWS shows of the instances of one identity in one region, and who wants to know.
//!
//! [`Store`] is the whole logic without time, calls or tasks of its own. Whoever drives it asks for the calls that are
//! due ([`Store::begin`]), makes them, tells their answers ([`Store::ended`]) and wakes machines ([`Store::take_woken`]).

mod kept;
mod proofs;
mod record;
mod targets;
mod terminations;
mod vanishing;
mod view;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use kept::Kept;
use record::{Record, Told};
pub use terminations::Batch;
use terminations::Terminations;
pub use vanishing::Loss;
use vanishing::{Doubt, Verdict};
pub use view::View;

use crate::targets::Targets;
use crate::{CloudError, ErrorClass, Instance, InstanceState, MachineKey, Observation, Timing};

/// Ids in one lookup: EC2's limit on the values of one filter
/// (<https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DescribeInstances.html>).
pub const IDS_PER_LOOKUP: usize = 200;

/// A moment in the life of one store. Of two observations the one whose call *began* later is the newer one; a result
/// of a write counts from when it came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Epoch(u64);

/// A call that the store wants to be made. Its answer goes to [`Store::ended`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    /// All instances that carry the provider's role tag.
    List {
        /// When it began.
        began: Epoch,
    },
    /// Instances by id, at most [`IDS_PER_LOOKUP`].
    Look {
        /// When it began.
        began: Epoch,
        /// The ids to filter by.
        ids: Vec<String>,
    },
}

/// A change worth a line in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Report {
    /// Calls of one kind began to fail, or fail with another error than before.
    Failing(CloudError),
    /// Calls of one kind work again.
    Recovered,
    /// A listing lost more at once than is believed of one: the store keeps what it knows until two more listings, and
    /// lookups of their own, agree.
    Suspicious(Loss),
    /// That doubt is over: the instances show again, or are believed to be gone.
    Settled,
}

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
    since: Epoch,
    /// What the machine was told last; it is woken when this changes.
    told: Told,
}

/// What AWS shows of the instances of one identity in one region. Time is passed in, counted from any fixed origin.
pub struct Store {
    timing: Timing,
    epoch: Epoch,
    records: HashMap<Arc<str>, Record>,
    watches: HashMap<Arc<MachineKey>, Watch>,
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
    last_listing: Option<Listing>,
    listing_failure: Option<CloudError>,
    look_failure: Option<CloudError>,
    terminations: Terminations,
    targets: Targets,
    doubt: Doubt,
    /// How often the credentials have been replaced, and when that was noticed last.
    credentials: u64,
    proofs_since: Epoch,
    /// Whose account it is, as far as it is known, and since when.
    account: Option<String>,
    account_since: Epoch,
}

impl Store {
    /// An empty store. It wants no call until a machine watches an instance.
    pub fn new(timing: Timing) -> Self {
        Self {
            timing,
            epoch: Epoch::default(),
            records: HashMap::new(),
            watches: HashMap::new(),
            woken: BTreeSet::new(),
            in_transition: BTreeSet::new(),
            wanted: BTreeSet::new(),
            looking: BTreeSet::new(),
            next_look: None,
            look_began: 0,
            listing_began: None,
            next_listing: Duration::ZERO,
            last_listing: None,
            listing_failure: None,
            look_failure: None,
            terminations: Terminations::new(timing.rate_second / 5),
            targets: Targets::new(timing),
            doubt: Doubt::default(),
            credentials: 0,
            proofs_since: Epoch::default(),
            account: None,
            account_since: Epoch::default(),
        }
    }

    /// Why instances do not show: the last listing failed, or the last look at those in transition. `None` while both
    /// succeed.
    pub fn reading_failure(&self) -> Option<&CloudError> {
        self.listing_failure.as_ref().or(self.look_failure.as_ref())
    }

    /// What is known of an instance. From the first call on the machine is woken whenever that changes. A machine
    /// watches one instance: another id replaces the first.
    pub fn watch(&mut self, machine: &MachineKey, id: &str) -> Observation {
        if let Some(watch) = self.watches.get(machine).filter(|watch| *watch.id == *id) {
            let record = self.records.get(id);
            return record.map_or(Observation::Unknown, |record| record.observation(id, watch.since));
        }
        self.unwatch(machine);
        let since = self.tick();
        let id = self.shared(id);
        let record = self.records.entry(id.clone()).or_default();
        let machine = Arc::new(machine.clone());
        record.watchers.push(machine.clone());
        let (told, observation) = (record.tells(since), record.observation(&id, since));
        let watch = Watch {
            id: id.clone(),
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
        if let Some(record) = self.records.get_mut(&watch.id) {
            record.watchers.retain(|watcher| **watcher != *machine);
            if record.watchers.is_empty() {
                self.terminations.forget(&watch.id);
            }
        }
        self.settle(&watch.id);
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

    /// Submits an instance to be terminated; doing so again changes nothing until AWS has answered. The new state, or a
    /// failure, wakes the machine. Nothing is lost with a process that ends: the instance lives on, and whoever follows it
    /// submits it again.
    ///
    /// # Errors
    /// What AWS said to the last call for this instance: once after that call without submitting it, and then with each
    /// new submission until one succeeds.
    pub fn terminate(&mut self, machine: &MachineKey, id: &str, now: Duration) -> Result<(), CloudError> {
        self.watch(machine, id);
        let kept = self.records.get(id).and_then(Record::kept);
        let zone = kept.map_or("", Kept::availability_zone);
        self.terminations.submit(id, zone, now)
    }

    /// The next batch of instances that is due to be terminated. Call it until it gives none.
    pub fn begin_termination(&mut self, now: Duration) -> Option<Batch> {
        self.terminations.begin(now)
    }

    /// The answer to a termination: the new states that it shows. A refusal that may concern one instance splits the
    /// batch, so that none is held up by another; a throttle repeats it.
    pub fn terminated(&mut self, batch: Batch, answer: Result<Vec<(String, InstanceState)>, CloudError>) {
        match answer {
            Ok(states) => {
                self.terminations.succeeded(&batch);
                for (id, state) in states {
                    self.changed_state(&id, state);
                }
            }
            Err(error) => {
                for id in self.terminations.failed(batch, &error) {
                    let watchers = self.records.get(id.as_str()).map(|record| record.watchers.as_slice());
                    let machines = watchers.into_iter().flatten().map(|machine| machine.as_ref().clone());
                    self.woken.extend(machines);
                }
            }
        }
    }

    /// The moment a lookup outside the store begins, for [`Store::observed`].
    pub fn observe(&mut self) -> Epoch {
        self.tick()
    }

    /// Instances that a lookup outside the store showed. What it did not show means nothing.
    pub fn observed(&mut self, began: Epoch, instances: &[Instance]) {
        for instance in instances {
            self.saw(instance, began);
        }
    }

    /// The next call that is due, if any; the store counts it as under way until [`Store::ended`]. Call it until it
    /// gives none.
    pub fn begin(&mut self, now: Duration) -> Option<Call> {
        if self.watches.is_empty() {
            return None;
        }
        if self.listing_began.is_none() && self.next_listing <= now {
            self.listing_began = Some(now);
            self.next_listing = now + self.timing.listing_interval;
            return Some(Call::List { began: self.tick() });
        }
        self.collect_transitions(now);
        if self.looking.is_empty() && !self.wanted.is_empty() {
            while self.looking.len() < IDS_PER_LOOKUP
                && let Some(id) = self.wanted.pop_first()
            {
                self.looking.insert(id);
            }
            self.look_began = whole_seconds(now);
            let ids = self.looking.iter().cloned().collect();
            return Some(Call::Look {
                began: self.tick(),
                ids,
            });
        }
        None
    }

    /// When [`Store::begin`], [`Store::begin_termination`] or [`Store::begin_target_call`] will have a call if nothing
    /// happens before; a time in the past means now.
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
        let listing = self.listing_began.is_none().then_some(self.next_listing);
        let look = self.looking.is_empty().then_some(self.next_look).flatten();
        let wanted = (self.looking.is_empty() && !self.wanted.is_empty()).then_some(Duration::ZERO);
        [listing, look, wanted, batched].into_iter().flatten().min()
    }

    /// The answer to a call: every instance of every page, or an error if any page failed. An error concludes nothing.
    pub fn ended(&mut self, call: Call, answer: Result<Vec<Instance>, CloudError>, now: Duration) -> Vec<Report> {
        match call {
            Call::List { began } => self.listing_ended(began, answer, now),
            Call::Look { began, ids } => self.look_ended(began, &ids, answer).into_iter().collect(),
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

    fn collect_transitions(&mut self, now: Duration) {
        if self.in_transition.is_empty() {
            self.next_look = None;
            return;
        }
        let due = *self.next_look.get_or_insert(now + self.timing.transition_interval);
        if due <= now {
            let ids = self.in_transition.difference(&self.looking).cloned();
            self.wanted.extend(ids);
            self.next_look = Some(now + self.timing.transition_interval);
        }
    }

    fn listing_ended(&mut self, began: Epoch, answer: Result<Vec<Instance>, CloudError>, now: Duration) -> Vec<Report> {
        let since = self.listing_began.take().unwrap_or(now);
        let instances = match answer {
            Ok(instances) => instances,
            Err(error) => {
                let was = self.listing_failure.as_ref().map(|failure| failure.class);
                if error.class == ErrorClass::Unauthorized && was != Some(ErrorClass::Unauthorized) {
                    // The identity may have changed: its machines find out by resolving it anew.
                    self.woken
                        .extend(self.watches.keys().map(|machine| machine.as_ref().clone()));
                }
                return failing(&mut self.listing_failure, error).into_iter().collect();
            }
        };
        let shown: HashSet<&str> = instances.iter().map(|instance| instance.id.as_str()).collect();
        for instance in &instances {
            self.saw(instance, began);
            if let Some(record) = self.records.get_mut(instance.id.as_str()) {
                record.listed = true;
            }
        }
        let proves_absence = self.proves_absence(began);
        let missed: Vec<Arc<str>> = self
            .records
            .keys()
            .filter(|id| proves_absence && !shown.contains(&***id))
            .cloned()
            .collect();
        let (loss, doubted) = (self.loss(began), self.doubt.is_cast());
        let verdict = self.doubt.listed(loss);
        for id in missed {
            if let Some(record) = self.records.get_mut(&id) {
                match verdict {
                    Verdict::Doubted if record.is_lost_to(began) => record.doubted = began,
                    Verdict::Doubted | Verdict::Believed => {
                        record.listing_missed = began;
                        record.listing_missed_at = whole_seconds(since);
                    }
                }
            }
            self.settle(&id);
        }
        self.last_listing = Some(Listing {
            ended: now,
            took: now.saturating_sub(since),
        });
        let recovered = self.listing_failure.take().map(|_| Report::Recovered);
        let doubt = match (doubted, self.doubt.is_cast()) {
            (false, true) => Some(Report::Suspicious(loss)),
            (true, false) => Some(Report::Settled),
            _ => None,
        };
        recovered.into_iter().chain(doubt).collect()
    }

    /// What a listing that began then should have shown, and did not.
    fn loss(&self, began: Epoch) -> Loss {
        let expected = self.records.values().filter(|record| self.is_expected(record));
        let (known, lost) = expected.fold((0, 0), |(known, lost), record| {
            (known + 1, lost + usize::from(record.is_lost_to(began)))
        });
        Loss { known, lost }
    }

    /// Whether listings have shown the instance and it lives as far as is known, or a machine says that it has it and
    /// nothing says yet that it is there or gone.
    fn is_expected(&self, record: &Record) -> bool {
        let undecided = |machine: &Arc<MachineKey>| {
            let watch = self.watches.get(machine);
            watch.is_some_and(|watch| record.tells(watch.since) == Told::Unknown)
        };
        (record.is_alive() && record.listed) || record.watchers.iter().any(undecided)
    }

    fn look_ended(
        &mut self,
        began: Epoch,
        ids: &[String],
        answer: Result<Vec<Instance>, CloudError>,
    ) -> Option<Report> {
        self.looking.clear();
        let began_at = self.look_began;
        let instances = match answer {
            Ok(instances) => instances,
            Err(error) => return failing(&mut self.look_failure, error),
        };
        let shown: HashSet<&str> = instances.iter().map(|instance| instance.id.as_str()).collect();
        for instance in &instances {
            if let Some(record) = self.records.get_mut(instance.id.as_str()) {
                record.contradicts_listings();
            }
            self.saw(instance, began);
        }
        let proves_absence = self.proves_absence(began);
        for id in ids.iter().filter(|id| !shown.contains(id.as_str())) {
            if proves_absence && let Some(record) = self.records.get_mut(id.as_str()) {
                record.lookup_missed = began;
                record.lookup_missed_at = began_at;
            }
            self.settle(id);
        }
        self.look_failure.take().map(|_| Report::Recovered)
    }

    fn saw(&mut self, instance: &Instance, at: Epoch) {
        self.keep(&instance.id, Kept::new(instance), at);
    }

    fn keep(&mut self, id: &str, instance: Kept, at: Epoch) {
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

/// Rounded down, and exact enough: ages are minutes.
fn whole_seconds(time: Duration) -> u32 {
    u32::try_from(time.as_secs()).unwrap_or(u32::MAX)
}

/// Records an error; a report only where it differs from the last one.
fn failing(last: &mut Option<CloudError>, error: CloudError) -> Option<Report> {
    if last.as_ref() == Some(&error) {
        return None;
    }
    *last = Some(error.clone());
    Some(Report::Failing(error))
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
