//! A snapshot of an informer, for the scan for orphaned instances.

use super::{InstanceInformer, Listing};
use crate::{Instance, MachineKey};

/// A informer as it stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InformerSnapshot {
    /// Whether its last listing lost more instances than is believed of one.
    pub listing_incomplete: bool,
    /// The machines that it follows an instance for.
    pub machines: Vec<MachineKey>,
    /// Instances that live and that no machine of this informer has.
    pub unwatched: Vec<Instance>,
}

impl InstanceInformer {
    /// Whether the last listing lost more instances at once than is believed of one.
    pub fn is_listing_incomplete(&self) -> bool {
        self.guard.is_cast()
    }

    /// What the informer knows beyond single machines.
    pub fn snapshot(&self) -> InformerSnapshot {
        let unwatched = self.records.iter().filter(|(_, record)| record.watchers.is_empty());
        InformerSnapshot {
            listing_incomplete: self.is_listing_incomplete(),
            machines: self.watches.keys().map(|machine| machine.as_ref().clone()).collect(),
            unwatched: unwatched.filter_map(|(id, record)| record.alive(id)).collect(),
        }
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
