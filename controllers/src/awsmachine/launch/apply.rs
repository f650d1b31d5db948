//! Executes a launch plan. Each result is stored before the next call.

use std::num::NonZeroU32;

use capa_api::conditions::{ConditionType, ConditionUpdate, Reason};
use capa_api::machine::{InstanceState, LaunchRecord, RecordedRequest};
use capa_api::network::NetworkSubnet;
use capa_cloud::lookups::InstanceLookup;
use capa_cloud::{CapacityReservation, CloudError, ErrorClass, Instance, LaunchRequest};
use capa_runtime::reconcile::{EventDraft, Next};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::adoption::{Adoption, adopt};
use super::conflict;
use super::plan::{LaunchStep, LookUp, is_fresh};
use super::prepare::{LaunchDecision, first_number, pool};
use super::progress::Progress;
use super::record::LaunchEvent;
use super::turn;
use crate::awsmachine::account;
use crate::awsmachine::attempt;
use crate::awsmachine::blocked::{Blocked, FlowError, earlier};
use crate::awsmachine::context::MachineContext;
use crate::awsmachine::hosts::{self, WantedHost};
use crate::awsmachine::locate;
use crate::awsmachine::lookup;
use crate::awsmachine::memory::CapacityLocation;
use crate::awsmachine::ownership::{AdoptAnnotation, attempt_number};
use crate::awsmachine::read;
use crate::awsmachine::refusal;
use crate::awsmachine::scope::{MachineScope, adoption_event, search_token};
use crate::awsmachine::secrets;
use crate::awsmachine::shown;
use crate::awsmachine::target_access::{self, TargetGate};
use crate::awsmachine::write;

/// Looks for an instance where the plan says so, else launches one.
pub(super) async fn apply(
    scope: &mut MachineScope,
    mut decision: LaunchDecision,
    context: &MachineContext,
) -> Result<(), FlowError> {
    if let Some(instance) = find_before(scope, &decision, context).await? {
        return Box::pin(record_found(scope, &instance, &decision, context)).await;
    }
    // The AWSMachine may not leave for another management cluster while only this one knows of the attempt.
    write::block_move(scope, &decision.prepared.location.account_id, context).await?;
    use_host(scope, &mut decision, context).await?;
    write_record(scope, &decision, context).await?;
    let prepared = &decision.prepared;
    if let Some(of_launch) = &prepared.secrets {
        secrets::store(scope, of_launch, &prepared.location, context).await?;
    }
    call(scope, &decision, context).await
}

/// Takes the turn of the machine, and looks for its instance where the plan says so.
///
/// # Errors
/// Nothing is launched in this pass.
async fn find_before(
    scope: &MachineScope,
    decision: &LaunchDecision,
    context: &MachineContext,
) -> Result<Option<Box<Instance>>, FlowError> {
    let LaunchDecision { prepared, plan, .. } = decision;
    let hold = match (hold_of_attempt(scope, decision, context), plan.look_up) {
        (Some(TargetGate::Refused(blocked)), LookUp::No) => return Err(blocked.into()),
        (hold, _) => hold,
    };
    // A refused attempt takes no turn: the machine only looks for an instance that is there already.
    let takes_turn = plan.step != LaunchStep::LookOnly && !matches!(hold, Some(TargetGate::Refused(_)));
    let refused = refused_kind(decision, context).filter(|_| takes_turn);
    let shared = shared_lookup(scope, decision);
    if takes_turn && refused.is_none() {
        turn::take(scope, decision, shared.as_ref(), context)?;
    }
    if plan.look_up != LookUp::No {
        match look_up(scope, decision, shared.as_ref(), context).await {
            Ok(None) => {}
            Ok(Some(instance)) => {
                context.memory.leave_kind(prepared.kind, scope.uid());
                return Ok(Some(instance));
            }
            Err(waits @ FlowError::Waits(..)) => return Err(waits),
            Err(error) => {
                context.memory.leave_kind(prepared.kind, scope.uid());
                return Err(error);
            }
        }
    }
    if let Some(condition) = refused {
        return Err(refusal::shown_of_kind(scope, prepared.kind, condition, context).into());
    }
    if let Some(hold) = hold {
        context.memory.leave_kind(prepared.kind, scope.uid());
        return Err(hold.blocked().into());
    }
    if plan.step == LaunchStep::LookOnly {
        return Err(unconfirmed(scope, decision, context).into());
    }
    Ok(None)
}

