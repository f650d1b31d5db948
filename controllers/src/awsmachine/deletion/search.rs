//! Finds the instances that a deletion has to end, or the proof that there are none.

use std::sync::Arc;
use std::time::Duration;

use capa_api::conditions::{ConditionType, Reason};
use capa_api::machine::{InstanceState, LaunchRecord};
use capa_api::meta;
use capa_cloud::{CloudError, ErrorClass, Instance, Observation};
use capa_runtime::reconcile::Next;

use super::plan::{DeletionCall, NeverLaunchedEvidence, abandonment_described};
use crate::awsmachine::context::MachineContext;
use crate::awsmachine::inputs;
use crate::awsmachine::inputs::location::{self, InstanceLocation};
use crate::awsmachine::instance::{adopt, observation};
use crate::awsmachine::launch::protocol;
use crate::awsmachine::ownership::{
    AdoptAnnotation, MachineTags, NotOurs, Ownership, Proof as Proved, launched_by, search_token,
};
use crate::awsmachine::scope::{FlowError, MachineScope};
use crate::blocked::Blocked;

/// The instances that a deletion has to end.
pub(in crate::awsmachine) enum Found {
    /// No instance is left that is proven to be the machine's.
    Nothing {
        /// The instances that carry its tags or are named by its spec, and are not proven to be its own.
        unowned: Vec<String>,
    },
    /// Instances that may be left.
    Instances {
        /// Where they are.
        location: Box<InstanceLocation>,
        /// The instance whose id is known, or else the instances that were found and belong to the machine.
        instances: Vec<InstanceToEnd>,
    },
}

impl Found {
    fn instances(location: InstanceLocation, instances: Vec<InstanceToEnd>) -> Self {
        let location = Box::new(location);
        Self::Instances { location, instances }
    }
}

/// An instance that is to be ended.
pub(in crate::awsmachine) struct InstanceToEnd {
    /// Its id.
    pub(in crate::awsmachine) id: String,
    /// Its state in AWS.
    pub(in crate::awsmachine) observation: Observation,
    /// Whether the machine names it. Otherwise it was found by its tags.
    pub(in crate::awsmachine) is_named: bool,
    /// Whether it is the only one. The informer follows one instance of a machine, and forgets the others.
    pub(super) is_alone: bool,
}

/// Finds the instances of a machine that is being deleted.
pub(in crate::awsmachine) async fn find(
    scope: &mut MachineScope,
    context: &MachineContext,
) -> Result<Found, FlowError> {
    context.record_known_refusal(scope)?;
    let answer = context.record_known_answer(scope)?;
    let proof = proof_of_absence(scope, context);
    let known = scope.machine.instance_id().or_else(|| answer.map(|instance| instance.id));
    let location = match location::recorded_or_resolved(scope, context).await {
        Ok(location) => location,
        Err(FlowError::Blocked(blocked)) if proof == Proof::Whole && known.is_none() && !blocked.is_throttled() => {
            return Ok(Found::Nothing { unowned: vec![] });
        }
        Err(FlowError::Blocked(blocked)) => return Err(deletion_blocked(scope, blocked, context).into()),
        Err(failed) => return Err(failed),
    };
    scope.set_condition(ConditionType::IdentityReady.is_true(Reason::Ready));
    let mut foreign = None;
    if let Some(id) = known {
        let observation = location.session.cloud.observe_instance(&scope.key(), &id);
        if is_ours(scope, &observation, &location, context)? {
            let known = known_instance(scope, id, observation, &location)?;
            let known = after_newer_attempt(scope, known, &location, context).await?;
            return Ok(Found::instances(location, vec![known]));
        }
        let has_ended = matches!(&observation, Observation::Seen(instance) if instance.state.has_ended());
        foreign = Some(id).filter(|_| !has_ended);
    }
    let (instances, unowned) = find_by_tags(scope, proof, foreign, &location, context).await?;
    if instances.is_empty() {
        return Ok(Found::Nothing { unowned });
    }
    Ok(Found::instances(location, instances))
}

/// What the launch record proves about a machine without a known instance.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Proof {
    /// Nothing was launched: EC2 was never asked (attempt 0), or this process knows that EC2 has turned every call of
    /// the attempt away. It replaces a lookup that cannot be made. The API server removes the finalizer only from an
    /// unchanged AWSMachine, so no other process has claimed the attempt meanwhile.
    Whole,
    /// EC2 has refused the attempt, or a record that says that EC2 was never asked is not sufficient. Nothing was
    /// launched, unless an older state of the AWSMachine was restored.
    Record,
    /// The attempt may have launched, or the AWSMachine came without a readable record.
    None,
}

