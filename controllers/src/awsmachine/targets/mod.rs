//! The load balancer targets of a control plane machine: its instance is registered while it runs, and deregistered
//! before it is terminated.

pub(super) mod access;
pub(super) mod plan;

use capa_api::common::MachineAddressType;
use capa_api::conditions::{ConditionType, ConditionUpdate, Reason, find, holds};
use capa_api::machine::{MachineTargetState, MachineTargetStatus};
use capa_cloud::targets::{Desired, RegistrationState, TargetInstance, TargetRequest};
use capa_cloud::{Instance, InstanceState, MachineAddress};
use capa_network::Problem;
use capa_runtime::reconcile::{EventDraft, Next};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use self::access::{NamedTarget, usable_targets};
use self::plan::{
    TargetView, after_departing, after_deregistering, after_registering, departure_or_kept, registration_or_kept,
};
use crate::awsmachine::context::MachineContext;
use crate::awsmachine::inputs::location::InstanceLocation;
use crate::awsmachine::scope::MachineScope;
use crate::target_users;
use crate::time::age;

fn target_instance(scope: &MachineScope, id: &str, instance: Option<&Instance>) -> TargetInstance {
    let private = |addresses: &[MachineAddress]| -> Vec<String> {
        let internal = addresses.iter().filter(|address| address.address_type == MachineAddressType::InternalIP);
        internal.map(|address| address.address.clone()).collect()
    };
    let shown = instance.map(|instance| private(&instance.addresses)).filter(|shown| !shown.is_empty());
    TargetInstance {
        id: id.to_owned(),
        // AWS shows no address of an instance that is gone.
        addresses: shown.unwrap_or_else(|| private(&scope.status.addresses)),
    }
}

/// Whether the addresses of an instance are stored. AWS shows no address of an instance that has ended, and does not
/// remove the address from target groups. So an instance is not registered before its addresses are stored.
fn is_on_record(scope: &MachineScope, instance: &TargetInstance) -> bool {
    let stored = scope.stored_status().map(|status| status.addresses.as_slice());
    let stored = stored.unwrap_or_default();
    instance.addresses.iter().all(|address| stored.iter().any(|stored| stored.address == *address))
}

fn stored_state(scope: &MachineScope, id: &str, target: &NamedTarget) -> Option<MachineTargetState> {
    let stored = scope.stored_status().map(|status| status.targets.as_slice());
    plan::stored_state(stored.unwrap_or_default(), id, &target.0)
}

/// Sets the desired state of an instance in its targets, and reads its current state in each.
fn desire(
    scope: &MachineScope,
    location: &InstanceLocation,
    instance: &TargetInstance,
    named: &[NamedTarget],
    desired: Desired,
    context: &MachineContext,
) -> Vec<TargetView> {
    let request = |target: &NamedTarget| {
        let on_record = stored_state(scope, &instance.id, target).is_some_and(target_users::is_in);
        access::request(scope, location, target, on_record, context)
    };
    let requests: Vec<TargetRequest> = named.iter().map(request).collect();
    let shown = location.session.cloud.reconcile_targets(&scope.key(), instance, &requests, desired);
    let shown = named.iter().zip(shown);
    shown.map(|(target, shown)| view(scope, location, &instance.id, target, shown)).collect()
}

fn view(
    scope: &MachineScope,
    location: &InstanceLocation,
    id: &str,
    target: &NamedTarget,
    shown: RegistrationState,
) -> TargetView {
    TargetView {
        stored: stored_state(scope, id, target),
        group: target.0.clone(),
        cluster: format!("{}/{}", scope.namespace(), location.cluster_name),
        shown,
    }
}

/// Registers the instance of a machine while it runs, deregisters it after its end, and sets
/// `ControlPlaneTargetsReady`.
pub(super) fn follow(
    scope: &mut MachineScope,
    instance: &Instance,
    location: &InstanceLocation,
    context: &MachineContext,
) {
    let (named, problems) = usable_targets(location);
    if named.is_empty() && problems.is_empty() {
        location.session.cloud.forget_targets(&scope.key());
        scope.status.targets.clear();
        return;
    }
    match instance.state {
        InstanceState::Running if is_machine_deleted(scope) => {
            depart(scope, instance, &named, &problems, location, context);
        }
        InstanceState::Running => ensure_registered(scope, instance, &named, &problems, location, context),
        InstanceState::Pending | InstanceState::Stopping | InstanceState::Stopped => {
            location.session.cloud.forget_targets(&scope.key());
            scope.status.targets.clear();
            let message = format!("instance {} does not run: it gets traffic once it does", instance.id);
            scope.set_condition(ConditionType::ControlPlaneTargetsReady.is_false(Reason::WaitingForRunning, message));
        }
        InstanceState::ShuttingDown | InstanceState::Terminated => {
            ensure_deregistered(scope, &instance.id, Some(instance), location, context);
        }
    }
}

/// Whether the Machine is being deleted: its node is drained, and its API server stops, before the AWSMachine is
/// deleted.
fn is_machine_deleted(scope: &MachineScope) -> bool {
    let machine = scope.owners.machine.as_ref().ok();
    machine.is_some_and(|machine| machine.metadata.deletion_timestamp.is_some())
}

/// Deregisters an instance before its node is drained. The last healthy target of a group stays until the AWSMachine is
/// deleted.
fn depart(
    scope: &mut MachineScope,
    instance: &Instance,
    named: &[NamedTarget],
    problems: &[String],
    location: &InstanceLocation,
    context: &MachineContext,
) {
    let id = &instance.id;
    let target = target_instance(scope, id, Some(instance));
    let views = desire(scope, location, &target, named, Desired::Departing, context);
    let (targets, events) = after_departing(id, &views);
    let leaving: Vec<TargetView> = views.iter().filter(|view| view.leaves()).cloned().collect();
    let update = if leaving.is_empty() {
        registration_or_kept(id, &views, problems, was_ready(scope))
    } else {
        departure_or_kept(id, &leaving)
    };
    record(scope, targets, events, update);
}