/// Puts a new attempt on the Dedicated Host that the machine needs. An attempt that is recorded already has its host.
async fn use_host(
    scope: &mut MachineScope,
    decision: &mut LaunchDecision,
    context: &MachineContext,
) -> Result<(), FlowError> {
    if !matches!(decision.plan.step, LaunchStep::Record(_)) {
        return Ok(());
    }
    let LaunchDecision { prepared, request, .. } = decision;
    let wanted = WantedHost {
        subnet_id: &request.subnet_id,
        zone: prepared.zone_of(&request.subnet_id),
        tags: &request.tags,
        pool: pool(scope, prepared),
        first_number: match scope.status.launch {
            Some(LaunchRecord::Planned) => NonZeroU32::MIN,
            _ => first_number(scope, context),
        },
    };
    match hosts::place_on_host(scope, &wanted, &prepared.location, context).await {
        Ok(Some(host)) => request.options.host = Some(host),
        Ok(None) => {}
        Err(error) => {
            context.memory.leave_kind(prepared.kind, scope.uid());
            return Err(error);
        }
    }
    Ok(())
}

/// The refusal of a new attempt, if EC2 refuses all launches of its kind. An existing instance of the machine is
/// recorded in spite of it.
fn refused_kind(decision: &LaunchDecision, context: &MachineContext) -> Option<ConditionUpdate> {
    let LaunchDecision { prepared, plan, .. } = decision;
    let now = context.kubernetes.uptime();
    let refused = context.memory.refused_kind(prepared.kind, now, &context.timing);
    let (condition, _) = refused.filter(|_| matches!(plan.step, LaunchStep::Record(_)))?;
    Some(condition)
}

/// The reason to hold a new attempt back. An existing instance of the machine is recorded in spite of it.
fn hold_of_attempt(scope: &MachineScope, decision: &LaunchDecision, context: &MachineContext) -> Option<TargetGate> {
    match decision.plan.step {
        LaunchStep::Record(_) => target_access::launch_hold(scope, &decision.prepared.location, context),
        LaunchStep::Claim | LaunchStep::Verify | LaunchStep::Repeat | LaunchStep::LookOnly => None,
    }
}

/// The lookup that the machine shares with others. A lookup that is to prove an absence is the machine's own, because
/// the time of its call counts.
fn shared_lookup(scope: &MachineScope, decision: &LaunchDecision) -> Option<InstanceLookup> {
    let LaunchDecision {
        prepared,
        plan,
        request,
    } = decision;
    if plan.look_up != LookUp::ByTags || plan.step == LaunchStep::LookOnly {
        return None;
    }
    let tags = scope.tags(&prepared.location.cluster_tag);
    // The number of an attempt that follows no record is the age of the AWSMachine, which no two passes share.
    let follows_record = scope.status.launch.as_ref().and_then(LaunchRecord::request).is_some();
    if follows_record {
        tags.lookup(&request.client_token)
    } else {
        tags.lookup(&search_token(&scope.machine))
    }
}

