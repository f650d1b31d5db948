//! What is in an account, without ids and ages, to compare what two runs leave behind.

mod load_balancing;

use std::collections::{BTreeMap, BTreeSet};

use capa_api::common::Tags;
use capa_cloud::ec2::security_group::{Rule, Source, Traffic};
use capa_cloud::ec2::{NatGateway, NatGatewayState, RouteTable, RouteTarget, SecurityGroup, Subnet, Vpc};

use crate::ec2::{Ec2, is_untouched};
use crate::elb::Elb;

pub use load_balancing::{
    ClassicLoadBalancerContents, HealthCheckContents, ListenerContents, LoadBalancerContents, TargetGroupContents,
};

/// All resources of an account in one order. Two accounts with the same resources have equal contents, whatever the
/// ids are and in whichever order the resources were made. Whether a resource is pending, hidden, failed or deleting
/// makes no difference; deleted NAT gateways are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// The VPCs with all that belongs to them.
    pub vpcs: Vec<VpcContents>,
    /// The tags of the internet gateways that are attached to no VPC.
    pub unattached_internet_gateways: Vec<Tags>,
    /// The Elastic IPs.
    pub addresses: Vec<AddressContents>,
    /// The target groups whose VPC does not exist any more.
    pub target_groups_without_vpc: Vec<TargetGroupContents>,
}

/// An Elastic IP.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AddressContents {
    /// Tags.
    pub tags: Tags,
    /// Whether the address is that of a NAT gateway or of something else.
    pub is_associated: bool,
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
    /// The NAT gateways that are not deleted.
    pub nat_gateways: Vec<NatGatewayContents>,
    /// The route tables; the main one only with tags, associations or routes that it does not have from its creation.
    pub route_tables: Vec<RouteTableContents>,
    /// The security groups; the default one only with tags or rules that it does not have from its creation.
    pub security_groups: Vec<SecurityGroupContents>,
    /// The load balancers of the second generation.
    pub load_balancers: Vec<LoadBalancerContents>,
    /// The target groups.
    pub target_groups: Vec<TargetGroupContents>,
    /// The Classic Load Balancers.
    pub classic_load_balancers: Vec<ClassicLoadBalancerContents>,
}

/// A NAT gateway.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NatGatewayContents {
    /// IPv4 range of its subnet.
    pub subnet: String,
    /// Tags.
    pub tags: Tags,
}

/// A route table.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RouteTableContents {
    /// Whether the table is the main one of its VPC.
    pub is_main: bool,
    /// Tags.
    pub tags: Tags,
    /// IPv4 ranges of the associated subnets.
    pub subnets: Vec<String>,
    /// What the traffic to each IPv4 range is sent to, without the local routes: `igw` for the internet gateway that is
    /// attached, `nat of 10.0.0.0/24` for the NAT gateway of a subnet, `blackhole` for a gateway that is not there, and
    /// the prefix of the id for other targets.
    pub routes: BTreeMap<String, String>,
}

/// A security group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SecurityGroupContents {
    /// Name.
    pub name: String,
    /// Description; empty for a group that a test added by hand.
    pub description: String,
    /// Tags.
    pub tags: Tags,
    /// The rules for incoming traffic.
    pub rules: Vec<RuleContents>,
}

/// A rule for incoming traffic.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RuleContents {
    /// What the rule admits.
    pub traffic: Traffic,
    /// Where the traffic comes from: a range, `an Elastic IP` for the address of one, the id of a prefix list,
    /// `group dev-node` for the group with this name, and `no group` for one that does not exist.
    pub source: String,
    /// Description; empty for none.
    pub description: String,
}

/// A subnet.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SubnetContents {
    /// IPv4 range.
    pub cidr_block: String,
    /// Zone.
    pub zone: String,
    /// Whether instances get a public IPv4 address.
    pub assigns_public_ip: bool,
    /// Form of the private host names of instances, in EC2's words.
    pub hostname_type: Option<&'static str>,
    /// Tags.
    pub tags: Tags,
}

impl Contents {
    pub(crate) fn of(ec2: &Ec2, elb: &Elb) -> Self {
        let ids: BTreeSet<_> = ec2.all_vpcs().into_iter().map(|vpc| vpc.id).collect();
        let vpcs = ec2.all_vpcs().into_iter().map(|vpc| vpc_contents(ec2, elb, vpc));
        Self {
            vpcs: sorted(vpcs),
            unattached_internet_gateways: gateways(ec2, None),
            addresses: sorted(ec2.all_addresses().into_iter().map(|address| AddressContents {
                is_associated: address.association_id.is_some(),
                tags: address.tags,
            })),
            target_groups_without_vpc: load_balancing::target_groups(elb, |vpc| !ids.contains(vpc)),
        }
    }
}