/// Whether `ControlPlaneTargetsReady` was True, if there was one.
fn was_ready(scope: &MachineScope) -> Option<bool> {
    let before = scope.stored_status().map(|status| status.conditions.as_slice());
    let (before, condition) = (before.unwrap_or_default(), ConditionType::ControlPlaneTargetsReady);
    find(before, condition).map(|_| holds(before, condition))
}

fn record(
    scope: &mut MachineScope,
    targets: Vec<MachineTargetStatus>,
    events: Vec<EventDraft>,
    update: Option<ConditionUpdate>,
) {
    scope.status.targets = targets;
    scope.events.extend(events);
    if let Some(update) = update {
        scope.set_condition(update);
    }
}

/// Neither registers nor deregisters a living instance without the tags of the machine, because its ownership is not
/// proven.
pub(super) fn leave_alone(scope: &mut MachineScope, id: &str, location: &InstanceLocation) {
    let (named, _) = usable_targets(location);
    if named.is_empty() {
        return;
    }
    location.session.cloud.forget_targets(&scope.key());
    let message = format!(
        "instance {id} does not carry the tags of this machine ({}): it is neither registered nor deregistered until \
         it does",
        scope.tags(&location.session.cluster_tag).described()
    );
    scope.set_condition(ConditionType::ControlPlaneTargetsReady.is_false(Reason::NotOwned, message));
}

fn ensure_registered(
    scope: &mut MachineScope,
    instance: &Instance,
    named: &[NamedTarget],
    problems: &[String],
    location: &InstanceLocation,
    context: &MachineContext,
) {
    let id = &instance.id;
    let target = target_instance(scope, id, Some(instance));
    let views = if is_on_record(scope, &target) {
        desire(scope, location, &target, named, Desired::Registered, context)
    } else {
        let unread = |target| view(scope, location, id, target, RegistrationState::Unknown);
        named.iter().map(unread).collect()
    };
    if views.iter().any(|view| matches!(view.shown, RegistrationState::Refused(_))) {
        // No event reports that another Cluster has left a group.
        scope.next = Next::Requeue(context.timing.resolve_retry_cap);
    }
    let (targets, events) = after_registering(id, &views);
    let update = registration_or_kept(id, &views, problems, was_ready(scope));
    record(scope, targets, events, update);
}

/// Deregisters an instance from its targets, and sets `ControlPlaneTargetsReady`. Returns whether the deletion may
/// continue: the instance has left its targets, or the longest time for that is over.
pub(super) fn ensure_deregistered(
    scope: &mut MachineScope,
    id: &str,
    instance: Option<&Instance>,
    location: &InstanceLocation,
    context: &MachineContext,
) -> bool {
    let has_left_known = ensure_deregistered_from_known(scope, id, instance, location, context);
    let may_serve = instance.is_some_and(|instance| instance.state == InstanceState::Running);
    let pending = location.pending_targets.as_ref().filter(|_| may_serve);
    let Some(pending) = pending.filter(|problem| awaits_unknown_targets(problem, scope, context)) else {
        return has_left_known;
    };
    let message = format!(
        "instance {id} may be in targets that are not known: it is terminated once it has left them, or {} s after the \
         deletion of the AWSMachine at the earliest: {}",
        context.timing.drain_limit.as_secs(),
        pending.message
    );
    scope.set_condition(ConditionType::ControlPlaneTargetsReady.is_false(pending.reason, message));
    false
}

fn lives(instance: &Instance) -> bool {
    !matches!(instance.state, InstanceState::ShuttingDown | InstanceState::Terminated)
}

/// Whether a deletion waits for targets that are not known, as after the loss of a status. An instance has as much time
/// to leave them as it has to leave known ones. No instance is in a load balancer that does not exist, and a wrong spec
/// stays wrong.
fn awaits_unknown_targets(pending: &Problem, scope: &MachineScope, context: &MachineContext) -> bool {
    let deleted = scope.machine.metadata.deletion_timestamp.as_ref();
    let is_in_time = |deleted: &Time| age(deleted.0, context.kubernetes.now()) < context.timing.drain_limit;
    !pending.needs_a_change() && deleted.is_some_and(is_in_time)
}

fn ensure_deregistered_from_known(
    scope: &mut MachineScope,
    id: &str,
    instance: Option<&Instance>,
    location: &InstanceLocation,
    context: &MachineContext,
) -> bool {
    let (mut named, _) = usable_targets(location);
    if named.is_empty() {
        return true;
    }
    let desired = if instance.is_some_and(lives) {
        Desired::Deregistered
    } else {
        // A deregistered target stays deregistered, because AWS may have given the address to another instance.
        named.retain(|target| stored_state(scope, id, target) != Some(MachineTargetState::Deregistered));
        Desired::Forgotten
    };
    if named.is_empty() {
        location.session.cloud.forget_targets(&scope.key());
        return true;
    }
    let target = target_instance(scope, id, instance);
    let views = desire(scope, location, &target, &named, desired, context);
    let (targets, events) = after_deregistering(id, &views);
    scope.status.targets.retain(|status| {
        let is_asked = targets.iter().any(|asked| asked.target == status.target);
        status.instance_id == id && status.state == MachineTargetState::Deregistered && !is_asked
    });
    scope.status.targets.extend(targets);
    scope.events.extend(events);
    if let Some(update) = departure_or_kept(id, &views) {
        scope.set_condition(update);
    }
    views.iter().all(TargetView::is_over)
}