/// Looks for an instance of the machine. One that carries its tags and is not proven to be its own stops the launch,
/// unless the annotation `adopt-instance` says what to do.
async fn look_up(
    scope: &MachineScope,
    decision: &LaunchDecision,
    shared: Option<&InstanceLookup>,
    context: &MachineContext,
) -> Result<Option<Box<Instance>>, FlowError> {
    let LaunchDecision { prepared, plan, .. } = decision;
    let wish = AdoptAnnotation::of(&scope.machine);
    if let AdoptAnnotation::Unreadable(value) = wish {
        return Err(conflict::unreadable(value).into());
    }
    let (cloud, cluster_tag) = (prepared.location.cloud.as_ref(), prepared.location.cluster_tag.as_str());
    let token = attempt::open_token(scope).filter(|_| plan.look_up == LookUp::ByTagsAndToken);
    let failed = |error: CloudError| lookup::failed(&error);
    let tags = scope.tags(cluster_tag);
    let found = match shared {
        Some(wanted) => lookup::find_with_others(cloud, &scope.key(), &tags, wanted, &context.timing)?,
        None => lookup::find(cloud, &tags, token).await.map_err(failed)?,
    };
    let judged: Vec<_> = found
        .into_iter()
        .map(|instance| {
            let ownership = read::ownership(scope, &instance, cluster_tag, context);
            (instance, ownership)
        })
        .collect();
    match (adopt(&judged, attempt::open_request(scope)), wish) {
        (Adoption::One(instance), _) => return Ok(Some(instance)),
        (Adoption::Several(ids), _) => return Err(conflict::several(&ids).into()),
        (
            Adoption::Foreign(ids),
            AdoptAnnotation::Absent | AdoptAnnotation::Instance(_) | AdoptAnnotation::Unreadable(_),
        ) => {
            note_empty_lookup(scope, decision, context);
            return Err(conflict::foreign(&ids, conflict::refused_adoption(&judged, wish)).into());
        }
        (Adoption::Nothing, AdoptAnnotation::Instance(id)) => {
            // The instance of the annotation may have been adopted once, and be gone since.
            let wanted = lookup::by_id(cloud, id).await.map_err(failed)?;
            match wanted {
                Some(instance) if !instance.state.has_ended() => {
                    return Err(conflict::untagged(id, &scope.tags(cluster_tag)).into());
                }
                None if may_live_elsewhere(scope) => {
                    note_empty_lookup(scope, decision, context);
                    let location = &prepared.location;
                    return Err(conflict::unseen(id, &location.region, &location.account_id).into());
                }
                Some(_) | None => {}
            }
        }
        (Adoption::Foreign(_), AdoptAnnotation::LaunchNew) | (Adoption::Nothing, _) => {}
    }
    Ok(None)
}

/// Looks for the instance of a call that may have launched one, where nothing can be launched at the moment: what the
/// launch needed may be gone by now.
///
/// # Errors
/// No instance shows, and what blocks the launch is told.
pub(super) async fn find_open(
    scope: &mut MachineScope,
    blocked: Blocked,
    context: &MachineContext,
) -> Result<(), FlowError> {
    let open = attempt::open_token(scope).map(str::to_owned);
    let was_called = |token: &String| {
        let progress = attempt::progress(scope, token, context);
        !matches!(progress, Progress::Recorded | Progress::Refused)
    };
    let Some(token) = open.filter(|token| was_called(token) && !blocked.is_throttled()) else {
        return Err(blocked.into());
    };
    // Nothing else would wake the machine for its instance.
    let again = Next::Requeue(attempt::lookup_interval(&context.timing));
    let blocked = Blocked {
        next: earlier(blocked.next, again),
        ..blocked
    };
    let location = match locate::recorded_or_resolved(scope, context).await {
        Ok(location) => location,
        Err(FlowError::Blocked(_)) => return Err(blocked.into()),
        Err(failed) => return Err(failed),
    };
    match lookup::by_token(location.cloud.as_ref(), &token).await {
        Ok(Some(instance)) => record_answer(scope, &instance, context).await,
        // What blocks the launch says more.
        Ok(None) | Err(_) => Err(blocked.into()),
    }
}

/// Whether an instance that does not show in the account of the credentials may live in another one: the status was
/// lost, and with it the account.
fn may_live_elsewhere(scope: &MachineScope) -> bool {
    let is_lost = matches!(scope.status.launch, None | Some(LaunchRecord::Unreadable(_)));
    is_lost && account::recorded(scope).is_none()
}

