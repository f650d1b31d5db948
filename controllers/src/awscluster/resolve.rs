//! From spec and what AWS showed to the network that machines are launched into. Pure.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::time::Duration;

use capa_api::cluster::AWSClusterSpec;
use capa_api::cluster::status::FailureDomain;
use capa_api::cluster::subnet::SubnetSpec;
use capa_api::conditions::{ConditionType, ConditionUpdate, Reason};
use capa_api::network::{MachineNetwork, NetworkSecurityGroups, NetworkSubnet, NetworkVpc, Oversized, ZoneType};
use capa_cloud::{CloudError, RouteTable, SecurityGroup, Subnet, Vpc, zone_type};

use super::load_balancer::{self, Targets};
use super::problems::Problems;
use crate::tags;

/// What is known from AWS about what the spec declares.
#[derive(Clone)]
pub(super) enum Lookup {
    /// Nothing was to be looked up.
    NotWanted,
    /// There is no identity to look anything up with.
    NotPossible,
    /// The last complete lookup is still good.
    Kept(Box<MachineNetwork>, Vec<FailureDomain>),
    /// A call failed.
    Failed(CloudError),
    /// What AWS showed.
    Found(Box<Found>),
}

impl Lookup {
    /// When a call that our own limits deferred has its turn.
    pub(super) fn turn(&self) -> Option<Duration> {
        match self {
            Self::Failed(error) => error.retry_after,
            Self::Found(found) => match &found.load_balancer {
                Some(load_balancer::Seen::Unreadable(error)) => error.retry_after,
                _ => None,
            },
            Self::NotWanted | Self::NotPossible | Self::Kept(..) => None,
        }
    }
}

/// What AWS showed.
#[derive(Clone, Default)]
pub(super) struct Found {
    /// Account that was asked.
    pub(super) account_id: String,
    /// VPCs.
    pub(super) vpcs: Vec<Vpc>,
    /// Subnets.
    pub(super) subnets: Vec<Subnet>,
    /// Security groups.
    pub(super) security_groups: Vec<SecurityGroup>,
    /// Route tables of the VPC.
    pub(super) route_tables: Vec<RouteTable>,
    /// The load balancer that the spec names.
    pub(super) load_balancer: Option<load_balancer::Seen>,
}

/// The network that results, and what is wrong with it.
pub(super) struct Resolution {
    /// `status.network`.
    pub(super) network: MachineNetwork,
    /// `status.failureDomains`.
    pub(super) failure_domains: Vec<FailureDomain>,
    /// `NetworkReady`.
    pub(super) condition: ConditionUpdate,
    /// Whether anything can be launched: a subnet is left, or none was declared and machines bring their own; and no tag
    /// stands against it.
    pub(super) usable: bool,
}

/// Every security group that the spec declares, once.
pub(super) fn security_group_ids(spec: &AWSClusterSpec) -> Vec<String> {
    let groups = declared_groups(spec);
    let ids: BTreeSet<String> = groups
        .all
        .into_iter()
        .chain(groups.control_plane)
        .chain(groups.worker)
        .collect();
    ids.into_iter().collect()
}

fn declared_groups(spec: &AWSClusterSpec) -> NetworkSecurityGroups {
    let overrides = spec.network.as_ref().map(|network| &network.security_group_overrides);
    overrides.map(NetworkSecurityGroups::from_overrides).unwrap_or_default()
}

