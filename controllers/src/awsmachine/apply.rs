//! Executes a launch plan, each result stored before the next call.

use capa_api::conditions::{ConditionType, Reason};
use capa_api::core::Machine;
use capa_api::machine::InstanceState;
use capa_api::meta;
use capa_cloud::{CloudError, ErrorClass, Instance, LaunchRequest, MachineCloud, Query};
use capa_runtime::reconcile::{Next, Notice, ReconcileError};

use super::launch::{self, Prepared};
use super::memory::Progress;
use super::plan::{LaunchPlan, Then};
use super::{Draft, MachineWorld};
use crate::retry;

pub(super) async fn launch(
    mut draft: Draft,
    owner: &Machine,
    prepared: &Prepared,
    request: LaunchRequest,
    plan: LaunchPlan,
    world: &MachineWorld,
) -> Result<Draft, ReconcileError> {
    let cloud = prepared.access.cloud.as_ref();
    if plan.then != Then::Confirm
        && let Err(error) = cloud.launch_turn(&draft.key())
    {
        let waiting = ConditionType::InstanceReady.is_false(Reason::Launching, error.to_string());
        return Ok(draft.stop(waiting, retry::after(&error)));
    }
    if plan.look_up {
        let owner_name = owner.metadata.name.as_deref().unwrap_or_default();
        let query = tagged(&prepared.cluster_tag, draft.namespace(), owner_name);
        match cloud.find_instances(&query).await.map(alive) {
            Err(error) => return Ok(lookup_failed(draft, &error)),
            Ok(found) if found.is_empty() => {}
            Ok(found) => return adopt(draft, found, prepared, request, world).await,
        }
    }
    match plan.then {
        Then::Confirm => {
            let message =
                "a launch was asked for without an answer, and no instance shows yet: it is looked up, not repeated";
            let unconfirmed = ConditionType::InstanceReady.is_false(Reason::LaunchUnconfirmed, message);
            return Ok(draft.stop(unconfirmed, Next::Requeue(launch::lookup_interval(world))));
        }
        Then::Record(attempt) => {
            draft.status.launch = Some(launch::record(attempt, &request, world.kubernetes.now()));
            draft.status.network = Some(prepared.in_use(&draft.machine, &request));
            draft = store(draft, world).await?;
            world
                .memory
                .note(draft.uid(), &request.client_token, Progress::Recorded);
        }
        Then::Repeat => {}
    }
    call(draft, &request, cloud, world).await
}

/// Makes the recorded call. What is remembered of it holds at every moment: the pass may be cancelled while the call is
/// under way, and the answer may come back in vain because the object has changed meanwhile.
async fn call(
    mut draft: Draft,
    request: &LaunchRequest,
    cloud: &dyn MachineCloud,
    world: &MachineWorld,
) -> Result<Draft, ReconcileError> {
    let (uid, token) = (draft.uid().to_owned(), &request.client_token);
    let before = world.memory.progress(&uid, token);
    world.memory.note(&uid, token, Progress::Unanswered);
    match cloud.launch(&draft.key(), request).await {
        Ok(instance) => {
            world.memory.answered(&uid, instance.clone());
            draft.events.push(Notice::normal(
                "SuccessfulCreate",
                format!("launched instance {}", instance.id),
            ));
            launched(draft, &instance, world).await
        }
        Err(error) => {
            let progress = before.after(error.class);
            world.memory.note(&uid, token, progress);
            Ok(not_launched(draft, &error, progress))
        }
    }
}

/// The tags by which every provider of this API finds a machine's instance.
pub(super) fn tagged(cluster_tag: &str, namespace: &str, owner_name: &str) -> Query {
    Query::filter(
        format!("tag:{}", meta::cluster_tag(cluster_tag)),
        [meta::OWNED_TAG_VALUE],
    )
    .and(
        format!("tag:{}", meta::MACHINE_NAME_TAG),
        [meta::machine_name_tag_value(namespace, owner_name)],
    )
}

/// Whether the instance carries the tags of this machine.
pub(super) fn is_ours(instance: &Instance, cluster_tag: &str, namespace: &str, owner_name: &str) -> bool {
    let tag = |key: &str| instance.tags.get(key).map(String::as_str);
    tag(&meta::cluster_tag(cluster_tag)) == Some(meta::OWNED_TAG_VALUE)
        && tag(meta::MACHINE_NAME_TAG) == Some(meta::machine_name_tag_value(namespace, owner_name).as_str())
}

