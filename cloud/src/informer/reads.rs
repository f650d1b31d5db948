//! The reads of an informer: when they are due, and what follows from their answers.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use crate::{CloudError, ErrorClass, Instance, MachineKey};

use super::disappearance::{ListingTrust, Loss};
use super::owner_tags::OwnerTags;
use super::record::{Record, Told};
use super::{Epoch, InstanceInformer, Listing, ListingScope, VALUES_PER_FILTER};

/// A call that the informer wants to be made. Its answer goes to [`InstanceInformer::read_ended`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InstanceRead {
    /// All instances of the clusters of the machines that watch.
    List {
        /// When it began.
        began: Epoch,
        /// What it asks for.
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

/// A change worth a line in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InformerReport {
    /// Calls of one kind began to fail, or fail with another error than before.
    Failing(CloudError),
    /// Calls of one kind work again.
    Recovered,
    /// A listing lost more at once than is believed of one: the informer keeps what it knows until two more listings,
    /// and lookups of their own, agree.
    ListingIncomplete(Loss),
    /// That doubt is over: the instances show again, or are believed to be gone.
    ListingComplete,
}

impl InstanceInformer {
    /// The next call that is due, if any; the informer counts it as under way until [`InstanceInformer::read_ended`].
    /// Call it until it gives none.
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
            let began = self.tick();
            return Some(InstanceRead::List { began, scope });
        }
        self.collect_transitions(now);
        if self.looking.is_empty() && !self.wanted.is_empty() {
            while self.looking.len() < VALUES_PER_FILTER
                && let Some(id) = self.wanted.pop_first()
            {
                self.looking.insert(id);
            }
            self.look_began = whole_seconds(now);
            let ids = self.looking.iter().cloned().collect();
            return Some(InstanceRead::Lookup {
                began: self.tick(),
                ids,
            });
        }
        None
    }

    /// The answer to a call: every instance of every page, or an error if any page failed. An error concludes nothing.
    pub fn read_ended(
        &mut self,
        call: InstanceRead,
        answer: Result<Vec<Instance>, CloudError>,
        now: Duration,
    ) -> Vec<InformerReport> {
        match call {
            InstanceRead::List { began, scope } => self.listing_ended(began, &scope, answer, now),
            InstanceRead::Lookup { began, ids } => self.look_ended(began, &ids, answer).into_iter().collect(),
        }
    }

    fn collect_transitions(&mut self, now: Duration) {
        if self.in_transition.is_empty() {
            self.next_look = None;
            return;
        }
        // AWS would repeat a permanent error.
        let interval = match &self.look_failure {
            Some(failure) if failure.class.is_permanent() => self.timing.listing_interval,
            _ => self.timing.transition_interval,
        };
        let due = *self.next_look.get_or_insert(now + interval);
        if due <= now {
            let ids = self.in_transition.difference(&self.looking).cloned();
            self.wanted.extend(ids);
            self.next_look = Some(now + interval);
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
        let instances = match answer {
            Ok(instances) => instances,
            Err(error) => {
                let was = self.listing_failure.as_ref().map(|failure| failure.class);
                if error.class == ErrorClass::Unauthorized && was != Some(ErrorClass::Unauthorized) {
                    // The identity may have changed: its machines find out by resolving it anew.
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
        let (loss, doubted) = (self.loss(began, scope), self.guard.is_cast());
        let verdict = self.guard.listed(loss);
        for id in self.missed(began, scope, &shown) {
            if let Some(record) = self.records.get_mut(&id) {
                match verdict {
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
        self.last_listing = Some(Listing {
            ended: now,
            took: now.saturating_sub(since),
        });
        let recovered = self.listing_failure.take().map(|_| InformerReport::Recovered);
        let doubt = match (doubted, self.guard.is_cast()) {
            (false, true) => Some(InformerReport::ListingIncomplete(loss)),
            (true, false) => Some(InformerReport::ListingComplete),
            _ => None,
        };
        recovered.into_iter().chain(doubt).collect()
    }

    /// The instances that a listing should have shown if they are there, and did not show.
    fn missed(&self, began: Epoch, scope: &ListingScope, shown: &HashSet<&str>) -> Vec<Arc<str>> {
        if !self.proves_absence(began) {
            return Vec::new();
        }
        let absent = self.records.iter().filter(|(id, _)| !shown.contains(&***id));
        let missed = absent.filter(|(_, record)| self.is_covered(record, scope));
        missed.map(|(id, _)| id.clone()).collect()
    }

    /// What a listing that began then should have shown, and did not.
    fn loss(&self, began: Epoch, scope: &ListingScope) -> Loss {
        let covered = self.records.values().filter(|record| self.is_covered(record, scope));
        let expected = covered.filter(|record| self.is_expected(record));
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
    ) -> Option<InformerReport> {
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
        self.look_failure.take().map(|_| InformerReport::Recovered)
    }
}

/// Rounded down, and exact enough: ages are minutes.
fn whole_seconds(time: Duration) -> u32 {
    u32::try_from(time.as_secs()).unwrap_or(u32::MAX)
}

/// Records an error; a report only where it differs from the last one.
fn failing(last: &mut Option<CloudError>, error: CloudError) -> Option<InformerReport> {
    if last.as_ref() == Some(&error) {
        return None;
    }
    *last = Some(error.clone());
    Some(InformerReport::Failing(error))
}
