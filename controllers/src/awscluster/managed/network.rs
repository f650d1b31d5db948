//! The network that a managed cluster publishes for its machines. Pure.

use std::collections::{BTreeMap, BTreeSet};

use capa_api::cluster::AWSClusterSpec;
use capa_api::cluster::security_group::SecurityGroupRole;
use capa_api::cluster::status::FailureDomain;
use capa_api::common::ControlPlaneTarget;
use capa_api::network::{MachineNetwork, NetworkSecurityGroups, NetworkSubnet, NetworkVpc};

use super::balancers::Place;
use super::plan::PlanContext;
use super::reference::{Id, Kind, Ref};
use crate::awscluster::resolve;

/// The most targets of the control plane in a network.
const MAX_TARGETS: usize = 8;

/// The network, as far as it is known. `None` while AWS does not show the VPC or the spec has problems: then the
/// published network stays.
pub(super) fn network(
    context: &PlanContext<'_>,
    spec: &AWSClusterSpec,
    before: &[ControlPlaneTarget],
) -> Option<MachineNetwork> {
    // The subnets of the user are known only after an observation.
    if !context.inputs.problems.is_empty() || context.inputs.subnets.is_empty() {
        return None;
    }
    let id = context.ledger.id(&context.inputs.vpc.target)?;
    let vpc = context.seen.ec2.vpcs.shown()?.iter().find(|vpc| vpc.id == id)?;
    let (control_plane_targets, pending_control_plane_targets) = targets(context, before);
    let groups = security_groups(context);
    if groups.is_none() && context.inputs.vpc.brought.is_some() {
        return None;
    }
    Some(MachineNetwork {
        vpc: Some(NetworkVpc { id: id.to_owned(), cidr_blocks: vpc.cidr_blocks.clone(), ipv6_cidr_blocks: vec![] }),
        subnets: subnets(context),
        security_groups: groups,
        control_plane_targets,
        pending_control_plane_targets,
        ..spec.network_for_machines(&context.inputs.names.cluster)
    })
}

/// The zones for machines; `None` if a zone of the load balancer is not known at the moment. They are the zones of the
/// private subnets, because only machines with `publicIP` are placed in public ones. A network without private subnets
/// has the zones of its public ones. Control plane machines may use the zones of the load balancer of the endpoint: it
/// sends no traffic to targets in another zone.
pub(super) fn failure_domains(context: &PlanContext<'_>, network: &MachineNetwork) -> Option<Vec<FailureDomain>> {
    let is_private = |subnet: &NetworkSubnet| subnet.public == Some(false);
    let has_private = network.subnets.iter().any(is_private);
    let subnets = network.subnets.iter().filter(|subnet| !has_private || is_private(subnet));
    let Some(places) = places(context) else {
        return Some(resolve::zones(subnets, |_, _| true));
    };
    let served: BTreeSet<&str> = places.iter().map(|place| zone(context, place)).collect::<Option<_>>()?;
    Some(resolve::zones(subnets, |_, zone| served.contains(zone)))
}

/// The subnets of the load balancer of the endpoint; `None` without a load balancer.
fn places<'a>(context: &PlanContext<'a>) -> Option<&'a [Place]> {
    let inputs = context.inputs;
    let classic = inputs.classic_load_balancer.as_ref().map(|balancer| &balancer.places);
    let network = inputs.load_balancers.iter().find(|balancer| balancer.is_endpoint);
    classic.or_else(|| network.map(|balancer| &balancer.places)).map(Vec::as_slice)
}

/// The zone that AWS shows, or else that of the spec: a subnet does not move if its zone in the spec changes.
fn zone<'a>(context: &PlanContext<'a>, place: &'a Place) -> Option<&'a str> {
    let id = match &place.subnet {
        Id::Known(id) => Some(id.as_str()),
        Id::Of(reference) => context.ledger.id(reference),
    };
    let mut shown = context.seen.ec2.subnets.shown().into_iter().flatten();
    let shown = shown.find(|subnet| Some(subnet.id.as_str()) == id);
    shown.map(|subnet| subnet.zone.as_str()).or(place.zone.as_deref())
}

/// The subnets for machines, by their ids.
fn subnets(context: &PlanContext<'_>) -> Vec<NetworkSubnet> {
    let wanted = context.inputs.subnets.iter().filter(|subnet| !subnet.is_for_pods_only);
    let known = wanted.filter_map(|subnet| Some((context.ledger.id(&subnet.target)?, subnet)));
    let by_id: BTreeMap<&str, _> = known.collect();
    let shown = |id: &str| context.seen.ec2.subnets.shown()?.iter().find(|shown| shown.id == id);
    let subnets = by_id.into_iter().map(|(id, subnet)| NetworkSubnet {
        id: id.to_owned(),
        // The zone in the spec may have changed, but the subnet has not moved.
        availability_zone: Some(shown(id).map_or(&subnet.zone, |shown| &shown.zone).clone()),
        public: Some(subnet.is_public),
        ..NetworkSubnet::default()
    });
    subnets.collect()
}

/// Every machine has the groups `node` and `lb`, and control plane machines also have the group of the control plane.
fn security_groups(context: &PlanContext<'_>) -> Option<NetworkSecurityGroups> {
    let id = |role: SecurityGroupRole| {
        let group = Ref::new(Kind::SecurityGroup, role.as_str());
        context.ledger.id(&group).map(str::to_owned)
    };
    Some(NetworkSecurityGroups {
        all: vec![id(SecurityGroupRole::Node)?, id(SecurityGroupRole::Lb)?],
        control_plane: vec![id(SecurityGroupRole::ControlPlane)?],
        worker: vec![],
    })
}

/// The targets of control plane machines: those of the spec, and those that were published `before` and still exist.
/// Without any target, the load balancer that will have one.
fn targets(context: &PlanContext<'_>, before: &[ControlPlaneTarget]) -> (Vec<ControlPlaneTarget>, Option<String>) {
    let inputs = context.inputs;
    let balancers = inputs.load_balancers.iter();
    let listeners = balancers.clone().flat_map(|balancer| &balancer.listeners);
    let groups = listeners.map(|listener| &listener.group.target);
    let classic = inputs.classic_load_balancer.iter().map(|balancer| &balancer.target);
    let wanted = classic.chain(groups).filter_map(|reference| target(context, reference));
    let known = [Kind::TargetGroup, Kind::ClassicLoadBalancer].map(|kind| context.ledger.of_kind(kind));
    let known: Vec<_> = known.into_iter().flatten().filter_map(|reference| target(context, reference)).collect();
    let published = before.iter().filter(|target| known.contains(target)).cloned();
    let mut targets: Vec<ControlPlaneTarget> = vec![];
    for target in wanted.chain(published) {
        if !targets.contains(&target) && targets.len() < MAX_TARGETS {
            targets.push(target);
        }
    }
    let pending = inputs.endpoint_load_balancer();
    let pending = pending.or_else(|| balancers.map(|balancer| &balancer.target).next());
    let pending = pending.filter(|_| targets.is_empty()).map(Ref::to_string);
    (targets, pending)
}

/// A target group or a classic load balancer as a target, once it exists.
fn target(context: &PlanContext<'_>, reference: &Ref) -> Option<ControlPlaneTarget> {
    let id = context.ledger.id(reference).map(str::to_owned)?;
    let is_classic = reference.kind == Kind::ClassicLoadBalancer;
    let (classic_load_balancer_name, target_group_arn) = if is_classic { (Some(id), None) } else { (None, Some(id)) };
    Some(ControlPlaneTarget { classic_load_balancer_name, target_group_arn, ..ControlPlaneTarget::default() })
}
