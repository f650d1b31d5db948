//! What is known of the instances of a machine: the lookups, which the instance informer does not make; how old the
//! knowledge is, when an absence counts, and what follows the end of an instance that never ran.

use std::time::Duration;

use capa_api::conditions::{ConditionType, Reason};
use capa_api::machine::{InstanceState, LaunchRecord};
use capa_cloud::lookups::{InstanceLookup, LookupAnswer};
use capa_cloud::{CloudError, Instance, InstanceLookups, MachineKey, Query, Timing, doubled_wait};
use capa_runtime::reconcile::Next;
use jiff::Timestamp;

use crate::awsmachine::context::MachineContext;
use crate::awsmachine::deletion::plan::{self, NeverLaunchedEvidence, never_launched_evidence};
use crate::awsmachine::inputs::location::{self, InstanceLocation};
use crate::awsmachine::ownership::MachineTags;
use crate::awsmachine::scope::{FlowError, MachineScope};
use crate::blocked::Blocked;
use crate::time::{age, remaining};

/// Why the known states of the instances may be old. `None` while the listings complete in time.
pub(in crate::awsmachine) fn overdue(location: &InstanceLocation) -> Option<(Reason, String)> {
    if !location.session.cloud.listing_overdue() {
        return None;
    }
    let failure = location.session.cloud.reading_failure();
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
        location.session.region,
        location.session.account_id,
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
    let when_looked_for = age.saturating_sub(location.session.cloud.absence_age(id));
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
    location.session.cloud.observe_instance(&scope.key(), id);
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

/// The longest client token that EC2 accepts.
const TOKEN_LENGTH: usize = 64;

/// Why a pass ends early: it waits for a lookup.
pub(in crate::awsmachine) const LOOKS_UP: &str =
    "the instances of the machine are being looked up, and the answer wakes the AWSMachine";

/// All instances with these tags, and all instances that were launched with this token, whatever their tags. The
/// instances of the answer are compared again, because filters may be patterns.
pub(in crate::awsmachine) async fn look_up(
    cloud: &dyn InstanceLookups,
    tags: &MachineTags<'_>,
    client_token: Option<&str>,
) -> Result<Vec<Instance>, CloudError> {
    let mut found = match tags.query() {
        Some(query) => cloud.find_instances(&query).await?,
        None => Vec::new(),
    };
    found.retain(|instance| tags.are_on(instance));
    if let Some(token) = client_token.filter(|token| is_token(token)) {
        for instance in cloud.find_instances(&Query::filter("client-token", [token])).await? {
            let is_launched_by_it = instance.client_token.as_deref() == Some(token);
            if is_launched_by_it && !found.iter().any(|known| known.id == instance.id) {
                found.push(instance);
            }
        }
    }
    Ok(found)
}

/// All instances with these tags, by a lookup that other machines share. Its answer wakes the machine.
pub(in crate::awsmachine) async fn look_up_with_others(
    cloud: &dyn InstanceLookups,
    machine: &MachineKey,
    tags: &MachineTags<'_>,
    wanted: &InstanceLookup,
    timing: &Timing,
) -> Result<Vec<Instance>, FlowError> {
    match cloud.look_up(machine, wanted).map_err(|error| blocked_by_lookup(&error))? {
        LookupAnswer::Found(mut found) => {
            found.retain(|instance| tags.are_on(instance));
            Ok(found)
        }
        LookupAnswer::Expired => Ok(look_up(cloud, tags, None).await.map_err(|error| blocked_by_lookup(&error))?),
        // The answer comes earlier than this, unless the session of the machine has changed meanwhile.
        LookupAnswer::Pending(None) => Err(FlowError::Waits(LOOKS_UP, Next::Deferred(timing.transition_interval))),
        LookupAnswer::Pending(Some(error)) => {
            // The lookup is repeated for all machines that wait for it.
            let condition = blocked_by_lookup(&error).condition;
            Err(Blocked::new(condition, Next::Deferred(timing.listing_interval)).into())
        }
    }
}

/// The instance with this id. The text must have the form of an instance id, because a pattern would match other
/// instances.
pub(in crate::awsmachine) async fn look_up_id(
    cloud: &dyn InstanceLookups,
    id: &str,
) -> Result<Option<Instance>, CloudError> {
    let found = cloud.find_instances(&Query::filter("instance-id", [id])).await?;
    Ok(found.into_iter().find(|instance| instance.id == id))
}

/// The instance that a call with this client token has launched.
pub(in crate::awsmachine) async fn look_up_token(
    cloud: &dyn InstanceLookups,
    token: &str,
) -> Result<Option<Instance>, CloudError> {
    if !is_token(token) {
        return Ok(None);
    }
    let found = cloud.find_instances(&Query::filter("client-token", [token])).await?;
    Ok(found.into_iter().find(|instance| instance.client_token.as_deref() == Some(token)))
}

/// Whether a text is a client token and not a pattern.
fn is_token(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    (1..=TOKEN_LENGTH).contains(&text.len()) && text.bytes().all(is_plain)
}

/// The block of a launch or a deletion by a failed lookup.
pub(in crate::awsmachine) fn blocked_by_lookup(error: &CloudError) -> Blocked {
    let message = format!("whether an instance of this machine exists could not be looked up: {error}");
    Blocked::by_call(ConditionType::InstanceReady, message, error)
}
