//! A VPC that the user brings, with its subnets and security groups. The provider creates only security groups and load
//! balancers in it, and does not change resources of the user. Pure.

use capa_api::cluster::AWSClusterSpec;
use capa_api::cluster::security_group::SecurityGroupRole;
use capa_api::cluster::status::{ClusterResource, Lifecycle};
use capa_api::cluster::subnet::{ASSOCIATION_TAG, SubnetSpec};
use capa_api::common::Tags;
use capa_api::conditions::Reason;
use capa_api::meta;
use capa_cloud::{is_reserved_tag, zone_type};

use super::{Known, WantedSubnet, problem, vpc_spec};
use crate::awscluster::managed::layout::range;
use crate::awscluster::managed::problem::Problem;
use crate::awscluster::managed::reference::{Kind, Ref};

/// The recorded resource that has an id.
fn recorded<'a>(resources: &'a [ClusterResource], kind: Kind, name: Option<&str>) -> Option<&'a ClusterResource> {
    let is_of_name = |resource: &ClusterResource| name.is_none_or(|name| resource.name == name);
    let mut resources = resources.iter().filter(|resource| resource.id.is_some());
    resources.find(|resource| resource.resource_type.parse() == Ok(kind) && is_of_name(resource))
}

/// The id of a resource of the user. A recorded id is final, whatever the spec says.
fn id(recorded: Option<&ClusterResource>, of_spec: Option<&str>) -> Option<String> {
    let id = match recorded {
        Some(resource) if resource.lifecycle == Lifecycle::Shared => resource.id.as_deref(),
        Some(_) => None,
        None => of_spec,
    };
    id.map(str::to_owned)
}

/// Whether the VPC of the cluster is recorded.
pub(in crate::awscluster::managed) fn is_recorded(resources: &[ClusterResource]) -> bool {
    recorded(resources, Kind::Vpc, None).is_some()
}

/// The id of the VPC, if it is the user's.
pub(in crate::awscluster::managed) fn vpc(
    spec: &AWSClusterSpec,
    cluster: &str,
    resources: &[ClusterResource],
) -> Option<String> {
    let of_spec = spec.vpc_id().filter(|_| !is_made_for(spec, cluster));
    id(recorded(resources, Kind::Vpc, None), of_spec)
}

/// The id of the VPC, if CAPA has created it for the cluster and it is not recorded yet.
pub(in crate::awscluster::managed) fn vpc_of_capa(
    spec: &AWSClusterSpec,
    cluster: &str,
    resources: &[ClusterResource],
) -> Option<String> {
    let of_spec = spec.vpc_id().filter(|_| is_made_for(spec, cluster));
    of_spec.filter(|_| !is_recorded(resources)).map(str::to_owned)
}

/// The problem of the VPC id in the spec, if the recorded VPC has another id.
pub(in crate::awscluster::managed) fn other_vpc(
    spec: &AWSClusterSpec,
    resources: &[ClusterResource],
) -> Option<String> {
    let recorded = recorded(resources, Kind::Vpc, None)?;
    let (is, of_spec) = (recorded.id.as_deref()?, spec.vpc_id());
    match (recorded.lifecycle, of_spec) {
        (Lifecycle::Owned, Some(of_spec)) if of_spec != is => Some(format!(
            "the provider has created {is} for the cluster, which does not move to {of_spec}: leave network.vpc.id out"
        )),
        (Lifecycle::Shared, of_spec) if of_spec != Some(is) => Some(format!(
            "the cluster is in {is}, where its security groups and load balancers are: set network.vpc.id back to it"
        )),
        _ => None,
    }
}

/// Whether the spec says that its VPC was created for the cluster: CAPA writes the id and tags of a VPC into the spec,
/// and the tags of a VPC that CAPA has created include the tag of the cluster.
pub(in crate::awscluster::managed) fn is_made_for(spec: &AWSClusterSpec, cluster: &str) -> bool {
    let tags = vpc_spec(spec).tags;
    let owned = tags.get(&meta::cluster_tag(cluster));
    spec.vpc_id().is_some() && owned.is_some_and(|value| value == meta::OWNED_TAG_VALUE)
}

/// The tags that the spec asks for on a VPC of the provider. Tags that CAPA has written into the spec are excluded,
/// because they are those that the VPC had at that time.
pub(super) fn own_tags_of_vpc(spec: &AWSClusterSpec, cluster: &str) -> Tags {
    if is_made_for(spec, cluster) {
        return Tags::new();
    }
    vpc_spec(spec).tags
}

/// The tags that the spec asks for on a subnet of the provider. Until v2.8, CAPA wrote all tags of subnets into the
/// spec, including those that only providers set.
pub(super) fn own_tags_of_subnet(spec: &AWSClusterSpec, cluster: &str, subnet: &SubnetSpec) -> Tags {
    let mut tags = subnet.tags.clone();
    if is_made_for(spec, cluster) {
        tags.retain(|key, _| key == ASSOCIATION_TAG || !is_reserved_tag(key));
    }
    tags
}

