//! What follows when an instance ends before it ever ran.

use std::time::Duration;

use capa_api::machine::{InstanceState, LaunchRecord};
use capa_cloud::{Instance, Timing};
use jiff::Timestamp;

use crate::awsmachine::observe::age;

/// The most instances of one machine that may die in `pending`.
const MOST_FAILED: i32 = 5;

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

/// What follows the end of an instance that never ran. EC2's own failures (`Server.*`) deserve another attempt, a little
/// later each time; failures of the request (`Client.*`, no reason at all) would only repeat themselves.
pub(in crate::awsmachine) fn ended_before_running(
    instance: &Instance,
    record: Option<&LaunchRecord>,
    now: Timestamp,
    timing: &Timing,
) -> Ending {
    let code = instance.state_reason.as_ref().map(|reason| reason.code.as_str());
    let failed_before = record.map(|record| record.failed_instances.unwrap_or_default());
    let failed_before = failed_before.filter(|failed| *failed + 1 < MOST_FAILED);
    let (Some(failed_before), true) = (failed_before, code.is_some_and(is_failed_launch)) else {
        return Ending::Final;
    };
    if instance.state != InstanceState::Terminated {
        return Ending::Awaited;
    }
    let since = record
        .and_then(|record| record.request.as_ref())
        .map(|request| request.requested_at.0);
    let doublings = u32::try_from(failed_before).unwrap_or_default();
    let wait = timing.relaunch_backoff.saturating_mul(2_u32.saturating_pow(doublings));
    Ending::NextAttempt(wait.saturating_sub(since.map_or(Duration::ZERO, |since| age(since, now))))
}

/// Whether EC2 says that it failed to launch, and not that it took an instance back that ran
/// (<https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_StateReason.html>).
fn is_failed_launch(code: &str) -> bool {
    code.strip_prefix("Server.")
        .is_some_and(|what| what != "ScheduledStop" && !what.starts_with("SpotInstance"))
}
