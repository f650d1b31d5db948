//! From a deleted AWSMachine to a terminated instance: ends, or says what holds it.

use capa_api::conditions::{ConditionType, ConditionUpdate, Reason};
use capa_api::meta;
use capa_cloud::{ErrorClass, Instance, InstanceState, Observation};
use capa_runtime::reconcile::{EventDraft, Next, ReconcileError};

use super::abandon::{self, Abandonment};
use super::observe::{self, Whereabouts};
use super::plan::{self, DeletionStep};
use super::{MachineContext, MachineScope, Owners, apply, dereference, launch, lookup, targets};
use crate::retry;

pub(super) async fn reconcile(
    scope: MachineScope,
    owners: &Owners,
    context: &MachineContext,
) -> Result<MachineScope, ReconcileError> {
    match abandon::abandonment(&scope.machine) {
        Abandonment::NotAsked => Box::pin(delete(scope, owners, context)).await,
        Abandonment::Asked(what) => abandoned(scope, &what, context).await,
        Abandonment::Mismatch(why) => {
            let scope = Box::pin(delete(scope, owners, context)).await?;
            Ok(remarked(scope, &why))
        }
    }
}

/// The user has given the instance up: AWS is not even asked.
async fn abandoned(
    mut scope: MachineScope,
    what: &str,
    context: &MachineContext,
) -> Result<MachineScope, ReconcileError> {
    let message = format!(
        "{what} is abandoned as annotation {} asks: what runs of it is not terminated by anybody but you",
        meta::ABANDON_INSTANCE_ANNOTATION
    );
    scope.events.push(EventDraft::warning("InstanceAbandoned", message));
    release(scope, context).await
}

/// Adds a remark to what holds the deletion up.
fn remarked(mut scope: MachineScope, remark: &str) -> MachineScope {
    let is_held = |update: &&mut ConditionUpdate| update.condition == ConditionType::InstanceReady;
    if let Some(update) = scope.updates.iter_mut().find(is_held) {
        update.message = format!("{}; {remark}", update.message);
    }
    scope
}

async fn delete(
    scope: MachineScope,
    owners: &Owners,
    context: &MachineContext,
) -> Result<MachineScope, ReconcileError> {
    let scope = launch::forget_refused(scope, context);
    let proof = proof_of_absence(&scope, context);
    let answer = apply::own_answer(&scope, context);
    let known = dereference::instance_id(&scope.machine).or_else(|| answer.map(|instance| instance.id));
    let (scope, whereabouts) = match observe::whereabouts(scope, owners, context).await? {
        Ok(found) => found,
        Err(stopped) if proof == Proof::Whole && known.is_none() && !is_throttled(&stopped) => {
            return release(stopped, context).await;
        }
        Err(stopped) => return Ok(blocked(stopped)),
    };
    match known {
        Some(id) => known_instance(scope, &id, &whereabouts, context).await,
        None => unknown_instance(scope, proof, &whereabouts, context).await,
    }
}

/// What the record proves of a machine without a known instance.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Proof {
    /// Nothing was launched: EC2 was never asked (attempt 0), or this process knows that it has turned every call of the
    /// attempt away. It stands in for a lookup that cannot be made. The finalizer can only come off the object that says
    /// so, so no other process has claimed the attempt meanwhile.
    Whole,
    /// EC2 has refused the attempt, and nothing was launched unless an older state of the object was restored.
    Refusal,
    /// The attempt may have launched, or the object came without a record.
    None,
}

fn proof_of_absence(scope: &MachineScope, context: &MachineContext) -> Proof {
    let Some(record) = &scope.status.launch else {
        return Proof::None;
    };
    let remembered = record.request.as_ref().is_some_and(|request| {
        record.is_open() && apply::progress(scope, &request.client_token, context).is_proof_of_absence()
    });
    if record.attempt == 0 || remembered {
        Proof::Whole
    } else if record.is_open() && scope.status.network.is_none() {
        Proof::Refusal
    } else {
        Proof::None
    }
}

