//! The subnet and the security groups that the spec of a machine refers to by filters.

use std::collections::BTreeSet;

use capa_api::cluster::subnet::{ASSOCIATION_TAG, is_for_pods_only};
use capa_api::common::ResourceReference;
use capa_api::conditions::{ConditionType, Reason};
use capa_api::machine::AWSMachineSpec;
use capa_api::network::{MachineNetwork, NetworkSubnet};
use capa_cloud::ec2::Subnet;
use capa_cloud::{CloudError, Query, Reads, zone_type};
use capa_network::{Merged, Problem};
use capa_runtime::reconcile::Next;

use crate::blocked::Blocked;
use crate::filters::candidates;

/// The remedy for filters that match too much.
const NARROW: &str = "add the filter vpc-id in a new template";

/// What the spec refers to, looked up in AWS for a launch.
pub(crate) struct ResolvedReferences {
    /// The network with the machine's own subnet resolved and missing zones filled in.
    pub(crate) network: MachineNetwork,
    /// `additionalSecurityGroups` as ids.
    pub(crate) additional_security_group_ids: Vec<String>,
}

/// The reason why a reference cannot be resolved.
enum LookupError {
    /// The spec names a resource that does not exist.
    Problem(Problem),
    /// A call failed.
    Cloud(CloudError),
}

impl From<CloudError> for LookupError {
    fn from(error: CloudError) -> Self {
        Self::Cloud(error)
    }
}

impl LookupError {
    fn blocks(self, condition: ConditionType, region: &str) -> Blocked {
        match self {
            Self::Problem(problem) => Blocked::new(condition.is_false(problem.reason, problem.message), Next::Retry),
            Self::Cloud(error) => {
                let message = format!("a lookup in {region} failed: {error}");
                Blocked::by_call(condition, message, &error)
            }
        }
    }
}

/// Resolves filters and zones. The function makes a call only for inputs that the spec does not
/// contain.
pub(crate) async fn resolve(
    spec: &AWSMachineSpec,
    merged: &Merged,
    cloud: &dyn Reads,
) -> Result<ResolvedReferences, Blocked> {
    let found = look_up(spec, merged, cloud).await;
    found.map_err(|error| error.blocks(ConditionType::NetworkReady, region_of(&merged.network)))
}

/// Resolves `additionalSecurityGroups` for an instance that runs in a subnet.
pub(crate) async fn additional_security_groups(
    spec: &AWSMachineSpec,
    network: &MachineNetwork,
    subnet_id: Option<&str>,
    cloud: &dyn Reads,
) -> Result<Vec<String>, Blocked> {
    let subnet_ids: Vec<String> = subnet_id.into_iter().map(str::to_owned).collect();
    let found = additional_groups(spec, network, &subnet_ids, None, cloud).await;
    found.map_err(|error| error.blocks(ConditionType::SecurityGroupsReady, region_of(network)))
}

/// The region of a network; empty without one.
fn region_of(network: &MachineNetwork) -> &str {
    network.region.as_deref().unwrap_or_default()
}

async fn look_up(spec: &AWSMachineSpec, merged: &Merged, cloud: &dyn Reads) -> Result<ResolvedReferences, LookupError> {
    let mut network = merged.network.clone();
    let mut own_vpc_id = None;
    if let Some((subnets, vpc_id)) = filtered_subnets(spec, merged, cloud).await? {
        network.subnets = subnets;
        own_vpc_id = vpc_id;
    }
    let without_zone: Vec<String> = network
        .subnets
        .iter()
        .filter(|subnet| subnet.availability_zone.is_none())
        .map(|subnet| subnet.id.clone())
        .collect();
    if !without_zone.is_empty() {
        let seen = cloud.subnets(&Query::filter("subnet-id", without_zone)).await?;
        let region = region_of(&network).to_owned();
        for subnet in &mut network.subnets {
            if let Some(seen) = seen.iter().find(|seen| seen.id == subnet.id) {
                subnet.zone_type = subnet.zone_type.or_else(|| Some(zone_type(&region, &seen.zone)));
                subnet.ipv6 = subnet.ipv6.or_else(|| ipv6(seen, merged.uses_ipv6));
                subnet.availability_zone = Some(seen.zone.clone());
            }
        }
    }
    let subnet_ids: Vec<String> = network.subnets.iter().map(|subnet| subnet.id.clone()).collect();
    Ok(ResolvedReferences {
        additional_security_group_ids: additional_groups(spec, &network, &subnet_ids, own_vpc_id, cloud).await?,
        network,
    })
}

