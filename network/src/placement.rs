//! Selects the subnet and the security groups of a machine from its network.

use std::collections::{BTreeMap, BTreeSet};

use capa_api::common::MachineRole;
use capa_api::conditions::Reason;
use capa_api::network::{MachineNetwork, NetworkSubnet};

use crate::merge::{Problem, UnlabelledKind};
use crate::missing::MissingField;

/// The requirements of a machine on its network.
#[derive(Clone, Debug)]
pub struct PlacementRequest<'a> {
    /// Role of the machine.
    pub role: MachineRole,
    /// `Machine.spec.failureDomain`: the required zone of the subnet.
    pub failure_domain: Option<&'a str>,
    /// `spec.publicIP`.
    pub public_ip: Option<bool>,
    /// Whether the machine needs an IPv6 address.
    pub needs_ipv6: bool,
    /// Whether the machine itself names its subnet. In this case the role, the edge zone and the publicness of the
    /// subnet are the user's decision.
    pub explicit_subnet: bool,
    /// `spec.additionalSecurityGroups`, resolved to ids.
    pub additional_security_group_ids: &'a [String],
    /// The number of the cluster's machines in each subnet, including those that are about to be launched.
    pub machines_by_subnet: &'a BTreeMap<String, usize>,
    /// The subnets in which EC2 had no capacity recently.
    pub capacity: &'a BTreeMap<String, Capacity>,
    /// The kind of the infrastructure object, if the object was not read.
    pub unlabelled: Option<&'a UnlabelledKind>,
}

/// The capacity of a subnet in which EC2 recently had no capacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capacity {
    /// EC2 had no capacity a moment ago: the subnet is avoided.
    Lacking,
    /// EC2 may have capacity again: the subnet is tried after the subnets without a recent lack of capacity.
    Uncertain,
}

/// Maximum number of security groups in a launch record. EC2 allows at most 16 on an interface.
const MAX_SECURITY_GROUPS: usize = 64;

/// The subnet, the zone and the security groups of a launch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// The subnet.
    pub subnet_id: String,
    /// The zone of the subnet, if known.
    pub availability_zone: Option<String>,
    /// The security groups without duplicates: those of all machines, those of the role, and the additional ones.
    pub security_group_ids: Vec<String>,
}

/// Chooses the subnet with the fewest machines of this cluster among the suitable subnets, ties by id, so that zones
/// fill evenly. A subnet without a recent lack of capacity precedes subnets with [uncertain](Capacity::Uncertain)
/// capacity. For a machine with a public address, a subnet that is known to be public precedes subnets that may be
/// private. Returns [`Reason::InsufficientCapacity`] if all suitable subnets [lack](Capacity::Lacking) capacity.
pub fn place(network: &MachineNetwork, request: &PlacementRequest<'_>) -> Result<Placement, Problem> {
    if network.region.is_none() {
        return Err(MissingField::region(request.unlabelled).into());
    }
    if network.subnets.is_empty() {
        return Err(MissingField::subnets(request.unlabelled).into());
    }
    let security_group_ids = security_groups(network, request)?;
    let fitting: Vec<&NetworkSubnet> =
        network.subnets.iter().filter(|subnet| misfit(subnet, request).is_none()).collect();
    if fitting.is_empty() {
        return Err(no_subnet(network, request));
    }
    let machines = |subnet: &NetworkSubnet| request.machines_by_subnet.get(&subnet.id).copied().unwrap_or(0);
    let capacity = |subnet: &NetworkSubnet| request.capacity.get(&subnet.id);
    let needs_public = request.public_ip == Some(true);
    let may_be_private = |subnet: &NetworkSubnet| needs_public && subnet.public.is_none();
    let subnet = fitting
        .iter()
        .filter(|subnet| capacity(subnet) != Some(&Capacity::Lacking))
        .min_by_key(|subnet| {
            let is_uncertain = capacity(subnet).is_some();
            (may_be_private(subnet), is_uncertain, machines(subnet), subnet.id.as_str())
        })
        .ok_or_else(|| no_capacity(&fitting))?;
    Ok(Placement {
        subnet_id: subnet.id.clone(),
        availability_zone: subnet.availability_zone.clone(),
        security_group_ids,
    })
}

