//! AWSMachine: one EC2 instance, launched at most once and followed until it is gone.
//!
//! The network comes from any object that satisfies the network contract; this module names no infrastructure kind.
//! This file alone runs the flows (launch, instance, update, elastic_ip, targets, deletion), one after the other. A
//! flow uses plans, lookups and records from the folder of another one; the launch drives the host and the bootstrap
//! data that precede its call.

mod bootstrap_data;
mod context;
mod controller;
mod deletion;
mod elastic_ip;
mod hosts;
mod inputs;
mod instance;
mod launch;
mod ownership;
mod scope;
mod status;
mod targets;
#[cfg(test)]
mod tests;
mod update;
mod write;

use capa_api::conditions::ConditionType;
use capa_api::machine::{AWSMachine, LaunchRecord};
use capa_api::meta;
use capa_cloud::Observation;
use capa_runtime::reconcile::{Next, Outcome, ReconcileError};

use self::deletion::plan::{Abandonment, abandonment};
use self::deletion::{Ended, Found};
use self::inputs::location;
use self::instance::Observed;
use self::ownership::search_token;
use self::scope::{FlowError, MachineScope};
use crate::blocked::Blocked;
use crate::{pause, transitions};

pub use self::context::MachineContext;
pub use self::controller::{MachineReconciler, watched_cluster, watched_machine};
pub(crate) use self::inputs::cluster_of;
pub use self::ownership::claimed_instances;

/// Runs one pass over an AWSMachine.
pub async fn reconcile(machine: AWSMachine, context: &MachineContext) -> Result<Outcome<AWSMachine>, ReconcileError> {
    let deleting = machine.metadata.deletion_timestamp.is_some();
    let is_released = deleting && !meta::has_finalizer(&machine.metadata, meta::MACHINE_FINALIZER);
    if is_released {
        context.clouds.forget(&scope::key(&machine));
        return Ok(Outcome::done(machine).because("the AWSMachine is released"));
    }
    if meta::is_deleted_for_move(&machine.metadata) {
        return Ok(deletion::moved(machine, context).await?);
    }
    let owners = inputs::owners(&machine, context.kubernetes.as_ref());
    if let Some(paused) = pause::paused(&machine, owners.cluster.as_deref()) {
        // The instance informer makes calls as long as it follows a machine.
        context.clouds.forget(&scope::key(&machine));
        let paused = status::paused(&machine, paused, context.kubernetes.now());
        let machine = write::allow_move(machine, &paused, context).await?;
        return Ok(Outcome::done(machine).with_status(paused).because("the AWSMachine or its Cluster is paused"));
    }
    let mut scope = MachineScope::new(machine, owners);
    if scope.status.launch.as_ref().and_then(LaunchRecord::request).is_some() {
        let search_token = search_token(&scope.machine);
        context.memory.launches().end_search(scope.uid(), &search_token);
    }
    let flow =
        if deleting { Box::pin(delete(&mut scope, context)).await } else { Box::pin(run(&mut scope, context)).await };
    match flow {
        Ok(()) if !deleting => {}
        Ok(()) => {
            let released = Outcome::done(scope.machine).with_events(scope.events);
            return Ok(released.because("the AWSMachine is released"));
        }
        // A postponed pass leaves the status unchanged, so the next pass repeats every event that is not about
        // something recorded.
        Err(FlowError::Postponed) => {
            let recorded = scope.events.into_iter().filter(|event| event.is_recorded);
            let postponed = Outcome::done(scope.machine).with_events(recorded);
            let postponed = postponed.with_next(Next::Deferred(context.timing.source_retry_cap));
            return Ok(
                postponed.because("the infrastructure object is being read, and its answer wakes the AWSMachine")
            );
        }
        Err(FlowError::Waits(why, next)) => {
            let recorded = scope.events.into_iter().filter(|event| event.is_recorded);
            let waits = Outcome::done(scope.machine).with_events(recorded).with_next(next);
            return Ok(waits.because(why));
        }
        Err(FlowError::Blocked(blocked)) => {
            let blocked = context.remember_refusal(&scope, blocked);
            scope.finish_with(blocked.condition, blocked.next);
        }
        Err(FlowError::Failed(error)) => return Err(error.with_events(scope.events)),
    }
    if deleting && let Abandonment::Mismatch(why) = abandonment(&scope.machine) {
        scope.append_to_message(ConditionType::InstanceReady, &why);
    }
    finish(scope, context).await
}

