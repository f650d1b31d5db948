//! Facts about a VPC and its parts.

use capa_api::common::Tags;
use serde::{Deserialize, Serialize};

/// A VPC.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Vpc {
    /// `vpc-…`
    pub id: String,
    /// `available` or `pending`.
    pub state: String,
    /// Account that owns the VPC.
    pub owner_id: String,
    /// Associated IPv4 ranges.
    pub cidr_blocks: Vec<String>,
    /// Associated IPv6 ranges.
    pub ipv6_cidr_blocks: Vec<String>,
    /// Tenancy of instances: `default` or `dedicated`.
    pub tenancy: String,
    /// Id of the DHCP options, or `default`.
    pub dhcp_options_id: String,
}

/// DNS settings of a VPC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VpcDns {
    /// `enableDnsSupport`: the VPC has a DNS server.
    pub support: bool,
    /// `enableDnsHostnames`: instances get DNS names.
    pub hostnames: bool,
}

/// DHCP options of a VPC.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DhcpOptions {
    /// `dopt-…`
    pub id: String,
    /// Values of `domain-name`.
    pub domain_names: Vec<String>,
    /// Values of `domain-name-servers`.
    pub domain_name_servers: Vec<String>,
}

/// A zone of the region.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Zone {
    /// Name, for example `eu-west-1a`.
    pub name: String,
    /// `availability-zone`, `local-zone` or `wavelength-zone`.
    pub zone_type: String,
    /// `available`, `impaired` or `unavailable`.
    pub state: String,
}

/// A region.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Region {
    /// Name, for example `eu-west-1`.
    pub name: String,
    /// `opt-in-not-required`, `opted-in` or `not-opted-in`.
    pub opt_in_status: String,
}

/// A subnet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Subnet {
    /// `subnet-…`
    pub id: String,
    /// VPC of the subnet.
    pub vpc_id: String,
    /// `available`, `pending` or another state.
    pub state: String,
    /// Zone of the subnet.
    pub zone: String,
    /// IPv4 range; empty for a subnet with IPv6 only.
    pub cidr_block: String,
    /// IPv6 ranges.
    pub ipv6_cidr_blocks: Vec<String>,
    /// Whether instances get an IPv6 address without asking.
    pub assigns_ipv6: bool,
    /// Whether instances get a public IPv4 address without asking.
    pub assigns_public_ip: bool,
    /// Number of free IPv4 addresses.
    pub free_addresses: i32,
    /// Outpost of the subnet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outpost_arn: Option<String>,
    /// Tags.
    pub tags: Tags,
}

/// A route table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RouteTable {
    /// `rtb-…`
    pub id: String,
    /// Whether subnets without a route table of their own use this one.
    pub is_main: bool,
    /// Subnets that the route table is associated with.
    pub subnet_ids: Vec<String>,
    /// Routes.
    pub routes: Vec<Route>,
}

/// A route.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Route {
    /// Range of addresses, or a prefix list.
    pub destination: String,
    /// Where the packets go.
    pub target: RouteTarget,
    /// Whether the target is gone, so that the packets are dropped.
    pub is_blackhole: bool,
}

/// Target of a route.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum RouteTarget {
    /// The VPC itself.
    Local,
    /// An internet gateway.
    InternetGateway(String),
    /// An egress-only internet gateway, for IPv6.
    EgressOnlyInternetGateway(String),
    /// A NAT gateway.
    NatGateway(String),
    /// A transit gateway.
    TransitGateway(String),
    /// A network interface or an instance that forwards packets.
    Appliance(String),
    /// A gateway endpoint.
    VpcEndpoint(String),
    /// A target of another kind: a peering connection, a virtual private gateway and others.
    Other(String),
}

impl RouteTarget {
    /// Id of the target.
    pub fn id(&self) -> &str {
        match self {
            Self::Local => "local",
            Self::InternetGateway(id)
            | Self::EgressOnlyInternetGateway(id)
            | Self::NatGateway(id)
            | Self::TransitGateway(id)
            | Self::Appliance(id)
            | Self::VpcEndpoint(id)
            | Self::Other(id) => id,
        }
    }
}

/// A NAT gateway.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NatGateway {
    /// `nat-…`
    pub id: String,
    /// Subnet of the NAT gateway.
    pub subnet_id: String,
    /// `available`, `pending`, `failed`, `deleting` or `deleted`.
    pub state: String,
}

/// A network access control list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NetworkAcl {
    /// `acl-…`
    pub id: String,
    /// Subnets that the list is associated with.
    pub subnet_ids: Vec<String>,
    /// Entries in any order.
    pub entries: Vec<AclEntry>,
}

/// An entry of a network access control list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AclEntry {
    /// Entries apply in the order of their numbers.
    pub number: i32,
    /// Whether the entry is for outgoing packets.
    pub is_egress: bool,
    /// Whether the packets are allowed.
    pub allows: bool,
    /// Number of the IP protocol, or `-1` for all.
    pub protocol: String,
    /// Range of the other side's addresses.
    pub cidr_block: String,
    /// First and last port; absent for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ports: Option<(u16, u16)>,
}

/// A VPC endpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VpcEndpoint {
    /// `vpce-…`
    pub id: String,
    /// Name of the service without the prefix of the region, for example `ecr.api`.
    pub service: String,
    /// `Interface`, `Gateway` or another type.
    pub endpoint_type: String,
    /// `available` or another state.
    pub state: String,
    /// Whether the usual DNS name of the service leads to the endpoint.
    pub has_private_dns: bool,
    /// Subnets of an interface endpoint.
    pub subnet_ids: Vec<String>,
    /// Security groups of an interface endpoint.
    pub security_group_ids: Vec<String>,
    /// Route tables of a gateway endpoint.
    pub route_table_ids: Vec<String>,
}
