//! The launch flow: from a new AWSMachine to a recorded instance id. This file chooses the step of the protocol, the
//! place of another attempt, and the call; `search` looks for an instance before the call, and `execute` makes it.

mod execute;
pub(super) mod protocol;
mod search;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::time::Duration;

use capa_api::conditions::{ConditionType, ConditionUpdate, Reason};
use capa_api::machine::{AWSMachine, LaunchRecord, Switch};
use capa_api::network::MachineNetwork;
use capa_cloud::{CapacitySource, CloudError, LaunchRequest};
use capa_network::{Placement, PlacementRequest, Problem, place};
use capa_runtime::reconcile::Next;

use self::protocol::{Attempt, LaunchPlan, LaunchStep, plan_launch};
use crate::awsmachine::context::MachineContext;
use crate::awsmachine::hosts;
use crate::awsmachine::inputs::launch::LaunchInputs;
use crate::awsmachine::inputs::location::InstanceLocation;
use crate::awsmachine::inputs::{self, network_not_ready};
use crate::awsmachine::ownership::{launch_token, search_token};
use crate::awsmachine::scope::{FlowError, MachineScope};
use crate::blocked::Blocked;
use crate::launch_memory::{Pool, SubnetQuery};
use crate::launching::rejection::RefusedLaunch;
use crate::launching::reserved_capacity::capacity_source;
use crate::time::age;

/// Launches or finds the instance of a machine. The launch record contains the instance when the flow ends without an
/// error. Returns the location of the launch, where one was resolved.
pub(super) async fn launch(
    scope: &mut MachineScope,
    context: &MachineContext,
) -> Result<Option<InstanceLocation>, FlowError> {
    let waiting = |message: String| {
        let waiting = ConditionType::InstanceReady.is_false(Reason::WaitingForOwnerCluster, message);
        Blocked::new(waiting, Next::AwaitChange)
    };
    let owner = scope.owners.machine.clone();
    let machine = owner.map_err(|problem| waiting(format!("{problem}: nothing is launched")))?;
    let Some(cluster) = scope.owners.cluster.clone() else {
        let message = format!("Cluster {} does not exist: nothing is launched", machine.spec.cluster_name);
        return Err(waiting(message).into());
    };
    if let Some(instance) = context.unrecorded_answer(scope) {
        // An earlier pass got the answer but could not record it. The answer is recorded before every other step.
        execute::record_answer(scope, &instance, context).await?;
        return Ok(None);
    }
    context.record_known_refusal(scope)?;
    let inputs = match inputs::launch::resolve(scope, &machine, &cluster, context).await {
        Ok(inputs) => inputs,
        Err(FlowError::Blocked(blocked)) => {
            let (instance, location) = Box::pin(search::find_open(scope, blocked, context)).await?;
            execute::record_answer(scope, &instance, context).await?;
            return Ok(Some(location));
        }
        Err(failed) => return Err(failed),
    };
    let decision = decide(scope, inputs, context)?;
    scope.set_condition(ConditionType::NetworkReady.is_true(Reason::Ready));
    let Some(instance) = Box::pin(search::find_before(scope, &decision, context)).await? else {
        return Box::pin(execute::apply(scope, decision, context)).await.map(Some);
    };
    Box::pin(execute::record_found(scope, &instance, &decision, context)).await?;
    Ok(Some(decision.inputs.location))
}

/// A launch that is decided: what to do, and the call.
struct LaunchDecision {
    inputs: LaunchInputs,
    plan: LaunchPlan,
    request: LaunchRequest,
}