/// Counts a lookup that did not show the instance of an attempt whose absence is to be proven.
fn note_empty_lookup(scope: &MachineScope, decision: &LaunchDecision, context: &MachineContext) {
    if decision.plan.step == LaunchStep::LookOnly {
        let (token, now) = (&decision.request.client_token, context.kubernetes.uptime());
        context.memory.found_nothing(scope.uid(), token, now);
    }
}

fn unconfirmed(scope: &MachineScope, decision: &LaunchDecision, context: &MachineContext) -> Blocked {
    note_empty_lookup(scope, decision, context);
    let message = attempt::unconfirmed(scope);
    let unconfirmed = ConditionType::InstanceReady.is_false(Reason::LaunchUnconfirmed, message);
    Blocked::new(unconfirmed, Next::Requeue(attempt::lookup_interval(&context.timing)))
}

/// Makes sure that the API server has the record that the call is made from, and has it from this process. The time
/// that counts is the one before the server is asked.
async fn write_record(
    scope: &mut MachineScope,
    decision: &LaunchDecision,
    context: &MachineContext,
) -> Result<(), FlowError> {
    let LaunchDecision { prepared, request, .. } = decision;
    let (asked_at, token) = (context.now(), &request.client_token);
    let holder = context.memory.holder().to_owned();
    match decision.plan.step {
        LaunchStep::Record(number) => {
            let request_record = recorded(request, asked_at.time);
            scope.record_launch(LaunchEvent::Requested {
                number,
                request: request_record,
                holder,
            })?;
            scope.status.network = Some(prepared.in_use(&scope.machine, request));
            scope.status.applied_tags = Some(prepared.applied_tags(&scope.machine));
            scope.status.applied_security_groups = Some(prepared.applied_groups(&scope.machine));
            scope
                .status
                .applied_private_dns_name
                .clone_from(&scope.machine.spec.private_dns_name);
            let mut first_record = None;
            if let Some(of_launch) = &prepared.secrets {
                first_record = Some(of_launch).filter(|of_launch| !secrets::is_recorded(scope, of_launch));
                let valid_from = prepared.user_data.valid_from();
                secrets::record(scope, of_launch, valid_from, &prepared.location, context).await?;
            }
            write::store(scope, context).await?;
            if let Some(of_launch) = first_record {
                secrets::nothing_is_stored(scope, of_launch, &prepared.location, context);
            }
            let account_id = &prepared.location.account_id;
            context.memory.recorded(scope.uid(), token, account_id, asked_at);
        }
        LaunchStep::Claim if attempt::is_held(scope, context) => {
            // The answer to the write of the record was lost. An equal status would not be written again.
            context.kubernetes.confirm(&scope.machine).await?;
            context.memory.claimed(scope.uid(), token, asked_at);
        }
        LaunchStep::Claim => {
            scope.record_launch(LaunchEvent::Claimed { holder })?;
            write::store(scope, context).await?;
            context.memory.claimed(scope.uid(), token, asked_at);
        }
        LaunchStep::Verify => {
            context.kubernetes.confirm(&scope.machine).await?;
            context.memory.confirmed(scope.uid(), token, asked_at);
        }
        LaunchStep::Repeat | LaunchStep::LookOnly => {}
    }
    Ok(())
}

/// The call as it is recorded.
fn recorded(request: &LaunchRequest, requested_at: Timestamp) -> RecordedRequest {
    RecordedRequest {
        client_token: request.client_token.clone(),
        subnet_id: request.subnet_id.clone(),
        image_id: request.image_id.clone(),
        instance_type: request.instance_type.clone(),
        security_group_ids: request.security_group_ids.clone(),
        parameters_hash: request.parameters_hash(),
        requested_at: Time(requested_at),
    }
}

