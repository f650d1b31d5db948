//! From a deleted AWSMachine to a terminated instance: ends, or says what holds it.

use capa_api::conditions::{ConditionType, Reason};
use capa_api::machine::LaunchRecord;
use capa_cloud::{Instance, Sighting};
use capa_runtime::reconcile::{Next, ReconcileError};

use super::observe::{self, Whereabouts};
use super::plan::{self, DeletionStep};
use super::{Draft, MachineWorld, Owners, apply, dereference, launch};
use crate::retry;

pub(super) async fn reconcile(draft: Draft, owners: &Owners, world: &MachineWorld) -> Result<Draft, ReconcileError> {
    let draft = launch::forget_refused(draft, world);
    let never_launched = nothing_was_launched(&draft);
    let answer = world.memory.answer(draft.uid());
    let known = dereference::instance_id(&draft.machine).or_else(|| answer.map(|instance| instance.id));
    let (draft, whereabouts) = match observe::whereabouts(draft, owners, world).await? {
        Ok(found) => found,
        // The record that says so is the proof.
        Err(stopped) if never_launched && known.is_none() => return release(stopped, world).await,
        Err(stopped) => return Ok(blocked(stopped)),
    };
    match known {
        Some(id) => known_instance(draft, &id, &whereabouts, world).await,
        None => unknown_instance(draft, never_launched, &whereabouts, world).await,
    }
}

/// Whether EC2 was never asked for an instance (attempt 0), or has refused the last attempt: its record has no network.
fn nothing_was_launched(draft: &Draft) -> bool {
    let refused = |record: &LaunchRecord| record.is_open() && draft.status.network.is_none();
    let record = draft.status.launch.as_ref();
    record.is_some_and(|record| record.attempt == 0 || refused(record))
}

async fn known_instance(
    draft: Draft,
    id: &str,
    whereabouts: &Whereabouts,
    world: &MachineWorld,
) -> Result<Draft, ReconcileError> {
    let sighting = whereabouts.access.cloud.instance(&draft.key(), id);
    // What the spec names is believed only by its tags; a record, and an answer that is not recorded yet, are ours.
    let believed = draft.status.launch.as_ref().is_some_and(|record| record.attempt > 0);
    let owner_name = dereference::machine_name(&draft.machine);
    let foreign = match &sighting {
        Sighting::Seen(instance) => !apply::is_ours(instance, &whereabouts.cluster_tag, draft.namespace(), owner_name),
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
    let youth = observe::youth(&draft, world);
    let (message, next) = match plan::delete(&sighting, youth.is_none()) {
        DeletionStep::Release => return release(draft, world).await,
        DeletionStep::Terminate => return Ok(apply::terminate(draft, whereabouts.access.cloud.as_ref(), id).await),
        DeletionStep::AwaitTermination => (format!("instance {id} is being terminated"), Next::AwaitChange),
        DeletionStep::AwaitSighting => {
            if let Some(error) = whereabouts.access.cloud.listing_failure() {
                let message = format!("instance {id} cannot be looked up before it is terminated: {error}");
                let blocked = ConditionType::InstanceReady.is_false(Reason::DeletionBlocked, message);
                return Ok(draft.stop(blocked, Next::Retry));
            }
            (
                format!("instance {id} is looked up before it is terminated"),
                Next::Retry,
            )
        }
        DeletionStep::AwaitAge => (
            format!("instance {id} does not show in AWS, which is no proof while it is this young"),
            youth.map_or(Next::Retry, Next::Requeue),
        ),
    };
    Ok(draft.stop(
        ConditionType::InstanceReady.is_false(Reason::Terminating, message),
        next,
    ))
}

/// No id is known: whatever carries the tags of this machine is its instance.
async fn unknown_instance(
    mut draft: Draft,
    never_launched: bool,
    whereabouts: &Whereabouts,
    world: &MachineWorld,
) -> Result<Draft, ReconcileError> {
    let cloud = whereabouts.access.cloud.as_ref();
    let owner_name = dereference::machine_name(&draft.machine);
    let query = apply::tagged(&whereabouts.cluster_tag, draft.namespace(), owner_name);
    let mut found = match cloud.find_instances(&query).await {
        Ok(found) => found,
        // A lookup that only waits for its turn can be made.
        Err(error) if never_launched && error.retry_after.is_none() => return release(draft, world).await,
        Err(error) => {
            let reason = error.class.reason();
            let message = format!("whether an instance of this machine exists could not be looked up: {error}");
            let update = ConditionType::InstanceReady.is_false(reason, message);
            return Ok(blocked(draft.stop(update, retry::after(&error))));
        }
    };
    let proven = never_launched || found.iter().any(|instance| is_end_of_attempt(instance, &draft));
    found.retain(|instance| plan::delete_seen(instance) != DeletionStep::Release);
    if found.is_empty() {
        return match lookup_rest(&draft, world).filter(|_| !proven) {
            Some(rest) => {
                let message = "a launch was asked for without an answer, and no instance shows yet: it is looked up";
                let update = ConditionType::InstanceReady.is_false(Reason::LaunchUnconfirmed, message);
                Ok(draft.stop(update, Next::Requeue(rest.min(launch::lookup_interval(world)))))
            }
            None => release(draft, world).await,
        };
    }
    for instance in &found {
        draft = if plan::delete_seen(instance) == DeletionStep::Terminate {
            apply::terminate(draft, cloud, &instance.id).await
        } else {
            let message = format!("instance {} is being terminated", instance.id);
            draft.stop(
                ConditionType::InstanceReady.is_false(Reason::Terminating, message),
                Next::AwaitChange,
            )
        };
    }
    // Not recorded, so the store does not follow it: looked up again until nothing is left.
    if draft.next == Next::AwaitChange {
        draft.next = Next::Requeue(world.timing.transition_interval);
    }
    Ok(draft)
}

/// Whether this is the instance of the open attempt, and terminated: then nothing more is to be waited for.
fn is_end_of_attempt(instance: &Instance, draft: &Draft) -> bool {
    let request = draft.status.launch.as_ref().and_then(|record| record.request.as_ref());
    plan::delete_seen(instance) == DeletionStep::Release
        && request.is_some_and(|request| instance.client_token.as_deref() == Some(request.client_token.as_str()))
}

/// How much longer an unanswered launch has to be looked up.
fn lookup_rest(draft: &Draft, world: &MachineWorld) -> Option<std::time::Duration> {
    let requested_at = draft.status.launch.as_ref()?.request.as_ref()?.requested_at.0;
    let age = observe::age(requested_at, world.kubernetes.now());
    world
        .timing
        .launch_lookup_age
        .checked_sub(age)
        .filter(|rest| !rest.is_zero())
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
