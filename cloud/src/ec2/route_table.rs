//! Route tables with their routes and associations, and the calls that change those of managed clusters.

use capa_api::common::Tags;
use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantNames};

use crate::resource::{Effect, Repeat};

/// The range of a default route.
pub const ANYWHERE: &str = "0.0.0.0/0";

/// The range of a default route of IPv6.
const ANYWHERE_IPV6: &str = "::/0";

/// A route table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RouteTable {
    /// Id, for example `rtb-0a1b2c3d`.
    pub id: String,
    /// VPC of the route table.
    #[serde(default)]
    pub vpc_id: String,
    /// Whether the table is the main route table, which all subnets of the VPC without an association use.
    pub is_main: bool,
    /// The associations of subnets with the table.
    pub associations: Vec<RouteTableAssociation>,
    /// Routes, including those within the VPC.
    pub routes: Vec<Route>,
    /// Tags.
    #[serde(default)]
    pub tags: Tags,
}

impl RouteTable {
    /// The id of the association of a subnet with the table; `None` for a subnet that uses the main table without one.
    pub fn association_of(&self, subnet: &str) -> Option<&str> {
        let mut associations = self.associations.iter();
        let found = associations.find(|association| association.subnet_id == subnet);
        found.map(|association| association.id.as_str())
    }

    /// The route table of a subnet among `tables`: its own, or else the main one of its VPC.
    pub fn of_subnet<'a>(subnet: &str, vpc: &str, tables: &'a [Self]) -> Option<&'a Self> {
        let own = tables.iter().find(|table| table.association_of(subnet).is_some());
        own.or_else(|| tables.iter().find(|table| table.is_main && table.vpc_id == vpc))
    }

    /// The id of the target of the default route.
    pub fn default_target(&self) -> Option<&str> {
        let mut routes = self.routes.iter();
        let default = routes.find(|route| route.destination == ANYWHERE);
        default.map(|route| route.target.id())
    }

    /// Whether a default route leads to an internet gateway.
    pub(super) fn leads_to_the_internet(&self) -> bool {
        let is_default = |route: &Route| [ANYWHERE, ANYWHERE_IPV6].contains(&route.destination.as_str());
        let mut routes = self.routes.iter().filter(|route| is_default(route));
        routes.any(|route| matches!(route.target, RouteTarget::InternetGateway(_)))
    }
}

/// The association of a subnet with a route table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RouteTableAssociation {
    /// Id, for example `rtbassoc-0a1b2c3d`.
    pub id: String,
    /// The subnet.
    pub subnet_id: String,
}

/// A route.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Route {
    /// Range of addresses, for example `0.0.0.0/0`, or a prefix list.
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

/// The target of a new route of a managed cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum NewRouteTarget<I> {
    /// An internet gateway.
    InternetGateway(I),
    /// A NAT gateway.
    NatGateway(I),
}

/// A call about a route table; each variant is an action of EC2.
#[derive(Clone, Debug, PartialEq, Eq, IntoStaticStr, VariantNames, Serialize)]
#[serde(rename_all_fields = "camelCase")]
#[allow(missing_docs)]
pub enum Call<I> {
    CreateRouteTable { vpc: I, client_token: String, tags: Tags },
    CreateRoute { table: I, destination: String, target: NewRouteTarget<I> },
    ReplaceRoute { table: I, destination: String, target: NewRouteTarget<I> },
    AssociateRouteTable { table: I, subnet: I },
    ReplaceRouteTableAssociation { association: I, table: I },
    DisassociateRouteTable { association: I },
    DeleteRouteTable { table: I },
}

impl<I> NewRouteTarget<I> {
    fn try_map<J, E>(&self, id: &mut dyn FnMut(&I) -> Result<J, E>) -> Result<NewRouteTarget<J>, E> {
        Ok(match self {
            Self::InternetGateway(gateway) => NewRouteTarget::InternetGateway(id(gateway)?),
            Self::NatGateway(gateway) => NewRouteTarget::NatGateway(id(gateway)?),
        })
    }
}

impl<I> Call<I> {
    pub(super) fn effect(&self) -> Effect {
        match self {
            Self::CreateRouteTable { .. } => Effect::Create,
            Self::CreateRoute { .. }
            | Self::ReplaceRoute { .. }
            | Self::AssociateRouteTable { .. }
            | Self::ReplaceRouteTableAssociation { .. } => Effect::Change,
            Self::DisassociateRouteTable { .. } | Self::DeleteRouteTable { .. } => Effect::Delete,
        }
    }

    pub(super) fn repeat(&self) -> Repeat<'_> {
        match self {
            Self::CreateRouteTable { client_token, .. } => Repeat::Token(client_token),
            _ => Repeat::Idempotent,
        }
    }

    pub(super) fn try_map<J, E>(&self, id: &mut dyn FnMut(&I) -> Result<J, E>) -> Result<Call<J>, E> {
        Ok(match self {
            Self::CreateRouteTable { vpc, client_token, tags } => {
                Call::CreateRouteTable { vpc: id(vpc)?, client_token: client_token.clone(), tags: tags.clone() }
            }
            Self::CreateRoute { table, destination, target } => {
                Call::CreateRoute { table: id(table)?, destination: destination.clone(), target: target.try_map(id)? }
            }
            Self::ReplaceRoute { table, destination, target } => {
                Call::ReplaceRoute { table: id(table)?, destination: destination.clone(), target: target.try_map(id)? }
            }
            Self::AssociateRouteTable { table, subnet } => {
                Call::AssociateRouteTable { table: id(table)?, subnet: id(subnet)? }
            }
            Self::ReplaceRouteTableAssociation { association, table } => {
                Call::ReplaceRouteTableAssociation { association: id(association)?, table: id(table)? }
            }
            Self::DisassociateRouteTable { association } => {
                Call::DisassociateRouteTable { association: id(association)? }
            }
            Self::DeleteRouteTable { table } => Call::DeleteRouteTable { table: id(table)? },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_default_route_to_an_internet_gateway_leads_to_the_internet() {
        let gateway = || RouteTarget::InternetGateway("igw-1".into());
        for (destination, target, expected) in [
            ("0.0.0.0/0", gateway(), true),
            ("::/0", gateway(), true),
            ("10.0.0.0/8", gateway(), false),
            ("0.0.0.0/0", RouteTarget::Other("vgw-1".into()), false),
        ] {
            let route = Route { destination: destination.to_owned(), target, is_blackhole: false };
            let table = RouteTable { routes: vec![route], ..RouteTable::default() };
            assert_eq!(table.leads_to_the_internet(), expected, "{table:?}");
        }
    }
}