/// Makes the recorded call. What is remembered of it holds at every moment: the pass may be cancelled while the call is
/// under way, and its answer cannot be stored if the AWSMachine has changed meanwhile.
async fn call(scope: &mut MachineScope, decision: &LaunchDecision, context: &MachineContext) -> Result<(), FlowError> {
    let LaunchDecision { prepared, request, .. } = decision;
    let (uid, token) = (scope.uid().to_owned(), &request.client_token);
    let before = context.memory.attempt(&uid, token);
    let now = context.now();
    if !is_fresh(before.confirmed_at, now, &context.timing) {
        // The process stood still since: another one may have taken over and have decided that nothing was launched.
        let message = "EC2 is asked once the API server has confirmed the launch record";
        let waiting = ConditionType::InstanceReady.is_false(Reason::Launching, message);
        return Err(Blocked::new(waiting, Next::Retry).into());
    }
    context.memory.called(&uid, token, Progress::Unanswered, now.uptime);
    match prepared.location.cloud.launch(&scope.key(), request).await {
        Ok(instance) => {
            context.memory.answered(&uid, instance.clone());
            context.memory.accept_kind(prepared.kind, now.uptime);
            let subnet = subnet_of(decision);
            context.memory.found_capacity(&pool(scope, prepared), &subnet);
            Box::pin(record_answer(scope, &instance, context)).await
        }
        Err(error) => {
            let progress = before.progress.after(error.class);
            let now = context.kubernetes.uptime();
            context.memory.called(&uid, token, progress, now);
            if error.class == ErrorClass::InsufficientCapacity {
                let place = short_place(&error, subnet_of(decision));
                let pool = pool(scope, prepared);
                context.memory.refused_capacity(&pool, place, Some(&error), now);
            }
            if progress == Progress::Refused {
                hosts::give_up(scope, &error, context);
                scope.record_launch(LaunchEvent::Refused)?;
            }
            let blocked = not_launched(scope, &error, decision);
            Err(turn::failed(scope, decision, (&error, progress), blocked, context).into())
        }
    }
}

/// The subnet of a call, with its zone where that is known.
fn subnet_of(decision: &LaunchDecision) -> NetworkSubnet {
    let subnet_id = &decision.request.subnet_id;
    NetworkSubnet {
        id: subnet_id.clone(),
        availability_zone: decision.prepared.zone_of(subnet_id).map(str::to_owned),
        ..NetworkSubnet::default()
    }
}

/// The place that lacks capacity: hosts are of a zone, addresses of a subnet.
fn short_place(error: &CloudError, subnet: NetworkSubnet) -> CapacityLocation {
    let full = error.code.as_deref() == Some("InsufficientFreeAddressesInSubnet");
    match subnet.availability_zone {
        Some(zone) if !full => CapacityLocation::Zone(zone),
        _ => CapacityLocation::Subnet(subnet.id),
    }
}

/// Stores the id of an instance that this machine's own call has launched, and then tells of it by an event: the pass
/// ends where storing fails, and the pass that repeats it would tell again.
pub(super) async fn record_answer(
    scope: &mut MachineScope,
    instance: &Instance,
    context: &MachineContext,
) -> Result<(), FlowError> {
    scope.record_launch(LaunchEvent::answered(instance))?;
    if instance.state == InstanceState::Pending {
        // The usual answer: the pass, which follows the instance next, has nothing to add to it.
        shown::show(scope, instance);
        scope.set_condition(ConditionType::IdentityReady.is_true(Reason::Ready));
        scope.set_condition(ConditionType::NetworkUpToDate.is_true(Reason::Ready));
        scope.set_condition(shown::instance_ready(instance));
    }
    store_instance(scope, context).await?;
    let message = format!("launched instance {}", instance.id);
    scope
        .events
        .push(EventDraft::normal("SuccessfulCreate", message).recorded());
    Ok(())
}

/// Stores the record with its instance. The attempt is over then.
async fn store_instance(scope: &mut MachineScope, context: &MachineContext) -> Result<(), FlowError> {
    write::store_with_conditions(scope, context).await?;
    context.memory.launched(scope.uid());
    Ok(())
}

