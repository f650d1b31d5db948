//! The instance flow: follows the instance of a machine.

pub(super) mod adopt;
pub(super) mod observation;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use capa_api::common::{MachineAddress, MachineAddressType};
use capa_api::conditions::{ConditionType, Reason};
use capa_api::forms::is_dns_subdomain;
use capa_api::machine::InstanceState;
use capa_api::meta;
use capa_api::network::MachineNetwork;
use capa_cloud::{ErrorClass, Instance, Observation, StateReason};
use capa_network::drift;
use capa_runtime::reconcile::Next;

use self::observation::{Ending, ended_before_running};
use crate::awsmachine::context::MachineContext;
use crate::awsmachine::inputs::location::InstanceLocation;
use crate::awsmachine::launch::protocol::LaunchEvent;
use crate::awsmachine::ownership::Ownership;
use crate::awsmachine::scope::{FlowError, MachineScope, adoption_event};
use crate::awsmachine::{inputs, status};
use crate::blocked::Blocked;
use crate::launch_memory::{CapacityLocation, Pool};

pub(super) use self::adopt::recover_before_end;

/// The state of a machine's instance in the instance informer.
pub(super) enum Observed {
    /// The state is unknown until the informer's first listing, which wakes the machine.
    Nothing,
    /// The instance exists.
    Instance {
        /// The instance.
        instance: Arc<Instance>,
        /// Whether targets may be registered and deregistered: not for a living instance that lost its tags.
        is_ours: bool,
        /// The present network of the machine's sources. Absent if they cannot be read, or contradict each other.
        network: Option<Box<MachineNetwork>>,
    },
    /// The instance with this id is gone.
    Gone(String),
}

/// Follows the instance of a machine and sets `InstanceReady`.
pub(super) async fn observe(
    scope: &mut MachineScope,
    location: &InstanceLocation,
    context: &MachineContext,
) -> Result<Observed, FlowError> {
    scope.set_condition(ConditionType::IdentityReady.is_true(Reason::Ready));
    scope.report_problem(ConditionType::InstanceUpToDate, observation::overdue(location));
    let Some(id) = scope.machine.instance_id() else {
        return Ok(Observed::Nothing);
    };
    match location.session.cloud.observe_instance(&scope.key(), &id) {
        Observation::Unknown => unseen(scope, &id, location),
        Observation::Absent => absent(scope, id, location, context).await,
        Observation::Seen(instance) => {
            let ownership = inputs::ownership(scope, &instance, &location.session.cluster_tag, context);
            let is_ours = validate_ownership(scope, &instance, &ownership, location)?;
            if let Some(problem) = &location.pending_targets {
                // The recovered record stays for the life of the machine, so it must contain the targets.
                let update = ConditionType::NetworkReady.is_false(problem.reason, problem.message.clone());
                return Err(Blocked::new(update, Next::Retry).into());
            }
            adopt::recover(scope, &instance, location, context).await?;
            let network = present_network(scope, context).await;
            report_drift(scope, network.clone());
            seen(scope, &instance, location, context).await?;
            Ok(Observed::Instance { instance, is_ours, network: network.map(Box::new) })
        }
    }
}

/// Refuses an instance that only the spec names and that is not proven to belong to the machine. A recorded instance is
/// followed even without its tags. Returns whether the instance may also be changed: it has its tags, or has ended and
/// so lost them.
fn validate_ownership(
    scope: &MachineScope,
    instance: &Instance,
    ownership: &Ownership,
    location: &InstanceLocation,
) -> Result<bool, Blocked> {
    let id = &instance.id;
    let reason = match ownership {
        Ownership::Ours(_) => return Ok(true),
        Ownership::Foreign(_) if scope.machine.recorded_instance_id() == Some(id) => {
            return Ok(instance.state.has_ended());
        }
        Ownership::Foreign(reason) => reason,
    };
    let message = format!(
        "instance {id}, which the spec names, is not this machine's, and is not changed: {reason}; if it belongs to \
         this machine, correct that (its tags are {}); annotation {}: {id} lets a deletion end without it",
        scope.tags(&location.session.cluster_tag).described(),
        meta::ABANDON_INSTANCE_ANNOTATION
    );
    let not_owned = ConditionType::InstanceReady.is_false(Reason::NotOwned, message);
    // Changes of Machines with other names do not wake this machine.
    Err(Blocked::new(not_owned, Next::Retry))
}

