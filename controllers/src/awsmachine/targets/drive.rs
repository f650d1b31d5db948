//! Has an instance registered in its targets or deregistered from them, and shows how it stands with each.

use capa_api::common::MachineAddressType;
use capa_api::conditions::{ConditionType, Reason, find};
use capa_api::machine::MachineTargetState;
use capa_cloud::targets::{Desired, RegistrationState, TargetInstance};
use capa_cloud::{Instance, InstanceState, MachineAddress};

use super::conditions::{departure_or_kept, registration_or_kept};
use super::plan::{self, NamedTarget, TargetView, after_deregistering, after_registering};
use crate::awsmachine::locate::InstanceLocation;
use crate::awsmachine::scope::MachineScope;

fn usable_targets(location: &InstanceLocation) -> (Vec<NamedTarget>, Vec<String>) {
    plan::usable_targets(&location.targets, location.role, &location.region, &location.account_id)
}

fn target_instance(scope: &MachineScope, id: &str, instance: Option<&Instance>) -> TargetInstance {
    let private = |addresses: &[MachineAddress]| {
        let internal = addresses
            .iter()
            .find(|address| address.address_type == MachineAddressType::InternalIP);
        internal.map(|address| address.address.clone())
    };
    let shown = instance.and_then(|instance| private(&instance.addresses));
    TargetInstance {
        id: id.to_owned(),
        // An instance that is gone shows no address.
        address: shown.or_else(|| private(&scope.status.addresses)),
    }
}

/// Whether the address of an instance is stored. An instance that has ended shows no address, and AWS does not take the
/// address out of target groups: an instance whose address is not stored is not registered.
fn is_on_record(scope: &MachineScope, instance: &TargetInstance) -> bool {
    let stored = scope.stored_status().map(|status| status.addresses.as_slice());
    let mut stored = stored.unwrap_or_default().iter();
    let address = instance.address.as_ref();
    address.is_none_or(|address| stored.any(|stored| stored.address == *address))
}

fn stored_state(scope: &MachineScope, id: &str, target: &NamedTarget) -> Option<MachineTargetState> {
    let stored = scope.stored_status().map(|status| status.targets.as_slice());
    plan::stored_state(stored.unwrap_or_default(), id, &target.0)
}

/// Says what is desired of an instance in its targets, and reads how it stands with each.
fn desire(
    scope: &MachineScope,
    location: &InstanceLocation,
    instance: &TargetInstance,
    named: Vec<NamedTarget>,
    desired: Desired,
) -> Vec<TargetView> {
    let targets: Vec<_> = named.iter().map(|(_, target)| target.clone()).collect();
    let shown = location
        .cloud
        .reconcile_targets(&scope.key(), instance, &targets, desired);
    let view = |(target, shown): (NamedTarget, RegistrationState)| TargetView {
        stored: stored_state(scope, &instance.id, &target),
        group: target.0,
        shown,
    };
    named.into_iter().zip(shown).map(view).collect()
}

/// Has the instance of a machine registered while it runs, deregistered once it has ended, and sets
/// `ControlPlaneTargetsReady`.
pub(in crate::awsmachine) fn follow(scope: &mut MachineScope, instance: &Instance, location: &InstanceLocation) {
    let (named, problems) = usable_targets(location);
    if named.is_empty() && problems.is_empty() {
        location.cloud.forget_targets(&scope.key());
        scope.status.targets.clear();
        return;
    }
    match instance.state {
        InstanceState::Running => ensure_registered(scope, instance, named, &problems, location),
        InstanceState::Pending | InstanceState::Stopping | InstanceState::Stopped => {
            location.cloud.forget_targets(&scope.key());
            scope.status.targets.clear();
            let message = format!("instance {} does not run: it gets traffic once it does", instance.id);
            scope.set_condition(ConditionType::ControlPlaneTargetsReady.is_false(Reason::WaitingForRunning, message));
        }
        InstanceState::ShuttingDown | InstanceState::Terminated => {
            ensure_deregistered(scope, &instance.id, Some(instance), location);
        }
    }
}

/// Leaves a living instance where it is that does not carry the tags of the machine: without them it is not known to be
/// the machine's.
pub(in crate::awsmachine) fn leave_alone(scope: &mut MachineScope, id: &str, location: &InstanceLocation) {
    let (named, _) = usable_targets(location);
    if named.is_empty() {
        return;
    }
    location.cloud.forget_targets(&scope.key());
    let message = format!(
        "instance {id} does not carry the tags of this machine ({}): it is neither registered nor deregistered until it \
         does",
        scope.tags(&location.cluster_tag).described()
    );
    scope.set_condition(ConditionType::ControlPlaneTargetsReady.is_false(Reason::NotOwned, message));
}

fn ensure_registered(
    scope: &mut MachineScope,
    instance: &Instance,
    named: Vec<NamedTarget>,
    problems: &[String],
    location: &InstanceLocation,
) {
    let id = &instance.id;
    let target = target_instance(scope, id, Some(instance));
    let views = if is_on_record(scope, &target) {
        desire(scope, location, &target, named, Desired::Registered)
    } else {
        let unread = |target: NamedTarget| TargetView {
            stored: stored_state(scope, id, &target),
            group: target.0,
            shown: RegistrationState::Unknown,
        };
        named.into_iter().map(unread).collect()
    };
    let (targets, events) = after_registering(id, &views);
    let before = scope.stored_status().map(|status| status.conditions.as_slice());
    let before = find(before.unwrap_or_default(), ConditionType::ControlPlaneTargetsReady);
    let update = registration_or_kept(id, &views, problems, before.map(|condition| condition.status == "True"));
    scope.status.targets = targets;
    scope.events.extend(events);
    if let Some(update) = update {
        scope.set_condition(update);
    }
}

/// Has an instance deregistered from its targets, and sets `ControlPlaneTargetsReady`. Answers whether nothing is left
/// to wait for: the instance has left, or the longest time for that is over.
pub(in crate::awsmachine) fn ensure_deregistered(
    scope: &mut MachineScope,
    id: &str,
    instance: Option<&Instance>,
    location: &InstanceLocation,
) -> bool {
    let (mut named, _) = usable_targets(location);
    if named.is_empty() {
        return true;
    }
    let lives = instance
        .is_some_and(|instance| !matches!(instance.state, InstanceState::ShuttingDown | InstanceState::Terminated));
    let desired = if lives {
        Desired::Deregistered
    } else {
        // What has left stays out for good: AWS may have given the address to another instance.
        named.retain(|target| stored_state(scope, id, target) != Some(MachineTargetState::Deregistered));
        Desired::Forgotten
    };
    if named.is_empty() {
        location.cloud.forget_targets(&scope.key());
        return true;
    }
    let target = target_instance(scope, id, instance);
    let views = desire(scope, location, &target, named, desired);
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