/// Brings spec and lookup together. A problem never hides another: the condition names all of them. What `before`, the
/// network published last, tells about a subnet, VPC or load balancer stays true while nothing can be looked up: zones and
/// failure domains do not vanish because a call was refused.
pub(super) fn resolve(
    spec: &AWSClusterSpec,
    cluster_name: &str,
    api_port: i32,
    lookup: &Lookup,
    before: Option<&MachineNetwork>,
) -> Resolution {
    let mut problems = Problems::default();
    // With one of these no machine is launched, for all get the cluster's tags.
    for refused in tags::refused("spec.additionalTags", &spec.additional_tags) {
        problems.add(refused.reason, refused.message);
    }
    let launchable = problems.is_empty();
    if let Lookup::Kept(network, failure_domains) = lookup {
        return Resolution {
            usable: launchable && (spec.subnets().is_empty() || !network.subnets.is_empty()),
            condition: problems.condition().unwrap_or_else(|| declared(network)),
            network: network.as_ref().clone(),
            failure_domains: failure_domains.clone(),
        };
    }
    let found = match lookup {
        Lookup::Found(found) => Some(found.as_ref()),
        _ => None,
    };
    let known = before.filter(|_| matches!(lookup, Lookup::Failed(_) | Lookup::NotPossible));
    let region = region(spec, &mut problems);
    // The VPC first: one that does not exist is why its subnets seem to lie elsewhere.
    let vpc = vpc(spec, region, found, known, &mut problems);
    let subnets = subnets(spec, region, found, known, &mut problems);
    let (control_plane_targets, pending_control_plane_targets) =
        match targets(spec, api_port, region, found, before, &mut problems) {
            Targets::Known(targets) => (targets, None),
            Targets::Pending(pending) => (vec![], Some(pending)),
        };
    let mut network = MachineNetwork {
        region: spec.region().map(str::to_owned),
        vpc,
        security_groups: groups(spec, region, found, &mut problems),
        additional_tags: spec.additional_tags.clone(),
        cluster_tag: Some(cluster_name.to_owned()),
        ssh_key_name: spec.ssh_key_name.clone().filter(|name| !name.is_empty()),
        image_lookup: spec.image_lookup(),
        control_plane_targets,
        pending_control_plane_targets,
        identity_ref: Some(spec.effective_identity_ref()),
        subnets,
        ..MachineNetwork::default()
    };
    for oversized in network.take_oversized() {
        problems.add(Reason::InvalidSpec, too_long(oversized));
    }
    if let Lookup::Failed(error) = lookup {
        problems.add(error.class.reason(), failed(error));
    }
    let condition = problems.condition().unwrap_or_else(|| match lookup {
        Lookup::NotPossible => not_looked_up(),
        _ => declared(&network),
    });
    Resolution {
        usable: launchable && !region.is_empty() && (spec.subnets().is_empty() || !network.subnets.is_empty()),
        failure_domains: failure_domains(&network.subnets),
        condition,
        network,
    }
}

/// The declared region, empty where it is none.
fn region<'a>(spec: &'a AWSClusterSpec, problems: &mut Problems) -> &'a str {
    let region = spec.region().unwrap_or_default();
    if region.is_empty() {
        let empty = spec.region.as_ref().is_none_or(String::is_empty);
        let wrong = if empty {
            "empty: set it"
        } else {
            "no name of a region: correct it"
        };
        problems.add(Reason::InvalidSpec, format!("spec.region is {wrong}"));
    }
    region
}

/// What the published field stands for in the spec.
fn too_long(Oversized { field, limit }: Oversized) -> String {
    let source = match field {
        "clusterTag" => "the name of the Cluster",
        "sshKeyName" => "spec.sshKeyName",
        "imageLookup.format" => "spec.imageLookupFormat",
        "imageLookup.org" => "spec.imageLookupOrg",
        "imageLookup.baseOS" => "spec.imageLookupBaseOS",
        "subnets[].availabilityZone" => "availabilityZone in spec.network.subnets",
        other => other,
    };
    format!("{source} has more than {limit} characters, which nothing of that kind has in AWS: correct it")
}

/// `NetworkReady` when nothing is wrong: what could not be known without asking AWS is still named.
fn declared(network: &MachineNetwork) -> ConditionUpdate {
    let bare = network.subnets.is_empty() && network.vpc.is_none() && network.security_groups.is_none();
    if bare {
        return ConditionType::NetworkReady
            .is_true(Reason::NothingDeclared)
            .with_message("no network is declared: machines bring their own");
    }
    let unknown: Vec<&str> = network
        .subnets
        .iter()
        .filter(|subnet| subnet.availability_zone.is_none())
        .map(|subnet| subnet.id.as_str())
        .collect();
    let ready = ConditionType::NetworkReady.is_true(Reason::Ready);
    if unknown.is_empty() {
        return ready;
    }
    ready.with_message(format!(
        "no failure domain for {}: its zone is not declared and lookups are disabled; set availabilityZone",
        unknown.join(", ")
    ))
}

/// Not True, so that the lookup is made as soon as it can be.
fn not_looked_up() -> ConditionUpdate {
    ConditionType::NetworkReady.is_unknown(
        Reason::NotReady,
        "the declared network is looked up once the identity can be used",
    )
}

fn failed(error: &CloudError) -> String {
    format!("the declared network could not be looked up, it is tried again: {error}")
}

