//! The launch flow: from a new AWSMachine to a recorded instance id.

pub(super) mod adoption;
pub(super) mod attempt;
pub(super) mod execute;
pub(super) mod place;
pub(super) mod protocol;
pub(super) mod rejection;
pub(super) mod search;
#[cfg(test)]
mod tests;

use capa_api::conditions::{ConditionType, Reason};
use capa_runtime::reconcile::Next;

use super::inputs;
use super::inputs::location::InstanceLocation;
use crate::awsmachine::context::MachineContext;
use crate::awsmachine::scope::{Blocked, FlowError, MachineScope};

/// Launches or finds the instance of a machine. The launch record contains the instance when the flow ends without an
/// error. Returns the location of the launch, where one was resolved.
pub(super) async fn launch(
    scope: &mut MachineScope,
    context: &MachineContext,
) -> Result<Option<InstanceLocation>, FlowError> {
    let waiting = |message: String| {
        let waiting = ConditionType::InstanceReady.is_false(Reason::WaitingForOwnerCluster, message);
        Blocked::new(waiting, Next::AwaitChange)
    };
    let owner = scope.owners.machine.clone();
    let machine = owner.map_err(|problem| waiting(format!("{problem}: nothing is launched")))?;
    let Some(cluster) = scope.owners.cluster.clone() else {
        let message = format!("Cluster {} does not exist: nothing is launched", machine.spec.cluster_name);
        return Err(waiting(message).into());
    };
    if let Some(instance) = attempt::unrecorded_answer(scope, context) {
        // An earlier pass got the answer but could not record it. The answer is recorded before every other step.
        execute::record_answer(scope, &instance, context).await?;
        return Ok(None);
    }
    attempt::record_known_refusal(scope, context)?;
    let inputs = match inputs::launch::resolve(scope, &machine, &cluster, context).await {
        Ok(inputs) => inputs,
        Err(FlowError::Blocked(blocked)) => {
            let (instance, location) = Box::pin(search::find_open(scope, blocked, context)).await?;
            execute::record_answer(scope, &instance, context).await?;
            return Ok(Some(location));
        }
        Err(failed) => return Err(failed),
    };
    let decision = place::decide(scope, inputs, context)?;
    scope.set_condition(ConditionType::NetworkReady.is_true(Reason::Ready));
    let Some(instance) = Box::pin(search::find_before(scope, &decision, context)).await? else {
        return Box::pin(execute::apply(scope, decision, context)).await.map(Some);
    };
    Box::pin(execute::record_found(scope, &instance, &decision, context)).await?;
    Ok(Some(decision.inputs.location))
}
