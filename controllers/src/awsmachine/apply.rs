//! Executes a launch plan, each result stored before the next call.

use capa_api::conditions::{ConditionType, Reason, find};
use capa_api::core::Machine;
use capa_api::meta;
use capa_api::network::NetworkSubnet;
use capa_cloud::{CloudError, ErrorClass, Instance, LaunchRequest, MachineCloud};
use capa_runtime::reconcile::{EventDraft, Next, ReconcileError};

use super::launch::{self, Prepared};
use super::memory::Place;
use super::plan::{self, Adoption, LaunchPlan, LookUp, Progress, Then};
use super::{MachineContext, MachineScope, lookup};
use crate::retry;

/// What is said of an object that came with our finalizer and without a launch record.
pub(super) const UNRECORDED: &str =
    "the object came without its launch record (restored or moved): an instance that it may have is looked for first";

pub(super) async fn launch(
    mut scope: MachineScope,
    owner: &Machine,
    prepared: &Prepared,
    request: LaunchRequest,
    plan: LaunchPlan,
    context: &MachineContext,
) -> Result<MachineScope, ReconcileError> {
    if plan.then != Then::LookOnly
        && let Err(error) = prepared.access.cloud.launch_turn(&scope.key())
    {
        // What waits for its turn is no open attempt: nothing is looked up or recorded yet.
        let waiting = ConditionType::InstanceReady.is_false(Reason::Launching, error.to_string());
        return Ok(scope.stop(waiting, retry::after(&error)));
    }
    if plan.look_up != LookUp::No {
        let owner_name = owner.metadata.name.as_deref().unwrap_or_default();
        let tags = lookup::tagged(&prepared.cluster_tag, scope.namespace(), owner_name);
        let open_token = open_token(&scope).map(str::to_owned);
        let token = open_token.as_deref().filter(|_| plan.look_up == LookUp::ByTagsAndToken);
        match lookup::find(prepared.access.cloud.as_ref(), &tags, token).await {
            Err(error) => return Ok(lookup_failed(scope, &error)),
            Ok(found) => match plan::adopt(&found, open_token.as_deref()) {
                Adoption::Nothing => {}
                Adoption::One(instance) => {
                    return Box::pin(adopt(scope, &instance, prepared, request, context)).await;
                }
                Adoption::Several(ids) => return Ok(conflict(scope, &ids)),
            },
        }
    }
    if plan.then == Then::LookOnly {
        return Ok(unconfirmed(scope, &request, context));
    }
    if !meta::has_annotation(&scope.machine.metadata, meta::BLOCK_MOVE_ANNOTATION) {
        // The object may not leave for another management cluster while only this one knows of the attempt.
        scope.machine = context.kubernetes.block_move(&scope.machine, true).await?;
    }
    scope = write_record(scope, prepared, &request, plan.then, context).await?;
    call(scope, &request, prepared, context).await
}

/// The token of the attempt that may have launched.
pub(super) fn open_token(scope: &MachineScope) -> Option<&str> {
    let record = scope
        .status
        .launch
        .as_ref()
        .filter(|_| scope.status.has_open_attempt())?;
    Some(record.request.as_ref()?.client_token.as_str())
}

/// How far this process knows the attempt to have come. Once another process has claimed the record, its call may have
/// launched whatever ours came to.
pub(super) fn progress(scope: &MachineScope, client_token: &str, context: &MachineContext) -> Progress {
    let record = scope.status.launch.as_ref();
    let holder = record.and_then(|record| record.holder.as_deref());
    if holder == Some(context.memory.holder()) {
        context.memory.attempt(scope.uid(), client_token).progress
    } else {
        Progress::Unknown
    }
}

/// The answer to the call of the recorded attempt that could not be recorded yet. One to an earlier attempt says nothing
/// of this one: that instance is found by its tags.
pub(super) fn own_answer(scope: &MachineScope, context: &MachineContext) -> Option<Instance> {
    let answer = context.memory.answer(scope.uid())?;
    (answer.client_token.as_deref() == open_token(scope)).then_some(answer)
}

fn unconfirmed(scope: MachineScope, request: &LaunchRequest, context: &MachineContext) -> MachineScope {
    let now = context.kubernetes.now();
    context.memory.found_nothing(scope.uid(), &request.client_token, now);
    let message = match scope.status.launch {
        Some(_) => "a launch was asked for without an answer, and no instance shows yet: it is looked up, not repeated",
        None => UNRECORDED,
    };
    let unconfirmed = ConditionType::InstanceReady.is_false(Reason::LaunchUnconfirmed, message);
    scope.stop(unconfirmed, Next::Requeue(launch::lookup_interval(context)))
}

