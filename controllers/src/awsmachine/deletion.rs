//! From a deleted AWSMachine to a terminated instance: ends, or says what holds it.

use capa_api::conditions::{ConditionType, ConditionUpdate, Reason};
use capa_api::meta;
use capa_cloud::{ErrorClass, Instance, InstanceState, Sighting};
use capa_runtime::reconcile::{Next, Notice, ReconcileError};

use super::abandon::{self, Abandonment};
use super::observe::{self, Whereabouts};
use super::plan::{self, DeletionStep};
use super::{Draft, MachineWorld, Owners, apply, dereference, launch, lookup, targets};
use crate::retry;

pub(super) async fn reconcile(draft: Draft, owners: &Owners, world: &MachineWorld) -> Result<Draft, ReconcileError> {
    match abandon::abandonment(&draft.machine) {
        Abandonment::NotAsked => Box::pin(delete(draft, owners, world)).await,
        Abandonment::Asked(what) => abandoned(draft, &what, world).await,
        Abandonment::Mismatch(why) => {
            let draft = Box::pin(delete(draft, owners, world)).await?;
            Ok(remarked(draft, &why))
        }
    }
}

/// The user has given the instance up: AWS is not even asked.
async fn abandoned(mut draft: Draft, what: &str, world: &MachineWorld) -> Result<Draft, ReconcileError> {
    let message = format!(
        "{what} is abandoned as annotation {} asks: what runs of it is not terminated by anybody but you",
        meta::ABANDON_INSTANCE_ANNOTATION
    );
    draft.events.push(Notice::warning("InstanceAbandoned", message));
    release(draft, world).await
}

/// Adds a remark to what holds the deletion up.
fn remarked(mut draft: Draft, remark: &str) -> Draft {
    let is_held = |update: &&mut ConditionUpdate| update.condition == ConditionType::InstanceReady;
    if let Some(update) = draft.updates.iter_mut().find(is_held) {
        update.message = format!("{}; {remark}", update.message);
    }
    draft
}

