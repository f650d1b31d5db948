//! What is in an account, without ids and ages, to compare what two runs leave behind.

use capa_api::common::Tags;
use capa_cloud::ec2::{Subnet, Vpc};

use crate::ec2::Ec2;

/// All resources of an account in one order. Two accounts with the same resources have equal contents, whatever the
/// ids are and in whichever order the resources were made. Whether a resource is pending or hidden makes no difference.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// The VPCs with all that belongs to them.
    pub vpcs: Vec<VpcContents>,
    /// The tags of the internet gateways that are attached to no VPC.
    pub unattached_internet_gateways: Vec<Tags>,
}

/// A VPC with all that belongs to it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct VpcContents {
    /// IPv4 ranges; the primary range is the first.
    pub cidr_blocks: Vec<String>,
    /// Tags.
    pub tags: Tags,
    /// Whether the VPC resolves names.
    pub dns_support: bool,
    /// Whether instances with public addresses get public names.
    pub dns_hostnames: bool,
    /// The subnets, in order of their ranges as texts.
    pub subnets: Vec<SubnetContents>,
    /// The tags of the attached internet gateways: one at most, unless a test attached more by hand.
    pub internet_gateways: Vec<Tags>,
}

/// A subnet.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SubnetContents {
    /// IPv4 range.
    pub cidr_block: String,
    /// Zone.
    pub zone: String,
    /// Whether instances get a public IPv4 address.
    pub maps_public_ips: bool,
    /// Form of the private host names of instances, in EC2's words.
    pub hostname_type: Option<&'static str>,
    /// Tags.
    pub tags: Tags,
}

impl Contents {
    pub(crate) fn of(ec2: &Ec2) -> Self {
        let vpcs = ec2.all_vpcs().into_iter().map(|vpc| vpc_contents(ec2, vpc));
        Self {
            vpcs: sorted(vpcs),
            unattached_internet_gateways: gateways(ec2, None),
        }
    }
}

fn vpc_contents(ec2: &Ec2, vpc: Vpc) -> VpcContents {
    let dns = ec2.dns_of(&vpc.id).unwrap_or_default();
    let subnets = ec2.all_subnets().into_iter().filter(|subnet| subnet.vpc_id == vpc.id);
    VpcContents {
        subnets: sorted(subnets.map(subnet_contents)),
        internet_gateways: gateways(ec2, Some(&vpc.id)),
        cidr_blocks: vpc.cidr_blocks,
        tags: vpc.tags,
        dns_support: dns.support,
        dns_hostnames: dns.hostnames,
    }
}

fn subnet_contents(subnet: Subnet) -> SubnetContents {
    SubnetContents {
        cidr_block: subnet.cidr_block,
        zone: subnet.zone,
        maps_public_ips: subnet.maps_public_ips,
        hostname_type: subnet.hostname_type.map(Into::into),
        tags: subnet.tags,
    }
}

fn gateways(ec2: &Ec2, vpc: Option<&str>) -> Vec<Tags> {
    let gateways = ec2.all_internet_gateways().into_iter();
    let attached = gateways.filter(|gateway| gateway.vpc_id.as_deref() == vpc);
    sorted(attached.map(|gateway| gateway.tags))
}

fn sorted<T: Ord>(items: impl Iterator<Item = T>) -> Vec<T> {
    let mut items: Vec<T> = items.collect();
    items.sort_unstable();
    items
}
