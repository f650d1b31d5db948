//! Looks for an instance of the machine before another one is launched, once it is the machine's turn.

use std::time::Duration;

use capa_api::conditions::{ConditionType, ConditionUpdate, Reason};
use capa_api::machine::LaunchRecord;
use capa_api::meta;
use capa_cloud::lookups::InstanceLookup;
use capa_cloud::{CloudError, Instance};
use capa_runtime::reconcile::Next;

use super::protocol::{self, LaunchStep, LookUp};
use crate::awsmachine::context::MachineContext;
use crate::awsmachine::inputs;
use crate::awsmachine::inputs::location::{self, InstanceLocation};
use crate::awsmachine::instance::observation;
use crate::awsmachine::launch::LaunchDecision;
use crate::awsmachine::ownership::{AdoptAnnotation, Adoption, Ids, MachineTags, Ownership, adopt, search_token};
use crate::awsmachine::scope::{FlowError, MachineScope};
use crate::awsmachine::targets::access::{self, TargetGate};
use crate::blocked::{Blocked, earlier};
use crate::invalid_value::shortened;
use crate::launch_memory::Permission;
use crate::launch_memory::progress::Progress;
use crate::retry;

/// Takes the turn of the machine, and looks for its instance where the plan says so.
///
/// # Errors
/// Nothing is launched in this pass.
pub(super) async fn find_before(
    scope: &MachineScope,
    decision: &LaunchDecision,
    context: &MachineContext,
) -> Result<Option<Box<Instance>>, FlowError> {
    let LaunchDecision { inputs, plan, .. } = decision;
    let hold = match (hold_of_attempt(scope, decision, context), plan.look_up) {
        (Some(TargetGate::Refused(blocked)), LookUp::No) => return Err(blocked.into()),
        (hold, _) => hold,
    };
    // A refused attempt takes no turn: the machine only looks for an instance that is there already.
    let takes_turn = plan.step != LaunchStep::LookOnly && !matches!(hold, Some(TargetGate::Refused(_)));
    let refused = refused_kind(decision, context).filter(|_| takes_turn);
    let shared = shared_lookup(scope, decision);
    if takes_turn && refused.is_none() {
        take_turn(scope, decision, shared.as_ref(), context)?;
    } else {
        inputs.location.session.cloud.release_launch(&scope.key());
    }
    if plan.look_up != LookUp::No {
        match look_up(scope, decision, shared.as_ref(), context).await {
            Ok(None) => {}
            Ok(Some(instance)) => {
                context.memory.kinds().undecided(inputs.kind, scope.uid());
                return Ok(Some(instance));
            }
            Err(waits @ FlowError::Waits(..)) => return Err(waits),
            Err(error) => {
                context.memory.kinds().undecided(inputs.kind, scope.uid());
                return Err(error);
            }
        }
    }
    if let Some(condition) = refused {
        return Err(context.remember_refused_kind(scope, inputs.kind, condition).into());
    }
    if let Some(hold) = hold {
        context.memory.kinds().undecided(inputs.kind, scope.uid());
        return Err(hold.blocked().into());
    }
    if plan.step == LaunchStep::LookOnly {
        return Err(unconfirmed(scope, decision, context).into());
    }
    Ok(None)
}

/// The refusal of a new attempt, if EC2 refuses all launches of its kind. An existing instance of the machine is
/// recorded in spite of it.
fn refused_kind(decision: &LaunchDecision, context: &MachineContext) -> Option<ConditionUpdate> {
    let LaunchDecision { inputs, plan, .. } = decision;
    let now = context.kubernetes.uptime();
    let refused = context.memory.kinds().active_backoff(inputs.kind, now, &context.timing);
    let (condition, _) = refused.filter(|_| matches!(plan.step, LaunchStep::Record(_)))?;
    Some(condition)
}

/// The reason to hold a new attempt back. An existing instance of the machine is recorded in spite of it.
fn hold_of_attempt(scope: &MachineScope, decision: &LaunchDecision, context: &MachineContext) -> Option<TargetGate> {
    match decision.plan.step {
        LaunchStep::Record(_) => access::gate(scope, &decision.inputs.location, context),
        LaunchStep::Claim | LaunchStep::Verify | LaunchStep::Repeat | LaunchStep::LookOnly => None,
    }
}

