//! A snapshot of an informer, for the scan for orphaned instances.

use super::{InstanceInformer, Listing, UnwatchedInstance};
use crate::MachineKey;

/// What is unusual about an informer as it stands. Of what is as it should be nothing is copied: an informer may hold
/// thousands of instances.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InformerSnapshot {
    /// The machines that it follows an instance for, where its last listing lost more instances than is believed of
    /// one; none otherwise.
    pub doubted: Vec<MachineKey>,
    /// Instances of its clusters that live and that no machine of this informer has.
    pub unwatched: Vec<UnwatchedInstance>,
}

impl InstanceInformer {
    /// Whether the last listing lost more instances at once than is believed of one.
    pub fn is_listing_incomplete(&self) -> bool {
        self.guard.is_cast()
    }

    /// What is unusual about the informer.
    pub fn snapshot(&self) -> InformerSnapshot {
        let doubted = self.watches.keys().filter(|_| self.is_listing_incomplete());
        InformerSnapshot {
            doubted: doubted.map(|machine| machine.as_ref().clone()).collect(),
            unwatched: self.unwatched().collect(),
        }
    }

    /// How many entries the informer keeps, of instances, machines, terminations and targets together. It keeps none
    /// without machines.
    pub fn entries(&self) -> usize {
        let instances = self.records.len() + self.in_transition.len() + self.wanted.len();
        let machines = self.watches.len() + self.woken.len();
        instances + machines + self.terminations.entries() + self.targets.entries()
    }

    /// How many instances are known.
    pub fn instances(&self) -> usize {
        self.records.values().filter(|record| record.kept().is_some()).count()
    }

    /// Whether any machine watches an instance.
    pub fn is_watched(&self) -> bool {
        !self.watches.is_empty()
    }

    /// The last complete listing.
    pub fn last_listing(&self) -> Option<Listing> {
        self.last_listing
    }
}
