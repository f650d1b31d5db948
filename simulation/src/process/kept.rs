//! The memory of a process: its entries for objects, instances and calls.

use std::collections::BTreeMap;

use super::Process;

impl Process {
    /// How many entries each part of the memory holds.
    pub(crate) fn kept(&self) -> BTreeMap<&'static str, usize> {
        let memory = &self.machines.context.memory;
        let clusters = &self.clusters.context;
        BTreeMap::from([
            ("sessions", self.manager.state().sessions.entries()),
            ("launches", memory.entries()),
            ("shortages", memory.shortage_entries()),
            ("lookups", clusters.lookups.entries()),
            ("warnings", clusters.warnings.entries()),
            ("writes", self.manager.writes.entries()),
            ("failures", self.machine_backoff.entries() + self.cluster_backoff.entries()),
        ])
    }
}