/// The lookup that the machine shares with others. A lookup that is to prove an absence is not shared, because the time
/// of its call counts.
fn shared_lookup(scope: &MachineScope, decision: &LaunchDecision) -> Option<InstanceLookup> {
    let LaunchDecision { inputs, plan, request } = decision;
    if plan.look_up != LookUp::ByTags || plan.step == LaunchStep::LookOnly {
        return None;
    }
    let tags = scope.tags(&inputs.location.session.cluster_tag);
    // Without a record, the number of the attempt is the age of the AWSMachine, which differs in each pass.
    let follows_record = scope.status.launch.as_ref().and_then(LaunchRecord::request).is_some();
    if follows_record { tags.lookup(&request.client_token) } else { tags.lookup(&search_token(&scope.machine)) }
}

/// Looks for an instance of the machine. An instance that has the machine's tags and is not proven to belong to it
/// stops the launch, unless the annotation `adopt-instance` says what to do.
async fn look_up(
    scope: &MachineScope,
    decision: &LaunchDecision,
    shared: Option<&InstanceLookup>,
    context: &MachineContext,
) -> Result<Option<Box<Instance>>, FlowError> {
    let LaunchDecision { inputs, plan, .. } = decision;
    let wish = AdoptAnnotation::of(&scope.machine);
    if let AdoptAnnotation::Unreadable(value) = wish {
        return Err(conflict_of_unreadable(value).into());
    }
    let (cloud, cluster_tag) = (inputs.location.session.cloud.as_ref(), inputs.location.session.cluster_tag.as_str());
    let token = scope.open_token().filter(|_| plan.look_up == LookUp::ByTagsAndToken);
    let failed = |error: CloudError| observation::blocked_by_lookup(&error);
    let tags = scope.tags(cluster_tag);
    let found = match shared {
        Some(wanted) => observation::look_up_with_others(cloud, &scope.key(), &tags, wanted, &context.timing).await?,
        None => observation::look_up(cloud, &tags, token).await.map_err(failed)?,
    };
    let judged: Vec<_> = found
        .into_iter()
        .map(|instance| {
            let ownership = inputs::ownership(scope, &instance, cluster_tag, context);
            (instance, ownership)
        })
        .collect();
    match (adopt(&judged, scope.open_request()), wish) {
        (Adoption::One(instance), _) => return Ok(Some(instance)),
        (Adoption::Several(ids), _) => return Err(conflict_of_several(&ids).into()),
        (
            Adoption::Foreign(ids),
            AdoptAnnotation::Absent | AdoptAnnotation::Instance(_) | AdoptAnnotation::Unreadable(_),
        ) => {
            note_empty_lookup(scope, decision, context);
            return Err(conflict_of_foreign(&ids, refused_adoption(&judged, wish)).into());
        }
        (Adoption::Nothing, AdoptAnnotation::Instance(id)) => {
            // The instance in the annotation may have been adopted earlier, and be gone since.
            let wanted = observation::look_up_id(cloud, id).await.map_err(failed)?;
            match wanted {
                Some(instance) if !instance.state.has_ended() => {
                    return Err(conflict_of_untagged(id, &scope.tags(cluster_tag)).into());
                }
                None if may_live_elsewhere(scope) => {
                    note_empty_lookup(scope, decision, context);
                    let location = &inputs.location;
                    return Err(conflict_of_unseen(id, &location.session.region, &location.session.account_id).into());
                }
                Some(_) | None => {}
            }
        }
        (Adoption::Foreign(_), AdoptAnnotation::LaunchNew) | (Adoption::Nothing, _) => {}
    }
    Ok(None)
}

/// Several living instances belong to this machine.
fn conflict_of_several(ids: &[String]) -> Blocked {
    conflict(format!(
        "several instances carry the tags of this machine: {}: terminate all but one; nothing is launched",
        Ids(ids)
    ))
}