async fn seen(
    scope: &mut MachineScope,
    instance: &Instance,
    location: &InstanceLocation,
    context: &MachineContext,
) -> Result<(), FlowError> {
    let running = instance.state == InstanceState::Running;
    if let Some((field, named)) = scope.machine.spec.other_named_instance(&instance.id) {
        let message = format!(
            "spec.{field} is {named:?}, and the instance of this machine is {}: it was written by somebody else and \
             cannot be changed; delete the Machine to replace it",
            instance.id
        );
        scope.status.instance_state = Some(instance.state);
        let update = ConditionType::InstanceReady.is_false(Reason::InvalidSpec, message);
        return Err(Blocked::new(update, Next::AwaitChange).into());
    }
    if running && scope.machine.spec.provider_id.as_deref().is_none_or(str::is_empty) {
        let provider_id = format!("aws:///{}/{}", instance.availability_zone, instance.id);
        scope.machine = context.kubernetes.publish_ids(&scope.machine, &provider_id, &instance.id).await?;
    }
    let ended = matches!(instance.state, InstanceState::ShuttingDown | InstanceState::Terminated);
    status::show(scope, instance);
    if running {
        add_domain_names(scope, instance, location).await;
    }
    if ended && !scope.has_run() {
        return ended_early(scope, instance, &location.cluster_name, context);
    }
    let mut update = status::instance_ready(instance);
    if instance.state == InstanceState::Pending
        && let Some(error) = location.session.cloud.reading_failure()
    {
        update.message = format!("{}, and AWS does not show its state: {error}", update.message);
    }
    scope.set_condition(update);
    Ok(())
}

/// A status that has shown the instance before does not change. Otherwise the condition shows a failed lookup.
fn unseen(scope: &MachineScope, id: &str, location: &InstanceLocation) -> Result<Observed, FlowError> {
    match location.session.cloud.reading_failure() {
        Some(error) if !scope.status.provisioned() => {
            let message = format!("instance {id} cannot be looked up: {error}");
            let update = ConditionType::InstanceReady.is_unknown(error.class.reason(), message);
            Err(Blocked::new(update, Next::AwaitChange).into())
        }
        _ => Ok(Observed::Nothing),
    }
}

/// Processes an instance that ended in `pending`, a failed attempt. Another attempt follows unless the request caused
/// the failure.
fn ended_early(
    scope: &mut MachineScope,
    instance: &Instance,
    cluster_name: &str,
    context: &MachineContext,
) -> Result<(), FlowError> {
    let now = context.kubernetes.now();
    let ending = ended_before_running(instance, scope.status.launch.as_ref(), now, &context.timing);
    let why = instance.state_reason.as_ref();
    let mut message = format!("instance {} ended before it ran", instance.id);
    if let Some(reason) = why {
        message = format!("{message}: {}: {}", reason.code, reason.message);
    }
    let failed = |what: &str| ConditionType::InstanceReady.is_false(Reason::Failed, format!("{message}: {what}"));
    let (failed, next) = match ending {
        Ending::Final => (failed("delete the Machine to replace it"), Next::AwaitChange),
        Ending::Awaited => {
            let awaited = failed("another one is launched once it is terminated");
            (awaited, Next::AwaitChange)
        }
        Ending::NextAttempt(wait) if wait.is_zero() => {
            if why.is_some_and(StateReason::is_insufficient_capacity) {
                let pool = Pool::new(scope.namespace(), cluster_name, &scope.machine.spec);
                let zone = CapacityLocation::Zone(instance.availability_zone.clone());
                context.memory.shortages().refused(&pool, zone, None, context.kubernetes.uptime());
            }
            scope.record_launch(LaunchEvent::EndedBeforeRunning)?;
            context.memory.forget_stored(scope.uid());
            context.clouds.forget(&scope.key());
            return Err(Blocked::new(failed("another one is launched"), Next::Requeue(Duration::ZERO)).into());
        }
        Ending::NextAttempt(wait) => (failed("another one is launched"), Next::Requeue(wait)),
    };
    // The flow goes on: the instance may have run and be registered in targets although a restored status says that it
    // has not.
    scope.finish_with(failed, next);
    Ok(())
}

