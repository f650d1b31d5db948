//! The recorded attempt to launch, and the additional knowledge of this process about it.

use capa_api::machine::{LaunchRecord, RecordedRequest};
use capa_cloud::Instance;

use super::protocol::{IllegalTransition, LaunchEvent, Progress};
use crate::awsmachine::context::MachineContext;
use crate::awsmachine::memory::RememberedAttempt;
use crate::awsmachine::scope::MachineScope;

/// The message about a launch that may have succeeded and whose instance AWS does not show.
pub(in crate::awsmachine) fn unconfirmed(scope: &MachineScope) -> String {
    let known = match scope.status.launch {
        // The AWSMachine arrived with this provider's finalizer.
        None | Some(LaunchRecord::Unreadable(_)) => {
            "the AWSMachine came without a readable launch record (restored or moved)"
        }
        Some(LaunchRecord::Planned) => {
            "the launch record says that EC2 was never asked, and the AWSMachine or its Machine shows otherwise"
        }
        Some(_) => "EC2 was asked for an instance and has not answered, and no instance shows yet",
    };
    let is_deleted = scope.machine.metadata.deletion_timestamp.is_some();
    let follows = match scope.status.launch {
        _ if is_deleted => "its instance is looked for before the AWSMachine is released",
        None | Some(LaunchRecord::Planned | LaunchRecord::Unreadable(_)) => {
            "its instance is looked for before one is launched"
        }
        Some(_) => "it is looked up, and the call is not repeated",
    };
    format!("{known}: {follows}")
}

/// The call of an attempt that may have launched.
pub(in crate::awsmachine) fn open_request(scope: &MachineScope) -> Option<&RecordedRequest> {
    match &scope.status.launch {
        Some(LaunchRecord::Requested(attempt)) => Some(&attempt.request),
        _ => None,
    }
}

/// The token of an attempt that may have launched.
pub(in crate::awsmachine) fn open_token(scope: &MachineScope) -> Option<&str> {
    open_request(scope).map(|request| request.client_token.as_str())
}

/// The process that the record names.
pub(in crate::awsmachine) fn holder(scope: &MachineScope) -> Option<&str> {
    let attempt = scope.status.launch.as_ref().and_then(LaunchRecord::attempt);
    attempt.map(|attempt| attempt.holder.as_str())
}

/// What this process knows of the recorded attempt with this token.
pub(in crate::awsmachine) fn remembered(
    scope: &MachineScope,
    client_token: &str,
    context: &MachineContext,
) -> RememberedAttempt {
    context.memory.launches().recorded_by(scope.uid(), client_token, holder(scope))
}

/// The answer to the call of the recorded attempt, if the answer could not be recorded yet. The answer to an earlier
/// attempt does not count: a lookup by tags finds the instance of that attempt.
pub(super) fn unrecorded_answer(scope: &MachineScope, context: &MachineContext) -> Option<Instance> {
    let answer = context.memory.answer(scope.uid())?;
    (answer.client_token.as_deref() == open_token(scope)).then_some(answer)
}

/// Records a refusal that this process could not record before. A refused attempt has launched nothing, so its record
/// must not prevent the use of a corrected identity or region. A deletion treats an attempt whose call this process has
/// never made like a refused one, because an instance that the record does not name may exist in another account.
pub(in crate::awsmachine) fn record_known_refusal(
    scope: &mut MachineScope,
    context: &MachineContext,
) -> Result<(), IllegalTransition> {
    let is_deleted = scope.machine.metadata.deletion_timestamp.is_some();
    let progress = open_token(scope).map(|token| remembered(scope, token, context).progress);
    if progress == Some(Progress::Refused) || (is_deleted && progress == Some(Progress::Recorded)) {
        scope.record_launch(LaunchEvent::Refused)?;
    }
    Ok(())
}

/// Records an answer that this process could not record before, and returns its instance. The record then contains the
/// launch time of the instance, which may be much younger than the attempt, because a call without an answer is
/// repeated.
pub(in crate::awsmachine) fn record_known_answer(
    scope: &mut MachineScope,
    context: &MachineContext,
) -> Result<Option<Instance>, IllegalTransition> {
    let answer = unrecorded_answer(scope, context);
    if let Some(instance) = &answer {
        scope.record_launch(LaunchEvent::answered(instance))?;
    }
    Ok(answer)
}
