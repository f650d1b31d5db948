//! Executes a launch plan. Each result is stored before the next call.

use std::num::NonZeroU32;

use capa_api::conditions::{ConditionType, Reason};
use capa_api::machine::{InstanceState, LaunchRecord, RecordedRequest};
use capa_api::network::NetworkSubnet;
use capa_cloud::{CapacityReservation, CloudError, ErrorClass, Instance, LaunchRequest, Shortage};
use capa_runtime::reconcile::{EventDraft, Next};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::protocol::{LaunchEvent, LaunchStep};
use crate::awsmachine::context::MachineContext;
use crate::awsmachine::hosts::{self, WantedHost};
use crate::awsmachine::inputs::location::InstanceLocation;
use crate::awsmachine::launch::{LaunchDecision, first_number, pool};
use crate::awsmachine::ownership::attempt_number;
use crate::awsmachine::scope::{FlowError, MachineScope, adoption_event};
use crate::awsmachine::{bootstrap_data, status, write};
use crate::blocked::Blocked;
use crate::launch_memory::CapacityLocation;
use crate::launch_memory::progress::Progress;
use crate::launching::rejection;

/// Launches the instance. Returns where it is.
pub(super) async fn apply(
    scope: &mut MachineScope,
    mut decision: LaunchDecision,
    context: &MachineContext,
) -> Result<InstanceLocation, FlowError> {
    // `clusterctl move` must not move the AWSMachine while only this management cluster knows of the attempt.
    write::block_move(scope, &decision.inputs.location.session.account_id, context).await?;
    use_host(scope, &mut decision, context).await?;
    write_record(scope, &decision, context).await?;
    let inputs = &decision.inputs;
    if let Some(launch_secrets) = &inputs.secrets {
        bootstrap_data::store(scope, launch_secrets, &inputs.location, context).await?;
    }
    call(scope, &decision, context).await?;
    Ok(decision.inputs.location)
}

/// Puts a new attempt on the Dedicated Host that the machine needs. A recorded attempt keeps its host.
async fn use_host(
    scope: &mut MachineScope,
    decision: &mut LaunchDecision,
    context: &MachineContext,
) -> Result<(), FlowError> {
    if !matches!(decision.plan.step, LaunchStep::Record(_)) {
        return Ok(());
    }
    let LaunchDecision { inputs, request, .. } = decision;
    let wanted = WantedHost {
        subnet_id: &request.subnet_id,
        zone: inputs.zone_of(&request.subnet_id),
        tags: &request.tags,
        pool: pool(scope, inputs),
        first_number: match scope.status.launch {
            Some(LaunchRecord::Planned) => NonZeroU32::MIN,
            _ => first_number(scope, context),
        },
    };
    match hosts::place_on_host(scope, &wanted, &inputs.location, context).await {
        Ok(Some(host)) => request.options.host = Some(host),
        Ok(None) => {}
        Err(error) => {
            context.memory.kinds().undecided(inputs.kind, scope.uid());
            return Err(error);
        }
    }
    Ok(())
}

