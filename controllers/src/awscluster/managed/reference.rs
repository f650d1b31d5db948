//! Names of the parts of a managed cluster. A plan names resources that do not exist yet. Pure.

use std::fmt;

use ipnet::Ipv4Net;
use strum::{Display, EnumIter, EnumString, IntoStaticStr};

/// A kind of resource, or of a part of a resource that has steps of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Display, EnumIter, EnumString, IntoStaticStr)]
pub(crate) enum Kind {
    /// The VPC.
    Vpc,
    /// The DNS attributes of the VPC.
    VpcAttributes,
    /// A secondary IPv4 range of the VPC.
    SecondaryCidrBlock,
    /// A subnet.
    Subnet,
    /// The attributes of a subnet.
    SubnetAttributes,
    /// The internet gateway.
    InternetGateway,
    /// The attachment of the internet gateway to the VPC.
    InternetGatewayAttachment,
    /// The Elastic IP of a NAT gateway.
    ElasticIp,
    /// A NAT gateway.
    NatGateway,
    /// A route table.
    RouteTable,
    /// A route of a route table.
    Route,
    /// The association of a subnet with a route table.
    RouteTableAssociation,
    /// A security group.
    SecurityGroup,
    /// The rules of a security group.
    SecurityGroupRules,
    /// The rules of the default security group of the VPC.
    DefaultSecurityGroupRules,
    /// A network load balancer.
    LoadBalancer,
    /// An Elastic IP of a network load balancer.
    LoadBalancerAddress,
    /// Attributes, subnets and security groups of a load balancer.
    LoadBalancerAttributes,
    /// A target group.
    TargetGroup,
    /// Attributes and health check of a target group.
    TargetGroupAttributes,
    /// A port of a load balancer.
    Listener,
    /// A Classic Load Balancer.
    ClassicLoadBalancer,
    /// Everything about a Classic Load Balancer that can be changed.
    ClassicLoadBalancerAttributes,
}

/// The load balancers of both generations.
pub(crate) const LOAD_BALANCERS: [Kind; 2] = [Kind::LoadBalancer, Kind::ClassicLoadBalancer];
/// The kinds with network interfaces in subnets. Their public addresses need the internet gateway.
pub(crate) const HAVE_INTERFACES: [Kind; 3] = [Kind::NatGateway, Kind::LoadBalancer, Kind::ClassicLoadBalancer];

impl Kind {
    /// Whether it is a resource of its own, which AWS gives an id.
    pub(crate) fn is_resource(self) -> bool {
        match self {
            Self::Vpc
            | Self::Subnet
            | Self::InternetGateway
            | Self::ElasticIp
            | Self::NatGateway
            | Self::RouteTable
            | Self::SecurityGroup
            | Self::LoadBalancer
            | Self::LoadBalancerAddress
            | Self::TargetGroup
            | Self::ClassicLoadBalancer => true,
            Self::VpcAttributes
            | Self::SecondaryCidrBlock
            | Self::SubnetAttributes
            | Self::InternetGatewayAttachment
            | Self::Route
            | Self::RouteTableAssociation
            | Self::SecurityGroupRules
            | Self::DefaultSecurityGroupRules
            | Self::LoadBalancerAttributes
            | Self::TargetGroupAttributes
            | Self::Listener
            | Self::ClassicLoadBalancerAttributes => false,
        }
    }

    /// The name in messages.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Vpc => "VPC",
            Self::VpcAttributes => "DNS attributes of VPC",
            Self::SecondaryCidrBlock => "secondary range of VPC",
            Self::Subnet => "subnet",
            Self::SubnetAttributes => "attributes of subnet",
            Self::InternetGateway => "internet gateway",
            Self::InternetGatewayAttachment => "attachment of internet gateway",
            Self::ElasticIp => "Elastic IP of zone",
            Self::NatGateway => "NAT gateway of zone",
            Self::RouteTable => "route table of subnet",
            Self::Route => "default route of subnet",
            Self::RouteTableAssociation => "association of subnet",
            Self::SecurityGroup => "security group",
            Self::SecurityGroupRules => "rules of security group",
            Self::DefaultSecurityGroupRules => "rules of the default security group of VPC",
            Self::LoadBalancer => "load balancer",
            Self::LoadBalancerAddress => "Elastic IP of load balancer",
            Self::LoadBalancerAttributes => "attributes of load balancer",
            Self::TargetGroup => "target group",
            Self::TargetGroupAttributes => "attributes of target group",
            Self::Listener => "listener",
            Self::ClassicLoadBalancer => "classic load balancer",
            Self::ClassicLoadBalancerAttributes => "attributes of classic load balancer",
        }
    }
}

/// The name of a resource, or of a part of it, within the cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ref {
    /// The kind.
    pub(crate) kind: Kind,
    /// The name, which is unique among the resources of the kind.
    pub(crate) name: String,
    /// Whether the reference is only to the tags, for which nothing waits.
    of_tags: bool,
}

impl Ref {
    /// The resource of this kind and name.
    pub(crate) fn new(kind: Kind, name: impl Into<String>) -> Self {
        Self { kind, name: name.into(), of_tags: false }
    }

    /// A secondary range of the VPC.
    pub(crate) fn secondary_cidr_block(range: Ipv4Net) -> Self {
        Self::new(Kind::SecondaryCidrBlock, range.to_string())
    }

    /// The listener on a port of a load balancer, by its name.
    pub(crate) fn listener(load_balancer: &str, port: i64) -> Self {
        Self::new(Kind::Listener, format!("{load_balancer}/{port}"))
    }

    /// The tags of the resource.
    pub(crate) fn tags(&self) -> Self {
        Self { of_tags: true, ..self.clone() }
    }

    /// The resource itself, if only its tags are meant.
    pub(crate) fn whole(&self) -> Self {
        Self { of_tags: false, ..self.clone() }
    }

    /// Whether only the tags of the resource are meant.
    pub(crate) fn is_of_tags(&self) -> bool {
        self.of_tags
    }

    /// The part of this kind of the same resource.
    pub(crate) fn part(&self, kind: Kind) -> Self {
        Self::new(kind, self.name.clone())
    }
}

impl fmt::Display for Ref {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tags = if self.of_tags { "tags of " } else { "" };
        write!(formatter, "{tags}{} {}", self.kind.name(), self.name)
    }
}

/// The id of a resource in a planned call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Id {
    /// An id that AWS has given.
    Known(String),
    /// The id that the ledger has, or will have.
    Of(Ref),
}

impl fmt::Display for Id {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Known(id) => formatter.write_str(id),
            Self::Of(reference) => reference.fmt(formatter),
        }
    }
}

impl From<&Ref> for Id {
    fn from(reference: &Ref) -> Self {
        Self::Of(reference.clone())
    }
}

impl From<&str> for Id {
    fn from(id: &str) -> Self {
        Self::Known(id.to_owned())
    }
}
