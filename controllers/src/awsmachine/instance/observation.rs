//! What is known of an instance: how old the knowledge is, when an absence counts, and what follows the end of an
//! instance that never ran.

use std::time::Duration;

use capa_api::conditions::{ConditionType, Reason, find};
use capa_api::machine::{InstanceState, LaunchRecord};
use capa_cloud::{Instance, Timing, doubled_wait};
use jiff::Timestamp;

use crate::awsmachine::context::MachineContext;
use crate::awsmachine::deletion::plan::{self, NeverLaunchedEvidence, never_launched_evidence};
use crate::awsmachine::inputs::location::{self, InstanceLocation};
use crate::awsmachine::scope::MachineScope;
use crate::time::{age, remaining};

/// Sets `InstanceUpToDate`. The condition is absent until it is False for the first time.
pub(in crate::awsmachine) fn report_freshness(scope: &mut MachineScope, location: &InstanceLocation) {
    match overdue(location) {
        Some((reason, message)) => {
            scope.set_condition(ConditionType::InstanceUpToDate.is_false(reason, message));
        }
        None if find(&scope.status.conditions, ConditionType::InstanceUpToDate).is_some() => {
            scope.set_condition(ConditionType::InstanceUpToDate.is_true(Reason::Ready));
        }
        None => {}
    }
}

/// Why the known states of the instances may be old. `None` while the listings complete in time.
pub(in crate::awsmachine) fn overdue(location: &InstanceLocation) -> Option<(Reason, String)> {
    if !location.cloud.listing_overdue() {
        return None;
    }
    let failure = location.cloud.reading_failure();
    Some(failure.map_or_else(waits_for_its_turn, |error| {
        let message = format!("listings of the instances of this identity have failed for five intervals: {error}");
        (error.class.reason(), message)
    }))
}

fn waits_for_its_turn() -> (Reason, String) {
    let message = "the instances of this identity were not listed for five intervals, because the listings wait for \
                   their turns in the request rates of this account and region: the state of the instance may be old";
    (Reason::Throttled, message.to_owned())
}

/// Whether the account of the instance is recorded. The location has compared a recorded account with the credentials.
/// The annotation of an attempt whose status was lost does not count, because the age of its instance is unknown, and
/// AWS may not show the instance yet.
pub(in crate::awsmachine) fn account_is_recorded(scope: &MachineScope) -> bool {
    location::account_in_use(scope).is_some()
}

/// The message about an instance that AWS does not show and whose account was never recorded.
pub(in crate::awsmachine) fn unproven(scope: &MachineScope, id: &str, location: &InstanceLocation) -> String {
    format!(
        "instance {id}, which this AWSMachine names, does not show in {} of account {}, and whether it lives there was \
         never recorded: correct identity or region if it does not; if it is gone, {} lets a deletion end without it",
        location.region,
        location.account_id,
        plan::abandonment_described(&scope.machine)
    )
}

/// The time until an absence counts. The instance must have been old enough at the time of the reads that did not show
/// it. These reads may be long ago, if calls failed or the process was suspended. An instance without a launch record
/// counts as old.
pub(in crate::awsmachine) fn remaining_youth(
    scope: &MachineScope,
    id: &str,
    location: &InstanceLocation,
    context: &MachineContext,
) -> Option<Duration> {
    let request = scope.status.launch.as_ref().and_then(LaunchRecord::request)?;
    let age = age(request.requested_at.0, context.kubernetes.now());
    let when_looked_for = age.saturating_sub(location.cloud.absence_age(id));
    let remaining = context.timing.visibility_age.checked_sub(when_looked_for);
    remaining.filter(|remaining| !remaining.is_zero())
}

/// Begins the proof of absence anew for a young instance. The reads until now cannot prove the absence of the older
/// instance.
pub(in crate::awsmachine) fn watch_anew(
    scope: &MachineScope,
    id: &str,
    location: &InstanceLocation,
    context: &MachineContext,
) {
    context.clouds.forget(&scope.key());
    location.cloud.observe_instance(&scope.key(), id);
}

/// Maximum number of instances of one machine that end in `pending`.
const MAX_FAILED: u32 = 5;

/// The consequence of the end of an instance that never ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// The machine has failed: no further attempt is made.
    Final,
    /// The instance is not `terminated` yet. Another attempt may follow then.
    Awaited,
    /// Another attempt is made after this duration.
    NextAttempt(Duration),
}

/// Decides what follows the end of an instance that never ran. After a failure of EC2 itself (`Server.*`) another
/// attempt is made, with a growing delay. A failure of the request (`Client.*`, or no reason) would occur again.
pub(super) fn ended_before_running(
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
    if failed_before.saturating_add(1) >= MAX_FAILED || !code.is_some_and(is_failed_launch) {
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
    code.strip_prefix("Server.").is_some_and(|what| what != "ScheduledStop" && !what.starts_with("SpotInstance"))
}

/// Whether the launch record says that EC2 was never asked for anything, and is sufficient to replace a lookup.
pub(in crate::awsmachine) fn was_never_asked(scope: &MachineScope, context: &MachineContext) -> bool {
    let is_planned = scope.status.launch == Some(LaunchRecord::Planned);
    is_planned && evidence_of_planned(scope, context) == NeverLaunchedEvidence::Sufficient
}

/// What the launch record `Planned` of a machine proves.
pub(in crate::awsmachine) fn evidence_of_planned(
    scope: &MachineScope,
    context: &MachineContext,
) -> NeverLaunchedEvidence {
    let owner = scope.owners.machine.as_deref().ok();
    let tried_for = context.memory.time_of_failed_lookups(scope.uid());
    never_launched_evidence(&scope.machine, owner, tried_for, context.timing.launch_lookup_age)
}
