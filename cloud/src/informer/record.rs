//! What the informer knows of one instance.

use std::sync::Arc;

use super::Epoch;
use super::compact::CompactInstance;
use crate::{InstanceState, MachineKey, Observation};

/// What a machine was told of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    /// Nothing yet.
    Unknown,
    /// What was known at this version.
    Seen(u32),
    /// That it is not there.
    Absent,
}

/// One instance id: the freshest evidence for it, the freshest against it, and who wants to know.
#[derive(Default)]
pub(super) struct Record {
    instance: Option<CompactInstance>,
    /// Counts the changes of `instance`.
    version: u32,
    /// When the evidence in `instance` began.
    pub(super) seen: Epoch,
    /// Beginning of the last complete listing that did not show it.
    pub(super) listing_missed: Epoch,
    /// Whether listings show it at all: a tag that somebody took off hides it from them and not from lookups.
    pub(super) listed: bool,
    /// Beginning of the last complete listing that did not show it and is not believed.
    pub(super) doubted: Epoch,
    /// Beginning of the last lookup of its own that did not show it.
    pub(super) lookup_missed: Epoch,
    /// The same of `listing_missed` and `lookup_missed` in whole seconds of the informer's time.
    pub(super) listing_missed_at: u32,
    pub(super) lookup_missed_at: u32,
    pub(super) watchers: Vec<Arc<MachineKey>>,
}

impl Record {
    /// Takes evidence unless something newer is known.
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

    /// What is known of the instance.
    pub(super) fn kept(&self) -> Option<&CompactInstance> {
        self.instance.as_ref()
    }

    /// Believes that the instance is gone once a listing and a lookup, both begun after it was last seen, missed it.
    /// A terminated one disappears from EC2 by itself after an hour and stays what it was.
    pub(super) fn conclude(&mut self) {
        if self.listing_missed.min(self.lookup_missed) > self.seen && !self.is_terminated() {
            self.instance = None;
        }
    }

    /// What was not shown until now says nothing any more.
    pub(super) fn forget_misses(&mut self) {
        self.listing_missed = Epoch::default();
        self.lookup_missed = Epoch::default();
        self.doubted = Epoch::default();
    }

    /// Knows nothing of the instance any more.
    pub(super) fn forget(&mut self) {
        self.forget_misses();
        self.instance = None;
        self.listed = false;
    }

    /// What a machine that watches since `since` may be told.
    pub(super) fn tells(&self, since: Epoch) -> Told {
        match &self.instance {
            Some(_) => Told::Seen(self.version),
            None if self.listing_missed.min(self.lookup_missed) > since => Told::Absent,
            None => Told::Unknown,
        }
    }

    /// The same, in full.
    pub(super) fn observation(&self, id: &str, since: Epoch) -> Observation {
        match (&self.instance, self.tells(since)) {
            (Some(kept), _) => Observation::Seen(Arc::new(kept.instance(id))),
            (None, Told::Absent) => Observation::Absent,
            (None, Told::Seen(_) | Told::Unknown) => Observation::Unknown,
        }
    }

    /// Whether a listing missed the instance and only a lookup can tell, for a machine that watches since `since`.
    pub(super) fn wants_lookup(&self, since: Epoch) -> bool {
        let last = if self.instance.is_some() { self.seen } else { since };
        let missed = self.listing_missed > last && self.lookup_missed <= last;
        // What is doubted is looked up after each listing.
        let doubted = self.doubted > last.max(self.listing_missed) && self.lookup_missed <= self.doubted;
        (missed || doubted) && !self.is_terminated()
    }

    /// A lookup is about to show the instance: if listings miss it they cannot be relied on for it.
    pub(super) fn contradicts_listings(&mut self) {
        self.listed &= self.listing_missed.max(self.doubted) <= self.seen;
    }

    /// Whether EC2 should go on showing it.
    pub(super) fn is_alive(&self) -> bool {
        let state = self.instance.as_ref().map(|instance| instance.state);
        state.is_some_and(|state| !matches!(state, InstanceState::ShuttingDown | InstanceState::Terminated))
    }

    /// Whether a listing that began then should have shown the instance and did not.
    pub(super) fn is_lost_to(&self, listing: Epoch) -> bool {
        self.seen < listing && (self.is_alive() || self.instance.is_none())
    }

    pub(super) fn is_watched_in_transition(&self) -> bool {
        let state = self.instance.as_ref().map(|instance| instance.state);
        !self.watchers.is_empty() && state.is_some_and(InstanceState::is_in_transition)
    }

    /// Whether no machine watches the instance and AWS does not show it any more.
    pub(super) fn is_of_no_use(&self) -> bool {
        self.watchers.is_empty() && (self.instance.is_none() || self.listing_missed > self.seen)
    }

    fn is_terminated(&self) -> bool {
        let state = self.instance.as_ref().map(|instance| instance.state);
        state == Some(InstanceState::Terminated)
    }
}

/// Whether EC2 can show `next` after it showed `known`. Reads right after a write may show the state before it; a
/// terminated instance never comes back, and one that shuts down never runs again.
fn may_follow(known: InstanceState, next: InstanceState) -> bool {
    match known {
        InstanceState::Terminated => next == InstanceState::Terminated,
        InstanceState::ShuttingDown => matches!(next, InstanceState::ShuttingDown | InstanceState::Terminated),
        _ => true,
    }
}
