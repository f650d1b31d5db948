//! A snapshot of an informer, for the scan for orphaned instances.

use super::{InstanceInformer, Listing, UnwatchedInstance};
use crate::MachineKey;

/// The irregularities of an informer. A snapshot does not copy regular instances, because an informer may store
/// thousands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InformerSnapshot {
    /// The machines of the informer, if too many instances were missing from the last listing; otherwise empty.
    pub doubted: Vec<MachineKey>,
    /// Living instances of the informer's clusters that no machine of this informer watches.
    pub unwatched: Vec<UnwatchedInstance>,
}

impl InstanceInformer {
    /// Whether too many instances were missing from the last listing.
    pub fn is_listing_incomplete(&self) -> bool {
        self.guard.is_active()
    }

    /// The irregularities of the informer.
    pub fn snapshot(&self) -> InformerSnapshot {
        let doubted = self.watches.keys().filter(|_| self.is_listing_incomplete());
        InformerSnapshot {
            doubted: doubted.map(|machine| machine.as_ref().clone()).collect(),
            unwatched: self.unwatched().collect(),
        }
    }

    /// Number of stored entries: instances, machines, terminations and targets. An informer without machines has none.
    pub fn entries(&self) -> usize {
        let instances = self.records.len() + self.in_transition.len() + self.wanted.len();
        let machines = self.watches.len() + self.woken.len();
        instances + machines + self.terminations.entries() + self.targets.entries()
    }

    /// Number of known instances.
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