/// The subnets that match the machine's own filters and id, and their VPC. `None` for a machine without filters.
async fn filtered_subnets(
    spec: &AWSMachineSpec,
    merged: &Merged,
    cloud: &dyn Reads,
) -> Result<Option<(Vec<NetworkSubnet>, Option<String>)>, LookupError> {
    let network = &merged.network;
    let Some(reference) = &spec.subnet else {
        return Ok(None);
    };
    let vpc_id = network.vpc.as_ref().map(|vpc| vpc.id.as_str());
    let Some(query) = filter_query(reference, "subnet-id", vpc_id) else {
        return Ok(None);
    };
    let mut found = cloud.subnets(&query).await?;
    let matches = found.len();
    match reference.given_id() {
        Some(id) => found.retain(|subnet| subnet.id == *id),
        None => found.retain(|subnet| is_for_machines(subnet, spec, network)),
    }
    if found.is_empty() {
        let region = region_of(network);
        let message = match reference.given_id() {
            Some(id) => format!(
                "subnet {id} of spec.subnet.id does not exist in {region}, or does not match spec.subnet.filters: tag \
                 it, or name another in a new template"
            ),
            None if matches == 0 => format!(
                "no subnet in {region}{} matches spec.subnet.filters: tag one, or name other filters in a new template",
                in_vpc(reference, vpc_id)
            ),
            None => format!(
                "spec.subnet.filters matches only subnets for pods, with the tag {ASSOCIATION_TAG}: secondary, or \
                 private ones although publicIP is true: name other filters in a new template"
            ),
        };
        return Err(LookupError::Problem(Problem::new(Reason::NotFound, message)));
    }
    let places = found.iter().map(|subnet| (subnet.id.as_str(), subnet.vpc_id.as_str()));
    let vpc_id = the_vpc("spec.subnet.filters matches subnets", NARROW, places)?;
    let subnets = found.iter().map(|subnet| as_network(subnet, merged)).collect();
    Ok(Some((subnets, vpc_id)))
}

/// Whether a machine may be placed in a subnet that its filters match: neither in one for pods nor, with `publicIP`, in
/// one that the network says is private.
fn is_for_machines(subnet: &Subnet, spec: &AWSMachineSpec, network: &MachineNetwork) -> bool {
    let mut known = network.subnets.iter();
    let is_private = known.any(|known| known.id == subnet.id && known.public == Some(false));
    let is_refused = is_private && spec.public_ip == Some(true);
    !is_for_pods_only(&subnet.tags) && !is_refused
}

/// The ids of `additionalSecurityGroups`. Filters search in the VPC of the subnets in which the instance may be placed:
/// `own_vpc_id` where that is known.
async fn additional_groups(
    spec: &AWSMachineSpec,
    network: &MachineNetwork,
    subnet_ids: &[String],
    own_vpc_id: Option<String>,
    cloud: &dyn Reads,
) -> Result<Vec<String>, LookupError> {
    let mut ids = Vec::new();
    let mut references = spec.additional_security_groups.iter();
    let vpc_id = match own_vpc_id {
        None if references.any(searches_in_vpc) => vpc_of_subnets(spec, network, subnet_ids, cloud).await?,
        known => known,
    };
    for (index, reference) in spec.additional_security_groups.iter().enumerate() {
        let Some(query) = filter_query(reference, "group-id", vpc_id.as_deref()) else {
            ids.extend(reference.given_id().cloned());
            continue;
        };
        let mut found = cloud.security_groups(&query).await?;
        found.retain(|group| reference.given_id().is_none_or(|id| *id == group.id));
        let path = format!("spec.additionalSecurityGroups[{index}]");
        if found.is_empty() {
            let message = format!(
                "no security group in {}{} matches {path}: tag one, or name other filters in a new template",
                region_of(network),
                in_vpc(reference, vpc_id.as_deref())
            );
            return Err(LookupError::Problem(Problem::new(Reason::NotFound, message)));
        }
        let places = found.iter().map(|group| (group.id.as_str(), group.vpc_id.as_str()));
        the_vpc(&format!("{path} matches security groups"), NARROW, places)?;
        let mut found: Vec<String> = found.into_iter().map(|group| group.id).collect();
        found.sort();
        ids.extend(found);
    }
    Ok(ids)
}

