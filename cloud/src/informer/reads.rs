//! The reads of an informer: their times, and the processing of their answers.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use crate::{CloudError, ErrorClass, Instance, MachineKey};

use super::disappearance::{ListingTrust, Loss};
use super::owner_tags::OwnerTags;
use super::record::{LastNotified, Record};
use super::{Epoch, InstanceInformer, Listing, ListingScope, VALUES_PER_FILTER};

/// A read that is due. The driver makes the call and passes the answer to [`InstanceInformer::read_ended`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InstanceRead {
    /// All instances of the clusters whose machines watch an instance.
    List {
        /// When it began.
        began: Epoch,
        /// The scope of the listing.
        scope: ListingScope,
    },
    /// Instances by id, at most [`VALUES_PER_FILTER`].
    Lookup {
        /// When it began.
        began: Epoch,
        /// The ids to filter by.
        ids: Vec<String>,
    },
}

/// A change that the driver logs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InformerReport {
    /// Calls of one kind fail with a new error.
    Failing(CloudError),
    /// Calls of one kind succeed again.
    Recovered,
    /// Too many instances were missing from a listing. The informer keeps these instances until two more listings, and
    /// a lookup of each instance, agree.
    ListingIncomplete(Loss),
    /// Listings are trusted again: they show the instances, or the instances count as gone.
    ListingComplete,
}

impl InstanceInformer {
    /// The next read that is due. The read is under way until [`InstanceInformer::read_ended`]. Call this function
    /// until it returns `None`.
    pub fn next_read(&mut self, now: Duration) -> Option<InstanceRead> {
        self.note_overdue(now);
        if self.watches.is_empty() {
            return None;
        }
        if self.listing_began.is_none() && self.listing_due() <= now {
            self.listing_began = Some(now);
            self.next_listing = now + self.timing.listing_interval;
            let scope = self.served.scope();
            self.listed_scope = Some((now, scope.clone()));
            self.uncovered = false;
            self.skip_poll(now);
            let began = self.tick();
            return Some(InstanceRead::List { began, scope });
        }
        self.collect_transitions(now);
        if self.polled.is_empty() && !self.wanted.is_empty() && self.refused_polls.until() <= now {
            while self.polled.len() < VALUES_PER_FILTER
                && let Some(id) = self.wanted.pop_first()
            {
                self.polled.insert(id);
            }
            self.poll_began = now;
            let ids = self.polled.iter().cloned().collect();
            return Some(InstanceRead::Lookup { began: self.tick(), ids });
        }
        None
    }

    /// Skips the next read of instances in transition, because a listing also shows these instances, unless listings
    /// take long.
    fn skip_poll(&mut self, now: Duration) {
        let took = self.last_listing.map_or(Duration::ZERO, |listing| listing.took);
        let next = now + self.timing.transition_interval;
        if took <= self.timing.rate_second {
            self.next_poll = self.next_poll.map(|_| next);
        }
    }

    /// Processes the answer of a read: the instances of all pages, or an error if a page failed. An error proves
    /// nothing about instances.
    pub fn read_ended(
        &mut self,
        call: InstanceRead,
        answer: Result<Vec<Instance>, CloudError>,
        now: Duration,
    ) -> Vec<InformerReport> {
        match call {
            InstanceRead::List { began, scope } => self.listing_ended(began, &scope, answer, now),
            InstanceRead::Lookup { began, ids } => self.poll_ended(began, &ids, answer).into_iter().collect(),
        }
    }

    fn collect_transitions(&mut self, now: Duration) {
        if self.in_transition.is_empty() {
            self.next_poll = None;
            return;
        }
        let interval = self.timing.transition_interval;
        let due = *self.next_poll.get_or_insert(now + interval);
        if due.max(self.refused_polls.until()) <= now {
            let ids = self.in_transition.difference(&self.polled).cloned();
            self.wanted.extend(ids);
            self.next_poll = Some(now + interval);
        }
    }

