//! AWSMachine: one EC2 instance, launched at most once and followed until it is gone.
//!
//! The network comes from whatever object satisfies the network contract; no infrastructure kind is named here.

mod abandon;
mod apply;
mod block_move;
mod bootstrap;
mod controller;
mod deletion;
mod dereference;
mod launch;
mod lookup;
mod memory;
mod observe;
mod overrides;
mod phases;
mod plan;
mod request;
mod sources;
mod status;
mod targets;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use capa_api::common::MachineRole;
use capa_api::conditions::ConditionUpdate;
use capa_api::core::{Cluster, Machine};
use capa_api::machine::{AWSMachine, AWSMachineStatus, LaunchRecord};
use capa_api::meta;
use capa_cloud::{MachineClouds, MachineKey, Timing};
use capa_runtime::reconcile::{EventDraft, Next, Outcome, ReconcileError};

pub use controller::{MachineReconciler, watched_cluster, watched_machine};
pub(crate) use dereference::{cluster_of, machine_name, network_of};
pub use memory::LaunchMemory;
pub use phases::count_phases;
pub(crate) use request::image_id;
pub(crate) use sources::publishes_network;

use crate::kubernetes_api::MachineKubernetes;
use crate::transitions;

/// What an AWSMachine is reconciled with.
#[derive(Clone)]
pub struct MachineContext {
    /// Kubernetes.
    pub kubernetes: Arc<dyn MachineKubernetes>,
    /// AWS.
    pub clouds: Arc<dyn MachineClouds>,
    /// Launches of this process.
    pub memory: LaunchMemory,
    /// Periods and ages.
    pub timing: Timing,
    /// Namespace of the Secrets of static identities.
    pub identity_namespace: String,
}

/// The Cluster API objects a machine belongs to, as far as they are there.
struct Owners {
    machine: Option<Arc<Machine>>,
    cluster: Option<Arc<Cluster>>,
}

impl Owners {
    /// Role of the machine. Cluster API marks the Machine, and not every control plane marks what it makes of a template
    /// too; an AWSMachine whose Machine is gone has nothing but its own mark.
    fn role(&self, machine: &AWSMachine) -> MachineRole {
        let owner = self.machine.as_ref().map(|owner| &owner.metadata);
        meta::machine_role(owner.unwrap_or(&machine.metadata))
    }
}

/// A pass under way: the object as the server has it, and what the pass makes of its status.
struct MachineScope {
    /// The object as the server last answered it.
    machine: AWSMachine,
    /// The status it shall have, conditions aside.
    status: AWSMachineStatus,
    /// What the pass has to say about conditions.
    updates: Vec<ConditionUpdate>,
    /// When to look again.
    next: Next,
    /// Events to publish.
    events: Vec<EventDraft>,
    /// Our finalizer is off: there is no object left to write to.
    released: bool,
}

impl MachineScope {
    fn new(machine: AWSMachine) -> Self {
        let status = machine.status.clone().unwrap_or_default();
        Self {
            machine,
            status,
            updates: vec![],
            next: Next::AwaitChange,
            events: vec![],
            released: false,
        }
    }

    /// Says something of a condition, in place of what the pass has said of it before.
    fn say(&mut self, update: ConditionUpdate) {
        self.updates.retain(|earlier| earlier.condition != update.condition);
        self.updates.push(update);
    }

    /// Says what keeps the pass from going on, and when it is tried again.
    fn stop(mut self, update: ConditionUpdate, next: Next) -> Self {
        self.say(update);
        self.next = next;
        self
    }

    fn uid(&self) -> &str {
        self.machine.metadata.uid.as_deref().unwrap_or_default()
    }

    fn namespace(&self) -> &str {
        self.machine.metadata.namespace.as_deref().unwrap_or_default()
    }

    fn key(&self) -> MachineKey {
        key(&self.machine)
    }
}

/// The machine as the instance store knows it.
fn key(machine: &AWSMachine) -> MachineKey {
    MachineKey {
        namespace: machine.metadata.namespace.clone().unwrap_or_default(),
        name: machine.metadata.name.clone().unwrap_or_default(),
    }
}

/// Sees to it that the object cannot go before its instance does, also where somebody took our finalizer off.
async fn hold(mut scope: MachineScope, context: &MachineContext) -> Result<MachineScope, ReconcileError> {
    if meta::has_finalizer(&scope.machine.metadata, meta::MACHINE_FINALIZER) {
        return Ok(scope);
    }
    if dereference::instance_id(&scope.machine).is_none() && scope.status.launch.is_none() {
        // Only before our finalizer is on is it known that nothing was launched: the record says so from here on. It is
        // stored first, for an object with the finalizer and without a record counts as one that came from elsewhere.
        scope.status.launch = Some(LaunchRecord::before_first_attempt());
        scope = apply::store(scope, context).await?;
    }
    scope.machine = context.kubernetes.add_finalizer(&scope.machine).await?;
    Ok(scope)
}

/// One pass.
pub async fn reconcile(machine: AWSMachine, context: &MachineContext) -> Result<Outcome<AWSMachine>, ReconcileError> {
    if meta::is_deleted_for_move(&machine.metadata) {
        context.clouds.forget(&key(&machine));
        return Ok(Outcome::done(machine));
    }
    let owners = dereference::owners(&machine, context.kubernetes.as_ref());
    let deleting = machine.metadata.deletion_timestamp.is_some();
    if deleting && !meta::has_finalizer(&machine.metadata, meta::MACHINE_FINALIZER) {
        context.clouds.forget(&key(&machine));
        return Ok(Outcome::done(machine));
    }
    if meta::is_paused(&machine.metadata) || owners.cluster.as_deref().is_some_and(Cluster::is_paused) {
        // The store calls AWS for as long as it follows a machine.
        context.clouds.forget(&key(&machine));
        let paused = status::paused(&machine, context.kubernetes.now());
        let machine = block_move::lift(machine, &paused, context).await?;
        return Ok(Outcome::done(machine).with_status(paused));
    }
    let mut scope = MachineScope::new(machine);
    if !deleting && owners.machine.is_some() && owners.cluster.is_some() {
        scope = hold(scope, context).await?;
    }
    let scope = if deleting {
        deletion::reconcile(scope, &owners, context).await?
    } else if dereference::instance_id(&scope.machine).is_some() {
        Box::pin(observe::reconcile(scope, &owners, context)).await?
    } else {
        Box::pin(launch::reconcile(scope, &owners, context)).await?
    };
    if scope.released {
        return Ok(Outcome::done(scope.machine).with_events(scope.events));
    }
    let status = status::summarize(&scope, context.kubernetes.now());
    let before = scope
        .machine
        .status
        .as_ref()
        .map(|status| status.conditions.as_slice())
        .unwrap_or_default();
    let warnings = transitions::warnings(before, &status.conditions);
    let MachineScope {
        machine, next, events, ..
    } = scope;
    let machine = block_move::lift(machine, &status, context).await?;
    Ok(Outcome::done(machine)
        .with_status(status)
        .with_next(next)
        .with_events(events)
        .with_events(warnings))
}
