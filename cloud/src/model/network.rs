//! VPCs and their parts, as clusters, machines and checks look them up. The facts of a check are saved as JSON.

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
    /// Tags.
    #[serde(default)]
    pub tags: Tags,
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
    /// Zone of the subnet, for example `eu-west-1a`.
    pub zone: String,
    /// IPv4 range; empty for a subnet with IPv6 only.
    pub cidr_block: String,
    /// IPv6 ranges.
    pub ipv6_cidr_blocks: Vec<String>,
    /// Whether instances get an IPv6 address by default.
    pub assigns_ipv6: bool,
    /// Whether instances get a public IPv4 address by default.
    pub assigns_public_ip: bool,
    /// Number of free IPv4 addresses.
    pub free_addresses: i32,
    /// Outpost of the subnet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outpost_arn: Option<String>,
    /// Tags.
    pub tags: Tags,
}

impl Subnet {
    /// Whether instances can have an IPv6 address.
    pub fn has_ipv6(&self) -> bool {
        !self.ipv6_cidr_blocks.is_empty()
    }

    /// Whether the subnet is public: its route table, or else the main route table of its VPC, has a default route to
    /// an internet gateway. `None` if neither table is among `route_tables`.
    pub fn is_public(&self, route_tables: &[RouteTable]) -> Option<bool> {
        let own = route_tables.iter().find(|table| table.subnet_ids.contains(&self.id));
        let main = || {
            let mut tables = route_tables.iter();
            tables.find(|table| table.is_main && table.vpc_id == self.vpc_id)
        };
        own.or_else(main).map(RouteTable::leads_to_the_internet)
    }
}

/// A route table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RouteTable {
    /// `rtb-…`
    pub id: String,
    /// VPC of the route table.
    #[serde(default)]
    pub vpc_id: String,
    /// Whether subnets without a route table of their own use this one.
    pub is_main: bool,
    /// Subnets that the route table is associated with.
    pub subnet_ids: Vec<String>,
    /// Routes.
    pub routes: Vec<Route>,
}

impl RouteTable {
    /// Whether the default route leads to an internet gateway.
    fn leads_to_the_internet(&self) -> bool {
        let is_default = |route: &Route| ["0.0.0.0/0", "::/0"].contains(&route.destination.as_str());
        let mut routes = self.routes.iter().filter(|route| is_default(route));
        routes.any(|route| matches!(route.target, RouteTarget::InternetGateway(_)))
    }
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

/// A security group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SecurityGroup {
    /// `sg-…`
    pub id: String,
    /// Name.
    pub name: String,
    /// VPC of the security group.
    pub vpc_id: String,
    /// Account that owns the security group.
    pub owner_id: String,
    /// Tags.
    pub tags: Tags,
    /// Rules for incoming packets.
    pub ingress: Vec<SecurityGroupRule>,
    /// Rules for outgoing packets.
    pub egress: Vec<SecurityGroupRule>,
}

/// Rules of a security group with the same protocol and ports.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SecurityGroupRule {
    /// `tcp`, `udp`, `icmp`, the number of another IP protocol, or `-1` for all.
    pub protocol: String,
    /// First and last port, or type and code for ICMP; absent for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ports: Option<(i32, i32)>,
    /// IPv4 and IPv6 ranges of the other side.
    pub cidr_blocks: Vec<String>,
    /// Security groups of the other side.
    pub group_ids: Vec<String>,
    /// Prefix lists of the other side.
    pub prefix_list_ids: Vec<String>,
}

impl SecurityGroupRule {
    /// The number of rules that AWS counts: one for each range, group and prefix list.
    pub const fn count(&self) -> usize {
        self.cidr_blocks.len() + self.group_ids.len() + self.prefix_list_ids.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(vpc_id: &str, subnets: &[&str], routes: &[(&str, RouteTarget)]) -> RouteTable {
        let routes = routes.iter().map(|(destination, target)| Route {
            destination: (*destination).to_owned(),
            target: target.clone(),
            is_blackhole: false,
        });
        RouteTable {
            id: "rtb-1".into(),
            vpc_id: vpc_id.into(),
            is_main: subnets.is_empty(),
            subnet_ids: subnets.iter().map(|id| (*id).to_owned()).collect(),
            routes: routes.collect(),
        }
    }

    fn gateway() -> RouteTarget {
        RouteTarget::InternetGateway("igw-1".into())
    }

    #[test]
    fn a_subnet_without_a_route_table_has_the_main_one_of_its_vpc() {
        let subnet = Subnet {
            id: "subnet-1".into(),
            vpc_id: "vpc-1".into(),
            ..Subnet::default()
        };
        let public = [("0.0.0.0/0", gateway())];
        let (main, elsewhere) = (table("vpc-1", &[], &public), table("vpc-2", &[], &public));
        let (own, of_another) = (table("vpc-1", &["subnet-1"], &[]), table("vpc-1", &["subnet-2"], &[]));
        for (tables, expected) in [
            (vec![main.clone(), own], Some(false)),
            (vec![of_another, main], Some(true)),
            (vec![elsewhere], None),
        ] {
            assert_eq!(subnet.is_public(&tables), expected, "{tables:?}");
        }
    }

    #[test]
    fn a_default_route_to_an_internet_gateway_leads_to_the_internet() {
        for (destination, target, expected) in [
            ("0.0.0.0/0", gateway(), true),
            ("::/0", gateway(), true),
            ("10.0.0.0/8", gateway(), false),
            ("0.0.0.0/0", RouteTarget::Other("vgw-1".into()), false),
        ] {
            let table = table("vpc-1", &[], &[(destination, target)]);
            assert_eq!(table.leads_to_the_internet(), expected, "{table:?}");
        }
    }
}
