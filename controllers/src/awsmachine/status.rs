//! Computes the status of an AWSMachine from its instance and from the result of a pass. Pure.

use capa_api::common::Initialization;
use capa_api::conditions::{self, ConditionStatus, ConditionType, ConditionUpdate, Reason};
use capa_api::machine::{AWSMachine, AWSMachineStatus, InstanceState, MarketType};
use capa_cloud::{Instance, StateReason};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::scope::MachineScope;
use crate::pause::not_paused;

/// The status of a paused machine: only the condition `Paused` changes.
pub(super) fn paused(machine: &AWSMachine, paused: ConditionUpdate, now: Timestamp) -> AWSMachineStatus {
    let mut status = machine.status.clone().unwrap_or_default();
    conditions::set(&mut status.conditions, paused, machine.metadata.generation, now);
    status
}

/// The status of the scope with its conditions, and with `Ready` as their summary. A condition that the pass has not
/// set does not change, with one exception: a launch checks its requirements in order, so a condition of a requirement
/// that it has not reached does not stay False.
pub(super) fn summarize(scope: &MachineScope, now: Timestamp) -> AWSMachineStatus {
    let deleting = scope.machine.metadata.deletion_timestamp.is_some();
    let launching = !deleting && scope.machine.instance_id().is_none();
    let is_set = |condition| scope.conditions.iter().any(|update| update.condition == condition);
    let kept = scope.status.conditions.iter().filter_map(as_update);
    let mut updates: Vec<ConditionUpdate> = kept
        .filter(|update| !is_set(update.condition) && update.condition != ConditionType::Ready)
        .filter(|update| !launching || update.status == ConditionStatus::True)
        .chain(scope.conditions.iter().cloned())
        .collect();
    updates.push(not_paused(&scope.machine.metadata));
    updates.push(ready(&updates, scope));
    AWSMachineStatus {
        conditions: conditions::merge(&scope.status.conditions, updates, scope.machine.metadata.generation, now),
        ..scope.status.clone()
    }
}

/// `Ready` is True if the machine is provisioned and all conditions of the summary are True. Otherwise `Ready` repeats
/// the first condition that is not True. `Ready` that is True has the reason of the first other condition that needs
/// attention, and names that condition.
fn ready(updates: &[ConditionUpdate], scope: &MachineScope) -> ConditionUpdate {
    let culprit = updates
        .iter()
        .filter(|update| update.condition.counts_for_ready() && update.status != ConditionStatus::True)
        .min_by_key(|update| update.condition != ConditionType::InstanceReady);
    if let Some(culprit) = culprit {
        return ConditionType::Ready.is_false(culprit.reason, culprit.message.clone());
    }
    if !scope.status.provisioned() {
        return ConditionType::Ready.is_false(Reason::Launching, "the instance does not run yet");
    }
    let attention = attention(updates);
    let reason = attention.map_or(Reason::Ready, |update| update.reason);
    let trouble = attention.map(ConditionUpdate::text);
    ConditionType::Ready.is_true(reason).with_message(trouble.unwrap_or_default())
}

/// The first condition that is not True and that `Ready` does not depend on. `Paused` is excluded.
fn attention(updates: &[ConditionUpdate]) -> Option<&ConditionUpdate> {
    let informs = |condition: ConditionType| {
        !condition.counts_for_ready() && !matches!(condition, ConditionType::Ready | ConditionType::Paused)
    };
    let not_true = updates.iter().filter(|update| informs(update.condition) && update.status != ConditionStatus::True);
    not_true.min_by_key(|update| update.condition)
}

/// The update that does not change a condition. `None` for a condition of another controller.
fn as_update(condition: &Condition) -> Option<ConditionUpdate> {
    Some(ConditionUpdate {
        condition: condition.type_.parse().ok()?,
        status: condition.status.parse().ok()?,
        reason: condition.reason.parse().ok()?,
        message: condition.message.clone(),
    })
}

/// Writes the instance into the status.
pub(super) fn show(scope: &mut MachineScope, instance: &Instance) {
    let status = &mut scope.status;
    status.instance_state = Some(instance.state);
    status.failure_domain = Some(instance.availability_zone.clone());
    let is_spot = scope.machine.spec.effective_market_type() == MarketType::Spot;
    status.interruptible = is_spot.then_some(true);
    if !instance.addresses.is_empty() {
        status.addresses.clone_from(&instance.addresses);
    }
    if instance.state == InstanceState::Running {
        status.initialization = Some(Initialization { provisioned: Some(true) });
    }
    if !instance.state.has_ended() && instance.state != InstanceState::Pending {
        status.has_run = Some(true);
    }
    status.ready = Some(status.provisioned());
    for condition in [ConditionType::BootstrapDataReady, ConditionType::NetworkReady] {
        scope.set_condition(condition.is_true(Reason::Ready));
    }
}

/// AWS's reason for the state of an instance. The interruption of a Spot instance is recognized by its code, because
/// AWS's text does not say who ended the instance.
fn state_text(reason: &StateReason) -> String {
    if reason.is_spot_interruption() {
        format!("EC2 has interrupted the Spot instance ({})", reason.code)
    } else {
        reason.message.clone()
    }
}

/// The condition `InstanceReady` in the state of the instance.
pub(super) fn instance_ready(instance: &Instance) -> ConditionUpdate {
    let id = &instance.id;
    let not_ready = |reason, message: String| ConditionType::InstanceReady.is_false(reason, message);
    let why = instance.state_reason.as_ref().map(|reason| format!(": {}", state_text(reason))).unwrap_or_default();
    match instance.state {
        InstanceState::Running => ConditionType::InstanceReady.is_true(Reason::Ready),
        InstanceState::Pending => not_ready(Reason::Pending, format!("instance {id} is starting")),
        InstanceState::Stopping | InstanceState::Stopped => {
            not_ready(Reason::Stopped, format!("instance {id} is stopped{why}: start it or delete the Machine"))
        }
        InstanceState::ShuttingDown | InstanceState::Terminated => not_ready(
            Reason::Terminated,
            format!(
                "instance {id} was terminated{why}: delete the Machine to replace it, or let a MachineHealthCheck do so"
            ),
        ),
    }
}