/// Makes sure that the API server has stored the record of the call, written by this process. The confirmation counts
/// from the time before the request to the API server.
async fn write_record(
    scope: &mut MachineScope,
    decision: &LaunchDecision,
    context: &MachineContext,
) -> Result<(), FlowError> {
    let LaunchDecision { inputs, request, .. } = decision;
    let (asked_at, token) = (context.now(), &request.client_token);
    let holder = context.memory.holder().to_owned();
    match decision.plan.step {
        LaunchStep::Record(number) => {
            // The end of a blocked pass stores the status: without the record of the data, it has no attempt either.
            let mut first_record = None;
            if let Some(launch_secrets) = &inputs.secrets {
                first_record =
                    Some(launch_secrets).filter(|launch_secrets| !bootstrap_data::is_recorded(scope, launch_secrets));
                let valid_from = inputs.user_data.valid_from();
                bootstrap_data::record(scope, launch_secrets, valid_from, &inputs.location, context).await?;
            }
            let request_record = recorded(request, asked_at.time);
            scope.record_launch(LaunchEvent::Requested { number, request: request_record, holder })?;
            scope.status.network = Some(inputs.in_use(&scope.machine, request));
            scope.status.applied_tags = Some(inputs.applied_tags(&scope.machine));
            scope.status.applied_security_groups = Some(inputs.applied_groups(&scope.machine));
            scope.status.applied_private_dns_name.clone_from(&scope.machine.spec.private_dns_name);
            write::store(scope, context).await?;
            if let Some(launch_secrets) = first_record {
                bootstrap_data::nothing_is_stored(scope, launch_secrets, &inputs.location, context);
            }
            let account_id = &inputs.location.session.account_id;
            context.memory.launches().recorded(scope.uid(), token, account_id, asked_at);
        }
        LaunchStep::Claim if scope.holder() == Some(&*holder) => {
            // The answer to the write of the record was lost. An equal status would not be written again.
            context.kubernetes.confirm(&scope.machine).await?;
            context.memory.launches().claimed(scope.uid(), token, asked_at);
        }
        LaunchStep::Claim => {
            scope.record_launch(LaunchEvent::Claimed { holder })?;
            write::store(scope, context).await?;
            context.memory.launches().claimed(scope.uid(), token, asked_at);
        }
        LaunchStep::Verify => {
            context.kubernetes.confirm(&scope.machine).await?;
            context.memory.launches().confirmed(scope.uid(), token, asked_at);
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
        image_id: Some(request.image_id.clone()),
        instance_type: request.instance_type.clone(),
        security_group_ids: request.security_group_ids.clone(),
        parameters_hash: Some(request.parameters_hash()),
        requested_at: Time(requested_at),
    }
}

/// Makes the recorded call. The answer is remembered at once, because it cannot be stored if the AWSMachine has changed
/// meanwhile.
async fn call(scope: &mut MachineScope, decision: &LaunchDecision, context: &MachineContext) -> Result<(), FlowError> {
    let LaunchDecision { inputs, request, .. } = decision;
    let (uid, token) = (scope.uid().to_owned(), &request.client_token);
    let now = context.now();
    let Some(before) = context.memory.launches().begin_call(&uid, token, now, &context.timing) else {
        let message = "EC2 is asked once the API server has confirmed the launch record";
        let waiting = ConditionType::InstanceReady.is_false(Reason::Launching, message);
        return Err(Blocked::new(waiting, Next::Retry).into());
    };
    match inputs.location.session.cloud.launch(&scope.key(), request).await {
        Ok(instance) => {
            context.memory.answered(&uid, instance.clone());
            context.memory.kinds().accepted(inputs.kind, now.uptime);
            let subnet = subnet_of(decision);
            context.memory.shortages().relieved(&pool(scope, inputs), &subnet);
            Box::pin(record_answer(scope, &instance, context)).await
        }
        Err(error) => {
            let now = context.kubernetes.uptime();
            let progress = context.memory.launches().call_failed(&uid, token, before, error.class, now);
            if error.class == ErrorClass::InsufficientCapacity {
                let place = short_place(&error, subnet_of(decision));
                let pool = pool(scope, inputs);
                context.memory.shortages().refused(&pool, place, Some(&error), now);
            }
            if progress == Progress::Refused {
                hosts::give_up(scope, &error, context);
                scope.record_launch(LaunchEvent::Refused)?;
            }
            let blocked = not_launched(scope, &error, decision);
            Err(failed_turn(scope, decision, (&error, progress), blocked, context).into())
        }
    }
}

/// The subnet of a call, with its zone where that is known.
fn subnet_of(decision: &LaunchDecision) -> NetworkSubnet {
    let subnet_id = &decision.request.subnet_id;
    NetworkSubnet {
        id: subnet_id.clone(),
        availability_zone: decision.inputs.zone_of(subnet_id).map(str::to_owned),
        ..NetworkSubnet::default()
    }
}

/// The location that lacks capacity: a zone lacks hosts, a subnet lacks addresses.
fn short_place(error: &CloudError, subnet: NetworkSubnet) -> CapacityLocation {
    match subnet.availability_zone {
        Some(zone) if !error.is_of_full_subnet() => CapacityLocation::Zone(zone),
        _ => CapacityLocation::Subnet(subnet.id),
    }
}

/// Stores the id of an instance that this machine's own call has launched, and then publishes an event. If the write
/// fails, the pass ends without the event, because the pass that repeats the write publishes it.
pub(super) async fn record_answer(
    scope: &mut MachineScope,
    instance: &Instance,
    context: &MachineContext,
) -> Result<(), FlowError> {
    scope.record_launch(LaunchEvent::answered(instance))?;
    if instance.state == InstanceState::Pending {
        // In the usual case, the pass has nothing to add when it follows the instance next.
        status::show(scope, instance);
        scope.set_condition(ConditionType::IdentityReady.is_true(Reason::Ready));
        scope.set_condition(ConditionType::NetworkUpToDate.is_true(Reason::Ready));
        scope.set_condition(status::instance_ready(instance));
    }
    store_instance(scope, context).await?;
    let message = format!("launched instance {}", instance.id);
    scope.events.push(EventDraft::normal("SuccessfulCreate", message).recorded());
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
pub(super) async fn record_found(
    scope: &mut MachineScope,
    instance: &Instance,
    decision: &LaunchDecision,
    context: &MachineContext,
) -> Result<(), FlowError> {
    let open_token = scope.open_token();
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
    let mut in_use = decision.inputs.in_use(&scope.machine, &request);
    in_use.availability_zone = Some(instance.availability_zone.clone());
    // The security groups of the instance are not known here; those of the spec would be a guess.
    in_use.security_group_ids.clear();
    scope.status.network = Some(in_use);
    let inputs = &decision.inputs;
    bootstrap_data::recover(scope, &request.client_token, inputs.bootstrap_format, inputs.bootstrap_bucket());
    store_instance(scope, context).await?;
    scope.events.push(adoption_event(&instance.id).recorded());
    Ok(())
}

/// The block that says why the call has launched nothing, as far as this process knows.
fn not_launched(scope: &MachineScope, error: &CloudError, decision: &LaunchDecision) -> Blocked {
    let LaunchDecision { inputs, request, .. } = decision;
    let region = &inputs.location.session.region;
    let refused = decision.refused(&scope.machine, error);
    let (reason, message) = match error.class {
        ErrorClass::NoAnswer | ErrorClass::Throttled => (Reason::Launching, format!("{error}; the region is {region}")),
        ErrorClass::IdempotentParameterMismatch => (Reason::LaunchUnconfirmed, error.to_string()),
        ErrorClass::InsufficientCapacity if !refused.is_about_a_field() => {
            let zone = inputs.zone_of(&request.subnet_id);
            let lacking = lacking_capacity(request, error.shortage());
            let message = format!("{lacking} in {}: {error}", zone.unwrap_or(&request.subnet_id));
            (Reason::InsufficientCapacity, message)
        }
        class => (class.reason(), refused.to_string()),
    };
    Blocked::by_error(ConditionType::InstanceReady.is_false(reason, message), error)
}

/// The message that the reservation or the host of a launch, or else its zone, lacks capacity.
fn lacking_capacity(request: &LaunchRequest, shortage: Shortage) -> String {
    let options = &request.options;
    match (shortage, &options.capacity_reservation, &options.host) {
        (Shortage::Reservation, Some(CapacityReservation::Id(id)), _) => {
            format!("capacity reservation {id} has no free instance")
        }
        (Shortage::NamedHost | Shortage::Host, _, Some(host)) => {
            format!("Dedicated Host {} has no room for an instance", host.id)
        }
        (Shortage::AnyHost | Shortage::Host, ..) => {
            format!("no Dedicated Host has room for instance type {}", request.instance_type)
        }
        _ => format!("no capacity for instance type {}", request.instance_type),
    }
}

/// The block of a machine whose call has failed, and what the failure says about the other machines of its kind.
fn failed_turn(
    scope: &MachineScope,
    decision: &LaunchDecision,
    (error, progress): (&CloudError, Progress),
    blocked: Blocked,
    context: &MachineContext,
) -> Blocked {
    let (kind, now) = (decision.inputs.kind, context.kubernetes.uptime());
    if error.class == ErrorClass::InsufficientCapacity {
        context.memory.kinds().accepted(kind, now);
    } else if progress == Progress::Refused && rejection::concerns_kind(error) {
        let condition = blocked.condition.clone();
        context.memory.kinds().refused(kind, condition.clone(), now, &context.timing);
        return context.remember_refused_kind(scope, kind, condition);
    } else {
        context.memory.kinds().undecided(kind, scope.uid());
    }
    blocked
}