fn proof_of_absence(scope: &MachineScope, context: &MachineContext) -> Proof {
    let is_proven = |token: &str| context.remembered(scope, token).progress.is_proof_of_absence();
    match &scope.status.launch {
        Some(LaunchRecord::Planned) => match observation::evidence_of_planned(scope, context) {
            NeverLaunchedEvidence::Sufficient => Proof::Whole,
            NeverLaunchedEvidence::SufficientLater | NeverLaunchedEvidence::WithOneLookup => Proof::Record,
            NeverLaunchedEvidence::Refuted => Proof::None,
        },
        Some(LaunchRecord::Requested(attempt) | LaunchRecord::Refused(attempt))
            if is_proven(&attempt.request.client_token) =>
        {
            Proof::Whole
        }
        Some(LaunchRecord::Refused(_)) => Proof::Record,
        Some(LaunchRecord::Requested(_) | LaunchRecord::Answered { .. } | LaunchRecord::Unreadable(_)) | None => {
            Proof::None
        }
    }
}

/// Whether the instance whose id is known is the machine's, as far as AWS shows it.
fn is_ours(
    scope: &MachineScope,
    observation: &Observation,
    location: &InstanceLocation,
    context: &MachineContext,
) -> Result<bool, Blocked> {
    let Observation::Seen(instance) = observation else {
        return Ok(true);
    };
    let is_recorded = scope.status.launch.as_ref().is_some_and(|record| *record != LaunchRecord::Planned);
    match inputs::ownership(scope, instance, &location.session.cluster_tag, context) {
        Ownership::Ours(_) => Ok(true),
        // AWS removes the tags of a terminated instance.
        Ownership::Foreign(_) if instance.state.has_ended() => Ok(is_recorded),
        // Everything but the tags says that the instance belongs to this machine, so no other AWSMachine would
        // terminate it.
        Ownership::Foreign(NotOurs::Untagged(proof)) => Err(untagged(scope, instance, proof, location)),
        Ownership::Foreign(_) => Ok(false),
    }
}

/// The deletion waits for the tags of an instance.
fn untagged(scope: &MachineScope, instance: &Instance, proof: Proved, location: &InstanceLocation) -> Blocked {
    let id = &instance.id;
    let mend = match renamed_owner(scope, instance, proof) {
        Some((named, tag)) => format!(
            "its launch record says that it is this machine's, the ownerReferences name Machine {named:?}, and the \
             instance belongs to {tag:?} by its tag {}: it is not terminated; correct the ownerReferences",
            meta::MACHINE_NAME_TAG
        ),
        None => format!(
            "it is not terminated; restore them if it is this machine's ({})",
            scope.tags(&location.session.cluster_tag).described()
        ),
    };
    let message = format!(
        "instance {id} does not carry the tags of this machine: {mend}, else {} lets the deletion end without it",
        abandonment_described(&scope.machine)
    );
    let not_owned = ConditionType::InstanceReady.is_false(Reason::NotOwned, message);
    Blocked::new(not_owned, Next::Retry)
}

/// The name of the Machine in the owner reference, and the name in the instance's tag, if they differ. Only an
/// unverified reference and an instance that the launch record proves are compared. Otherwise anybody who may write the
/// reference could have the instance tagged with the name of another Machine.
fn renamed_owner<'a>(scope: &'a MachineScope, instance: &'a Instance, proof: Proved) -> Option<(&'a str, &'a str)> {
    let lacks_owner = proof == Proved::Recorded && scope.owners.machine.is_err();
    let named = meta::owner_machine_name(&scope.machine.metadata).filter(|_| lacks_owner)?;
    let tag = instance.tags.get(meta::MACHINE_NAME_TAG)?;
    (*tag != meta::machine_name_tag_value(scope.namespace(), named)).then_some((named, tag))
}

/// The instance whose id is known, as the informer shows it.
fn known_instance(
    scope: &MachineScope,
    id: String,
    observation: Observation,
    location: &InstanceLocation,
) -> Result<InstanceToEnd, Blocked> {
    if observation == Observation::Absent && !observation::account_is_recorded(scope) {
        return Err(unproven(scope, &id, location));
    }
    Ok(InstanceToEnd { id, observation, is_named: true, is_alone: true })
}

/// Whether an instance of a later call may exist: the recorded one is gone and never ran. The record does not show the
/// later call if it was restored from a backup. A young instance that AWS does not show yet is not gone.
fn may_be_followed(
    scope: &MachineScope,
    id: &str,
    observation: &Observation,
    location: &InstanceLocation,
    context: &MachineContext,
) -> bool {
    let is_gone = match observation {
        Observation::Absent => observation::remaining_youth(scope, id, location, context).is_none(),
        Observation::Seen(instance) => instance.state == InstanceState::Terminated,
        Observation::Unknown => false,
    };
    is_gone && !scope.has_run()
}

