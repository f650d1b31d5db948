//! The searches in AWS for the parts of a network that `spec.discovery` describes. All parts lie in one VPC: names and
//! tags repeat from VPC to VPC.

use std::collections::BTreeSet;

use capa_api::cluster::AWSClusterSpec;
use capa_api::cluster::discovery::{DiscoveryFilters, SecurityGroupDiscovery, TargetDiscovery};
use capa_api::common::Filter;
use capa_api::forms::IdKind;
use capa_api::network::NetworkSecurityGroups;
use capa_cloud::ec2::Vpc;
use capa_cloud::elb::TargetType;
use capa_cloud::{CloudError, ClusterCloud, Query};

use super::facts::{FoundNetwork, FoundParts, TargetSearch};
use crate::filters::{query, query_in};

/// The most target groups of a VPC whose tags are read: 20 calls.
const MAX_TARGET_GROUPS: usize = 400;

/// Adds what matches `spec.discovery` to `found`. Unless exactly one VPC matches and exists, no other part is searched
/// for.
pub(super) async fn search(
    cloud: &dyn ClusterCloud,
    spec: &AWSClusterSpec,
    found: &mut FoundNetwork,
) -> Result<(), CloudError> {
    let discovery = spec.effective_discovery();
    let vpcs = match (spec.vpc_id(), &discovery.vpc) {
        (Some(id), _) => named_vpc(cloud, id).await?,
        (None, Some(filters)) => cloud.vpcs(&query(&filters.filters)).await?,
        (None, None) => return Ok(()),
    };
    let ids: BTreeSet<&str> = vpcs.iter().map(|vpc| vpc.id.as_str()).collect();
    found.matching_vpcs = ids.into_iter().map(str::to_owned).collect();
    let [vpc] = vpcs.as_slice() else {
        return Ok(());
    };
    let mut parts = FoundParts::default();
    for entry in &discovery.subnets {
        parts.subnets.push(subnets(cloud, &entry.filters, &vpc.id, found).await?);
    }
    if let Some(groups) = &discovery.security_groups {
        parts.security_groups = security_groups(cloud, groups, &vpc.id, found).await?;
    }
    if let Some(targets) = &discovery.control_plane_targets {
        // Only control plane machines need the targets, so a failed search does not discard the other results.
        let answer = target_groups(cloud, targets, &vpc.id).await;
        parts.targets = Some(answer.unwrap_or_else(TargetSearch::Failed));
    }
    found.vpcs = vpcs;
    found.parts = Some(parts);
    Ok(())
}

async fn named_vpc(cloud: &dyn ClusterCloud, id: &str) -> Result<Vec<Vpc>, CloudError> {
    if !IdKind::Vpc.is_id(id) {
        return Ok(vec![]);
    }
    let mut vpcs = cloud.vpcs(&Query::filter("vpc-id", [id])).await?;
    vpcs.retain(|vpc| vpc.id == id);
    Ok(vpcs)
}

/// The ids of the subnets of a VPC that match the filters.
async fn subnets(
    cloud: &dyn ClusterCloud,
    filters: &[Filter],
    vpc_id: &str,
    found: &mut FoundNetwork,
) -> Result<Vec<String>, CloudError> {
    let mut matching = cloud.subnets(&query_in(filters, vpc_id)).await?;
    matching.retain(|subnet| subnet.vpc_id == vpc_id);
    let ids: BTreeSet<String> = matching.iter().map(|subnet| subnet.id.clone()).collect();
    for subnet in matching {
        if !found.subnets.iter().any(|known| known.id == subnet.id) {
            found.subnets.push(subnet);
        }
    }
    Ok(ids.into_iter().collect())
}

async fn security_groups(
    cloud: &dyn ClusterCloud,
    discovery: &SecurityGroupDiscovery,
    vpc_id: &str,
    found: &mut FoundNetwork,
) -> Result<NetworkSecurityGroups, CloudError> {
    let mut matching = async |wanted: &Option<DiscoveryFilters>| -> Result<Vec<String>, CloudError> {
        let Some(wanted) = wanted else {
            return Ok(vec![]);
        };
        let mut groups = cloud.security_groups(&query_in(&wanted.filters, vpc_id)).await?;
        groups.retain(|group| group.vpc_id == vpc_id);
        let ids: BTreeSet<String> = groups.iter().map(|group| group.id.clone()).collect();
        found.security_groups.extend(groups);
        Ok(ids.into_iter().collect())
    };
    Ok(NetworkSecurityGroups {
        all: matching(&discovery.all).await?,
        control_plane: matching(&discovery.control_plane).await?,
        worker: matching(&discovery.worker).await?,
    })
}

/// The target groups of a VPC that have all of the tags. AWS has no filter for them, so the tags are compared here.
async fn target_groups(
    cloud: &dyn ClusterCloud,
    discovery: &TargetDiscovery,
    vpc_id: &str,
) -> Result<TargetSearch, CloudError> {
    let groups = cloud.target_groups_in(vpc_id).await?.into_iter();
    let usable = groups.filter(|group| matches!(group.target_type, TargetType::Instance | TargetType::Ip(_)));
    let arns: Vec<String> = usable.map(|group| group.arn).collect();
    if arns.len() > MAX_TARGET_GROUPS {
        return Ok(TargetSearch::TooMany(MAX_TARGET_GROUPS));
    }
    let tagged = cloud.target_group_tags(&arns).await?.into_iter();
    let matching = tagged.filter(|(_, tags)| discovery.tags.iter().all(|(key, value)| tags.get(key) == Some(value)));
    let arns: BTreeSet<String> = matching.map(|(arn, _)| arn).collect();
    Ok(TargetSearch::Matching(arns.into_iter().collect()))
}