/// The VPC of the subnets in which an instance may be placed. The network names it, unless the machine has a subnet of
/// its own, which may lie in another VPC.
async fn vpc_of_subnets(
    spec: &AWSMachineSpec,
    network: &MachineNetwork,
    subnet_ids: &[String],
    cloud: &dyn Reads,
) -> Result<Option<String>, LookupError> {
    let of_network = network.vpc.as_ref().map(|vpc| vpc.id.clone());
    if subnet_ids.is_empty() || (of_network.is_some() && !spec.names_subnet()) {
        return Ok(of_network);
    }
    let query = Query::filter("subnet-id", subnet_ids.iter().cloned());
    let seen = cloud.subnets(&query).await?;
    let places = seen.iter().map(|subnet| (subnet.id.as_str(), subnet.vpc_id.as_str()));
    let remedy = "name one of them in spec.subnet of a new template";
    let vpc_id = the_vpc("the subnets of the network lie", remedy, places)?;
    Ok(vpc_id.or(of_network))
}

/// The one VPC that all resources lie in; `None` without resources.
///
/// # Errors
/// The resources lie in several VPCs. The message begins with `what`, names the resources and their VPCs, and ends with
/// `remedy`.
fn the_vpc<'a>(
    what: &str,
    remedy: &str,
    places: impl Iterator<Item = (&'a str, &'a str)> + Clone,
) -> Result<Option<String>, LookupError> {
    let vpcs: BTreeSet<&str> = places.clone().map(|(_, vpc_id)| vpc_id).collect();
    if vpcs.len() > 1 {
        let each = candidates(places.map(|(id, vpc_id)| format!("{id} of {vpc_id}")));
        let message = format!("{what} in several VPCs: {each}: {remedy}");
        return Err(LookupError::Problem(Problem::new(Reason::Conflict, message)));
    }
    Ok(vpcs.into_iter().next().map(str::to_owned))
}

/// Whether the filters of a reference find resources of every VPC.
fn searches_in_vpc(reference: &ResourceReference) -> bool {
    !reference.filters.is_empty() && reference.given_id().is_none() && !names_vpc(reference)
}

/// Whether the user's own filters say in which VPC to search.
fn names_vpc(reference: &ResourceReference) -> bool {
    reference.filters.iter().any(|filter| filter.name == "vpc-id")
}

/// The VPC that narrows a query for filters, for messages.
fn in_vpc(reference: &ResourceReference, vpc_id: Option<&str>) -> String {
    let vpc_id = vpc_id.filter(|_| !names_vpc(reference));
    vpc_id.map_or_else(String::new, |id| format!(" ({id})"))
}

/// The query for the filters of a reference. `None` for a reference without filters.
fn filter_query(reference: &ResourceReference, id_filter: &str, vpc_id: Option<&str>) -> Option<Query> {
    if reference.filters.is_empty() {
        return None;
    }
    let filters = reference.filters.iter();
    let filters = filters.map(|filter| (filter.name.clone(), filter.values.clone()));
    let query = Query { filters: filters.collect() };
    Some(match (reference.given_id(), vpc_id) {
        (Some(id), _) => query.and(id_filter, [id]),
        // Names and tags repeat from VPC to VPC. The filters of a machine in another VPC than its cluster's have to
        // name that VPC.
        (None, Some(vpc_id)) if !names_vpc(reference) => query.and("vpc-id", [vpc_id]),
        (None, _) => query,
    })
}

/// Whether instances in a subnet get an IPv6 address. `None` if they get one only if their machines ask for it.
fn ipv6(seen: &Subnet, uses_ipv6: bool) -> Option<bool> {
    Some(seen.has_ipv6()).filter(|ipv6| !ipv6 || uses_ipv6)
}

fn as_network(subnet: &Subnet, merged: &Merged) -> NetworkSubnet {
    NetworkSubnet {
        id: subnet.id.clone(),
        availability_zone: Some(subnet.zone.clone()),
        zone_type: Some(zone_type(region_of(&merged.network), &subnet.zone)),
        ipv6: ipv6(subnet, merged.uses_ipv6),
        ..NetworkSubnet::default()
    }
}
