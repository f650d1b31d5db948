//! What a store shows to whoever looks after whole clusters.

use super::{Listing, Store};
use crate::{Instance, MachineKey};

/// A store as it stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct View {
    /// Whether its last listing lost more instances than is believed of one.
    pub suspicious: bool,
    /// The machines that it follows an instance for.
    pub machines: Vec<MachineKey>,
    /// Instances that live and that no machine of this store has.
    pub unwatched: Vec<Instance>,
}

impl Store {
    /// Whether the last listing lost more instances at once than is believed of one.
    pub fn is_suspicious(&self) -> bool {
        self.doubt.is_cast()
    }

    /// What the store knows beyond single machines.
    pub fn view(&self) -> View {
        let unwatched = self.records.iter().filter(|(_, record)| record.watchers.is_empty());
        View {
            suspicious: self.is_suspicious(),
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