/// Living instances have the tags of this machine, but none is proven to belong to it. `refused` is the reason against
/// the instance that the annotation names.
fn conflict_of_foreign(ids: &[String], refused: Option<String>) -> Blocked {
    let why = refused.unwrap_or_else(|| "nothing proves that they are its own".to_owned());
    let first = ids.first().map_or("", String::as_str);
    conflict(format!(
        "instances {} carry the tags of this machine, and {why}: nothing is launched; annotation {annotation}: {first} \
         adopts that one, {annotation}: {none} launches a new one",
        Ids(ids),
        annotation = meta::ADOPT_INSTANCE_ANNOTATION,
        none = meta::ADOPT_NO_INSTANCE,
    ))
}

/// The reason why the instance in the annotation is not adopted, if the lookup found this instance.
fn refused_adoption(found: &[(Instance, Ownership)], wish: AdoptAnnotation<'_>) -> Option<String> {
    let AdoptAnnotation::Instance(id) = wish else {
        return None;
    };
    let (_, ownership) = found.iter().find(|(instance, _)| instance.id == id)?;
    match ownership {
        Ownership::Foreign(reason) => Some(format!("{id} is not adopted: {reason}")),
        Ownership::Ours(_) => None,
    }
}

/// The instance that the annotation names has other tags.
fn conflict_of_untagged(id: &str, tags: &MachineTags<'_>) -> Blocked {
    conflict(format!(
        "annotation {annotation} names instance {id}, which does not carry the tags of this machine: nothing is \
         launched; give it the tags {}, or say {annotation}: {none} to launch a new one",
        tags.described(),
        annotation = meta::ADOPT_INSTANCE_ANNOTATION,
        none = meta::ADOPT_NO_INSTANCE,
    ))
}

/// The instance that the annotation names does not show in the account of the credentials, and no account is recorded.
fn conflict_of_unseen(id: &str, region: &str, account_id: &str) -> Blocked {
    conflict(format!(
        "annotation {annotation} names instance {id}, which does not show in {region} of account {account_id}, and \
         whether it lives there was never recorded: nothing is launched; correct identity or region if it lives \
         elsewhere, or if it is gone, say {annotation}: {none} to launch a new one",
        annotation = meta::ADOPT_INSTANCE_ANNOTATION,
        none = meta::ADOPT_NO_INSTANCE,
    ))
}

/// The value of the annotation is neither an instance id nor `none`.
fn conflict_of_unreadable(value: &str) -> Blocked {
    let shown = shortened(value);
    conflict(format!(
        "annotation {} is {shown:?}: nothing is launched until it is the id of an instance, or {}, or gone",
        meta::ADOPT_INSTANCE_ANNOTATION,
        meta::ADOPT_NO_INSTANCE
    ))
}

fn conflict(message: String) -> Blocked {
    let conflict = ConditionType::InstanceReady.is_false(Reason::Conflict, message);
    // No event reports the termination of an instance that this machine does not follow.
    Blocked::new(conflict, Next::Retry)
}

/// Looks for the instance of a call that may have launched one, while nothing can be launched because an input of the
/// launch is missing. Returns the instance and its location.
///
/// # Errors
/// AWS shows no instance; the error is the block of the launch.
pub(super) async fn find_open(
    scope: &MachineScope,
    blocked: Blocked,
    context: &MachineContext,
) -> Result<(Instance, InstanceLocation), FlowError> {
    let open = scope.open_token().map(str::to_owned);
    let was_called = |token: &String| {
        let progress = context.remembered(scope, token).progress;
        !matches!(progress, Progress::Recorded | Progress::Refused)
    };
    let Some(token) = open.filter(|token| was_called(token) && !blocked.is_throttled()) else {
        return Err(blocked.into());
    };
    // No event wakes the machine when AWS shows its instance.
    let again = Next::Requeue(context.timing.absence_interval());
    let blocked = Blocked { next: earlier(blocked.next, again), ..blocked };
    let location = match location::recorded_or_resolved(scope, context).await {
        Ok(location) => location,
        Err(FlowError::Blocked(_)) => return Err(blocked.into()),
        Err(failed) => return Err(failed),
    };
    match observation::look_up_token(location.session.cloud.as_ref(), &token).await {
        Ok(Some(instance)) => Ok((instance, location)),
        // The block of the launch is more informative.
        Ok(None) | Err(_) => Err(blocked.into()),
    }
}

