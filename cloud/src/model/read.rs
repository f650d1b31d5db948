//! Reads of AWS as data, and what they find.

use super::{
    ApiLoadBalancer, CapacitySource, ElasticIp, Host, Image, InstanceType, NetworkInterface, Query, SecurityGroup,
    Subnet,
};

/// A read of one account and region.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Read {
    /// Subnets.
    Subnets(Query),
    /// Security groups.
    SecurityGroups(Query),
    /// Network interfaces.
    NetworkInterfaces(Query),
    /// Images.
    Images(Query),
    /// The load balancer of this name that is no classic one.
    LoadBalancer(String),
    /// The parameter of this name that AWS publishes in Parameter Store.
    PublicParameter(String),
    /// The instance type of this name.
    InstanceType(String),
    /// The zone of capacity that a machine names.
    CapacityZone(CapacitySource),
    /// The domain name in the DHCP options of the VPC with this id.
    DomainName(String),
    /// Dedicated Hosts.
    Hosts(Query),
    /// Elastic IPs.
    ElasticIps(Query),
    /// The free addresses of the public IPv4 pool with this id.
    FreeAddresses(String),
}

/// What a read has found.
#[derive(Clone, Debug)]
pub enum Found {
    /// Subnets.
    Subnets(Vec<Subnet>),
    /// Security groups.
    SecurityGroups(Vec<SecurityGroup>),
    /// Network interfaces.
    NetworkInterfaces(Vec<NetworkInterface>),
    /// Images.
    Images(Vec<Image>),
    /// A load balancer, if there is one.
    LoadBalancer(Option<ApiLoadBalancer>),
    /// The value of a parameter.
    PublicParameter(String),
    /// An instance type.
    InstanceType(InstanceType),
    /// The name of a zone.
    CapacityZone(String),
    /// A domain name, if there is one.
    DomainName(Option<String>),
    /// Dedicated Hosts.
    Hosts(Vec<Host>),
    /// Elastic IPs.
    ElasticIps(Vec<ElasticIp>),
    /// A number of addresses.
    FreeAddresses(u32),
}

impl Read {
    /// The action of AWS that errors name.
    pub fn action(&self) -> &'static str {
        match self {
            Self::Subnets(_) => "DescribeSubnets",
            Self::SecurityGroups(_) => "DescribeSecurityGroups",
            Self::NetworkInterfaces(_) => "DescribeNetworkInterfaces",
            Self::Images(_) => "DescribeImages",
            Self::LoadBalancer(_) => "DescribeLoadBalancers",
            Self::PublicParameter(_) => "GetParameter",
            Self::InstanceType(_) => "DescribeInstanceTypes",
            Self::CapacityZone(CapacitySource::Reservation(_)) => "DescribeCapacityReservations",
            Self::CapacityZone(CapacitySource::Host(_)) | Self::Hosts(_) => "DescribeHosts",
            Self::DomainName(_) => "DescribeDhcpOptions",
            Self::ElasticIps(_) => "DescribeAddresses",
            Self::FreeAddresses(_) => "DescribePublicIpv4Pools",
        }
    }

    /// Whether a write depends on the answer, so that the answer has to be one of the account of the pass.
    pub(crate) fn precedes_a_write(&self) -> bool {
        matches!(self, Self::Hosts(_) | Self::ElasticIps(_) | Self::FreeAddresses(_))
    }
}