fn targets(
    spec: &AWSClusterSpec,
    api_port: i32,
    region: &str,
    found: Option<&Found>,
    known: Option<&MachineNetwork>,
    problems: &mut Problems,
) -> Targets {
    let account_id = found.map_or("", |found| &found.account_id);
    let place = format!("{region} of account {account_id}");
    let seen = found.and_then(|found| found.load_balancer.as_ref());
    let known = known.map(|known| known.control_plane_targets.as_slice());
    load_balancer::targets(spec, api_port, seen, known.unwrap_or_default(), &place, problems)
}

fn subnets(
    spec: &AWSClusterSpec,
    region: &str,
    found: Option<&Found>,
    known: Option<&MachineNetwork>,
    problems: &mut Problems,
) -> Vec<NetworkSubnet> {
    let mut subnets = Vec::new();
    for (declared, id) in identified(spec, problems) {
        let Some(found) = found else {
            let known = known.and_then(|known| known.subnets.iter().find(|subnet| subnet.id == id));
            subnets.push(as_declared(declared, id, region, known));
            continue;
        };
        let Some(seen) = found.subnets.iter().find(|subnet| subnet.id == id) else {
            problems.add(
                Reason::NotFound,
                missing("subnet", id, "spec.network.subnets", region, &found.account_id),
            );
            continue;
        };
        if let Some(vpc_id) = spec.vpc_id().filter(|vpc_id| *vpc_id != seen.vpc_id) {
            problems.add(
                Reason::Conflict,
                format!(
                    "subnet {id} lies in {}, but spec.network.vpc.id is {vpc_id}: correct one of them",
                    seen.vpc_id
                ),
            );
            continue;
        }
        if let Some(zone) = given(declared.availability_zone.as_ref()).filter(|zone| *zone != seen.availability_zone) {
            problems.add(
                Reason::Conflict,
                format!(
                    "subnet {id} lies in zone {}, but spec.network.subnets says {zone}: correct availabilityZone",
                    seen.availability_zone
                ),
            );
        }
        subnets.push(as_seen(declared, seen, region, &found.route_tables));
    }
    subnets
}

