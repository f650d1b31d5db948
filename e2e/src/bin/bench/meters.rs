//! What is measured in a phase: AWS calls, Kubernetes writes, CPU time.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use capa_e2e::{KubernetesWrite, aws_proxy};
use serde::Serialize;

use crate::field::Field;

/// The ServiceAccount of Cluster API core.
const CORE: &str = "capi-system:capi-manager";

/// The names of the programs.
const API_SERVER: &str = "kube-apiserver";
const CLUSTER_API: &str = "cluster-api-core";

/// The beginning of a phase.
pub(crate) struct Start {
    at: Instant,
    calls: aws_proxy::Mark,
    writes: usize,
    manager: Duration,
    api_server: Duration,
    core: Duration,
}

/// What happened from the beginning of a phase to its end.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Phase {
    pub(crate) seconds: f64,
    /// The manager's AWS calls by action.
    pub(crate) calls: BTreeMap<String, usize>,
    /// Those which AWS refused, by error code.
    pub(crate) refused: BTreeMap<String, usize>,
    /// The manager's Kubernetes writes, as `verb resource`.
    pub(crate) writes: BTreeMap<String, usize>,
    /// Those which met a newer version of the object.
    pub(crate) conflicts: usize,
    /// The writes of Cluster API core to all objects, as `verb resource`.
    pub(crate) core_writes: BTreeMap<String, usize>,
    pub(crate) manager_cpu_seconds: f64,
    pub(crate) api_server_cpu_seconds: f64,
    pub(crate) core_cpu_seconds: f64,
}

impl Phase {
    /// The number of AWS calls.
    pub(crate) fn all_calls(&self) -> usize {
        self.calls.values().sum()
    }

    /// The number of the manager's writes of an AWSMachine's status. CAPA patches it.
    pub(crate) fn status_writes(&self) -> usize {
        let verbs = ["update awsmachines/status", "patch awsmachines/status"];
        verbs.iter().filter_map(|verb| self.writes.get(*verb)).sum()
    }

    /// The number of the manager's writes.
    pub(crate) fn all_writes(&self) -> usize {
        self.writes.values().sum()
    }

    /// The number of the writes of Cluster API core.
    pub(crate) fn all_core_writes(&self) -> usize {
        self.core_writes.values().sum()
    }
}

fn by_verb<'a>(writes: impl Iterator<Item = &'a KubernetesWrite>) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for write in writes {
        *counts.entry(format!("{} {}", write.verb, write.resource)).or_default() += 1;
    }
    counts
}

/// A count as a number that can be divided.
pub(crate) fn number(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

/// Bytes in MiB.
pub(crate) fn mebibytes(bytes: u64) -> f64 {
    f64::from(u32::try_from(bytes / 1024).unwrap_or(u32::MAX)) / 1024.0
}

/// Begins a phase.
pub(crate) fn start(field: &Field) -> anyhow::Result<Start> {
    Ok(Start { manager: field.cpu_time()?, ..start_of_manager(field)? })
}

/// Begins a phase with the start of a manager, whose CPU time counts from its beginning.
pub(crate) fn start_of_manager(field: &Field) -> anyhow::Result<Start> {
    Ok(Start {
        at: Instant::now(),
        calls: field.aws().mark(),
        writes: field.world.writes()?.len(),
        manager: Duration::ZERO,
        api_server: field.world.cpu_time(API_SERVER)?,
        core: field.world.cpu_time(CLUSTER_API)?,
    })
}

impl Start {
    /// Ends the phase.
    pub(crate) fn end(&self, field: &Field) -> anyhow::Result<Phase> {
        let seconds = self.at.elapsed().as_secs_f64();
        let journal = field.aws().manager_journal_since(self.calls);
        let mut refused = BTreeMap::new();
        for code in journal.calls().iter().filter_map(|call| call.error.clone()) {
            *refused.entry(code).or_default() += 1;
        }
        let writes = field.world.writes()?;
        let writes = writes.get(self.writes..).unwrap_or_default();
        let is_ours =
            |write: &&KubernetesWrite| write.user == field.service_account() && write.namespace == field.namespace();
        let ours = || writes.iter().filter(is_ours);
        Ok(Phase {
            seconds,
            calls: journal.counts(),
            refused,
            conflicts: ours().filter(|write| write.code == 409).count(),
            writes: by_verb(ours()),
            core_writes: by_verb(writes.iter().filter(|write| write.user == CORE)),
            manager_cpu_seconds: field.cpu_time()?.saturating_sub(self.manager).as_secs_f64(),
            api_server_cpu_seconds: field.world.cpu_time(API_SERVER)?.saturating_sub(self.api_server).as_secs_f64(),
            core_cpu_seconds: field.world.cpu_time(CLUSTER_API)?.saturating_sub(self.core).as_secs_f64(),
        })
    }
}
