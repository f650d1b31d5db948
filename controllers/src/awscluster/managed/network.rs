//! The network that a managed cluster publishes for its machines. Pure.

use std::collections::BTreeMap;

use capa_api::cluster::AWSClusterSpec;
use capa_api::cluster::security_group::SecurityGroupRole;
use capa_api::common::ControlPlaneTarget;
use capa_api::network::{MachineNetwork, NetworkSecurityGroups, NetworkSubnet, NetworkVpc};

use super::plan::Scene;
use super::reference::{Kind, Ref};

/// The most targets of the control plane in a network.
const MOST_TARGETS: usize = 8;

/// The network, as far as it is known. `None` while AWS does not show the VPC, and while the spec is wrong: then what was
/// published before stays.
pub(super) fn network(
    scene: &Scene<'_>,
    spec: &AWSClusterSpec,
    region: &str,
    before: &[ControlPlaneTarget],
) -> Option<MachineNetwork> {
    if !scene.inputs.problems.is_empty() {
        return None;
    }
    let id = scene.ledger.id(&scene.inputs.vpc.target)?;
    let vpc = scene.seen.ec2.vpcs.got()?.iter().find(|vpc| vpc.id == id)?;
    let (control_plane_targets, pending_control_plane_targets) = targets(scene, before);
    let mut network = MachineNetwork {
        region: Some(region.to_owned()),
        vpc: Some(NetworkVpc {
            id: id.to_owned(),
            cidr_blocks: vpc.cidr_blocks.clone(),
            ipv6_cidr_blocks: vec![],
        }),
        subnets: subnets(scene),
        security_groups: security_groups(scene),
        additional_tags: spec.additional_tags.clone(),
        cluster_tag: Some(scene.inputs.names.cluster.clone()),
        ssh_key_name: spec.ssh_key_name.clone().filter(|name| !name.is_empty()),
        image_lookup: spec.image_lookup(),
        control_plane_targets,
        pending_control_plane_targets,
        identity_ref: Some(spec.effective_identity_ref()),
        bootstrap_storage: spec.bootstrap_storage(),
        ..MachineNetwork::default()
    };
    // The contract limits these values.
    network.take_oversized();
    Some(network)
}

/// The subnets for machines, by their ids.
fn subnets(scene: &Scene<'_>) -> Vec<NetworkSubnet> {
    let wanted = scene.inputs.subnets.iter().filter(|subnet| !subnet.is_for_pods_only);
    let known = wanted.filter_map(|subnet| Some((scene.ledger.id(&subnet.target)?, subnet)));
    let by_id: BTreeMap<&str, _> = known.collect();
    let shown = |id: &str| scene.seen.ec2.subnets.got()?.iter().find(|shown| shown.id == id);
    let subnets = by_id.into_iter().map(|(id, subnet)| NetworkSubnet {
        id: id.to_owned(),
        // The spec may have been changed since, which moves no subnet.
        availability_zone: Some(shown(id).map_or(&subnet.zone, |shown| &shown.zone).clone()),
        public: Some(subnet.is_public),
        ..NetworkSubnet::default()
    });
    subnets.collect()
}

/// Every machine has the groups `node` and `lb`, and control plane machines that of the control plane, too.
fn security_groups(scene: &Scene<'_>) -> Option<NetworkSecurityGroups> {
    let id = |role: SecurityGroupRole| {
        let id = scene.ledger.id(&Ref::new(Kind::SecurityGroup, role.as_str()))?;
        Some(id.to_owned())
    };
    Some(NetworkSecurityGroups {
        all: vec![id(SecurityGroupRole::Node)?, id(SecurityGroupRole::Lb)?],
        control_plane: vec![id(SecurityGroupRole::ControlPlane)?],
        worker: vec![],
    })
}

/// The target groups of control plane machines: those of the spec, and those that were published `before` and exist
/// still. Without any, the load balancer that is to have one.
fn targets(scene: &Scene<'_>, before: &[ControlPlaneTarget]) -> (Vec<ControlPlaneTarget>, Option<String>) {
    let balancers = scene.inputs.load_balancers.iter();
    let listeners = balancers.clone().flat_map(|balancer| &balancer.listeners);
    let wanted = listeners.filter_map(|listener| scene.ledger.id(&listener.group.target));
    let known = scene.ledger.of_kind(Kind::TargetGroup);
    let known: Vec<&str> = known.filter_map(|target| scene.ledger.id(target)).collect();
    let published = before.iter().filter_map(|target| target.target_group_arn.as_deref());
    let published = published.filter(|arn| known.contains(arn));
    let mut targets: Vec<ControlPlaneTarget> = vec![];
    for arn in wanted.chain(published).map(str::to_owned) {
        let target = ControlPlaneTarget {
            target_group_arn: Some(arn),
            ..ControlPlaneTarget::default()
        };
        if !targets.contains(&target) && targets.len() < MOST_TARGETS {
            targets.push(target);
        }
    }
    let pending = balancers.map(|balancer| balancer.target.to_string()).next();
    let pending = pending.filter(|_| targets.is_empty());
    (targets, pending)
}