/// Makes sure that the API server has the record that the call is made from, and has it from this process. The time that
/// counts is the one before the server is asked.
async fn write_record(
    mut scope: MachineScope,
    prepared: &Prepared,
    request: &LaunchRequest,
    then: Then,
    context: &MachineContext,
) -> Result<MachineScope, ReconcileError> {
    let (asked_at, token) = (context.kubernetes.now(), &request.client_token);
    match then {
        Then::Record(attempt) => {
            let before = scope.status.launch.as_ref();
            scope.status.launch = Some(launch::record(
                attempt,
                request,
                context.memory.holder(),
                asked_at,
                before,
            ));
            scope.status.network = Some(prepared.in_use(&scope.machine, request));
            scope = store(scope, context).await?;
            let account_id = &prepared.access.account_id;
            context.memory.recorded(scope.uid(), token, account_id, asked_at);
        }
        Then::Claim => {
            if let Some(record) = &mut scope.status.launch {
                record.holder = Some(context.memory.holder().to_owned());
            }
            scope = store(scope, context).await?;
            context.memory.claimed(scope.uid(), token, asked_at);
        }
        Then::Verify => {
            context.kubernetes.confirm(&scope.machine).await?;
            context.memory.confirmed(scope.uid(), token, asked_at);
        }
        Then::Repeat | Then::LookOnly => {}
    }
    Ok(scope)
}

/// Makes the recorded call. What is remembered of it holds at every moment: the pass may be cancelled while the call is
/// under way, and the answer may come back in vain because the object has changed meanwhile.
async fn call(
    scope: MachineScope,
    request: &LaunchRequest,
    prepared: &Prepared,
    context: &MachineContext,
) -> Result<MachineScope, ReconcileError> {
    let (uid, token) = (scope.uid().to_owned(), &request.client_token);
    let before = context.memory.attempt(&uid, token);
    let now = context.kubernetes.now();
    if !plan::is_fresh(before.confirmed_at, now, &context.timing) {
        // The process stood still since: another one may have taken over and have decided that nothing was launched.
        let message = "the launch is asked for as soon as its record is known to stand";
        let update = ConditionType::InstanceReady.is_false(Reason::Launching, message);
        return Ok(scope.stop(update, Next::Retry));
    }
    context.memory.called(&uid, token, Progress::Unanswered, now);
    match prepared.access.cloud.launch(&scope.key(), request).await {
        Ok(instance) => {
            context.memory.answered(&uid, instance.clone());
            let subnet = subnet_of(request, prepared);
            context.memory.found_capacity(&launch::pool(&scope, prepared), &subnet);
            Box::pin(answered(scope, &instance, context)).await
        }
        Err(error) => {
            let progress = before.progress.after(error.class);
            let now = context.kubernetes.now();
            context.memory.called(&uid, token, progress, now);
            if error.class == ErrorClass::InsufficientCapacity {
                let place = short_place(&error, subnet_of(request, prepared));
                context
                    .memory
                    .refused_capacity(&launch::pool(&scope, prepared), place, now);
            }
            Ok(not_launched(scope, &error, progress, request, prepared))
        }
    }
}

/// The subnet of a call, with its zone where that is known.
fn subnet_of(request: &LaunchRequest, prepared: &Prepared) -> NetworkSubnet {
    NetworkSubnet {
        id: request.subnet_id.clone(),
        availability_zone: prepared.zone_of(&request.subnet_id),
        ..NetworkSubnet::default()
    }
}

/// What EC2 lacks capacity in: hosts are of a zone, addresses of a subnet.
fn short_place(error: &CloudError, subnet: NetworkSubnet) -> Place {
    let full = error.code.as_deref() == Some("InsufficientFreeAddressesInSubnet");
    match subnet.availability_zone {
        Some(zone) if !full => Place::Zone(zone),
        _ => Place::Subnet(subnet.id),
    }
}

/// Stores the id of an instance that this machine's own call has launched, and tells of it: not before it is stored,
/// because the pass ends where that fails, and the one that repeats it would not tell again.
pub(super) async fn answered(
    scope: MachineScope,
    instance: &Instance,
    context: &MachineContext,
) -> Result<MachineScope, ReconcileError> {
    let mut scope = launched(scope, instance, context).await?;
    scope.events.push(EventDraft::normal(
        "SuccessfulCreate",
        format!("launched instance {}", instance.id),
    ));
    Ok(scope)
}

/// Stores the id of the attempt's instance.
async fn launched(
    mut scope: MachineScope,
    instance: &Instance,
    context: &MachineContext,
) -> Result<MachineScope, ReconcileError> {
    if let Some(record) = &mut scope.status.launch {
        record.instance_id = Some(instance.id.clone());
        // A call may have been repeated long after its record was written, and the instance is no older than its launch.
        if let (Some(request), Some(launched_at)) = (&mut record.request, instance.launch_time) {
            request.requested_at.0 = request.requested_at.0.max(launched_at);
        }
    }
    scope = store(scope, context).await?;
    context.memory.launched(scope.uid());
    Ok(scope)
}

