//! The status of an AWSMachine from what a pass found. Pure.

use capa_api::conditions::{self, ConditionStatus, ConditionType, ConditionUpdate, Reason};
use capa_api::machine::{AWSMachine, AWSMachineStatus};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::Draft;

/// The condition itself says it; everything else stays as it was.
pub(super) fn paused(machine: &AWSMachine, now: Timestamp) -> AWSMachineStatus {
    let mut status = machine.status.clone().unwrap_or_default();
    let update = ConditionType::Paused.is_true(Reason::Paused);
    conditions::set(&mut status.conditions, update, machine.metadata.generation, now);
    status
}

/// The draft's status with its conditions, `Ready` summing them up.
pub(super) fn summarize(draft: &Draft, now: Timestamp) -> AWSMachineStatus {
    let mut status = draft.status.clone();
    let mut updates: Vec<ConditionUpdate> = draft
        .updates
        .iter()
        .filter(|update| !matches!(update.condition, ConditionType::Ready | ConditionType::Paused))
        .cloned()
        .collect();
    updates.push(ConditionType::Paused.is_false(Reason::NotPaused, ""));
    updates.push(ready(&updates, &status));
    status.conditions = conditions::merge(
        &draft.status.conditions,
        updates,
        draft.machine.metadata.generation,
        now,
    );
    status
}

/// True once provisioned and while every condition that counts holds; else it repeats the first that does not.
fn ready(updates: &[ConditionUpdate], status: &AWSMachineStatus) -> ConditionUpdate {
    let culprit = updates
        .iter()
        .filter(|update| update.condition.counts_for_ready() && update.status != ConditionStatus::True)
        .min_by_key(|update| update.condition != ConditionType::InstanceReady);
    match culprit {
        Some(culprit) => ConditionType::Ready.is_false(culprit.reason, culprit.message.clone()),
        None if status.provisioned() => ConditionType::Ready.is_true(Reason::Ready),
        None => ConditionType::Ready.is_false(Reason::Launching, "the instance does not run yet"),
    }
}

/// A condition as an update that leaves it as it is. `None` for one that is not ours.
pub(super) fn as_update(condition: &Condition) -> Option<ConditionUpdate> {
    Some(ConditionUpdate {
        condition: condition.type_.parse().ok()?,
        status: condition.status.parse().ok()?,
        reason: condition.reason.parse().ok()?,
        message: condition.message.clone(),
    })
}
