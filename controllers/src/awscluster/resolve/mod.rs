//! Determines the network for launches from the spec and the AWS lookup. Pure.

mod discovered;
mod subnets;
mod supply;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use capa_api::cluster::AWSClusterSpec;
use capa_api::cluster::status::FailureDomain;
use capa_api::common::MachineRole;
use capa_api::conditions::{ConditionType, ConditionUpdate, Reason};
use capa_api::forms::IdKind;
use capa_api::network::{MachineNetwork, NetworkSecurityGroups, NetworkSubnet, NetworkVpc, Oversized};
use capa_cloud::ec2::Vpc;
use capa_cloud::{CloudError, ErrorClass};

use super::facts::{FoundNetwork, NetworkLookup};
use super::load_balancer::{self, Targets};
use super::network_problems::{Blocked, NetworkProblems};
use super::targets;
use crate::named_load_balancers::{keep_allowed_count, resolve_names};
use crate::{identity, tags};

use discovered::Discovered;
pub(super) use supply::Supply;

/// The values that were published before this reconcile.
#[derive(Clone, Copy)]
pub(super) struct Published<'a> {
    /// `status.network`.
    pub(super) network: &'a MachineNetwork,
    /// `status.failureDomains`.
    pub(super) failure_domains: &'a [FailureDomain],
    /// Whether the network results from the present spec. The ids in the network of another spec may be those that the
    /// user has replaced.
    pub(super) of_this_spec: bool,
}

/// The resulting network with its problems.
pub(super) struct Resolution {
    /// `status.network`.
    pub(super) network: MachineNetwork,
    /// `status.failureDomains`.
    pub(super) failure_domains: Vec<FailureDomain>,
    /// `NetworkReady`.
    pub(super) condition: ConditionUpdate,
    /// The machines that cannot be launched because of a problem, whatever their own specs name.
    pub(super) blocked: Option<Blocked>,
    /// Whether the cluster supplies subnets.
    pub(super) subnets: Supply,
    /// Whether the cluster supplies security groups.
    pub(super) security_groups: Supply,
}

/// The declared security groups without duplicates.
pub(super) fn security_group_ids(spec: &AWSClusterSpec) -> Vec<String> {
    let groups = declared_groups(spec);
    let ids: BTreeSet<String> = groups.all.into_iter().chain(groups.control_plane).chain(groups.worker).collect();
    ids.into_iter().collect()
}

fn declared_groups(spec: &AWSClusterSpec) -> NetworkSecurityGroups {
    let overrides = spec.network.as_ref().map(|network| &network.security_group_overrides);
    overrides.map(NetworkSecurityGroups::from_overrides).unwrap_or_default()
}

