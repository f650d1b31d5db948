//! Where load balancers of both generations are: their subnets, their security groups and their interfaces.

use std::collections::{BTreeMap, BTreeSet};

use capa_api::cluster::load_balancer::LoadBalancerScheme;
use capa_cloud::CloudError;
use capa_cloud::ec2::NetworkInterface;

use crate::ec2::Ec2;

/// Where a load balancer is, as far as AWS's rules allow it.
pub(super) struct Place {
    pub(super) vpc: String,
    /// By zone.
    pub(super) subnets: BTreeMap<String, String>,
}

impl Place {
    /// The place of a load balancer that a test adds by hand: no rule applies, and subnets that do not exist are left
    /// out.
    pub(super) fn by_hand(ec2: &Ec2, vpc: &str, subnets: &[&str]) -> Self {
        let known = ec2.all_subnets().into_iter();
        let named = known.filter(|subnet| subnets.contains(&&*subnet.id));
        Self { subnets: named.map(|subnet| (subnet.zone, subnet.id)).collect(), vpc: vpc.to_owned() }
    }
}

/// The VPC and the zones of subnets: one subnet for each zone. Nobody reaches a load balancer from the internet without
/// an internet gateway.
pub(super) fn place(
    ec2: &Ec2,
    action: &'static str,
    scheme: LoadBalancerScheme,
    subnets: &[String],
) -> Result<Place, CloudError> {
    let invalid = |message: String| Err(CloudError::answered(action, "InvalidConfigurationRequest", &message));
    let mut place: Option<Place> = None;
    for id in subnets {
        let subnet = ec2.known_subnet(action, id).map_err(|_| {
            let message = format!("The subnet ID '{id}' does not exist");
            CloudError::answered(action, "SubnetNotFound", &message)
        })?;
        let place = place.get_or_insert_with(|| Place { vpc: subnet.vpc_id.clone(), subnets: BTreeMap::new() });
        if subnet.vpc_id != place.vpc {
            return invalid("All subnets must belong to the same VPC".to_owned());
        }
        if place.subnets.insert(subnet.zone.clone(), id.clone()).is_some() {
            return Err(second_subnet(action, &subnet.zone));
        }
    }
    let Some(place) = place else {
        let message = "At least one subnet must be specified";
        return Err(CloudError::answered(action, "ValidationError", message));
    };
    if scheme == LoadBalancerScheme::InternetFacing && ec2.gateway_of(&place.vpc).is_none() {
        let message = format!("VPC {} has no internet gateway", place.vpc);
        return Err(CloudError::answered(action, "InvalidSubnet", &message));
    }
    Ok(place)
}

/// The zones of subnets for a load balancer that is in a VPC already.
pub(super) fn place_in(
    ec2: &Ec2,
    action: &'static str,
    vpc: &str,
    scheme: LoadBalancerScheme,
    subnets: &[String],
) -> Result<Place, CloudError> {
    let place = place(ec2, action, scheme, subnets)?;
    if place.vpc == vpc {
        return Ok(place);
    }
    let message = format!("The subnets are not in {vpc}");
    Err(CloudError::answered(action, "InvalidConfigurationRequest", &message))
}

/// The refusal of a second subnet in one zone.
pub(super) fn second_subnet(action: &'static str, zone: &str) -> CloudError {
    let message = format!("A load balancer cannot be attached to multiple subnets in {zone}");
    CloudError::answered(action, "InvalidConfigurationRequest", &message)
}

/// Whether all security groups exist in a VPC.
pub(super) fn are_of_vpc(ec2: &Ec2, action: &'static str, groups: &[String], vpc: &str) -> Result<(), CloudError> {
    for id in groups {
        let group = ec2.known_security_group(action, id).ok();
        if group.is_none_or(|group| group.vpc_id != vpc) {
            let message = format!("One or more security groups are invalid: '{id}' is not in {vpc}");
            return Err(CloudError::answered(action, "InvalidSecurityGroup", &message));
        }
    }
    Ok(())
}

/// Whether both are the same ids in any order.
pub(super) fn are_same<'t>(
    one: impl IntoIterator<Item = &'t String>,
    other: impl IntoIterator<Item = &'t String>,
) -> bool {
    let one: BTreeSet<_> = one.into_iter().collect();
    let other: BTreeSet<_> = other.into_iter().collect();
    one == other
}

/// The interfaces of a load balancer: one in each of its subnets, with public addresses if the internet reaches it.
/// `name` is how ELB names the load balancer in the descriptions of its interfaces.
pub(super) fn interfaces<'t>(
    name: &str,
    vpc: &str,
    subnets: impl IntoIterator<Item = &'t String>,
    groups: &[String],
    scheme: LoadBalancerScheme,
) -> Vec<NetworkInterface> {
    let is_public = scheme == LoadBalancerScheme::InternetFacing;
    let interface_in = |subnet: &String| NetworkInterface {
        id: format!("eni-{name}-{subnet}"),
        vpc_id: vpc.to_owned(),
        subnet_id: subnet.clone(),
        security_group_ids: groups.to_vec(),
        description: format!("ELB {name}"),
        requester_id: Some("amazon-elb".to_owned()),
        public_ip: is_public.then(|| "203.0.113.1".to_owned()),
        ..NetworkInterface::default()
    };
    subnets.into_iter().map(interface_in).collect()
}
