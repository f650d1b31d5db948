//! The instance flow: follows the instance of a machine.

mod drift;
mod ending;
mod recover;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use capa_api::conditions::{ConditionType, Reason};
use capa_api::machine::InstanceState;
use capa_api::meta;
use capa_api::network::MachineNetwork;
use capa_cloud::{Instance, Observation};
use capa_runtime::reconcile::Next;

use self::ending::{Ending, ended_before_running};
pub(super) use self::recover::recover_before_end;
use super::absence;
use super::addresses;
use super::blocked::{Blocked, FlowError};
use super::context::MachineContext;
use super::freshness;
use super::launch::record::LaunchEvent;
use super::locate::InstanceLocation;
use super::memory::{CapacityLocation, Pool};
use super::newer_attempt;
use super::ownership::Ownership;
use super::read;
use super::scope::{MachineScope, adoption_event};
use super::shown;
use super::spec;

/// The state of a machine's instance in the instance informer.
pub(super) enum Observed {
    /// The state is unknown until the informer's first listing, which wakes the machine.
    Nothing,
    /// The instance exists.
    Instance {
        /// The instance.
        instance: Arc<Instance>,
        /// Whether targets may be registered and deregistered: not for a living instance that lost its tags.
        is_ours: bool,
        /// The present network of the machine's sources. Absent if they cannot be read, or contradict each other.
        network: Option<Box<MachineNetwork>>,
    },
    /// The instance with this id is gone.
    Gone(String),
}

/// Follows the instance of a machine and sets `InstanceReady`.
pub(super) async fn observe(
    scope: &mut MachineScope,
    location: &InstanceLocation,
    context: &MachineContext,
) -> Result<Observed, FlowError> {
    scope.set_condition(ConditionType::IdentityReady.is_true(Reason::Ready));
    freshness::report_freshness(scope, location);
    let Some(id) = spec::instance_id(&scope.machine) else {
        return Ok(Observed::Nothing);
    };
    match location.cloud.observe_instance(&scope.key(), &id) {
        Observation::Unknown => unseen(scope, &id, location),
        Observation::Absent => absent(scope, id, location, context).await,
        Observation::Seen(instance) => {
            let ownership = read::ownership(scope, &instance, &location.cluster_tag, context);
            let is_ours = validate_ownership(scope, &instance, &ownership, location)?;
            if let Some(problem) = &location.pending_targets {
                // The recovered record stays for the life of the machine.
                let update = ConditionType::NetworkReady.is_false(problem.reason, problem.message.clone());
                return Err(Blocked::new(update, Next::Retry).into());
            }
            recover::recover(scope, &instance, location, context).await?;
            let network = drift::present_network(scope, context).await;
            drift::report_drift(scope, network.clone());
            seen(scope, &instance, location, context).await?;
            Ok(Observed::Instance {
                instance,
                is_ours,
                network: network.map(Box::new),
            })
        }
    }
}

/// Refuses an instance that only the spec names and that is not proven to belong to the machine. A recorded instance is
/// followed even without its tags. Returns whether the instance may also be changed: it has its tags, or has ended and
/// so lost them.
fn validate_ownership(
    scope: &MachineScope,
    instance: &Instance,
    ownership: &Ownership,
    location: &InstanceLocation,
) -> Result<bool, Blocked> {
    let id = &instance.id;
    let reason = match ownership {
        Ownership::Ours(_) => return Ok(true),
        Ownership::Foreign(_) if spec::recorded_instance_id(&scope.machine) == Some(id) => {
            return Ok(instance.state.has_ended());
        }
        Ownership::Foreign(reason) => reason,
    };
    let message = format!(
        "instance {id}, which the spec names, is not this machine's, and is left alone: {reason}; if it is, correct \
         that (its tags are {}); annotation {}: {id} lets a deletion end without it",
        scope.tags(&location.cluster_tag).described(),
        meta::ABANDON_INSTANCE_ANNOTATION
    );
    let not_owned = ConditionType::InstanceReady.is_false(Reason::NotOwned, message);
    // Changes of Machines with other names do not wake this machine.
    Err(Blocked::new(not_owned, Next::Retry))
}

async fn seen(
    scope: &mut MachineScope,
    instance: &Instance,
    location: &InstanceLocation,
    context: &MachineContext,
) -> Result<(), FlowError> {
    let running = instance.state == InstanceState::Running;
    if let Some((field, named)) = spec::names_another(&scope.machine.spec, &instance.id) {
        let message = format!(
            "spec.{field} is {named:?}, and the instance of this machine is {}: it was written by somebody else and \
             cannot be changed; delete the Machine to replace it",
            instance.id
        );
        scope.status.instance_state = Some(instance.state);
        let update = ConditionType::InstanceReady.is_false(Reason::InvalidSpec, message);
        return Err(Blocked::new(update, Next::AwaitChange).into());
    }
    if running && scope.machine.spec.provider_id.as_deref().is_none_or(str::is_empty) {
        let provider_id = format!("aws:///{}/{}", instance.availability_zone, instance.id);
        scope.machine = context
            .kubernetes
            .publish_ids(&scope.machine, &provider_id, &instance.id)
            .await?;
    }
    let ended = matches!(instance.state, InstanceState::ShuttingDown | InstanceState::Terminated);
    shown::show(scope, instance);
    if running {
        addresses::add_domain_names(scope, instance, location).await;
    }
    if ended && !scope.has_run() {
        return ended_early(scope, instance, &location.cluster_name, context);
    }
    let mut update = shown::instance_ready(instance);
    if instance.state == InstanceState::Pending
        && let Some(error) = location.cloud.reading_failure()
    {
        update.message = format!("{}, and AWS does not show its state: {error}", update.message);
    }
    scope.set_condition(update);
    Ok(())
}