/// Processes an instance that AWS does not show. AWS may not show a young instance yet, and without a recorded account
/// the calls may use another account than the instance's.
async fn absent(
    scope: &mut MachineScope,
    id: String,
    location: &InstanceLocation,
    context: &MachineContext,
) -> Result<Observed, FlowError> {
    if !observation::account_is_recorded(scope) {
        // No target is registered for an instance that may not exist, and the state of its targets is unknown.
        location.session.cloud.forget_targets(&scope.key());
        let message = observation::unproven(scope, &id, location);
        let unknown = ConditionType::InstanceReady.is_unknown(Reason::NotFound, message);
        return Err(Blocked::new(unknown, Next::Retry).into());
    }
    if let Some(remaining) = observation::remaining_youth(scope, &id, location, context) {
        observation::watch_anew(scope, &id, location, context);
        scope.next = Next::Requeue(remaining);
        return Ok(Observed::Nothing);
    }
    if !scope.has_run() && context.memory.may_have_later_instance(scope.uid(), &id) {
        follow_newer_attempt(scope, &id, location, context).await?;
    }
    let message =
        format!("instance {id} no longer exists: delete the Machine to replace it, or let a MachineHealthCheck do so");
    scope.set_condition(ConditionType::InstanceReady.is_false(Reason::NotFound, message));
    Ok(Observed::Gone(id))
}

/// Looks for the instance of a later call. The lookup is repeated until it succeeds once in the life of this process.
/// Its failure blocks nothing.
///
/// # Errors
/// There is such an instance: the next pass follows it.
async fn follow_newer_attempt(
    scope: &mut MachineScope,
    gone: &str,
    location: &InstanceLocation,
    context: &MachineContext,
) -> Result<(), FlowError> {
    match adopt::adopt_newer_attempt(scope, location, context).await {
        Ok(None) => {
            context.memory.found_no_later_instance(scope.uid(), gone);
            Ok(())
        }
        Ok(Some(id)) => {
            scope.events.push(adoption_event(&id));
            let message = format!(
                "instance {gone}, which the launch record named, is gone, and instance {id} of a later call is there: \
                 it is followed from now on"
            );
            let found = ConditionType::InstanceReady.is_false(Reason::Pending, message);
            Err(Blocked::new(found, Next::Requeue(Duration::ZERO)).into())
        }
        Err(FlowError::Blocked(blocked)) => {
            scope.next = blocked.next;
            Ok(())
        }
        Err(failed) => Err(failed),
    }
}

/// The network of the machine's sources. `None` if a source cannot be read, or if the sources contradict each other.
async fn present_network(scope: &MachineScope, context: &MachineContext) -> Option<MachineNetwork> {
    let cluster = scope.owners.cluster.as_deref()?;
    let merged = inputs::network(scope, cluster, context).await.ok()?;
    let is_whole = merged.problem.is_none() && merged.unlabelled.is_none();
    is_whole.then(|| merged.network.clone())
}