/// Records an instance of this machine that exists already: that of an attempt whose answer was lost, or one of a
/// restored or moved AWSMachine, or one whose record was lost.
async fn record_found(
    scope: &mut MachineScope,
    instance: &Instance,
    decision: &LaunchDecision,
    context: &MachineContext,
) -> Result<(), FlowError> {
    let open_token = attempt::open_token(scope);
    if open_token.is_some() && instance.client_token.as_deref() == open_token {
        return record_answer(scope, instance, context).await;
    }
    let mut request = decision.request.clone();
    request.subnet_id = instance.subnet_id.clone().unwrap_or(request.subnet_id);
    let token = instance.client_token.clone().filter(|token| !token.is_empty());
    request.client_token = token.unwrap_or(request.client_token);
    let of_record = scope.status.launch.as_ref().map_or(0, LaunchRecord::attempt_number);
    let number = attempt_number(&request.client_token, scope.uid()).unwrap_or(of_record);
    let since = instance.launch_time.unwrap_or_else(|| context.kubernetes.now());
    scope.record_launch(LaunchEvent::Adopted {
        number: NonZeroU32::new(number).unwrap_or(NonZeroU32::MIN),
        request: recorded(&request, since),
        holder: context.memory.holder().to_owned(),
        instance_id: instance.id.clone(),
    })?;
    let mut in_use = decision.prepared.in_use(&scope.machine, &request);
    in_use.availability_zone = Some(instance.availability_zone.clone());
    // The security groups of the instance are not known here; those of the spec would be a guess.
    in_use.security_group_ids.clear();
    scope.status.network = Some(in_use);
    let format = read::bootstrap_format(scope, context).await;
    secrets::recover(
        scope,
        &request.client_token,
        format,
        decision.prepared.bootstrap_bucket(),
    );
    store_instance(scope, context).await?;
    scope.events.push(adoption_event(&instance.id).recorded());
    Ok(())
}

/// Says why the call has launched nothing, as far as this process knows.
fn not_launched(scope: &MachineScope, error: &CloudError, decision: &LaunchDecision) -> Blocked {
    let LaunchDecision { prepared, request, .. } = decision;
    let region = &prepared.location.region;
    let refused = prepared.refused(&scope.machine, request, error);
    let (reason, message) = match error.class {
        ErrorClass::NoAnswer | ErrorClass::Throttled => (Reason::Launching, format!("{error}; the region is {region}")),
        ErrorClass::IdempotentParameterMismatch => (Reason::LaunchUnconfirmed, error.to_string()),
        ErrorClass::InsufficientCapacity if !refused.is_about_a_field() => {
            let zone = prepared.zone_of(&request.subnet_id);
            let lacking = lacking_capacity(request, error.code.as_deref());
            let message = format!("{lacking} in {}: {error}", zone.unwrap_or(&request.subnet_id));
            (Reason::InsufficientCapacity, message)
        }
        class => (class.reason(), refused.to_string()),
    };
    Blocked::by_error(ConditionType::InstanceReady.is_false(reason, message), error)
}

/// What has no capacity for a launch, by EC2's code: the reservation or the host that the call names, or else the type.
fn lacking_capacity(request: &LaunchRequest, code: Option<&str>) -> String {
    let options = &request.options;
    match (code, &options.capacity_reservation, &options.host) {
        (Some("ReservationCapacityExceeded"), Some(CapacityReservation::Id(id)), _) => {
            format!("capacity reservation {id} has no free instance")
        }
        (Some("InsufficientCapacityOnHost" | "IncompatibleHostRequirements"), _, Some(host)) => {
            format!("Dedicated Host {} has no room for an instance", host.id)
        }
        (Some("UnavailableHostRequirements" | "IncompatibleHostRequirements"), ..) => {
            format!("no Dedicated Host has room for instance type {}", request.instance_type)
        }
        _ => format!("no capacity for instance type {}", request.instance_type),
    }
}