/// A status that has shown the instance before does not change. Otherwise the condition shows a failed lookup.
fn unseen(scope: &MachineScope, id: &str, location: &InstanceLocation) -> Result<Observed, FlowError> {
    match location.cloud.reading_failure() {
        Some(error) if !scope.status.provisioned() => {
            let message = format!("instance {id} cannot be looked up: {error}");
            let update = ConditionType::InstanceReady.is_unknown(error.class.reason(), message);
            Err(Blocked::new(update, Next::AwaitChange).into())
        }
        _ => Ok(Observed::Nothing),
    }
}

/// Processes an instance that ended in `pending`, a failed attempt. Another attempt follows unless the request caused
/// the failure.
fn ended_early(
    scope: &mut MachineScope,
    instance: &Instance,
    cluster_name: &str,
    context: &MachineContext,
) -> Result<(), FlowError> {
    let now = context.kubernetes.now();
    let ending = ended_before_running(instance, scope.status.launch.as_ref(), now, &context.timing);
    let why = instance.state_reason.as_ref();
    let mut message = format!("instance {} ended before it ran", instance.id);
    if let Some(reason) = why {
        message = format!("{message}: {}: {}", reason.code, reason.message);
    }
    let failed = |what: &str| ConditionType::InstanceReady.is_false(Reason::Failed, format!("{message}: {what}"));
    let (failed, next) = match ending {
        Ending::Final => (failed("delete the Machine to replace it"), Next::AwaitChange),
        Ending::Awaited => {
            let awaited = failed("another one is launched once it is terminated");
            (awaited, Next::AwaitChange)
        }
        Ending::NextAttempt(wait) if wait.is_zero() => {
            if why.is_some_and(|reason| reason.code == "Server.InsufficientInstanceCapacity") {
                let pool = Pool::new(scope.namespace(), cluster_name, &scope.machine.spec);
                let zone = CapacityLocation::Zone(instance.availability_zone.clone());
                context
                    .memory
                    .refused_capacity(&pool, zone, None, context.kubernetes.uptime());
            }
            scope.record_launch(LaunchEvent::EndedBeforeRunning)?;
            context.memory.forget_stored(scope.uid());
            context.clouds.forget(&scope.key());
            return Err(Blocked::new(failed("another one is launched"), Next::Requeue(Duration::ZERO)).into());
        }
        Ending::NextAttempt(wait) => (failed("another one is launched"), Next::Requeue(wait)),
    };
    // The flow goes on: the instance may have run and be registered in targets although a restored status says that it
    // has not.
    scope.finish_with(failed, next);
    Ok(())
}

/// Processes an instance that AWS does not show. AWS may not show a young instance yet, and without a recorded account
/// the calls may use another account than the instance's.
async fn absent(
    scope: &mut MachineScope,
    id: String,
    location: &InstanceLocation,
    context: &MachineContext,
) -> Result<Observed, FlowError> {
    if !absence::account_is_recorded(scope) {
        // Nothing is registered for an instance that may not be there, and nothing is known of its targets.
        location.cloud.forget_targets(&scope.key());
        let message = absence::unproven(scope, &id, location);
        let unknown = ConditionType::InstanceReady.is_unknown(Reason::NotFound, message);
        return Err(Blocked::new(unknown, Next::Retry).into());
    }
    if let Some(remaining) = absence::remaining_youth(scope, &id, location, context) {
        absence::watch_anew(scope, &id, location, context);
        scope.next = Next::Requeue(remaining);
        return Ok(Observed::Nothing);
    }
    if !scope.has_run() && context.memory.asks_for_later(scope.uid(), &id) {
        find_later(scope, &id, location, context).await?;
    }
    let message = format!(
        "instance {id} is not there any more: delete the Machine to replace it, or let a MachineHealthCheck do so"
    );
    scope.set_condition(ConditionType::InstanceReady.is_false(Reason::NotFound, message));
    Ok(Observed::Gone(id))
}

/// Looks for the instance of a later call. The lookup is made until it succeeds, once in the life of this process, and
/// holds nothing up.
///
/// # Errors
/// There is such an instance: the next pass follows it.
async fn find_later(
    scope: &mut MachineScope,
    gone: &str,
    location: &InstanceLocation,
    context: &MachineContext,
) -> Result<(), FlowError> {
    match newer_attempt::adopt_newer_attempt(scope, location, context).await {
        Ok(None) => {
            context.memory.has_no_later(scope.uid(), gone);
            Ok(())
        }
        Ok(Some(id)) => {
            scope.events.push(adoption_event(&id));
            let message = format!(
                "instance {gone}, which the launch record named, is gone, and instance {id} of a later call is there: \
                 it is followed from now on"
            );
            let found = ConditionType::InstanceReady.is_false(Reason::Pending, message);
            Err(Blocked::new(found, Next::Requeue(Duration::ZERO)).into())
        }
        Err(FlowError::Blocked(blocked)) => {
            scope.next = blocked.next;
            Ok(())
        }
        Err(failed) => Err(failed),
    }
}