/// Combines spec and lookup. The condition names all problems. Without a lookup, the zones, VPC, targets and discovered
/// ids of `before` are kept, so that failure domains do not disappear because of a refused call.
pub(super) fn resolve(
    spec: &AWSClusterSpec,
    cluster_name: &str,
    endpoint_port: i32,
    lookup: &NetworkLookup,
    before: Option<Published<'_>>,
) -> Resolution {
    let mut problems = NetworkProblems::default();
    // With a refused tag no machine is launched, because all machines get the cluster's tags.
    for refused in tags::refused("spec.additionalTags", &spec.additional_tags, cluster_name) {
        problems.add_blocking(Blocked::All, refused.reason, refused.message);
    }
    if let NetworkLookup::Recorded(network, failure_domains) = lookup {
        let (network, failure_domains) = (network.as_ref().clone(), failure_domains.clone());
        return resolution(spec, lookup, &problems, network, failure_domains);
    }
    let found = match lookup {
        NetworkLookup::Found(found) => Some(found.as_ref()),
        _ => None,
    };
    // Nothing is known of another region.
    let of_region = before.filter(|before| before.network.region.as_deref() == spec.region());
    let unanswered = of_region.filter(|_| lookup.is_unanswered());
    let known = unanswered.map(|before| before.network);
    let region = region(spec, &mut problems);
    // In an answered lookup, only the search for targets can be missing.
    let of_this_spec = of_region.filter(|before| before.of_this_spec && !matches!(lookup, NetworkLookup::Disabled));
    let discovered = Discovered::new(spec, region, found, of_this_spec.map(|before| before.network));
    discovered.check_vpc(spec, &mut problems);
    // The VPC is checked first: if it does not exist, its subnets also appear to be in another VPC.
    let vpc = vpc(spec, region, (found, known), &discovered, &mut problems);
    let subnets = if discovered.has_subnets() {
        discovered.subnets(&mut problems)
    } else {
        subnets::resolve(spec, region, found, known, &mut problems)
    };
    let declared_groups = groups(spec, region, found, &mut problems);
    let (control_plane_targets, pending_control_plane_targets) =
        match load_balancer_targets(spec, endpoint_port, region, (found, before), &discovered, &mut problems) {
            Targets::Known(targets) => (targets, None),
            Targets::Pending(pending) => (vec![], Some(pending)),
        };
    let mut network = MachineNetwork {
        vpc,
        security_groups: discovered.security_groups(declared_groups, &mut problems),
        control_plane_targets,
        pending_control_plane_targets,
        subnets,
        ..spec.network_for_machines(cluster_name)
    };
    for oversized in network.take_oversized() {
        problems.add(Reason::InvalidSpec, too_long(oversized));
    }
    if let NetworkLookup::Failed(error) = lookup {
        problems.add(error.class.reason(), lookup_failed(error, spec));
    }
    if let Some(found) = found {
        let account_id = &found.account_id;
        targets::check(spec, &found.targets, account_id, &place(region, account_id), &mut problems);
    }
    let failure_domains = match unanswered.filter(|_| discovered.has_subnets() && network.subnets.is_empty()) {
        Some(before) => before.failure_domains.to_vec(),
        None => failure_domains(&network.subnets),
    };
    resolution(spec, lookup, &problems, network, failure_domains)
}

fn resolution(
    spec: &AWSClusterSpec,
    lookup: &NetworkLookup,
    problems: &NetworkProblems,
    network: MachineNetwork,
    failure_domains: Vec<FailureDomain>,
) -> Resolution {
    let condition = problems.condition().unwrap_or_else(|| match lookup {
        NetworkLookup::NoIdentity => not_looked_up(),
        _ => declared_condition(&network),
    });
    Resolution {
        blocked: problems.blocked(),
        subnets: supply::of_subnets(spec, &network, lookup),
        security_groups: supply::of_security_groups(spec, &network, lookup),
        condition,
        failure_domains,
        network,
    }
}

/// The declared region; empty if it is invalid or absent.
fn region<'a>(spec: &'a AWSClusterSpec, problems: &mut NetworkProblems) -> &'a str {
    let region = spec.region().unwrap_or_default();
    if region.is_empty() {
        let empty = spec.region.as_ref().is_none_or(String::is_empty);
        let wrong = if empty { "empty: set it" } else { "no name of a region: correct it" };
        problems.add_blocking(Blocked::All, Reason::InvalidSpec, format!("spec.region is {wrong}"));
    }
    region
}

/// The problem with the name of the field in the spec.
pub(super) fn too_long(Oversized { field, limit }: Oversized) -> String {
    let source = match field {
        "clusterTag" => "the name of the Cluster",
        "sshKeyName" => "spec.sshKeyName",
        "imageLookup.format" => "spec.imageLookupFormat",
        "imageLookup.org" => "spec.imageLookupOrg",
        "imageLookup.baseOS" => "spec.imageLookupBaseOS",
        "subnets[].availabilityZone" => "availabilityZone in spec.network.subnets",
        other => other,
    };
    format!("{source} has more than {limit} characters, more than any such value in AWS: correct it")
}