/// Whether the existing VPC of the cluster belongs to the provider.
pub(in crate::awscluster::managed) fn has_own_vpc(
    spec: &AWSClusterSpec,
    cluster: &str,
    resources: &[ClusterResource],
) -> bool {
    let is_owned = |vpc: &ClusterResource| vpc.lifecycle == Lifecycle::Owned;
    recorded(resources, Kind::Vpc, None).map_or_else(|| is_made_for(spec, cluster), is_owned)
}

/// The security group that the user brings for a role.
pub(in crate::awscluster::managed) fn security_group(
    spec: &AWSClusterSpec,
    role: SecurityGroupRole,
    resources: &[ClusterResource],
) -> Option<String> {
    let recorded = recorded(resources, Kind::SecurityGroup, Some(role.as_str()));
    id(recorded, of_role(spec, role.as_str()))
}

/// The security group of a role in the spec.
fn of_role<'a>(spec: &'a AWSClusterSpec, role: &str) -> Option<&'a str> {
    let id = spec.network.as_ref()?.security_group_overrides.get(role)?;
    Some(id.as_str()).filter(|id| !id.is_empty())
}

/// The problem of the security group of a role. Machines keep the groups with which they were launched, so a role keeps
/// its group.
pub(in crate::awscluster::managed) fn wrong_security_group(
    spec: &AWSClusterSpec,
    target: &Ref,
    brought: Option<&str>,
    known: &Known<'_>,
) -> Option<Problem> {
    let path = format!("network.securityGroupOverrides.{}", target.name);
    let of_spec = of_role(spec, &target.name);
    if of_spec != brought {
        let message = match brought {
            Some(is) => format!("{path}: the machines of the cluster have {is}: set it back"),
            None => format!("{path}: the machines of the cluster have the group of the provider: take it out"),
        };
        return Some(problem(target, message));
    }
    let id = brought?;
    let is_there = known.security_groups.is_none_or(|groups| groups.iter().any(|group| group.id == id));
    (!is_there).then(|| Problem {
        target: target.clone(),
        reason: Reason::NotFound,
        message: format!("{path}: AWS shows no security group {id} in the VPC: correct the id"),
    })
}

/// The problems of roles of security groups in the spec. The roles of bastions and EKS, which managed clusters do not
/// have, are ignored.
pub(in crate::awscluster::managed) fn unknown_roles(spec: &AWSClusterSpec) -> Vec<Problem> {
    let overrides = spec.network.iter();
    let overrides = overrides.flat_map(|network| &network.security_group_overrides);
    let unknown = overrides.filter(|(role, id)| !id.is_empty() && SecurityGroupRole::named(role).is_none());
    let problems = unknown.map(|(role, _)| {
        let message = format!("network.securityGroupOverrides.{role} is no role of a security group: take it out");
        problem(&Ref::new(Kind::SecurityGroup, role), message)
    });
    problems.collect()
}

/// A listed subnet, as AWS shows it. `None` without an observation of the subnets.
pub(in crate::awscluster::managed) fn subnet(
    spec: &SubnetSpec,
    vpc: &str,
    region: &str,
    known: &Known<'_>,
) -> Option<Result<WantedSubnet, Problem>> {
    let subnets = known.subnets?;
    let Some(id) = spec.effective_resource_id() else {
        let message = format!(
            "network.subnets {}: the VPC {vpc} is yours, in which the provider creates no subnets: give the id of one \
             as id",
            spec.id
        );
        return Some(Err(problem(&Ref::new(Kind::Subnet, &spec.id), message)));
    };
    let target = Ref::new(Kind::Subnet, id);
    let Some(shown) = subnets.iter().find(|shown| shown.id == id) else {
        return Some(Err(Problem {
            message: format!("network.subnets {id}: AWS shows no such subnet in {vpc}: correct the id"),
            reason: Reason::NotFound,
            target,
        }));
    };
    if zone_type(region, &shown.zone).is_edge() {
        let message = format!(
            "network.subnets {id}: it is in {}, and this release offers no edge zones in managed clusters: take it out",
            shown.zone
        );
        return Some(Err(problem(&target, message)));
    }
    let Some(cidr_block) = range(&shown.cidr_block) else {
        let message = format!("network.subnets {id}: it has no IPv4 range: take it out");
        return Some(Err(problem(&target, message)));
    };
    Some(Ok(WantedSubnet {
        target,
        cidr_block,
        zone: shown.zone.clone(),
        is_public: shown.is_public(known.route_tables?) == Some(true),
        is_for_pods_only: spec.is_for_pods_only(),
        tags: shown.tags.clone(),
    }))
}