    fn listing_ended(
        &mut self,
        began: Epoch,
        scope: &ListingScope,
        answer: Result<Vec<Instance>, CloudError>,
        now: Duration,
    ) -> Vec<InformerReport> {
        let since = self.listing_began.take().unwrap_or(now);
        self.refused_listings.ended(answer.as_ref().err(), since, &self.timing);
        let instances = match answer {
            Ok(instances) => instances,
            Err(error) => {
                let was = self.listing_failure.as_ref().map(|failure| failure.class);
                if error.class == ErrorClass::Unauthorized && was != Some(ErrorClass::Unauthorized) {
                    // The identity may have changed, so its machines resolve it again.
                    self.wake_all();
                }
                return failing(&mut self.listing_failure, error).into_iter().collect();
            }
        };
        let shown: HashSet<&str> = instances.iter().map(|instance| instance.id.as_str()).collect();
        for instance in &instances {
            let tags = instance.tags.iter().map(|(key, value)| (key.as_str(), value.as_str()));
            if !self.is_wanted(&instance.id, &OwnerTags::of(tags)) {
                continue;
            }
            self.saw(instance, began);
            if let Some(record) = self.records.get_mut(instance.id.as_str()) {
                record.listed = true;
            }
        }
        let (loss, doubted) = (self.loss(began, scope), self.guard.is_active());
        let trust = self.guard.listed(loss);
        for id in self.missed(began, scope, &shown) {
            if let Some(record) = self.records.get_mut(&id) {
                match trust {
                    ListingTrust::Doubted if record.is_lost_to(began) => record.doubted = began,
                    ListingTrust::Doubted | ListingTrust::Believed => {
                        record.listing_missed = began;
                        record.listing_missed_at = whole_seconds(since);
                    }
                }
            }
            self.settle(&id);
        }
        self.drop_unserved(began);
        self.note_listed(now);
        self.last_listing = Some(Listing { ended: now, took: now.saturating_sub(since) });
        let recovered = self.listing_failure.take().map(|_| InformerReport::Recovered);
        let doubt = match (doubted, self.guard.is_active()) {
            (false, true) => Some(InformerReport::ListingIncomplete(loss)),
            (true, false) => Some(InformerReport::ListingComplete),
            _ => None,
        };
        recovered.into_iter().chain(doubt).collect()
    }

    /// The covered instances that a listing did not show. Empty if the listing cannot prove an absence.
    fn missed(&self, began: Epoch, scope: &ListingScope, shown: &HashSet<&str>) -> Vec<Arc<str>> {
        if !self.proves_absence(began) {
            return Vec::new();
        }
        let absent = self.records.iter().filter(|(id, _)| !shown.contains(&***id));
        let missed = absent.filter(|(_, record)| self.is_covered(record, scope));
        missed.map(|(id, _)| id.clone()).collect()
    }

    /// The loss of a listing that began at this epoch.
    fn loss(&self, began: Epoch, scope: &ListingScope) -> Loss {
        let covered = self.records.values().filter(|record| self.is_covered(record, scope));
        let expected = covered.filter(|record| self.is_expected(record));
        let (known, lost) =
            expected.fold((0, 0), |(known, lost), record| (known + 1, lost + usize::from(record.is_lost_to(began))));
        Loss { known, lost }
    }

    /// Whether a listing should show the instance: earlier listings showed the instance and it is known to live, or a
    /// machine names the instance and no read has confirmed or disproved it yet.
    fn is_expected(&self, record: &Record) -> bool {
        let undecided = |machine: &Arc<MachineKey>| {
            let watch = self.watches.get(machine);
            watch.is_some_and(|watch| record.notification(watch.since) == LastNotified::Unknown)
        };
        (record.is_alive() && record.listed) || record.watchers.iter().any(undecided)
    }

    fn poll_ended(
        &mut self,
        began: Epoch,
        ids: &[String],
        answer: Result<Vec<Instance>, CloudError>,
    ) -> Option<InformerReport> {
        self.polled.clear();
        let began_at = whole_seconds(self.poll_began);
        self.refused_polls.ended(answer.as_ref().err(), self.poll_began, &self.timing);
        let instances = match answer {
            Ok(instances) => instances,
            Err(error) => return failing(&mut self.poll_failure, error),
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
        self.poll_failure.take().map(|_| InformerReport::Recovered)
    }
}

/// Rounds down to seconds. Ages are minutes, so the error does not matter.
fn whole_seconds(time: Duration) -> u32 {
    u32::try_from(time.as_secs()).unwrap_or(u32::MAX)
}

/// Records an error. Returns a report if the error differs from the last one.
fn failing(last: &mut Option<CloudError>, error: CloudError) -> Option<InformerReport> {
    if last.as_ref() == Some(&error) {
        return None;
    }
    *last = Some(error.clone());
    Some(InformerReport::Failing(error))
}
