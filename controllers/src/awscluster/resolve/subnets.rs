//! Converts the declared subnets to subnets for launches. Pure.

use std::collections::BTreeSet;

use capa_api::cluster::AWSClusterSpec;
use capa_api::cluster::subnet::SubnetSpec;
use capa_api::conditions::Reason;
use capa_api::forms::IdKind;
use capa_api::network::{MachineNetwork, NetworkSubnet, ZoneType};
use capa_cloud::ec2::{RouteTable, Subnet};
use capa_cloud::zone_type;

use super::not_found;
use crate::awscluster::facts::FoundNetwork;
use crate::awscluster::network_problems::NetworkProblems;

/// The declared subnets that AWS confirms. Without a lookup: all declared subnets with the properties that are `known`.
pub(super) fn resolve(
    spec: &AWSClusterSpec,
    region: &str,
    found: Option<&FoundNetwork>,
    known: Option<&MachineNetwork>,
    problems: &mut NetworkProblems,
) -> Vec<NetworkSubnet> {
    let mut subnets = Vec::new();
    for (declared, id) in with_ids(spec, problems) {
        let Some(found) = found else {
            let known = known.and_then(|known| known.subnets.iter().find(|subnet| subnet.id == id));
            subnets.push(from_spec(declared, id, region, known));
            continue;
        };
        let Some(seen) = found.subnets.iter().find(|subnet| subnet.id == id) else {
            problems.add(Reason::NotFound, not_found("subnet", id, "spec.network.subnets", region, &found.account_id));
            continue;
        };
        if let Some((vpc_id, path)) = vpc_of(spec, found).filter(|(vpc_id, _)| *vpc_id != seen.vpc_id) {
            problems.add(
                Reason::Conflict,
                format!("subnet {id} lies in {}, but {path} {vpc_id}: correct one of them", seen.vpc_id),
            );
            continue;
        }
        if let Some(zone) = non_empty(declared.availability_zone.as_ref()).filter(|zone| *zone != seen.zone) {
            problems.add(
                Reason::Conflict,
                format!(
                    "subnet {id} lies in zone {}, but spec.network.subnets says {zone}: correct availabilityZone",
                    seen.zone
                ),
            );
        }
        let mut subnet = from_lookup(declared, seen, region, &found.route_tables);
        // Only in a cluster that uses IPv6. Otherwise its instances would get unwanted IPv6 addresses.
        subnet.ipv6 = declared.is_ipv6.or_else(|| uses_ipv6(spec).then_some(seen.has_ipv6()));
        subnets.push(subnet);
    }
    subnets
}

/// Whether the spec says that the cluster uses IPv6. IPv6 ranges of the VPC do not mean that its clusters use IPv6.
pub(super) fn uses_ipv6(spec: &AWSClusterSpec) -> bool {
    spec.subnets().iter().any(|subnet| subnet.is_ipv6 == Some(true))
}

/// The VPC of the spec, or else of `spec.discovery`, with the part of the spec that names it.
fn vpc_of<'a>(spec: &'a AWSClusterSpec, found: &'a FoundNetwork) -> Option<(&'a str, &'static str)> {
    let named = spec.vpc_id().map(|id| (id, "spec.network.vpc.id is"));
    let [matching] = found.matching_vpcs.as_slice() else {
        return named;
    };
    named.or(Some((matching, "spec.discovery.vpc matches")))
}

/// The declared subnets in which nodes may be placed, without duplicate ids.
fn with_ids<'a>(spec: &'a AWSClusterSpec, problems: &mut NetworkProblems) -> Vec<(&'a SubnetSpec, &'a str)> {
    let path = "spec.network.subnets";
    let mut ids = BTreeSet::new();
    let mut subnets = Vec::new();
    for declared in spec.subnets().iter().filter(|subnet| !subnet.is_for_pods_only()) {
        let Some(id) = declared.effective_resource_id() else {
            problems.add(
                Reason::InvalidSpec,
                format!("{path}: {} is no subnet id: set id or resourceID to subnet-…", declared.id),
            );
            continue;
        };
        if !problems.accepts_id(path, IdKind::Subnet, id) {
            continue;
        }
        if ids.insert(id) {
            subnets.push((declared, id));
        } else {
            problems.add(
                Reason::InvalidSpec,
                format!("{path}: {id} is declared more than once: remove all entries but one"),
            );
        }
    }
    subnets
}

fn from_spec(declared: &SubnetSpec, id: &str, region: &str, known: Option<&NetworkSubnet>) -> NetworkSubnet {
    let zone = non_empty(declared.availability_zone.as_ref()).or_else(|| known?.availability_zone.as_deref());
    NetworkSubnet {
        id: id.to_owned(),
        availability_zone: zone.map(str::to_owned),
        public: declared.is_public.or_else(|| known?.public),
        ipv6: declared.is_ipv6.or_else(|| known?.ipv6),
        zone_type: declared.zone_type.or_else(|| edge_zone_type(region, zone?)),
        roles: vec![],
    }
}

/// A subnet that AWS shows, with the properties that the spec declares. The result does not contain whether the subnet
/// has IPv6.
pub(super) fn from_lookup(
    declared: &SubnetSpec,
    seen: &Subnet,
    region: &str,
    route_tables: &[RouteTable],
) -> NetworkSubnet {
    NetworkSubnet {
        id: seen.id.clone(),
        availability_zone: Some(seen.zone.clone()),
        public: declared.is_public.or_else(|| seen.is_public(route_tables)),
        ipv6: None,
        zone_type: declared.zone_type.or_else(|| edge_zone_type(region, &seen.zone)),
        roles: vec![],
    }
}

/// The type of an edge zone; `None` for an ordinary zone, for which the network has no type.
fn edge_zone_type(region: &str, zone: &str) -> Option<ZoneType> {
    Some(zone_type(region, zone)).filter(|zone_type| zone_type.is_edge())
}

fn non_empty(text: Option<&String>) -> Option<&str> {
    text.map(String::as_str).filter(|text| !text.is_empty())
}