async fn known_instance(
    mut scope: MachineScope,
    id: &str,
    whereabouts: &Whereabouts,
    context: &MachineContext,
) -> Result<MachineScope, ReconcileError> {
    let observation = whereabouts.access.cloud.instance(&scope.key(), id);
    // What the spec names is believed only by its tags; a record, and an answer that is not recorded yet, are ours.
    let believed = scope.status.launch.as_ref().is_some_and(|record| record.attempt > 0);
    let owner_name = dereference::machine_name(&scope.machine);
    let foreign = match &observation {
        Observation::Seen(instance) => {
            !lookup::is_ours(instance, &whereabouts.cluster_tag, scope.namespace(), owner_name)
        }
        Observation::Unknown | Observation::Absent => false,
    };
    if foreign && !believed {
        let message = format!(
            "instance {id}, which the spec names, does not carry the tags of this machine: it is not terminated; \
             correct its tags if it is this machine's"
        );
        return Ok(scope.stop(
            ConditionType::InstanceReady.is_false(Reason::NotOwned, message),
            Next::Retry,
        ));
    }
    if observation == Observation::Absent && !observe::account_is_recorded(&scope) {
        let message = observe::unproven(id, whereabouts);
        return Ok(scope.stop(
            ConditionType::InstanceReady.is_false(Reason::DeletionBlocked, message),
            Next::Retry,
        ));
    }
    if let Observation::Seen(instance) = &observation
        && plan::has_ended(instance)
    {
        scope = apply::terminating(scope, id);
    }
    let youth = observe::youth(&scope, id, whereabouts, context);
    let is_out = match &observation {
        Observation::Unknown => false,
        Observation::Seen(instance) => targets::leave(&mut scope, id, Some(instance), whereabouts),
        Observation::Absent => targets::leave(&mut scope, id, None, whereabouts),
    };
    let (message, next) = match plan::delete(&observation, youth.is_none(), is_out) {
        DeletionStep::Release => return release(scope, context).await,
        DeletionStep::Terminate => {
            let cloud = whereabouts.access.cloud.as_ref();
            return Ok(apply::terminate(scope, cloud, id, context).await);
        }
        DeletionStep::AwaitDrained => return Ok(draining(scope, id, context)),
        DeletionStep::AwaitTermination => (format!("instance {id} is being terminated"), Next::AwaitChange),
        DeletionStep::AwaitSighting => (
            format!("instance {id} is looked up before it is terminated"),
            Next::Retry,
        ),
        DeletionStep::AwaitAge => {
            observe::watch_anew(&scope, id, whereabouts, context);
            (
                format!("instance {id} does not show in AWS, which is no proof while it is this young"),
                youth.map_or(Next::Retry, Next::Requeue),
            )
        }
    };
    // What AWS does not show now cannot be waited for in silence.
    let update = match whereabouts.access.cloud.reading_failure() {
        Some(error) => {
            let message = format!("{message}, and AWS does not show what becomes of it: {error}");
            ConditionType::InstanceReady.is_false(Reason::DeletionBlocked, message)
        }
        None => ConditionType::InstanceReady.is_false(Reason::Terminating, message),
    };
    Ok(scope.stop(update, next))
}

