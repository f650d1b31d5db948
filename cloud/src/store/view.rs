//! What a store shows to whoever looks after whole clusters.

use super::Store;
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
}
