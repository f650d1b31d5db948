//! The features that managed clusters do not support yet. Pure.

use capa_api::cluster::AWSClusterSpec;
use capa_api::cluster::load_balancer::LoadBalancerType;
use capa_api::cluster::status::ClusterResource;
use capa_api::cluster::subnet::SubnetSpec;
use capa_cloud::zone_type;

use super::inputs::{brought, vpc_spec};

/// The reason why the provider creates nothing for this spec of the Cluster `cluster`; `None` if it does. A network
/// without an unsupported part would be another network, and could not become the wanted one.
pub(super) fn not_offered(spec: &AWSClusterSpec, cluster: &str, recorded: &[ClusterResource]) -> Option<String> {
    let is_brought = brought::vpc(spec, cluster, recorded).is_some();
    let has_vpc = is_brought || brought::has_own_vpc(spec, cluster, recorded);
    let vpc = vpc_spec(spec);
    let subnets = spec.subnets();
    let is_any = |is: fn(&SubnetSpec) -> bool| subnets.iter().any(is);
    let is_in_edge_zone = |subnet: &SubnetSpec| {
        let named = spec.region.as_deref().zip(subnet.availability_zone.as_deref());
        subnet.is_edge() || named.is_some_and(|(region, zone)| zone_type(region, zone).is_edge())
    };
    let fields = [
        ("bastion", spec.bastion.as_ref().is_some_and(|bastion| bastion.enabled)),
        (
            "s3Bucket in a VPC that CAPA has made",
            brought::vpc_of_capa(spec, cluster, recorded).is_some() && spec.s3_bucket.is_some(),
        ),
        ("network.vpc.ipv6", vpc.ipv6.is_some()),
        ("network.vpc.ipamPool", vpc.ipam_pool.is_some()),
        ("network.vpc.secondaryCidrBlocks in a VPC of yours", is_brought && !vpc.secondary_cidr_blocks.is_empty()),
        (
            "network.securityGroupOverrides without a VPC of yours",
            !is_brought && spec.network.as_ref().is_some_and(|network| !network.security_group_overrides.is_empty()),
        ),
        (
            "network.subnets of yours without a VPC of yours",
            !has_vpc && is_any(|subnet| subnet.effective_resource_id().is_some()),
        ),
        ("network.subnets in edge zones", subnets.iter().any(is_in_edge_zone)),
        (
            "network.subnets with IPv6",
            is_any(|subnet| subnet.is_ipv6 == Some(true) || subnet.ipv6_cidr_block.is_some()),
        ),
    ];
    let asked: Vec<&str> = fields.into_iter().filter(|(_, is_asked)| *is_asked).map(|(field, _)| field).collect();
    (!asked.is_empty()).then(|| {
        format!(
            "this release does not offer {} in managed clusters: leave it out, or set spec.unmanaged: true and bring \
             the infrastructure",
            asked.join(", ")
        )
    })
}

/// The reason why the provider does not create all parts of a cluster with this spec; `None` if it does.
pub(super) fn made_later(spec: &AWSClusterSpec) -> Option<String> {
    let kind = match spec.effective_control_plane_load_balancer().load_balancer_type {
        LoadBalancerType::Classic | LoadBalancerType::Nlb | LoadBalancerType::Disabled => return None,
        LoadBalancerType::Elb => "elb",
        LoadBalancerType::Alb => "alb",
    };
    Some(format!(
        "this release creates no load balancer of the type {kind} for a managed cluster: set \
         controlPlaneLoadBalancer.loadBalancerType: nlb or classic"
    ))
}
