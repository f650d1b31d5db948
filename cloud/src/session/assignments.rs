//! The session that follows each machine.

use std::collections::HashMap;

use crate::MachineKey;

/// The session that follows each machine. After a change of its identity or region, a machine moves to another session;
/// a session without machines makes no further calls. `S` is the name of a session.
#[derive(Debug)]
pub struct SessionAssignments<S> {
    by_machine: HashMap<MachineKey, S>,
}

impl<S> Default for SessionAssignments<S> {
    fn default() -> Self {
        Self { by_machine: HashMap::new() }
    }
}

impl<S: PartialEq> SessionAssignments<S> {
    /// Makes this session follow the machine. Returns the former session, which must forget the machine, if any.
    #[must_use]
    pub fn claim(&mut self, machine: &MachineKey, session: S) -> Option<S> {
        if self.by_machine.get(machine) == Some(&session) {
            return None;
        }
        self.by_machine.insert(machine.clone(), session)
    }

    /// Number of followed machines.
    pub fn entries(&self) -> usize {
        self.by_machine.len()
    }

    /// Makes no session follow the machine. Returns the session that must forget the machine, if any.
    #[must_use]
    pub fn release(&mut self, machine: &MachineKey) -> Option<S> {
        self.by_machine.remove(machine)
    }
}