/// Sets `NetworkUpToDate`. Without a present network, the condition does not change.
fn report_drift(scope: &mut MachineScope, present: Option<MachineNetwork>) {
    let (Some(mut network), Some(mut in_use)) = (present, scope.status.network.clone()) else {
        return;
    };
    if scope.machine.spec.names_subnet() {
        // The machine's own subnet was used at launch, and its spec cannot change.
        network.subnets.clear();
    }
    if !scope.machine.spec.network_interfaces.is_empty() {
        // Its own network interfaces, which determine subnet and groups, were used at launch too.
        network.subnets.clear();
        network.security_groups = None;
        in_use.security_group_ids.clear();
    }
    match &scope.status.applied_security_groups {
        // Changes of these reach the instance, and are no drift.
        Some(applied) => in_use.security_group_ids.retain(|id| !applied.ids.contains(id)),
        None => in_use.security_group_ids.clear(),
    }
    let role = scope.owners.role(&scope.machine);
    let update = match drift(&network, &in_use, role) {
        None => ConditionType::NetworkUpToDate.is_true(Reason::Ready),
        Some(difference) => {
            let message =
                format!("{difference}: a running machine keeps its network; replace the Machine to change it");
            ConditionType::NetworkUpToDate.is_false(Reason::Drifted, message)
        }
    };
    scope.set_condition(update);
}

/// Adds the names of a running instance in the domain of its VPC to the addresses of the machine. The DHCP options of a
/// VPC may give its instances a custom domain. The kubelet then asks for a serving certificate with a name in this
/// domain, which is approved only if the addresses of the machine have the name. Names that were found before stay
/// while the domain cannot be looked up.
async fn add_domain_names(scope: &mut MachineScope, instance: &Instance, location: &InstanceLocation) {
    let Some(vpc_id) = &instance.vpc_id else { return };
    let domain = match location.session.cloud.domain_name(vpc_id).await {
        Ok(domain) => domain.and_then(|domain| own_domain(&domain, &location.session.region)),
        Err(error) => {
            // The permission is optional: without it there are no such names.
            if error.class != ErrorClass::Unauthorized && scope.next == Next::AwaitChange {
                scope.next = Next::Retry;
            }
            let stored = scope.stored_status().map(|status| status.addresses.as_slice());
            known_domain(stored.unwrap_or_default(), &instance.addresses)
        }
    };
    if let Some(domain) = domain {
        scope.status.addresses = in_domain(&instance.addresses, &domain);
    }
}

/// The first domain name in an option, unless it is the default domain of EC2 in this region. Some systems accept
/// several names, separated by spaces (<https://docs.aws.amazon.com/vpc/latest/userguide/DHCPOptionSetConcepts.html>).
fn own_domain(option: &str, region: &str) -> Option<String> {
    let domain = option.split_whitespace().next()?;
    let is_default = match region {
        "us-east-1" => domain == "ec2.internal",
        _ => domain == format!("{region}.compute.internal"),
    };
    (!is_default && is_dns_subdomain(domain)).then(|| domain.to_owned())
}

/// The addresses with a second name behind each internal name.
fn in_domain(addresses: &[MachineAddress], domain: &str) -> Vec<MachineAddress> {
    let mut all = Vec::new();
    for address in addresses {
        all.push(address.clone());
        if let Some(host) = host(address) {
            all.push(MachineAddress {
                address_type: MachineAddressType::InternalDNS,
                address: format!("{host}.{domain}"),
            });
        }
    }
    all
}

/// The domain of a name that is stored beside those that EC2 shows.
fn known_domain(stored: &[MachineAddress], shown: &[MachineAddress]) -> Option<String> {
    let hosts: Vec<&str> = shown.iter().filter_map(host).collect();
    let added = stored.iter().filter(|address| !shown.contains(address));
    let mut added = added.filter(|address| host(address).is_some_and(|host| hosts.contains(&host)));
    let (_, domain) = added.next()?.address.split_once('.')?;
    Some(domain.to_owned())
}

/// The first label of an internal name.
fn host(address: &MachineAddress) -> Option<&str> {
    let is_name = address.address_type == MachineAddressType::InternalDNS;
    is_name.then(|| address.address.split('.').next()).flatten()
}