/// Whether an instance that does not show in the account of the credentials may live in another one: the status was
/// lost, and with it the account.
fn may_live_elsewhere(scope: &MachineScope) -> bool {
    scope.has_lost_record() && location::recorded_account(scope).is_none()
}

/// Counts a lookup that did not show the instance of an attempt whose absence is to be proven.
fn note_empty_lookup(scope: &MachineScope, decision: &LaunchDecision, context: &MachineContext) {
    if decision.plan.step == LaunchStep::LookOnly {
        let (token, now) = (&decision.request.client_token, context.kubernetes.uptime());
        context.memory.launches().found_nothing(scope.uid(), token, now);
    }
}

fn unconfirmed(scope: &MachineScope, decision: &LaunchDecision, context: &MachineContext) -> Blocked {
    note_empty_lookup(scope, decision, context);
    let message = protocol::unconfirmed(scope.status.launch.as_ref(), false);
    let unconfirmed = ConditionType::InstanceReady.is_false(Reason::LaunchUnconfirmed, message);
    Blocked::new(unconfirmed, Next::Requeue(context.timing.absence_interval()))
}

/// Why a pass ends early: it waits for the first launch of its kind.
const AWAITS_FIRST: &str = "EC2 is asked for the first instance of this template, and its answer is awaited";

/// Why a pass ends early: the turn in the request rates comes within a second, and nobody needs to see this wait.
const AWAITS_TURN: &str = "the launch has its turn in the request rates of AWS within a second";

/// A machine that waits for its turn longer than this asks again earlier: its turn may have moved to an earlier time,
/// because machines before it were deleted, and EC2 may have refused the kind of the machine meanwhile.
const LONG_WAIT: Duration = Duration::from_mins(2);

/// The time after which a machine whose turn comes after `turn_in` asks again. The passes of thousands of machines that
/// wait for an hour must not cost more than their launches.
fn asks_again(turn_in: Duration) -> Duration {
    turn_in.min(LONG_WAIT.max(turn_in / 4))
}

/// Takes the turn of a machine. `shared` is the lookup that precedes the launch: a machine that waits asks for it, so
/// that machines that wait at the same time share it.
///
/// # Errors
/// The machine waits for its turn, or for the answer to the first launch of its kind.
fn take_turn(
    scope: &MachineScope,
    decision: &LaunchDecision,
    shared: Option<&InstanceLookup>,
    context: &MachineContext,
) -> Result<(), FlowError> {
    let LaunchDecision { inputs, plan, .. } = decision;
    let cloud = inputs.location.session.cloud.as_ref();
    let announce = |turn_in: Duration| {
        if let Some(wanted) = shared {
            cloud.announce_lookup(&scope.key(), wanted, turn_in);
        }
    };
    if let Err(error) = cloud.reserve_launch(&scope.key()) {
        announce(error.retry_after.unwrap_or_default());
        if let Some(soon) = error.retry_after.filter(|wait| *wait <= context.timing.rate_second) {
            return Err(FlowError::Waits(AWAITS_TURN, Next::Deferred(soon)));
        }
        // A launch that waits for its turn is not an open attempt, because nothing is recorded yet.
        let waiting = ConditionType::InstanceReady.is_false(Reason::Launching, error.to_string());
        let next = match retry::after(&error) {
            Next::Deferred(turn_in) => Next::Deferred(asks_again(turn_in)),
            next => next,
        };
        return Err(Blocked::new(waiting, next).into());
    }
    if !matches!(plan.step, LaunchStep::Record(_)) {
        return Ok(());
    }
    let now = context.kubernetes.uptime();
    match context.memory.kinds().begin(inputs.kind, scope.uid(), now, &context.timing) {
        Permission::Granted => Ok(()),
        Permission::Refused(condition, _) => {
            cloud.release_launch(&scope.key());
            Err(context.remember_refused_kind(scope, inputs.kind, *condition).into())
        }
        Permission::Waits => {
            announce(Duration::ZERO);
            // Only the few machines whose turn has come wait here.
            let soon = Next::Deferred(context.timing.rate_second / 4);
            Err(FlowError::Waits(AWAITS_FIRST, soon))
        }
    }
}
