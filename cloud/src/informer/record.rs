//! The informer's record of one instance.

use std::sync::Arc;

use super::Epoch;
use super::compact::CompactInstance;
use crate::{InstanceState, MachineKey, Observation};

/// What a machine was last notified of about an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LastNotified {
    /// No read has shown or disproved the instance.
    Unknown,
    /// The instance at this version of the record.
    Seen(u32),
    /// The instance is absent.
    Absent,
}

/// The record of one instance id: the latest read that showed the instance, the latest reads that did not, and the
/// machines that watch the instance.
#[derive(Default)]
pub(super) struct Record {
    instance: Option<CompactInstance>,
    /// Number of changes of `instance`.
    version: u32,
    /// The beginning of the read that showed `instance`.
    pub(super) seen: Epoch,
    /// Beginning of the last complete and trusted listing that did not show the instance.
    pub(super) listing_missed: Epoch,
    /// Whether listings show the instance. An instance whose tags were removed is absent from listings, but not from
    /// lookups by id.
    pub(super) listed: bool,
    /// Beginning of the last complete listing that did not show the instance and was not trusted.
    pub(super) doubted: Epoch,
    /// Beginning of the last lookup by id that did not show the instance.
    pub(super) lookup_missed: Epoch,
    /// The times of `listing_missed` and `lookup_missed`, in whole seconds of the informer's time.
    pub(super) listing_missed_at: u32,
    pub(super) lookup_missed_at: u32,
    pub(super) watchers: Vec<Arc<MachineKey>>,
}

impl Record {
    /// Records the instance from a read, unless a newer read has shown the instance.
    pub(super) fn saw(&mut self, instance: CompactInstance, at: Epoch) {
        if at < self.seen {
            return;
        }
        self.seen = at;
        match &self.instance {
            Some(known) if *known == instance || !may_follow(known.state, instance.state) => {}
            _ => {
                self.instance = Some(instance);
                self.version = self.version.wrapping_add(1);
            }
        }
    }

    /// The last known state of the instance.
    pub(super) fn kept(&self) -> Option<&CompactInstance> {
        self.instance.as_ref()
    }

    /// Marks the instance as gone if a listing and a lookup did not show it, and both began after the instance was last
    /// seen. A terminated instance disappears from EC2 after an hour, and keeps its last state here.
    pub(super) fn conclude(&mut self) {
        if self.listing_missed.min(self.lookup_missed) > self.seen && !self.is_terminated() {
            self.instance = None;
        }
    }

    /// Discards the reads that did not show the instance: they no longer prove its absence.
    pub(super) fn forget_misses(&mut self) {
        self.listing_missed = Epoch::default();
        self.lookup_missed = Epoch::default();
        self.doubted = Epoch::default();
    }

    /// Discards everything that is known about the instance.
    pub(super) fn forget(&mut self) {
        self.forget_misses();
        self.instance = None;
        self.listed = false;
    }

    /// What a machine that has watched the instance since `since` is notified of.
    pub(super) fn notification(&self, since: Epoch) -> LastNotified {
        match &self.instance {
            Some(_) => LastNotified::Seen(self.version),
            None if self.listing_missed.min(self.lookup_missed) > since => LastNotified::Absent,
            None => LastNotified::Unknown,
        }
    }

    /// The observation with the instance itself, for a machine that has watched since `since`.
    pub(super) fn observation(&self, id: &str, since: Epoch) -> Observation {
        match (&self.instance, self.notification(since)) {
            (Some(kept), _) => Observation::Seen(Arc::new(kept.instance(id))),
            (None, LastNotified::Absent) => Observation::Absent,
            (None, LastNotified::Seen(_) | LastNotified::Unknown) => Observation::Unknown,
        }
    }

    /// Whether the instance must be looked up by id, because a listing did not show it, for a machine that has watched
    /// since `since`.
    pub(super) fn wants_lookup(&self, since: Epoch) -> bool {
        let last = if self.instance.is_some() { self.seen } else { since };
        let missed = self.listing_missed > last && self.lookup_missed <= last;
        // An instance that an untrusted listing did not show is looked up after each listing.
        let doubted = self.doubted > last.max(self.listing_missed) && self.lookup_missed <= self.doubted;
        (missed || doubted) && !self.is_terminated()
    }

    /// Records that a lookup shows the instance. If listings did not show the instance, its absence from listings no
    /// longer counts as a loss.
    pub(super) fn contradicts_listings(&mut self) {
        self.listed &= self.listing_missed.max(self.doubted) <= self.seen;
    }

    /// Whether EC2 should still show the instance.
    pub(super) fn is_alive(&self) -> bool {
        let state = self.instance.as_ref().map(|instance| instance.state);
        state.is_some_and(|state| !matches!(state, InstanceState::ShuttingDown | InstanceState::Terminated))
    }

    /// Whether the instance is missing from a listing that began at this epoch.
    pub(super) fn is_lost_to(&self, listing: Epoch) -> bool {
        self.seen < listing && (self.is_alive() || self.instance.is_none())
    }

    pub(super) fn is_watched_in_transition(&self) -> bool {
        let state = self.instance.as_ref().map(|instance| instance.state);
        !self.watchers.is_empty() && state.is_some_and(InstanceState::is_in_transition)
    }

    /// Whether the record can be removed: no machine watches the instance, and AWS no longer shows it.
    pub(super) fn can_be_removed(&self) -> bool {
        self.watchers.is_empty() && (self.instance.is_none() || self.listing_missed > self.seen)
    }

    fn is_terminated(&self) -> bool {
        let state = self.instance.as_ref().map(|instance| instance.state);
        state == Some(InstanceState::Terminated)
    }
}

/// Whether EC2 can show the state `next` after `known`. A read right after a write may show the state before the write.
/// A terminated instance stays terminated, and an instance that shuts down never runs again.
fn may_follow(known: InstanceState, next: InstanceState) -> bool {
    match known {
        InstanceState::Terminated => next == InstanceState::Terminated,
        InstanceState::ShuttingDown => matches!(next, InstanceState::ShuttingDown | InstanceState::Terminated),
        _ => true,
    }
}