/// The known instance, if no later call has launched another one. Otherwise the instance of the later call is recorded,
/// and the next pass terminates it.
async fn after_newer_attempt(
    scope: &mut MachineScope,
    known: InstanceToEnd,
    location: &InstanceLocation,
    context: &MachineContext,
) -> Result<InstanceToEnd, FlowError> {
    let InstanceToEnd { id, observation, .. } = &known;
    if !may_be_followed(scope, id, observation, location, context) {
        return Ok(known);
    }
    match adopt::adopt_newer_attempt(scope, location, context).await {
        Ok(None) => {}
        Ok(Some(later)) => {
            let message = format!(
                "instance {id}, which the launch record named, is gone, and instance {later} of a later call is \
                 there: it is terminated"
            );
            let found = ConditionType::InstanceReady.is_false(Reason::Terminating, message);
            return Err(Blocked::new(found, Next::Requeue(Duration::ZERO)).into());
        }
        Err(FlowError::Blocked(mut blocked)) => {
            let message = format!(
                "instance {id} is gone, and whether a later call launched another one is not known: {}; {} lets the \
                 deletion end, and leaves such an instance running",
                blocked.condition.message,
                abandonment_described(&scope.machine)
            );
            blocked.condition = ConditionType::InstanceReady.is_false(Reason::DeletionBlocked, message);
            return Err(blocked.into());
        }
        Err(failed) => return Err(failed),
    }
    // The lookup may have shown that the known instance still exists.
    let observation = location.session.cloud.observe_instance(&scope.key(), id);
    Ok(InstanceToEnd { observation, ..known })
}

/// The instances with the machine's tags that belong to it, and the ids of those that do not. `foreign` is the instance
/// that the spec names.
async fn find_by_tags(
    scope: &mut MachineScope,
    proof: Proof,
    foreign: Option<String>,
    location: &InstanceLocation,
    context: &MachineContext,
) -> Result<(Vec<InstanceToEnd>, Vec<String>), FlowError> {
    let open_token = scope.open_token().map(str::to_owned);
    let token = open_token.as_deref().filter(|_| proof == Proof::None);
    let made_from = location.fingerprint(&DeletionCall::Lookup, &());
    if proof != Proof::Whole
        && let Err(blocked) = context.await_change(scope, made_from)
    {
        return Err(blocked.into());
    }
    let tags = scope.tags(&location.session.cluster_tag);
    let found = match look_up(scope, &tags, token, location).await {
        Ok(found) => found,
        // A lookup that waits for its turn or was throttled can be made later.
        Err(error) if proof == Proof::Whole && error.retry_after.is_none() && error.class != ErrorClass::Throttled => {
            return Ok((vec![], foreign.into_iter().collect()));
        }
        Err(error) => return Err(deletion_blocked(scope, observation::blocked_by_lookup(&error), context).into()),
    };
    context.memory.lookup_succeeded(scope.uid());
    let (ended, found): (Vec<_>, Vec<_>) =
        found.into_iter().partition(|instance| instance.state == InstanceState::Terminated);
    let open_request = scope.open_request();
    let is_of_attempt = |instance: &Instance| open_request.is_some_and(|request| launched_by(request, instance));
    // Once the attempt's own instance is known, its end is all that the deletion waits for.
    let is_proven = proof != Proof::None || ended.iter().any(is_of_attempt);
    let (ours, unowned) = by_owner(scope, found, foreign, location, context)?;
    if ours.is_empty() {
        if !is_proven {
            await_absence(scope, open_token, context)?;
            let is_seen = |id: &str| ended.iter().any(|seen| seen.id == id) || unowned.iter().any(|left| left == id);
            confirm_absence_of_annotated(scope, is_seen, location)?;
        }
        return Ok((vec![], unowned));
    }
    // Another AWSMachine may have the name, and therefore the tags, by now. Then the API server no longer has this one.
    context.kubernetes.confirm(&scope.machine).await?;
    let is_alone = ours.len() == 1;
    let to_end = |instance: Instance| InstanceToEnd {
        id: instance.id.clone(),
        observation: Observation::Seen(Arc::new(instance)),
        is_named: false,
        is_alone,
    };
    Ok((ours.into_iter().map(to_end).collect(), unowned))
}

