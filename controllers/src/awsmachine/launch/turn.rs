//! The turn of a machine to launch: within the request rate, and among the machines of its kind.

use std::time::Duration;

use capa_api::conditions::{ConditionType, Reason};
use capa_cloud::lookups::InstanceLookup;
use capa_cloud::{CloudError, ErrorClass};
use capa_runtime::reconcile::Next;

use super::plan::LaunchStep;
use super::prepare::LaunchDecision;
use super::progress::Progress;
use crate::awsmachine::blocked::{Blocked, FlowError};
use crate::awsmachine::context::MachineContext;
use crate::awsmachine::memory::Permission;
use crate::awsmachine::refusal;
use crate::awsmachine::scope::MachineScope;
use crate::retry;

/// Why a pass ends that waits for the first launch of its kind.
const AWAITS_FIRST: &str = "EC2 is asked for the first instance of this template, and its answer is awaited";

/// Takes the turn of a machine. `shared` is the lookup that precedes the launch: a machine that waits asks for it, so
/// that machines that wait at the same time share it.
///
/// # Errors
/// The machine waits for its turn, or for the answer to the first launch of its kind.
pub(super) fn take(
    scope: &MachineScope,
    decision: &LaunchDecision,
    shared: Option<&InstanceLookup>,
    context: &MachineContext,
) -> Result<(), FlowError> {
    let LaunchDecision { prepared, plan, .. } = decision;
    let cloud = prepared.location.cloud.as_ref();
    let announce = |turn_in: Duration| {
        if let Some(wanted) = shared {
            cloud.announce_lookup(&scope.key(), wanted, turn_in);
        }
    };
    if let Err(error) = cloud.reserve_launch(&scope.key()) {
        announce(error.retry_after.unwrap_or_default());
        // A launch that waits for its turn is no open attempt: nothing is recorded yet.
        let waiting = ConditionType::InstanceReady.is_false(Reason::Launching, error.to_string());
        return Err(Blocked::new(waiting, retry::after(&error)).into());
    }
    if !matches!(plan.step, LaunchStep::Record(_)) {
        return Ok(());
    }
    let now = context.kubernetes.uptime();
    match context
        .memory
        .begin_kind(prepared.kind, scope.uid(), now, &context.timing)
    {
        Permission::Granted => Ok(()),
        Permission::Refused(condition, _) => {
            Err(refusal::shown_of_kind(scope, prepared.kind, *condition, context).into())
        }
        Permission::Waits => {
            announce(Duration::ZERO);
            // Only machines whose turn has come wait here: a few.
            let soon = Next::Deferred(context.timing.rate_second / 4);
            Err(FlowError::Waits(AWAITS_FIRST, soon))
        }
    }
}

/// The block of a machine whose call has failed, and what the failure says about the other machines of its kind.
pub(super) fn failed(
    scope: &MachineScope,
    decision: &LaunchDecision,
    (error, progress): (&CloudError, Progress),
    blocked: Blocked,
    context: &MachineContext,
) -> Blocked {
    let (kind, now) = (decision.prepared.kind, context.kubernetes.uptime());
    if error.class == ErrorClass::InsufficientCapacity {
        context.memory.accept_kind(kind, now);
    } else if progress == Progress::Refused && refusal::concerns_kind(error) {
        let condition = blocked.condition.clone();
        context
            .memory
            .refuse_kind(kind, condition.clone(), now, &context.timing);
        return refusal::shown_of_kind(scope, kind, condition, context);
    } else {
        context.memory.leave_kind(kind, scope.uid());
    }
    blocked
}