/// The outcome of a pass that does not release the AWSMachine.
async fn finish(scope: MachineScope, context: &MachineContext) -> Result<Outcome<AWSMachine>, ReconcileError> {
    let status = status::summarize(&scope, context.kubernetes.now());
    let warnings = transitions::warnings(&scope.conditions_before, &status.conditions);
    match write::allow_move(scope.machine, &status, context).await {
        Ok(machine) => Ok(Outcome::done(machine)
            .with_status(status)
            .with_next(scope.next)
            .with_events(scope.events)
            .with_events(warnings)),
        Err(error) => Err(ReconcileError::from(error).with_events(scope.events)),
    }
}

/// Launches and follows the instance of a machine that is not being deleted.
async fn run(scope: &mut MachineScope, context: &MachineContext) -> Result<(), FlowError> {
    write::plan_launch(scope)?;
    if scope.owners.machine.is_ok() && scope.owners.cluster.is_some() {
        write::ensure_finalizer(scope, context).await?;
    }
    let launched = match scope.machine.instance_id() {
        None => Box::pin(launch::launch(scope, context)).await?,
        Some(_) => None,
    };
    let location = match launched {
        Some(location) => location,
        None => location::recorded_or_resolved(scope, context).await?,
    };
    match instance::observe(scope, &location, context).await? {
        Observed::Nothing => {}
        Observed::Instance { instance, is_ours: true, network } => {
            update::update(scope, &instance, network.as_deref(), &location, context).await?;
            elastic_ip::ensure_associated(scope, &instance, network.as_deref(), &location, context).await?;
            targets::follow(scope, &instance, &location, context);
            bootstrap_data::delete_unneeded(scope, Some(&instance), &location, context).await;
        }
        Observed::Instance { instance, is_ours: false, .. } => {
            targets::leave_alone(scope, &instance.id, &location);
            // The data belongs to the AWSMachine, whatever tags the instance has lost.
            bootstrap_data::delete_unneeded(scope, Some(&instance), &location, context).await;
        }
        Observed::Gone(id) => {
            targets::ensure_deregistered(scope, &id, None, &location, context);
            bootstrap_data::delete_unneeded(scope, None, &location, context).await;
        }
    }
    Ok(())
}

/// Deletes the instances of a machine: deregisters them from their targets and terminates them. Then the AWSMachine is
/// released.
async fn delete(scope: &mut MachineScope, context: &MachineContext) -> Result<(), FlowError> {
    if let Abandonment::Asked(what) = abandonment(&scope.machine) {
        return Ok(deletion::abandoned(scope, &what, context).await?);
    }
    let mut blocks = Vec::new();
    let (mut ended, mut foreign) = (Vec::new(), Vec::new());
    match deletion::find(scope, context).await? {
        Found::Nothing { unowned } => {
            deletion::report_unowned(scope, &unowned);
            foreign = unowned;
        }
        Found::Instances { location, instances } => {
            ended.extend(instances.iter().map(|instance| instance.id.clone()));
            if let [only] = &instances[..]
                && let Observation::Seen(instance) = &only.observation
            {
                instance::recover_before_end(scope, instance, &location, context).await?;
            }
            for instance in &instances {
                let has_left = match &instance.observation {
                    Observation::Unknown => false,
                    Observation::Seen(seen) => {
                        targets::ensure_deregistered(scope, &instance.id, Some(seen), &location, context)
                    }
                    Observation::Absent => targets::ensure_deregistered(scope, &instance.id, None, &location, context),
                };
                match deletion::end_instance(scope, instance, has_left, &location, context).await {
                    Ended::Gone => {}
                    Ended::Waits(blocked) => blocks.push(blocked),
                    Ended::Submitted(blocked) => {
                        blocks.push(blocked);
                        break;
                    }
                }
            }
        }
    }
    if let Some(blocked) = deletion::merged(blocks) {
        return Err(blocked.into());
    }
    // Each kind is released even if another one is blocked, so that it does not cost money any longer.
    let of_addresses = blocks_of(elastic_ip::release_all(scope, &ended, &foreign, context).await)?;
    let of_hosts = blocks_of(hosts::release_all(scope, context).await)?;
    let of_data = blocks_of(bootstrap_data::delete_all(scope, context).await)?;
    if let Some(blocked) = deletion::merged([of_addresses, of_hosts, of_data].into_iter().flatten().collect()) {
        return Err(blocked.into());
    }
    Ok(deletion::release(scope, context).await?)
}

/// The block of one step of a deletion; every other failure ends the pass.
fn blocks_of(step: Result<(), FlowError>) -> Result<Option<Blocked>, FlowError> {
    match step {
        Ok(()) => Ok(None),
        Err(FlowError::Blocked(blocked)) => Ok(Some(blocked)),
        Err(failed) => Err(failed),
    }
}