/// `NetworkReady` without problems. The message names the properties that are unknown without a lookup in AWS.
fn declared_condition(network: &MachineNetwork) -> ConditionUpdate {
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

/// `NetworkReady` without a lookup. The condition is not True, so that the lookup is made as soon as possible.
fn not_looked_up() -> ConditionUpdate {
    ConditionType::NetworkReady
        .is_unknown(Reason::NotReady, "the declared network is looked up once the identity can be used")
}

fn lookup_failed(error: &CloudError, spec: &AWSClusterSpec) -> String {
    let described = identity::described(error, &spec.effective_identity_ref());
    let region = spec.region().unwrap_or_default();
    let doubt = match error.class {
        ErrorClass::NoAnswer => ": correct spec.region if it is no region of AWS, or let the manager reach AWS there",
        _ => "",
    };
    format!(
        "the declared network could not be looked up in {region}, and the provider retries the lookup: \
         {described}{doubt}"
    )
}

/// The region and the account of a lookup, for messages.
fn place(region: &str, account_id: &str) -> String {
    format!("{region} of account {account_id}")
}

/// The targets of the control plane. While a load balancer could not be looked up, the targets known for this spec are
/// kept. Those of another spec are not, because they belong to the load balancer in that spec.
fn load_balancer_targets(
    spec: &AWSClusterSpec,
    endpoint_port: i32,
    region: &str,
    (found, before): (Option<&FoundNetwork>, Option<Published<'_>>),
    discovered: &Discovered<'_>,
    problems: &mut NetworkProblems,
) -> Targets {
    if discovered.has_targets() {
        return discovered.targets(problems);
    }
    let place = place(region, found.map_or("", |found| &found.account_id));
    let lookup = found.and_then(|found| found.load_balancer.as_ref());
    let known = before.filter(|before| before.of_this_spec);
    let known = known.map_or(&[][..], |known| &known.network.control_plane_targets);
    let targets = load_balancer::targets(spec, endpoint_port, lookup, known, &place, problems);
    let mut targets = match (targets, found) {
        (Targets::Known(targets), Some(found)) => {
            let answers = &found.named_load_balancers;
            let (resolved, unknown) = resolve_names(targets, answers, region, &found.account_id);
            for unknown in unknown {
                problems.add_blocking(Blocked::ControlPlane, unknown.reason, unknown.message);
            }
            let is_answered = answers.values().all(Result::is_ok);
            Targets::Known(if is_answered || known.is_empty() { resolved } else { known.to_vec() })
        }
        (Targets::Known(_), None) if !known.is_empty() && !load_balancer::named_among_targets(spec).is_empty() => {
            Targets::Known(known.to_vec())
        }
        (targets, _) => targets,
    };
    if let Targets::Known(targets) = &mut targets
        && let Some(problem) = keep_allowed_count(targets, "spec.controlPlaneTargets")
    {
        problems.add_blocking(Blocked::ControlPlane, problem.reason, problem.message);
    }
    targets
}

fn vpc(
    spec: &AWSClusterSpec,
    region: &str,
    (found, known): (Option<&FoundNetwork>, Option<&MachineNetwork>),
    discovered: &Discovered<'_>,
    problems: &mut NetworkProblems,
) -> Option<NetworkVpc> {
    if discovered.has_vpc() {
        let account_id = found.map_or("", |found| found.account_id.as_str());
        return discovered.vpc(&place(region, account_id), problems);
    }
    let declared = spec.vpc_id();
    if declared.is_some_and(|id| !problems.accepts_id("spec.network.vpc.id", IdKind::Vpc, id)) {
        return None;
    }
    let Some(found) = found else {
        let as_declared = || declared.map(|id| NetworkVpc { id: id.to_owned(), ..NetworkVpc::default() });
        let known = known.and_then(|known| known.vpc.clone());
        return known.filter(|vpc| declared.is_none_or(|id| id == vpc.id)).or_else(as_declared);
    };
    if let Some(id) = declared.filter(|id| !found.vpcs.iter().any(|vpc| vpc.id == **id)) {
        problems.add_for(
            discovered.held_up_without_vpc(),
            Reason::NotFound,
            not_found("VPC", id, "spec.network.vpc.id", region, &found.account_id),
        );
        return None;
    }
    let vpcs: BTreeSet<&str> = found.subnets.iter().map(|subnet| subnet.vpc_id.as_str()).collect();
    if declared.is_none() && vpcs.len() > 1 {
        let vpcs: Vec<&str> = vpcs.into_iter().collect();
        problems.add(
            Reason::Conflict,
            format!("the declared subnets lie in several VPCs ({}): declare subnets of one", vpcs.join(", ")),
        );
    }
    let uses_ipv6 = subnets::uses_ipv6(spec);
    found.vpcs.first().map(|vpc| as_network_vpc(vpc, uses_ipv6))
}

/// A VPC that AWS shows. Its IPv6 ranges are published only for clusters that use IPv6.
fn as_network_vpc(vpc: &Vpc, uses_ipv6: bool) -> NetworkVpc {
    let ipv6 = vpc.ipv6_cidr_blocks.iter().filter(|_| uses_ipv6);
    NetworkVpc { id: vpc.id.clone(), cidr_blocks: vpc.cidr_blocks.clone(), ipv6_cidr_blocks: ipv6.cloned().collect() }
}

fn groups(
    spec: &AWSClusterSpec,
    region: &str,
    found: Option<&FoundNetwork>,
    problems: &mut NetworkProblems,
) -> Option<NetworkSecurityGroups> {
    let path = "spec.network.securityGroupOverrides";
    let overrides = spec.network.iter().flat_map(|network| network.security_group_overrides.keys());
    problems.refuse_unknown_roles(path, overrides);
    let ids = security_group_ids(spec);
    if ids.is_empty() {
        return None;
    }
    let mut usable = BTreeSet::new();
    for id in &ids {
        if !problems.accepts_id(path, IdKind::SecurityGroup, id) {
            continue;
        }
        let Some(found) = found else {
            usable.insert(id.clone());
            continue;
        };
        let Some(seen) = found.security_groups.iter().find(|group| group.id == *id) else {
            problems.add(Reason::NotFound, not_found("security group", id, path, region, &found.account_id));
            continue;
        };
        match found.vpcs.first().filter(|vpc| vpc.id != seen.vpc_id) {
            Some(vpc) => problems.add(
                Reason::Conflict,
                format!("security group {id} belongs to {}, not to {}: name one of that VPC", seen.vpc_id, vpc.id),
            ),
            None => {
                usable.insert(id.clone());
            }
        }
    }
    let keep = |ids: Vec<String>| ids.into_iter().filter(|id| usable.contains(id)).collect();
    let NetworkSecurityGroups { all, control_plane, worker } = declared_groups(spec);
    Some(NetworkSecurityGroups { all: keep(all), control_plane: keep(control_plane), worker: keep(worker) })
}

/// Zones of ordinary subnets. Control plane machines may use the zones with a subnet for their role. In a zone with
/// only public subnets the machine's `publicIP` decides, and the machine's own condition reports a problem.
fn failure_domains(subnets: &[NetworkSubnet]) -> Vec<FailureDomain> {
    zones(subnets.iter(), |subnet, _| subnet.serves(MachineRole::ControlPlane))
}

/// The zones of ordinary subnets, each with whether control plane machines may use one of its subnets.
pub(super) fn zones<'a>(
    subnets: impl Iterator<Item = &'a NetworkSubnet>,
    is_for_control_plane: impl Fn(&NetworkSubnet, &str) -> bool,
) -> Vec<FailureDomain> {
    let mut zones: BTreeMap<&String, bool> = BTreeMap::new();
    for subnet in subnets.filter(|subnet| !subnet.is_edge()) {
        if let Some(zone) = &subnet.availability_zone {
            *zones.entry(zone).or_default() |= is_for_control_plane(subnet, zone);
        }
    }
    zones
        .into_iter()
        .map(|(zone, serves_control_plane)| FailureDomain {
            name: zone.clone(),
            control_plane: Some(serves_control_plane),
            ..FailureDomain::default()
        })
        .collect()
}

fn not_found(thing: &str, id: &str, path: &str, region: &str, account_id: &str) -> String {
    format!("{thing} {id} does not exist in {region} of account {account_id}: create it or correct {path}")
}