async fn delete(draft: Draft, owners: &Owners, world: &MachineWorld) -> Result<Draft, ReconcileError> {
    let draft = launch::forget_refused(draft, world);
    let proof = proof_of_absence(&draft, world);
    let answer = apply::own_answer(&draft, world);
    let known = dereference::instance_id(&draft.machine).or_else(|| answer.map(|instance| instance.id));
    let (draft, whereabouts) = match observe::whereabouts(draft, owners, world).await? {
        Ok(found) => found,
        Err(stopped) if proof == Proof::Whole && known.is_none() && !is_throttled(&stopped) => {
            return release(stopped, world).await;
        }
        Err(stopped) => return Ok(blocked(stopped)),
    };
    match known {
        Some(id) => known_instance(draft, &id, &whereabouts, world).await,
        None => unknown_instance(draft, proof, &whereabouts, world).await,
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

fn proof_of_absence(draft: &Draft, world: &MachineWorld) -> Proof {
    let Some(record) = &draft.status.launch else {
        return Proof::None;
    };
    let remembered = record.request.as_ref().is_some_and(|request| {
        record.is_open() && apply::progress(draft, &request.client_token, world).is_proof_of_absence()
    });
    if record.attempt == 0 || remembered {
        Proof::Whole
    } else if record.is_open() && draft.status.network.is_none() {
        Proof::Refusal
    } else {
        Proof::None
    }
}

async fn known_instance(
    mut draft: Draft,
    id: &str,
    whereabouts: &Whereabouts,
    world: &MachineWorld,
) -> Result<Draft, ReconcileError> {
    let sighting = whereabouts.access.cloud.instance(&draft.key(), id);
    // What the spec names is believed only by its tags; a record, and an answer that is not recorded yet, are ours.
    let believed = draft.status.launch.as_ref().is_some_and(|record| record.attempt > 0);
    let owner_name = dereference::machine_name(&draft.machine);
    let foreign = match &sighting {
        Sighting::Seen(instance) => !lookup::is_ours(instance, &whereabouts.cluster_tag, draft.namespace(), owner_name),
        Sighting::Unknown | Sighting::Absent => false,
    };
    if foreign && !believed {
        let message = format!(
            "instance {id}, which the spec names, does not carry the tags of this machine: it is not terminated; \
             correct its tags if it is this machine's"
        );
        return Ok(draft.stop(
            ConditionType::InstanceReady.is_false(Reason::NotOwned, message),
            Next::Retry,
        ));
    }
    if sighting == Sighting::Absent && !observe::account_is_recorded(&draft) {
        let message = observe::unproven(id, whereabouts);
        return Ok(draft.stop(
            ConditionType::InstanceReady.is_false(Reason::DeletionBlocked, message),
            Next::Retry,
        ));
    }
    if let Sighting::Seen(instance) = &sighting
        && plan::has_ended(instance)
    {
        draft = apply::terminating(draft, id);
    }
    let youth = observe::youth(&draft, id, whereabouts, world);
    let is_out = match &sighting {
        Sighting::Unknown => false,
        Sighting::Seen(instance) => targets::leave(&mut draft, id, Some(instance), whereabouts),
        Sighting::Absent => targets::leave(&mut draft, id, None, whereabouts),
    };
    let (message, next) = match plan::delete(&sighting, youth.is_none(), is_out) {
        DeletionStep::Release => return release(draft, world).await,
        DeletionStep::Terminate => {
            let cloud = whereabouts.access.cloud.as_ref();
            return Ok(apply::terminate(draft, cloud, id, world).await);
        }
        DeletionStep::AwaitDrained => return Ok(draining(draft, id, world)),
        DeletionStep::AwaitTermination => (format!("instance {id} is being terminated"), Next::AwaitChange),
        DeletionStep::AwaitSighting => (
            format!("instance {id} is looked up before it is terminated"),
            Next::Retry,
        ),
        DeletionStep::AwaitAge => {
            observe::watch_anew(&draft, id, whereabouts, world);
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
    Ok(draft.stop(update, next))
}

/// No id is known: whatever carries the tags of this machine is its instance.
async fn unknown_instance(
    mut draft: Draft,
    proof: Proof,
    whereabouts: &Whereabouts,
    world: &MachineWorld,
) -> Result<Draft, ReconcileError> {
    let cloud = whereabouts.access.cloud.as_ref();
    let owner_name = dereference::machine_name(&draft.machine);
    let query = lookup::tagged(&whereabouts.cluster_tag, draft.namespace(), owner_name);
    let open_token = apply::open_token(&draft).map(str::to_owned);
    let token = open_token.as_deref().filter(|_| proof == Proof::None);
    let mut found = match lookup::find(cloud, &query, token).await {
        Ok(found) => found,
        // A lookup that waits for its turn, or comes too soon for AWS, can be made.
        Err(error) if proof == Proof::Whole && error.retry_after.is_none() && error.class != ErrorClass::Throttled => {
            return release(draft, world).await;
        }
        Err(error) => {
            let reason = error.class.reason();
            let message = format!("whether an instance of this machine exists could not be looked up: {error}");
            let update = ConditionType::InstanceReady.is_false(reason, message);
            return Ok(blocked(draft.stop(update, retry::after(&error))));
        }
    };
    let ended = |instance: &Instance| instance.state == InstanceState::Terminated;
    let of_attempt = |instance: &Instance| open_token.is_some() && instance.client_token == open_token;
    // The end of the attempt's own instance is all there is to wait for.
    let proven = proof != Proof::None || found.iter().any(|instance| ended(instance) && of_attempt(instance));
    found.retain(|instance| !ended(instance));
    if found.is_empty() {
        if proven {
            return release(draft, world).await;
        }
        let token = open_token.unwrap_or_else(|| launch::search_token(&draft));
        return unconfirmed(draft, &token, world).await;
    }
    // Another object may carry the name, and with it the tags, by now: then this one is gone.
    world.kubernetes.confirm(&draft.machine).await?;
    for instance in &found {
        let is_out = targets::leave(&mut draft, &instance.id, Some(instance), whereabouts);
        draft = if !plan::has_ended(instance) && !is_out {
            draining(draft, &instance.id, world)
        } else if !plan::has_ended(instance) {
            apply::terminate(draft, cloud, &instance.id, world).await
        } else {
            draft = apply::terminating(draft, &instance.id);
            // The store follows it from here on and wakes the machine.
            cloud.instance(&draft.key(), &instance.id);
            let message = format!("instance {} is being terminated", instance.id);
            draft.stop(
                ConditionType::InstanceReady.is_false(Reason::Terminating, message),
                Next::AwaitChange,
            )
        };
    }
    if draft.next != Next::Retry {
        // Of several instances the store follows one.
        draft.next = Next::Requeue(world.timing.listing_interval);
    }
    Ok(draft)
}

/// The instance still gets traffic. The store wakes the machine; should nothing be heard of it, it is looked at again.
fn draining(draft: Draft, id: &str, world: &MachineWorld) -> Draft {
    let message = format!("instance {id} is terminated once its load balancers have let go of it");
    draft.stop(
        ConditionType::InstanceReady.is_false(Reason::Draining, message),
        Next::Requeue(world.timing.listing_interval),
    )
}

/// A launch may have taken place and does not show: the object goes once that is disproven.
async fn unconfirmed(draft: Draft, token: &str, world: &MachineWorld) -> Result<Draft, ReconcileError> {
    let now = world.kubernetes.now();
    let rest = |draft: &Draft| {
        let search = world.memory.attempt(draft.uid(), token).search;
        search.map(|search| search.rest(now, &world.timing))
    };
    if rest(&draft).is_some_and(|rest| rest.is_zero()) {
        return release(draft, world).await;
    }
    world.memory.found_nothing(draft.uid(), token, now);
    let interval = launch::lookup_interval(world);
    let next = rest(&draft).map_or(interval, |rest| rest.min(interval));
    let message = match draft.status.launch {
        Some(_) => "a launch was asked for without an answer, and no instance shows yet: it is looked up",
        None => apply::UNRECORDED,
    };
    let update = ConditionType::InstanceReady.is_false(Reason::LaunchUnconfirmed, message);
    Ok(draft.stop(update, Next::Requeue(next)))
}

/// Whether the pass ended because AWS was asked too often: it can be asked a little later.
fn is_throttled(draft: &Draft) -> bool {
    draft
        .updates
        .last()
        .is_some_and(|update| update.reason == Reason::Throttled)
}

/// Deletion cannot go on; the condition that says why is there already.
fn blocked(mut draft: Draft) -> Draft {
    let why = draft
        .updates
        .last()
        .map(|update| update.message.clone())
        .unwrap_or_default();
    let message = format!("the instance of this machine cannot be terminated: {why}");
    draft.say(ConditionType::InstanceReady.is_false(Reason::DeletionBlocked, message));
    draft
}

async fn release(mut draft: Draft, world: &MachineWorld) -> Result<Draft, ReconcileError> {
    world.kubernetes.remove_finalizer(&draft.machine).await?;
    world.memory.forget(draft.uid());
    world.clouds.forget(&draft.key());
    draft.released = true;
    Ok(draft)
}