fn security_groups(network: &MachineNetwork, request: &PlacementRequest<'_>) -> Result<Vec<String>, Problem> {
    let groups = network.security_groups.as_ref();
    let for_all = groups.map_or(&[][..], |groups| &groups.all);
    let of_role = groups.map_or(&[][..], |groups| groups.of_role(request.role));
    let mut ids: Vec<String> = Vec::new();
    for id in for_all.iter().chain(of_role).chain(request.additional_security_group_ids) {
        if !ids.contains(id) {
            ids.push(id.clone());
        }
    }
    if ids.is_empty() {
        return Err(no_security_group(request));
    }
    if ids.len() > MAX_SECURITY_GROUPS {
        let message = format!(
            "more than {MAX_SECURITY_GROUPS} security groups result for the machine, which no instance can have: \
             narrow \
             the filters of additionalSecurityGroups"
        );
        return Err(Problem::new(Reason::InvalidSpec, message));
    }
    Ok(ids)
}

fn no_security_group(request: &PlacementRequest<'_>) -> Problem {
    let unread = request.unlabelled.map_or_else(String::new, |kind| format!(" ({kind})"));
    let message = format!(
        "no source names a security group for a {} machine{unread}, and EC2 would attach the VPC's default group: let \
         the cluster's infrastructure object publish one (AWSCluster: spec.network.securityGroupOverrides), or set \
         spec.template.spec.additionalSecurityGroups in a new AWSMachineTemplate",
        request.role
    );
    Problem::new(Reason::NoSecurityGroup, message)
}

/// The reason for which a subnet is not suitable, or `None` for a suitable subnet.
fn misfit(subnet: &NetworkSubnet, request: &PlacementRequest<'_>) -> Option<String> {
    if let Some(wanted) = request.failure_domain {
        match subnet.availability_zone.as_deref() {
            Some(zone) if zone == wanted => {}
            Some(zone) => return Some(format!("zone {zone}")),
            None => return Some("zone unknown".to_owned()),
        }
    }
    if request.needs_ipv6 && subnet.ipv6 == Some(false) {
        return Some("without IPv6, but assignPrimaryIPv6 is enabled".to_owned());
    }
    if request.explicit_subnet {
        return None;
    }
    if let Some(zone_type) = subnet.zone_type.filter(|zone_type| zone_type.is_edge()) {
        return Some(format!("edge zone ({zone_type})"));
    }
    if !subnet.serves(request.role) {
        return Some(format!("not for {} machines", request.role));
    }
    match (request.public_ip.unwrap_or(false), subnet.public) {
        (true, Some(false)) => Some("private, but publicIP is set".to_owned()),
        (false, Some(true)) => Some("public, but publicIP is not set".to_owned()),
        _ => None,
    }
}

fn no_subnet(network: &MachineNetwork, request: &PlacementRequest<'_>) -> Problem {
    let reasons: Vec<String> = network
        .subnets
        .iter()
        .filter_map(|subnet| misfit(subnet, request).map(|why| format!("{}: {why}", subnet.id)))
        .collect();
    let wanted = match request.failure_domain {
        Some(zone) => format!("no subnet fits a {} machine in failure domain {zone}", request.role),
        None => format!("no subnet fits a {} machine", request.role),
    };
    Problem::new(Reason::NoSubnetInFailureDomain, format!("{wanted} ({})", reasons.join("; ")))
}