/// The declared subnets that nodes may be placed in, each id once.
fn identified<'a>(spec: &'a AWSClusterSpec, problems: &mut Problems) -> Vec<(&'a SubnetSpec, &'a str)> {
    let path = "spec.network.subnets";
    let mut ids = BTreeSet::new();
    let mut subnets = Vec::new();
    for declared in spec.subnets().iter().filter(|subnet| !subnet.is_for_pods_only()) {
        let Some(id) = declared.effective_resource_id() else {
            problems.add(
                Reason::InvalidSpec,
                format!(
                    "{path}: {} is no subnet id: set id or resourceID to subnet-…",
                    declared.id
                ),
            );
            continue;
        };
        if !problems.accepts_id(path, "subnet-", id) {
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

fn as_declared(declared: &SubnetSpec, id: &str, region: &str, known: Option<&NetworkSubnet>) -> NetworkSubnet {
    let zone = given(declared.availability_zone.as_ref()).or_else(|| known?.availability_zone.as_deref());
    NetworkSubnet {
        id: id.to_owned(),
        availability_zone: zone.map(str::to_owned),
        public: declared.is_public.or_else(|| known?.public),
        ipv6: declared.is_ipv6.or_else(|| known?.ipv6),
        zone_type: declared.zone_type.or_else(|| edge(region, zone?)),
        roles: vec![],
    }
}

fn as_seen(declared: &SubnetSpec, seen: &Subnet, region: &str, route_tables: &[RouteTable]) -> NetworkSubnet {
    NetworkSubnet {
        id: seen.id.clone(),
        availability_zone: Some(seen.availability_zone.clone()),
        public: declared.is_public.or_else(|| is_public(seen, route_tables)),
        ipv6: Some(seen.ipv6).filter(|ipv6| *ipv6).or(declared.is_ipv6),
        zone_type: declared.zone_type.or_else(|| edge(region, &seen.availability_zone)),
        roles: vec![],
    }
}

/// Ordinary zones are not spelled out: the absence of a type means one.
fn edge(region: &str, zone: &str) -> Option<ZoneType> {
    zone_type(region, zone)
        .parse()
        .ok()
        .filter(|kind: &ZoneType| kind.is_edge())
}

/// A subnet is public if the route table that serves it, its own or else the main one, leads to an internet gateway.
fn is_public(subnet: &Subnet, route_tables: &[RouteTable]) -> Option<bool> {
    let own = route_tables.iter().find(|table| table.subnet_ids.contains(&subnet.id));
    let main = || {
        route_tables
            .iter()
            .find(|table| table.main && table.vpc_id == subnet.vpc_id)
    };
    own.or_else(main).map(|table| table.internet_gateway_route)
}

fn vpc(
    spec: &AWSClusterSpec,
    region: &str,
    found: Option<&Found>,
    known: Option<&MachineNetwork>,
    problems: &mut Problems,
) -> Option<NetworkVpc> {
    let declared = spec.vpc_id();
    if declared.is_some_and(|id| !problems.accepts_id("spec.network.vpc.id", "vpc-", id)) {
        return None;
    }
    let Some(found) = found else {
        let as_declared = || {
            declared.map(|id| NetworkVpc {
                id: id.to_owned(),
                ..NetworkVpc::default()
            })
        };
        let known = known.and_then(|known| known.vpc.clone());
        return known
            .filter(|vpc| declared.is_none_or(|id| id == vpc.id))
            .or_else(as_declared);
    };
    if let Some(id) = declared.filter(|id| !found.vpcs.iter().any(|vpc| vpc.id == **id)) {
        problems.add(
            Reason::NotFound,
            missing("VPC", id, "spec.network.vpc.id", region, &found.account_id),
        );
        return None;
    }
    let vpcs: BTreeSet<&str> = found.subnets.iter().map(|subnet| subnet.vpc_id.as_str()).collect();
    if declared.is_none() && vpcs.len() > 1 {
        let vpcs: Vec<&str> = vpcs.into_iter().collect();
        problems.add(
            Reason::Conflict,
            format!(
                "the declared subnets lie in several VPCs ({}): declare subnets of one",
                vpcs.join(", ")
            ),
        );
    }
    let seen = found.vpcs.first()?;
    Some(NetworkVpc {
        id: seen.id.clone(),
        cidr_blocks: seen.cidr_blocks.clone(),
        ipv6_cidr_blocks: seen.ipv6_cidr_blocks.clone(),
    })
}

fn groups(
    spec: &AWSClusterSpec,
    region: &str,
    found: Option<&Found>,
    problems: &mut Problems,
) -> Option<NetworkSecurityGroups> {
    let path = "spec.network.securityGroupOverrides";
    let overrides = spec
        .network
        .iter()
        .flat_map(|network| network.security_group_overrides.keys());
    problems.refuse_unknown_roles(path, overrides);
    let ids = security_group_ids(spec);
    if ids.is_empty() {
        return None;
    }
    let mut usable = BTreeSet::new();
    for id in &ids {
        if !problems.accepts_id(path, "sg-", id) {
            continue;
        }
        let Some(found) = found else {
            usable.insert(id.clone());
            continue;
        };
        let Some(seen) = found.security_groups.iter().find(|group| group.id == *id) else {
            problems.add(
                Reason::NotFound,
                missing("security group", id, path, region, &found.account_id),
            );
            continue;
        };
        match found.vpcs.first().filter(|vpc| vpc.id != seen.vpc_id) {
            Some(vpc) => problems.add(
                Reason::Conflict,
                format!(
                    "security group {id} belongs to {}, not to {}: name one of that VPC",
                    seen.vpc_id, vpc.id
                ),
            ),
            None => {
                usable.insert(id.clone());
            }
        }
    }
    let keep = |ids: Vec<String>| ids.into_iter().filter(|id| usable.contains(id)).collect();
    let NetworkSecurityGroups {
        all,
        control_plane,
        worker,
    } = declared_groups(spec);
    Some(NetworkSecurityGroups {
        all: keep(all),
        control_plane: keep(control_plane),
        worker: keep(worker),
    })
}

/// Zones of ordinary subnets. Control planes may use all of them: where a zone has only public subnets, it is the
/// machine's `publicIP` that decides, and its own condition that tells.
fn failure_domains(subnets: &[NetworkSubnet]) -> Vec<FailureDomain> {
    let zones: BTreeSet<&String> = subnets
        .iter()
        .filter(|subnet| !subnet.is_edge())
        .filter_map(|subnet| subnet.availability_zone.as_ref())
        .collect();
    zones
        .into_iter()
        .map(|zone| FailureDomain {
            name: zone.clone(),
            control_plane: Some(true),
            ..FailureDomain::default()
        })
        .collect()
}

fn given(text: Option<&String>) -> Option<&str> {
    text.map(String::as_str).filter(|text| !text.is_empty())
}

fn missing(thing: &str, id: &str, path: &str, region: &str, account_id: &str) -> String {
    format!("{thing} {id} does not exist in {region} of account {account_id}: create it or correct {path}")
}