/// Instances that run or will run again.
pub(super) fn alive(instances: Vec<Instance>) -> Vec<Instance> {
    let gone = |state| matches!(state, InstanceState::Terminated | InstanceState::ShuttingDown);
    instances.into_iter().filter(|instance| !gone(instance.state)).collect()
}

pub(super) async fn launched(
    mut draft: Draft,
    instance: &Instance,
    world: &MachineWorld,
) -> Result<Draft, ReconcileError> {
    if let Some(record) = &mut draft.status.launch {
        record.instance_id = Some(instance.id.clone());
    }
    draft = store(draft, world).await?;
    world.memory.launched(draft.uid());
    Ok(draft)
}

/// An instance with this machine's tags is there already: a restored or moved object, or one whose record was lost.
async fn adopt(
    mut draft: Draft,
    found: Vec<Instance>,
    prepared: &Prepared,
    mut request: LaunchRequest,
    world: &MachineWorld,
) -> Result<Draft, ReconcileError> {
    let [instance] = found.as_slice() else {
        let ids: Vec<&str> = found.iter().map(|instance| instance.id.as_str()).collect();
        let message = format!(
            "several instances carry the tags of this machine: {}: terminate all but one; nothing is launched",
            ids.join(", ")
        );
        return Ok(draft.stop(
            ConditionType::InstanceReady.is_false(Reason::Conflict, message),
            Next::Retry,
        ));
    };
    let attempt = draft.status.launch.as_ref().map_or(0, |record| record.attempt).max(1);
    request.subnet_id = instance.subnet_id.clone().unwrap_or(request.subnet_id);
    request.client_token = instance
        .client_token
        .clone()
        .filter(|token| !token.is_empty())
        .unwrap_or(request.client_token);
    draft.status.launch = Some(launch::record(attempt, &request, world.kubernetes.now()));
    let mut in_use = prepared.in_use(&draft.machine, &request);
    in_use.availability_zone = Some(instance.availability_zone.clone());
    // Which groups the instance has is not known here; the wanted ones would be a guess.
    in_use.security_group_ids.clear();
    draft.status.network = Some(in_use);
    launched(draft, instance, world).await
}

fn lookup_failed(draft: Draft, error: &CloudError) -> Draft {
    let reason = error.class.reason();
    let message = format!("whether an instance of this machine exists could not be looked up: {error}");
    draft.stop(
        ConditionType::InstanceReady.is_false(reason, message),
        retry::after(error),
    )
}

fn not_launched(mut draft: Draft, error: &CloudError, progress: Progress) -> Draft {
    if progress == Progress::Refused {
        // Nothing was launched there, and the record without a network says so from here on.
        draft.status.network = None;
    }
    let reason = match error.class {
        ErrorClass::NoAnswer | ErrorClass::Throttled => Reason::Launching,
        ErrorClass::IdempotentParameterMismatch => Reason::LaunchUnconfirmed,
        class => class.reason(),
    };
    draft.stop(
        ConditionType::InstanceReady.is_false(reason, error.to_string()),
        retry::after(error),
    )
}

/// Writes the status as the draft has it, refused if the object has changed meanwhile.
async fn store(mut draft: Draft, world: &MachineWorld) -> Result<Draft, ReconcileError> {
    draft.machine = world.kubernetes.write_status(&draft.machine, &draft.status).await?;
    Ok(draft)
}

/// Terminates an instance and says so.
pub(super) async fn terminate(mut draft: Draft, cloud: &dyn MachineCloud, instance_id: &str) -> Draft {
    match cloud.terminate(&draft.key(), instance_id).await {
        Ok(()) => {
            draft.events.push(Notice::normal(
                "SuccessfulTerminate",
                format!("terminating instance {instance_id}"),
            ));
            let message = format!("instance {instance_id} is being terminated");
            draft.stop(
                ConditionType::InstanceReady.is_false(Reason::Terminating, message),
                Next::AwaitChange,
            )
        }
        Err(error) => {
            let reason = error.class.reason();
            draft.stop(
                ConditionType::InstanceReady.is_false(reason, error.to_string()),
                retry::after(&error),
            )
        }
    }
}
