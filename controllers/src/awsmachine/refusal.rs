//! Permanent errors of a machine's AWS calls, and the inputs of the calls.

use capa_api::machine::AWSMachineSpec;
use capa_cloud::UserData;
use capa_network::Merged;

use super::blocked::Blocked;
use super::context::MachineContext;
use super::locate::InstanceLocation;
use super::scope::MachineScope;
use crate::call_inputs::Inputs;

/// The inputs of the calls of a launch: spec, network sources, identity with its Secret, and bootstrap data.
pub(super) fn of_launch(
    spec: &AWSMachineSpec,
    user_data: &UserData,
    merged: &Merged,
    location: &InstanceLocation,
) -> Inputs {
    // The types contain neither floats nor unordered maps, so equal values have equal JSON.
    let spec = serde_json::to_vec(spec).unwrap_or_default();
    let network = serde_json::to_vec(&merged.network).unwrap_or_default();
    Inputs::of(&"launch", &(spec, network, user_data.expose(), asked_as(location)))
}

/// The inputs of a lookup for a deletion, or of the termination of an instance. Each instance is a call of its own,
/// because AWS may allow the termination of one and refuse that of another.
pub(super) fn of_deletion(instance_id: Option<&str>, location: &InstanceLocation) -> Inputs {
    Inputs::of(&("deletion", instance_id), &asked_as(location))
}

/// The credentials and the region of the calls.
fn asked_as(location: &InstanceLocation) -> [&str; 3] {
    [&location.identity_key, &location.account_id, &location.region]
}

/// Sets the inputs of the following calls of the pass.
///
/// # Errors
/// The permanent error of an earlier call with these inputs, until the time of the next call.
pub(super) fn await_change(scope: &mut MachineScope, inputs: Inputs, context: &MachineContext) -> Result<(), Blocked> {
    scope.inputs = Some(inputs);
    let (refusals, now) = (context.memory.refusals(), context.kubernetes.uptime());
    match refusals.standing(scope.uid(), inputs, now, &context.timing) {
        None => Ok(()),
        Some(refusal) => Err(Blocked::new(refusal.condition, refusal.next)),
    }
}

/// Ends the pass with what blocks it, and records a permanent error.
pub(super) fn finish_blocked(scope: &mut MachineScope, blocked: Blocked, context: &MachineContext) {
    let blocked = record(scope, blocked, context);
    scope.finish_blocked(blocked);
}

/// Records a permanent error of a call with the inputs of the pass. The flow is then blocked until the next call is
/// due.
pub(super) fn record(scope: &MachineScope, mut blocked: Blocked, context: &MachineContext) -> Blocked {
    if blocked.is_refused()
        && let Some(inputs) = scope.inputs
    {
        let now = context.kubernetes.uptime();
        let condition = blocked.condition.clone();
        let refusals = context.memory.refusals();
        blocked.next = refusals.refused(scope.uid(), inputs, condition, now, &context.timing);
        blocked.cause = None;
    }
    blocked
}
