//! Calls that AWS has refused for good: what they name does not exist or is invalid, not allowed or beyond a quota.

use std::time::Duration;

use capa_api::machine::AWSMachineSpec;
use capa_cloud::UserData;
use capa_network::Merged;
use capa_runtime::reconcile::Next;

use super::blocked::Blocked;
use super::context::MachineContext;
use super::locate::InstanceLocation;
use super::scope::MachineScope;
use crate::refusals::Inputs;

/// What the calls of a launch are made from: spec, sources, identity with its Secret, and bootstrap data.
pub(super) fn of_launch(
    spec: &AWSMachineSpec,
    user_data: &UserData,
    merged: &Merged,
    location: &InstanceLocation,
) -> Inputs {
    // The types hold no floats and no maps without order, so their JSON is as stable as they are.
    let spec = serde_json::to_vec(spec).unwrap_or_default();
    let network = serde_json::to_vec(&merged.network).unwrap_or_default();
    Inputs::of(&("launch", spec, network, user_data.expose(), asked_as(location)))
}

/// What a lookup for a deletion, or the termination of an instance, is made from.
pub(super) fn of_deletion(instance_id: Option<&str>, location: &InstanceLocation) -> Inputs {
    Inputs::of(&("deletion", instance_id, asked_as(location)))
}

/// As whom and where AWS is asked.
fn asked_as(location: &InstanceLocation) -> [&str; 3] {
    [&location.identity_key, &location.account_id, &location.region]
}

/// The calls of the pass are made from these inputs from here on.
///
/// # Errors
/// AWS has refused such a call a short while ago. What the machine shows of that stays.
pub(super) fn await_change(scope: &mut MachineScope, inputs: Inputs, context: &MachineContext) -> Result<(), Blocked> {
    scope.inputs = Some(inputs);
    let now = context.kubernetes.now();
    match context
        .memory
        .refusals()
        .standing(scope.uid(), inputs, now, &context.timing)
    {
        None => Ok(()),
        Some(refusal) => Err(Blocked::new(refusal.condition, next(refusal.remaining, context))),
    }
}

/// Ends the pass with what blocks it. A refusal is remembered.
pub(super) fn finish_blocked(scope: &mut MachineScope, mut blocked: Blocked, context: &MachineContext) {
    if blocked.is_refused
        && let Some(inputs) = scope.inputs
    {
        let now = context.kubernetes.now();
        let condition = blocked.condition.clone();
        let refusals = context.memory.refusals();
        let wait = refusals.refused(scope.uid(), inputs, condition, now, &context.timing);
        blocked.next = next(wait, context);
    }
    scope.finish_blocked(blocked);
}

/// Sources and Secrets are not watched: they are read again before AWS is asked again.
fn next(wait: Duration, context: &MachineContext) -> Next {
    Next::Requeue(wait.min(context.timing.source_retry_cap))
}