/// Decides what to do, and chooses a place for another attempt.
fn decide(scope: &mut MachineScope, inputs: LaunchInputs, context: &MachineContext) -> Result<LaunchDecision, Blocked> {
    let recorded = scope.status.launch.as_ref().and_then(LaunchRecord::request);
    let repeated = recorded.map(|recorded| {
        let placement = Placement {
            subnet_id: recorded.subnet_id.clone(),
            availability_zone: None,
            security_group_ids: recorded.security_group_ids.clone(),
        };
        let user_data = inputs.user_data.of_recorded();
        inputs.request(&scope.machine, &placement, user_data, recorded.client_token.clone())
    });
    let attempt = known_of_attempt(scope, &inputs, repeated.as_ref(), context);
    let record = scope.status.launch.as_ref();
    let plan = plan_launch(record, &attempt, context.now(), &context.timing);
    let client_token = match plan.step {
        LaunchStep::Record(number) => launch_token(scope.uid(), number),
        _ => search_token(&scope.machine),
    };
    let request = match (plan.step, repeated) {
        (LaunchStep::Record(_), _) | (_, None) => {
            let placement = place_anew(scope, &inputs, context);
            let placement = placement.map_err(|problem| not_placed(scope, &problem, &inputs, context))?;
            inputs.request(&scope.machine, &placement, inputs.user_data.of_new(), client_token)
        }
        (_, Some(repeated)) => repeated,
    };
    Ok(LaunchDecision { inputs, plan, request })
}

/// The known facts of the recorded attempt; `repeated` is its call as it would be made now.
fn known_of_attempt(
    scope: &MachineScope,
    inputs: &LaunchInputs,
    repeated: Option<&LaunchRequest>,
    context: &MachineContext,
) -> Attempt {
    let recorded = scope.status.launch.as_ref().and_then(LaunchRecord::request);
    let token = recorded.map_or_else(|| search_token(&scope.machine), |recorded| recorded.client_token.clone());
    let remembered = context.remembered(scope, &token);
    let hash = repeated.map(LaunchRequest::parameters_hash);
    Attempt {
        progress: remembered.progress,
        same_account: remembered.account_id.as_ref() == Some(&inputs.location.session.account_id),
        same_parameters: recorded.and_then(|recorded| recorded.parameters_hash.as_ref()) == hash.as_ref(),
        confirmed_at: remembered.confirmed_at,
        absence: remembered.absence,
        first_number: first_number(scope, context),
    }
}

/// Number of the first attempt of an AWSMachine without a readable record. Its status may have been lost, and a token
/// that was used before must not be used again in another zone. The number is the age of the AWSMachine in seconds:
/// attempts are more than a second apart, so no earlier attempt has reached it.
fn first_number(scope: &MachineScope, context: &MachineContext) -> NonZeroU32 {
    let created = scope.machine.metadata.creation_timestamp.as_ref();
    let age = created.map_or(Duration::ZERO, |created| age(created.0, context.kubernetes.now()));
    // The schema has room for 31 bits.
    let seconds = i32::try_from(age.as_secs()).unwrap_or(i32::MAX).unsigned_abs();
    NonZeroU32::new(seconds).unwrap_or(NonZeroU32::MIN)
}

fn place_anew(scope: &MachineScope, inputs: &LaunchInputs, context: &MachineContext) -> Result<Placement, Problem> {
    let owner = &inputs.owner;
    let spec = &scope.machine.spec;
    let network = &inputs.references.network;
    if let Some(interfaces) = &inputs.interfaces {
        let own_subnets: Vec<&str> = network.subnets.iter().map(|subnet| subnet.id.as_str()).collect();
        let own_subnets = spec.names_subnet().then_some(own_subnets.as_slice());
        return interfaces.placement(owner.requested_failure_domain(), own_subnets);
    }
    let network = &match &inputs.capacity_zone {
        Some(zone) => Cow::Owned(zone.restrict(network, owner.requested_failure_domain())?),
        None => network_of_host(scope, network),
    };
    let role = inputs.location.role;
    let query = SubnetQuery {
        uid: scope.uid(),
        pool: &pool(scope, inputs),
        subnets: &network.subnets,
        now: context.kubernetes.uptime(),
        timing: &context.timing,
    };
    // Each role is spread separately, because workers do not affect the quorum of a control plane.
    let machines = || {
        let kubernetes = context.kubernetes.as_ref();
        let mut machines = kubernetes.machines_of_cluster(scope.namespace(), &owner.spec.cluster_name);
        machines.retain(|machine| inputs::role(machine, kubernetes) == role);
        machines
    };
    context.memory.place(&query, machines, |machines_by_subnet, capacity| {
        let request = PlacementRequest {
            role,
            failure_domain: owner.requested_failure_domain(),
            public_ip: spec.public_ip,
            needs_ipv6: spec.assign_primary_ipv6 == Some(Switch::Enabled),
            explicit_subnet: spec.names_subnet(),
            additional_security_group_ids: &inputs.references.additional_security_group_ids,
            machines_by_subnet,
            capacity,
            unlabelled: inputs.merged.unlabelled.as_ref(),
        };
        place(network, &request)
    })
}

