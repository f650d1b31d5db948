//! The launch flow: from a new AWSMachine to a recorded instance id.

mod adoption;
mod apply;
mod capacity_zone;
mod conflict;
pub(in crate::awsmachine) mod plan;
mod prepare;
pub(in crate::awsmachine) mod progress;
pub(in crate::awsmachine) mod record;
mod rejection;
#[cfg(test)]
mod tests;
mod turn;
mod user_data;

use capa_api::conditions::{ConditionType, Reason};
use capa_runtime::reconcile::Next;

use super::attempt;
use super::blocked::{Blocked, FlowError};
use super::context::MachineContext;
use super::scope::MachineScope;

/// Launches or finds the instance of a machine. The launch record contains the instance when the flow ends without an
/// error.
pub(super) async fn launch(scope: &mut MachineScope, context: &MachineContext) -> Result<(), FlowError> {
    let waiting = |message: String| {
        let waiting = ConditionType::InstanceReady.is_false(Reason::WaitingForOwnerCluster, message);
        Blocked::new(waiting, Next::AwaitChange)
    };
    let owner = scope.owners.machine.clone();
    let machine = owner.map_err(|problem| waiting(format!("{problem}: nothing is launched")))?;
    let Some(cluster) = scope.owners.cluster.clone() else {
        let message = format!(
            "Cluster {} does not exist: nothing is launched",
            machine.spec.cluster_name
        );
        return Err(waiting(message).into());
    };
    if let Some(instance) = attempt::unrecorded_answer(scope, context) {
        // An earlier pass got the answer but could not record it. The record precedes every other step.
        return apply::record_answer(scope, &instance, context).await;
    }
    attempt::record_known_refusal(scope, context)?;
    let prepared = match prepare::prepare(scope, &machine, &cluster, context).await {
        Ok(prepared) => prepared,
        Err(FlowError::Blocked(blocked)) => return Box::pin(apply::find_open(scope, blocked, context)).await,
        Err(failed) => return Err(failed),
    };
    let decision = prepare::plan(scope, prepared, context)?;
    scope.set_condition(ConditionType::NetworkReady.is_true(Reason::Ready));
    Box::pin(apply::apply(scope, decision, context)).await
}