/// An instance of this machine is there already: that of an attempt whose answer was lost, or one of a restored or moved
/// object, or one whose record was lost.
async fn adopt(
    mut scope: MachineScope,
    instance: &Instance,
    prepared: &Prepared,
    mut request: LaunchRequest,
    context: &MachineContext,
) -> Result<MachineScope, ReconcileError> {
    if open_token(&scope).is_some_and(|token| instance.client_token.as_deref() == Some(token)) {
        return answered(scope, instance, context).await;
    }
    request.subnet_id = instance.subnet_id.clone().unwrap_or(request.subnet_id);
    request.client_token = instance
        .client_token
        .clone()
        .filter(|token| !token.is_empty())
        .unwrap_or(request.client_token);
    let before = scope.status.launch.as_ref();
    let recorded = before.map_or(0, |record| record.attempt);
    let attempt = attempt_of(&request.client_token, scope.uid())
        .unwrap_or(recorded)
        .max(1);
    let since = instance.launch_time.unwrap_or_else(|| context.kubernetes.now());
    scope.status.launch = Some(launch::record(
        attempt,
        &request,
        context.memory.holder(),
        since,
        before,
    ));
    let mut in_use = prepared.in_use(&scope.machine, &request);
    in_use.availability_zone = Some(instance.availability_zone.clone());
    // Which groups the instance has is not known here; the wanted ones would be a guess.
    in_use.security_group_ids.clear();
    scope.status.network = Some(in_use);
    launched(scope, instance, context).await
}

/// The number of the attempt that a token of this object belongs to.
pub(super) fn attempt_of(client_token: &str, uid: &str) -> Option<i32> {
    client_token.strip_prefix(uid)?.strip_prefix('-')?.parse().ok()
}

fn conflict(scope: MachineScope, ids: &[String]) -> MachineScope {
    let message = format!(
        "several instances carry the tags of this machine: {}: terminate all but one; nothing is launched",
        ids.join(", ")
    );
    scope.stop(
        ConditionType::InstanceReady.is_false(Reason::Conflict, message),
        Next::Retry,
    )
}

fn lookup_failed(scope: MachineScope, error: &CloudError) -> MachineScope {
    let reason = error.class.reason();
    let message = format!("whether an instance of this machine exists could not be looked up: {error}");
    scope.stop(
        ConditionType::InstanceReady.is_false(reason, message),
        retry::after(error),
    )
}

fn not_launched(
    mut scope: MachineScope,
    error: &CloudError,
    progress: Progress,
    request: &LaunchRequest,
    prepared: &Prepared,
) -> MachineScope {
    if progress == Progress::Refused {
        // Nothing was launched there, and the record without a network says so from here on.
        scope.status.network = None;
    }
    let (reason, message) = match error.class {
        ErrorClass::NoAnswer | ErrorClass::Throttled => (Reason::Launching, error.to_string()),
        ErrorClass::IdempotentParameterMismatch => (Reason::LaunchUnconfirmed, error.to_string()),
        ErrorClass::InsufficientCapacity => {
            let zone = prepared.zone_of(&request.subnet_id);
            let message = format!(
                "no capacity for instance type {} in {}: {error}",
                request.instance_type,
                zone.as_deref().unwrap_or(&request.subnet_id)
            );
            (Reason::InsufficientCapacity, message)
        }
        class => (class.reason(), error.to_string()),
    };
    scope.stop(
        ConditionType::InstanceReady.is_false(reason, message),
        retry::after(error),
    )
}

/// The instance of the recorded attempt ended before it ran: the record stands without id and network, like that of a
/// refused one.
pub(super) fn give_up(scope: &mut MachineScope) {
    if let Some(record) = &mut scope.status.launch {
        record.instance_id = None;
        record.failed_instances = Some(record.failed_instances.unwrap_or_default().saturating_add(1));
    }
    scope.status.network = None;
}

/// Writes the status as the scope has it, refused if the object has changed meanwhile.
pub(super) async fn store(mut scope: MachineScope, context: &MachineContext) -> Result<MachineScope, ReconcileError> {
    scope.machine = context.kubernetes.write_status(&scope.machine, &scope.status).await?;
    Ok(scope)
}

/// Has an instance terminated and says so. Should nothing be heard of it, it is submitted again.
pub(super) async fn terminate(
    scope: MachineScope,
    cloud: &dyn MachineCloud,
    instance_id: &str,
    context: &MachineContext,
) -> MachineScope {
    match cloud.terminate(&scope.key(), instance_id).await {
        Ok(()) => scope.stop(
            ConditionType::InstanceReady.is_false(Reason::Terminating, submitted(instance_id)),
            Next::Requeue(context.timing.listing_interval),
        ),
        Err(error) => {
            let reason = error.class.reason();
            scope.stop(
                ConditionType::InstanceReady.is_false(reason, error.to_string()),
                retry::after(&error),
            )
        }
    }
}

/// Tells by an event that a termination of ours took effect.
pub(super) fn terminating(mut scope: MachineScope, instance_id: &str) -> MachineScope {
    let conditions = scope.machine.status.as_ref().map(|status| status.conditions.as_slice());
    let said = find(conditions.unwrap_or_default(), ConditionType::InstanceReady);
    // More may be said beside it, of an annotation for instance.
    if said.is_some_and(|condition| condition.message.contains(&submitted(instance_id))) {
        scope.events.push(EventDraft::normal(
            "SuccessfulTerminate",
            format!("terminated instance {instance_id}"),
        ));
    }
    scope
}

fn submitted(instance_id: &str) -> String {
    format!("the termination of instance {instance_id} is submitted")
}
