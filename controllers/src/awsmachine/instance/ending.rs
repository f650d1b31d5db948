//! What follows when an instance ends before it ever ran. Pure.

use std::time::Duration;

use capa_api::machine::{InstanceState, LaunchRecord};
use capa_cloud::{Instance, Timing};
use jiff::Timestamp;

use crate::awsmachine::time::remaining;

/// The most instances of one machine that may die in `pending`.
const MOST_FAILED: u32 = 5;

/// What follows the end of an instance that never ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::awsmachine) enum Ending {
    /// Nothing: the machine has failed.
    Final,
    /// It is on its way to `terminated`; another one may follow then.
    Awaited,
    /// Another attempt after this long.
    NextAttempt(Duration),
}

/// What follows the end of an instance that never ran. EC2's own failures (`Server.*`) deserve another attempt, a
/// little later each time; failures of the request (`Client.*`, no reason at all) would only repeat themselves.
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
    let wait = timing
        .relaunch_backoff
        .saturating_mul(2_u32.saturating_pow(failed_before));
    Ending::NextAttempt(remaining(wait, attempt.request.requested_at.0, now))
}

/// Whether EC2 says that it failed to launch, and not that it took an instance back that ran
/// (<https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_StateReason.html>).
fn is_failed_launch(code: &str) -> bool {
    code.strip_prefix("Server.")
        .is_some_and(|what| what != "ScheduledStop" && !what.starts_with("SpotInstance"))
}