fn no_capacity(fitting: &[&NetworkSubnet]) -> Problem {
    let zones: BTreeSet<&str> =
        fitting.iter().map(|subnet| subnet.availability_zone.as_deref().unwrap_or(&subnet.id)).collect();
    let zones: Vec<&str> = zones.into_iter().collect();
    Problem::new(Reason::InsufficientCapacity, format!("EC2 had no capacity a moment ago in {}", zones.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NETWORK: &str = "
region: eu-west-1
subnets:
- {id: subnet-0000000a, availabilityZone: eu-west-1a, public: false}
- {id: subnet-0000000b, availabilityZone: eu-west-1b, public: false}
- {id: subnet-0000000c, availabilityZone: eu-west-1b, public: true}
- {id: subnet-0000000d, availabilityZone: us-west-2-lax-1a, zoneType: local-zone}
- {id: subnet-0000000e, availabilityZone: eu-west-1c, roles: [ControlPlane]}
securityGroups: {all: [sg-0000000a], controlPlane: [sg-0000000b], worker: [sg-0000000c]}
";

    fn network() -> MachineNetwork {
        serde_saphyr::from_str(NETWORK).unwrap()
    }

    const SUFFICIENT: &BTreeMap<String, Capacity> = &BTreeMap::new();

    fn worker(machines_by_subnet: &BTreeMap<String, usize>) -> PlacementRequest<'_> {
        PlacementRequest {
            role: MachineRole::Worker,
            failure_domain: None,
            public_ip: None,
            needs_ipv6: false,
            explicit_subnet: false,
            additional_security_group_ids: &[],
            machines_by_subnet,
            capacity: SUFFICIENT,
            unlabelled: None,
        }
    }

    #[test]
    fn the_subnet_with_the_fewest_machines_wins_and_ties_go_by_id() {
        let mut counts = BTreeMap::new();
        let mut order = Vec::new();
        for _ in 0..4 {
            let placement = place(&network(), &worker(&counts)).unwrap();
            *counts.entry(placement.subnet_id.clone()).or_insert(0) += 1;
            order.push(placement.subnet_id);
        }
        assert_eq!(order, ["subnet-0000000a", "subnet-0000000b", "subnet-0000000a", "subnet-0000000b"]);
    }

    fn lacking(subnets: &[&str]) -> BTreeMap<String, Capacity> {
        let lacking = subnets.iter().map(|id| ((*id).to_owned(), Capacity::Lacking));
        lacking.collect()
    }

    #[test]
    fn a_subnet_that_lacked_capacity_is_tried_after_the_others() {
        let counts = BTreeMap::from([("subnet-0000000b".to_owned(), 9)]);
        let mut capacity = BTreeMap::from([("subnet-0000000a".to_owned(), Capacity::Uncertain)]);
        let request = PlacementRequest { capacity: &capacity, ..worker(&counts) };
        assert_eq!(place(&network(), &request).unwrap().subnet_id, "subnet-0000000b");
        capacity.extend(lacking(&["subnet-0000000b"]));
        let request = PlacementRequest { capacity: &capacity, ..worker(&counts) };
        assert_eq!(place(&network(), &request).unwrap().subnet_id, "subnet-0000000a");
    }

    #[test]
    fn a_subnet_without_capacity_is_left_aside_while_another_fits() {
        let counts = BTreeMap::from([("subnet-0000000b".to_owned(), 9)]);
        let avoided = lacking(&["subnet-0000000a"]);
        let request = PlacementRequest { capacity: &avoided, ..worker(&counts) };
        assert_eq!(place(&network(), &request).unwrap().subnet_id, "subnet-0000000b");
        let pinned = PlacementRequest { failure_domain: Some("eu-west-1a"), ..request.clone() };
        let problem = place(&network(), &pinned).unwrap_err();
        assert_eq!(problem.reason, Reason::InsufficientCapacity);
        assert!(problem.message.ends_with("in eu-west-1a"), "{}", problem.message);
        let everywhere = lacking(&["subnet-0000000a", "subnet-0000000b"]);
        let request = PlacementRequest { capacity: &everywhere, ..worker(&counts) };
        let problem = place(&network(), &request).unwrap_err();
        assert!(problem.message.ends_with("in eu-west-1a, eu-west-1b"), "{}", problem.message);
    }

    #[test]
    fn the_failure_domain_is_kept() {
        let counts = BTreeMap::from([("subnet-0000000b".to_owned(), 9)]);
        let request = PlacementRequest { failure_domain: Some("eu-west-1b"), ..worker(&counts) };
        assert_eq!(place(&network(), &request).unwrap().subnet_id, "subnet-0000000b");
    }

    #[test]
    fn a_public_address_asks_for_a_public_subnet() {
        let counts = BTreeMap::new();
        let request = PlacementRequest { public_ip: Some(true), failure_domain: Some("eu-west-1b"), ..worker(&counts) };
        assert_eq!(place(&network(), &request).unwrap().subnet_id, "subnet-0000000c");
    }

    #[test]
    fn a_public_address_prefers_subnets_that_are_known_to_be_public() {
        let counts = BTreeMap::from([("subnet-0000000c".to_owned(), 9)]);
        let mut network = network();
        network.subnets[0].public = None;
        let request = PlacementRequest { public_ip: Some(true), ..worker(&counts) };
        assert_eq!(place(&network, &request).unwrap().subnet_id, "subnet-0000000c");
        let avoided = lacking(&["subnet-0000000c"]);
        let request = PlacementRequest { capacity: &avoided, ..request };
        assert_eq!(place(&network, &request).unwrap().subnet_id, "subnet-0000000a");
    }

    #[test]
    fn the_message_says_of_every_subnet_why_it_does_not_fit() {
        let counts = BTreeMap::new();
        let request = PlacementRequest { failure_domain: Some("eu-west-1c"), ..worker(&counts) };
        let problem = place(&network(), &request).unwrap_err();
        assert_eq!(problem.reason, Reason::NoSubnetInFailureDomain);
        for part in ["subnet-0000000a: zone eu-west-1a", "subnet-0000000e: not for Worker machines"] {
            assert!(problem.message.contains(part), "{}", problem.message);
        }
    }

    #[test]
    fn edge_zones_are_used_only_where_the_machine_names_the_subnet() {
        let counts = BTreeMap::new();
        let edge = MachineNetwork {
            subnets: network().subnets.into_iter().filter(NetworkSubnet::is_edge).collect(),
            ..network()
        };
        assert!(place(&edge, &worker(&counts)).is_err());
        let explicit = PlacementRequest { explicit_subnet: true, ..worker(&counts) };
        assert_eq!(place(&edge, &explicit).unwrap().subnet_id, "subnet-0000000d");
    }

    #[test]
    fn groups_are_all_then_role_then_additional_without_repetition() {
        let counts = BTreeMap::new();
        let additional = ["sg-0000000a".to_owned(), "sg-0000000f".to_owned()];
        let request = PlacementRequest {
            role: MachineRole::ControlPlane,
            additional_security_group_ids: &additional,
            ..worker(&counts)
        };
        let placement = place(&network(), &request).unwrap();
        assert_eq!(placement.security_group_ids, ["sg-0000000a", "sg-0000000b", "sg-0000000f"]);
    }

    #[test]
    fn too_many_security_groups_are_a_problem_of_their_filters() {
        let counts = BTreeMap::new();
        let place_with = |count: usize| {
            let additional: Vec<String> = (0..count).map(|number| format!("sg-{number:08x}")).collect();
            let request = PlacementRequest { additional_security_group_ids: &additional, ..worker(&counts) };
            let bare = MachineNetwork { security_groups: None, ..network() };
            place(&bare, &request)
        };
        assert_eq!(place_with(64).unwrap().security_group_ids.len(), 64);
        let problem = place_with(65).unwrap_err();
        assert_eq!(problem.reason, Reason::InvalidSpec);
        assert!(problem.message.contains("additionalSecurityGroups"), "{}", problem.message);
    }

    #[test]
    fn a_machine_without_any_security_group_is_not_placed() {
        let counts = BTreeMap::new();
        let bare = MachineNetwork { security_groups: None, ..network() };
        assert_eq!(place(&bare, &worker(&counts)).unwrap_err().reason, Reason::NoSecurityGroup);
    }

    #[test]
    fn a_missing_region_or_subnet_is_named() {
        let counts = BTreeMap::new();
        let no_region = MachineNetwork { region: None, ..network() };
        assert!(place(&no_region, &worker(&counts)).unwrap_err().message.contains("supplies region"));
        let no_subnets = MachineNetwork { subnets: vec![], ..network() };
        assert!(place(&no_subnets, &worker(&counts)).unwrap_err().message.contains("supplies subnets"));
    }
}