fn vpc_contents(ec2: &Ec2, elb: &Elb, vpc: Vpc) -> VpcContents {
    let dns = ec2.dns_of(&vpc.id).unwrap_or_default();
    let subnets = ec2.all_subnets().into_iter().filter(|subnet| subnet.vpc_id == vpc.id);
    let nat_gateways = ec2.all_nat_gateways().into_iter();
    let nat_gateways = nat_gateways.filter(|gateway| gateway.vpc_id == vpc.id && !is_deleted(gateway));
    let tables = ec2.all_route_tables().into_iter().filter(|table| table.vpc_id == vpc.id);
    let tables = tables.map(|table| table_contents(ec2, table));
    let groups = ec2.all_security_groups().into_iter();
    let groups = groups.filter(|group| group.vpc_id == vpc.id && !is_untouched(group));
    VpcContents {
        nat_gateways: sorted(
            nat_gateways
                .map(|gateway| NatGatewayContents { subnet: range_of(ec2, &gateway.subnet_id), tags: gateway.tags }),
        ),
        route_tables: sorted(tables.filter(|table| !table.is_untouched())),
        security_groups: sorted(groups.map(|group| group_contents(ec2, group))),
        subnets: sorted(subnets.map(subnet_contents)),
        load_balancers: load_balancing::load_balancers_of(ec2, elb, &vpc.id),
        target_groups: load_balancing::target_groups(elb, |known| known == vpc.id),
        classic_load_balancers: load_balancing::classic_load_balancers_of(ec2, elb, &vpc.id),
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
        assigns_public_ip: subnet.assigns_public_ip,
        hostname_type: subnet.hostname_type.map(Into::into),
        tags: subnet.tags,
    }
}

impl RouteTableContents {
    /// Whether the table is a main one as EC2 makes it.
    fn is_untouched(&self) -> bool {
        self.is_main && self.tags.is_empty() && self.subnets.is_empty() && self.routes.is_empty()
    }
}

fn table_contents(ec2: &Ec2, table: RouteTable) -> RouteTableContents {
    let subnets = table.associations.iter();
    let routes = table.routes.iter().filter(|route| route.target != RouteTarget::Local);
    let routes = routes.map(|route| (route.destination.clone(), target_contents(ec2, &table.vpc_id, &route.target)));
    RouteTableContents {
        subnets: sorted(subnets.map(|association| range_of(ec2, &association.subnet_id))),
        routes: routes.collect(),
        is_main: table.is_main,
        tags: table.tags,
    }
}

fn target_contents(ec2: &Ec2, vpc: &str, target: &RouteTarget) -> String {
    const BLACKHOLE: &str = "blackhole";
    match target {
        RouteTarget::InternetGateway(id) => {
            let mut gateways = ec2.all_internet_gateways().into_iter();
            let is_attached = gateways.any(|known| known.id == *id && known.vpc_id.as_deref() == Some(vpc));
            if is_attached { "igw" } else { BLACKHOLE }.to_owned()
        }
        RouteTarget::NatGateway(id) => {
            let mut gateways = ec2.all_nat_gateways().into_iter();
            let gateway = gateways.find(|known| known.id == *id && !is_deleted(known));
            let subnet = gateway.map(|gateway| range_of(ec2, &gateway.subnet_id));
            subnet.map_or_else(|| BLACKHOLE.to_owned(), |range| format!("nat of {range}"))
        }
        other => {
            let id = other.id();
            id.split_once('-').map_or(id, |(prefix, _)| prefix).to_owned()
        }
    }
}

fn group_contents(ec2: &Ec2, group: SecurityGroup) -> SecurityGroupContents {
    SecurityGroupContents {
        description: ec2.description_of(&group.id).to_owned(),
        rules: sorted(group.ingress.into_iter().map(|rule| rule_contents(ec2, rule))),
        name: group.name,
        tags: group.tags,
    }
}

fn rule_contents(ec2: &Ec2, rule: Rule<String>) -> RuleContents {
    let source = match rule.source {
        Source::Cidr(range) if is_elastic_ip(ec2, &range) => "an Elastic IP".to_owned(),
        Source::Cidr(range) | Source::Ipv6Cidr(range) => range,
        Source::PrefixList(list) => list,
        Source::Group(id) => {
            let mut groups = ec2.all_security_groups().into_iter();
            let group = groups.find(|known| known.id == id);
            group.map_or_else(|| "no group".to_owned(), |group| format!("group {}", group.name))
        }
    };
    RuleContents { traffic: rule.traffic, source, description: rule.description }
}

/// Whether the range is the address of an Elastic IP, which differs from run to run.
fn is_elastic_ip(ec2: &Ec2, range: &str) -> bool {
    let addresses = ec2.all_addresses().into_iter();
    addresses.map(|address| format!("{}/32", address.public_ip)).any(|address| address == range)
}

fn is_deleted(gateway: &NatGateway) -> bool {
    gateway.state == NatGatewayState::Deleted
}

/// The IPv4 range of a subnet; empty if it does not exist.
fn range_of(ec2: &Ec2, subnet: &str) -> String {
    let mut subnets = ec2.all_subnets().into_iter();
    let known = subnets.find(|known| known.id == subnet);
    known.map(|known| known.cidr_block).unwrap_or_default()
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