/// The network, without the subnets outside the zone in which the machine has its Dedicated Host. Without a subnet in
/// that zone, the machine is placed in another one, and gives its host up.
fn network_of_host<'a>(scope: &MachineScope, network: &'a MachineNetwork) -> Cow<'a, MachineNetwork> {
    let Some(zone) = hosts::zone_of_host(scope.status.dedicated_host.as_deref()) else {
        return Cow::Borrowed(network);
    };
    let mut reduced = network.clone();
    reduced.subnets.retain(|subnet| subnet.availability_zone.as_deref() == Some(zone));
    if reduced.subnets.is_empty() {
        return Cow::Borrowed(network);
    }
    Cow::Owned(reduced)
}

/// The machines that share shortages of capacity.
fn pool(scope: &MachineScope, inputs: &LaunchInputs) -> Pool {
    Pool::new(scope.namespace(), &inputs.location.cluster_name, &scope.machine.spec)
}

/// Says why there is no place for the machine. A lack of capacity is temporary, and is not a problem of the network.
fn not_placed(scope: &mut MachineScope, problem: &Problem, inputs: &LaunchInputs, context: &MachineContext) -> Blocked {
    if problem.reason != Reason::InsufficientCapacity {
        return Blocked::new(network_not_ready(problem), Next::Retry);
    }
    scope.set_condition(ConditionType::NetworkReady.is_true(Reason::Ready));
    let now = context.kubernetes.uptime();
    let remaining = context.memory.shortages().remaining(&pool(scope, inputs), now, &context.timing);
    let refusals = context.memory.shortages().refusals(&pool(scope, inputs));
    Blocked::new(without_capacity(scope, problem, &refusals), Next::Requeue(remaining))
}

/// Says that no subnet has capacity, with EC2's codes and words.
fn without_capacity(scope: &MachineScope, problem: &Problem, refusals: &BTreeMap<String, String>) -> ConditionUpdate {
    let spec = &scope.machine.spec;
    let within = match capacity_source(spec) {
        Some(source @ CapacitySource::Reservation(_)) => format!(" in {source}"),
        Some(source @ CapacitySource::Host(_)) => format!(" on {source}"),
        None => String::new(),
    };
    let refusals = refusals.iter().map(|(code, words)| format!("{code}: {words}"));
    let refusals = refusals.collect::<Vec<_>>().join("; ");
    let refusals = if refusals.is_empty() { refusals } else { format!(" ({refusals})") };
    let message = format!(
        "{} for instance type {}{within}{refusals}: the provider retries; machines of another type or with more zones \
         to choose from may find some",
        problem.message, spec.instance_type
    );
    ConditionType::InstanceReady.is_false(Reason::InsufficientCapacity, message)
}

impl LaunchDecision {
    /// The launch by the call of this decision, which EC2 has refused with this error.
    fn refused<'a>(&'a self, machine: &'a AWSMachine, error: &'a CloudError) -> RefusedLaunch<'a> {
        let Self { inputs, request, .. } = self;
        RefusedLaunch {
            machine,
            request,
            network: &inputs.references.network,
            sources: &inputs.merged.winners,
            role: inputs.location.role,
            region: &inputs.location.session.region,
            account_id: &inputs.location.session.account_id,
            zone: inputs.zone_of(&request.subnet_id),
            identity: &inputs.location.session.identity_ref,
            error,
        }
    }
}