/// The found instances that belong to the machine, and the ids of those that do not. `foreign` is one of the latter.
fn by_owner(
    scope: &MachineScope,
    found: Vec<Instance>,
    foreign: Option<String>,
    location: &InstanceLocation,
    context: &MachineContext,
) -> Result<(Vec<Instance>, Vec<String>), Blocked> {
    let mut ours = Vec::new();
    let mut unowned: Vec<String> = foreign.into_iter().collect();
    for instance in found {
        match inputs::ownership(scope, &instance, &location.session.cluster_tag, context) {
            Ownership::Ours(_) => ours.push(instance),
            // Found by the token of the open attempt.
            Ownership::Foreign(NotOurs::Untagged(_)) if instance.state.has_ended() => ours.push(instance),
            Ownership::Foreign(NotOurs::Untagged(proof)) => return Err(untagged(scope, &instance, proof, location)),
            Ownership::Foreign(_) if unowned.contains(&instance.id) => {}
            Ownership::Foreign(_) => unowned.push(instance.id),
        }
    }
    Ok((ours, unowned))
}

/// The instances with these tags or this token, and the one that the annotation `adopt-instance` names.
async fn look_up(
    scope: &MachineScope,
    tags: &MachineTags<'_>,
    token: Option<&str>,
    location: &InstanceLocation,
) -> Result<Vec<Instance>, CloudError> {
    let cloud = location.session.cloud.as_ref();
    let mut found = observation::look_up(cloud, tags, token).await?;
    if let Some(id) = annotated(scope)
        && found.iter().all(|instance| instance.id != id)
    {
        found.extend(observation::look_up_id(cloud, id).await?);
    }
    Ok(found)
}

/// The instance that the annotation `adopt-instance` names. Without a verified owner the annotation proves nothing.
fn annotated(scope: &MachineScope) -> Option<&str> {
    match AdoptAnnotation::of(&scope.machine) {
        AdoptAnnotation::Instance(id) if scope.owners.machine.is_ok() => Some(id),
        _ => None,
    }
}

/// A launch may have succeeded although AWS shows no instance. The AWSMachine is released once its absence is proven.
fn await_absence(scope: &MachineScope, open_token: Option<String>, context: &MachineContext) -> Result<(), Blocked> {
    let token = open_token.unwrap_or_else(|| search_token(&scope.machine));
    context.await_absence(
        context.memory.launches(),
        scope,
        &token,
        scope.holder(),
        protocol::unconfirmed(scope.status.launch.as_ref(), true),
    )
}

/// The annotation `adopt-instance`, which the provider sets while an instance starts, may name an instance of an
/// AWSMachine that has lost its status, and with it the account. `is_seen` tells which instances show in this account
/// and need not be ended.
fn confirm_absence_of_annotated(
    scope: &MachineScope,
    is_seen: impl Fn(&str) -> bool,
    location: &InstanceLocation,
) -> Result<(), Blocked> {
    match annotated(scope) {
        Some(id) if location::recorded_account(scope).is_none() && !is_seen(id) => Err(unproven(scope, id, location)),
        _ => Ok(()),
    }
}

/// The deletion waits for an instance that AWS does not show and whose account was never recorded.
fn unproven(scope: &MachineScope, id: &str, location: &InstanceLocation) -> Blocked {
    let message = observation::unproven(scope, id, location);
    let blocked = ConditionType::InstanceReady.is_false(Reason::DeletionBlocked, message);
    Blocked::new(blocked, Next::Retry)
}

/// Blocks the deletion: the condition of the block gives the reason, and `InstanceReady` repeats it.
fn deletion_blocked(scope: &mut MachineScope, mut blocked: Blocked, context: &MachineContext) -> Blocked {
    if !blocked.is_throttled() {
        let longest_pause = context.timing.refusal_retry_cap + context.timing.listing_interval;
        let now = context.kubernetes.uptime();
        context.memory.lookup_failed(scope.uid(), now, longest_pause);
    }
    let why = &blocked.condition.message;
    let mut message = format!("the instance of this machine cannot be terminated: {why}");
    let is_planned = scope.status.launch == Some(LaunchRecord::Planned);
    if is_planned && observation::evidence_of_planned(scope, context) == NeverLaunchedEvidence::SufficientLater {
        message.push_str(", and EC2 was never asked for one as far as is recorded: the record is believed after some ");
        message.push_str("minutes in which AWS could not be asked");
    }
    message.push_str("; if it is gone, ");
    message.push_str(&abandonment_described(&scope.machine));
    message.push_str(" lets the deletion end");
    let of_deletion = ConditionType::InstanceReady.is_false(Reason::DeletionBlocked, message);
    scope.set_condition(std::mem::replace(&mut blocked.condition, of_deletion));
    blocked
}
