//! What the store knows of one instance.

use std::sync::Arc;

use super::Epoch;
use crate::{Instance, InstanceState, MachineKey, Sighting};

/// One instance id: the freshest evidence for it, the freshest against it, and who wants to know.
#[derive(Default)]
pub(super) struct Record {
    pub(super) instance: Option<Arc<Instance>>,
    /// When the evidence in `instance` began.
    pub(super) seen: Epoch,
    /// Beginning of the last complete listing that did not show it.
    pub(super) listing_missed: Epoch,
    /// Beginning of the last lookup of its own that did not show it.
    pub(super) lookup_missed: Epoch,
    pub(super) watchers: Vec<Arc<MachineKey>>,
}

impl Record {
    /// Takes evidence unless something newer is known.
    pub(super) fn saw(&mut self, instance: Instance, at: Epoch) {
        if at < self.seen {
            return;
        }
        self.seen = at;
        match &self.instance {
            Some(known) if **known == instance || !may_follow(known.state, instance.state) => {}
            _ => self.instance = Some(Arc::new(instance)),
        }
    }

    /// Believes that the instance is gone once a listing and a lookup, both begun after it was last seen, missed it.
    /// A terminated one disappears from EC2 by itself after an hour and stays what it was.
    pub(super) fn conclude(&mut self) {
        if self.listing_missed.min(self.lookup_missed) > self.seen && !self.is_terminated() {
            self.instance = None;
        }
    }

    /// What a machine that watches since `since` may be told.
    pub(super) fn sighting(&self, since: Epoch) -> Sighting {
        match &self.instance {
            Some(instance) => Sighting::Seen(instance.clone()),
            None if self.listing_missed.min(self.lookup_missed) > since => Sighting::Absent,
            None => Sighting::Unknown,
        }
    }

    /// Whether a listing missed the instance and only a lookup can tell, for a machine that watches since `since`.
    pub(super) fn wants_lookup(&self, since: Epoch) -> bool {
        let last = if self.instance.is_some() { self.seen } else { since };
        self.listing_missed > last && self.lookup_missed <= last && !self.is_terminated()
    }

    pub(super) fn is_watched_in_transition(&self) -> bool {
        let state = self.instance.as_ref().map(|instance| instance.state);
        !self.watchers.is_empty() && state.is_some_and(InstanceState::is_in_transition)
    }

    /// Whether nobody wants to know and AWS does not show it any more.
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