/// No id is known: whatever carries the tags of this machine is its instance.
async fn unknown_instance(
    mut scope: MachineScope,
    proof: Proof,
    whereabouts: &Whereabouts,
    context: &MachineContext,
) -> Result<MachineScope, ReconcileError> {
    let cloud = whereabouts.access.cloud.as_ref();
    let owner_name = dereference::machine_name(&scope.machine);
    let query = lookup::tagged(&whereabouts.cluster_tag, scope.namespace(), owner_name);
    let open_token = apply::open_token(&scope).map(str::to_owned);
    let token = open_token.as_deref().filter(|_| proof == Proof::None);
    let mut found = match lookup::find(cloud, &query, token).await {
        Ok(found) => found,
        // A lookup that waits for its turn, or comes too soon for AWS, can be made.
        Err(error) if proof == Proof::Whole && error.retry_after.is_none() && error.class != ErrorClass::Throttled => {
            return release(scope, context).await;
        }
        Err(error) => {
            let reason = error.class.reason();
            let message = format!("whether an instance of this machine exists could not be looked up: {error}");
            let update = ConditionType::InstanceReady.is_false(reason, message);
            return Ok(blocked(scope.stop(update, retry::after(&error))));
        }
    };
    let ended = |instance: &Instance| instance.state == InstanceState::Terminated;
    let of_attempt = |instance: &Instance| open_token.is_some() && instance.client_token == open_token;
    // The end of the attempt's own instance is all there is to wait for.
    let proven = proof != Proof::None || found.iter().any(|instance| ended(instance) && of_attempt(instance));
    found.retain(|instance| !ended(instance));
    if found.is_empty() {
        if proven {
            return release(scope, context).await;
        }
        let token = open_token.unwrap_or_else(|| launch::search_token(&scope));
        return unconfirmed(scope, &token, context).await;
    }
    // Another object may carry the name, and with it the tags, by now: then this one is gone.
    context.kubernetes.confirm(&scope.machine).await?;
    for instance in &found {
        let is_out = targets::leave(&mut scope, &instance.id, Some(instance), whereabouts);
        scope = if !plan::has_ended(instance) && !is_out {
            draining(scope, &instance.id, context)
        } else if !plan::has_ended(instance) {
            apply::terminate(scope, cloud, &instance.id, context).await
        } else {
            scope = apply::terminating(scope, &instance.id);
            // The store follows it from here on and wakes the machine.
            cloud.instance(&scope.key(), &instance.id);
            let message = format!("instance {} is being terminated", instance.id);
            scope.stop(
                ConditionType::InstanceReady.is_false(Reason::Terminating, message),
                Next::AwaitChange,
            )
        };
    }
    if scope.next != Next::Retry {
        // Of several instances the store follows one.
        scope.next = Next::Requeue(context.timing.listing_interval);
    }
    Ok(scope)
}

/// The instance still gets traffic. The store wakes the machine; should nothing be heard of it, it is looked at again.
fn draining(scope: MachineScope, id: &str, context: &MachineContext) -> MachineScope {
    let message = format!("instance {id} is terminated once its load balancers have let go of it");
    scope.stop(
        ConditionType::InstanceReady.is_false(Reason::Draining, message),
        Next::Requeue(context.timing.listing_interval),
    )
}

/// A launch may have taken place and does not show: the object goes once that is disproven.
async fn unconfirmed(
    scope: MachineScope,
    token: &str,
    context: &MachineContext,
) -> Result<MachineScope, ReconcileError> {
    let now = context.kubernetes.now();
    let rest = |scope: &MachineScope| {
        let search = context.memory.attempt(scope.uid(), token).search;
        search.map(|search| search.rest(now, &context.timing))
    };
    if rest(&scope).is_some_and(|rest| rest.is_zero()) {
        return release(scope, context).await;
    }
    context.memory.found_nothing(scope.uid(), token, now);
    let interval = launch::lookup_interval(context);
    let next = rest(&scope).map_or(interval, |rest| rest.min(interval));
    let message = match scope.status.launch {
        Some(_) => "a launch was asked for without an answer, and no instance shows yet: it is looked up",
        None => apply::UNRECORDED,
    };
    let update = ConditionType::InstanceReady.is_false(Reason::LaunchUnconfirmed, message);
    Ok(scope.stop(update, Next::Requeue(next)))
}

/// Whether the pass ended because AWS was asked too often: it can be asked a little later.
fn is_throttled(scope: &MachineScope) -> bool {
    scope
        .updates
        .last()
        .is_some_and(|update| update.reason == Reason::Throttled)
}

/// Deletion cannot go on; the condition that says why is there already.
fn blocked(mut scope: MachineScope) -> MachineScope {
    let why = scope
        .updates
        .last()
        .map(|update| update.message.clone())
        .unwrap_or_default();
    let message = format!("the instance of this machine cannot be terminated: {why}");
    scope.say(ConditionType::InstanceReady.is_false(Reason::DeletionBlocked, message));
    scope
}

async fn release(mut scope: MachineScope, context: &MachineContext) -> Result<MachineScope, ReconcileError> {
    context.kubernetes.remove_finalizer(&scope.machine).await?;
    context.memory.forget(scope.uid());
    context.clouds.forget(&scope.key());
    scope.released = true;
    Ok(scope)
}
