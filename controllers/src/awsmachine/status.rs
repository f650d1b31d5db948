//! Computes the status of an AWSMachine from the result of a pass. Pure.

use capa_api::conditions::{self, ConditionStatus, ConditionType, ConditionUpdate, Reason};
use capa_api::machine::{AWSMachine, AWSMachineStatus};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::scope::MachineScope;
use super::spec;
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
    let launching = !deleting && spec::instance_id(&scope.machine).is_none();
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
        conditions: conditions::merge(
            &scope.status.conditions,
            updates,
            scope.machine.metadata.generation,
            now,
        ),
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
    let trouble = attention.map(ConditionUpdate::in_words);
    ConditionType::Ready
        .is_true(reason)
        .with_message(trouble.unwrap_or_default())
}

/// The first condition that is not True and that `Ready` does not depend on. `Paused` is no trouble.
fn attention(updates: &[ConditionUpdate]) -> Option<&ConditionUpdate> {
    let informs = |condition: ConditionType| {
        !condition.counts_for_ready() && !matches!(condition, ConditionType::Ready | ConditionType::Paused)
    };
    let not_true = updates
        .iter()
        .filter(|update| informs(update.condition) && update.status != ConditionStatus::True);
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
