//! Which session follows a machine.

use std::collections::HashMap;

use crate::MachineKey;

/// Which session follows each machine. A machine whose identity or region changed moves to the session of the new one;
/// the old session, left by its last machine, makes no further call. `S` names a session.
#[derive(Debug)]
pub struct Owners<S> {
    by_machine: HashMap<MachineKey, S>,
}

impl<S> Default for Owners<S> {
    fn default() -> Self {
        Self {
            by_machine: HashMap::new(),
        }
    }
}

impl<S: PartialEq> Owners<S> {
    /// From now on this session follows the machine. Gives the session that has to forget the machine, if any.
    #[must_use]
    pub fn claim(&mut self, machine: &MachineKey, session: S) -> Option<S> {
        if self.by_machine.get(machine) == Some(&session) {
            return None;
        }
        self.by_machine.insert(machine.clone(), session)
    }

    /// Nobody follows the machine any more. Gives the session that has to forget it, if any.
    #[must_use]
    pub fn release(&mut self, machine: &MachineKey) -> Option<S> {
        self.by_machine.remove(machine)
    }
}
