//! Decides about another attempt after an instance ended before it ran. Pure.

use std::time::Duration;

use capa_api::machine::{InstanceState, LaunchRecord};
use capa_cloud::{Instance, Timing, doubled_wait};
use jiff::Timestamp;

use crate::awsmachine::time::remaining;

/// Maximum number of instances of one machine that end in `pending`.
const MOST_FAILED: u32 = 5;

/// The consequence of the end of an instance that never ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::awsmachine) enum Ending {
    /// The machine has failed: no further attempt is made.
    Final,
    /// The instance is not `terminated` yet. Another attempt may follow then.
    Awaited,
    /// Another attempt is made after this duration.
    NextAttempt(Duration),
}

/// Decides what follows the end of an instance that never ran. After a failure of EC2 itself (`Server.*`) another
/// attempt is made, with a growing delay. A failure of the request (`Client.*`, or no reason) would occur again.
pub(in crate::awsmachine) fn ended_before_running(
    instance: &Instance,
    record: Option<&LaunchRecord>,
    now: Timestamp,
    timing: &Timing,
) -> Ending {
    let code = instance.state_reason.as_ref().map(|reason| reason.code.as_str());
    let Some(LaunchRecord::Answered { attempt, .. }) = record else {
        return Ending::Final;
    };
    let failed_before = attempt.failed_instances;
    if failed_before.saturating_add(1) >= MOST_FAILED || !code.is_some_and(is_failed_launch) {
        return Ending::Final;
    }
    if instance.state != InstanceState::Terminated {
        return Ending::Awaited;
    }
    let wait = doubled_wait(timing.relaunch_backoff, failed_before, Duration::MAX);
    Ending::NextAttempt(remaining(wait, attempt.request.requested_at.0, now))
}

/// Whether the code means a failed launch, and not the end of a running instance by EC2
/// (<https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_StateReason.html>).
fn is_failed_launch(code: &str) -> bool {
    code.strip_prefix("Server.")
        .is_some_and(|what| what != "ScheduledStop" && !what.starts_with("SpotInstance"))
}
