//! Route tables of managed clusters, with their routes and associations.

use capa_api::common::Tags;
use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantNames};

use crate::resource::{Effect, Repeat};

/// The range of a default route.
pub const ANYWHERE: &str = "0.0.0.0/0";

/// A route table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RouteTable {
    /// Id, for example `rtb-0a1b2c3d`.
    pub id: String,
    /// The VPC of the table.
    pub vpc_id: String,
    /// Whether the table is the main route table, which all subnets of the VPC without an association use.
    pub is_main: bool,
    /// The associations of subnets with the table.
    pub associations: Vec<RouteTableAssociation>,
    /// The routes to IPv4 ranges, including the routes within the VPC.
    pub routes: Vec<Route>,
    /// Tags.
    pub tags: Tags,
}

impl RouteTable {
    /// The id of the association of a subnet with the table; `None` for a subnet that uses the main table without one.
    pub fn association_of(&self, subnet: &str) -> Option<&str> {
        let mut associations = self.associations.iter();
        let found = associations.find(|association| association.subnet_id == subnet);
        found.map(|association| association.id.as_str())
    }

    /// The id of the target of the default route.
    pub fn default_target(&self) -> Option<&str> {
        let mut routes = self.routes.iter();
        let default = routes.find(|route| route.destination == ANYWHERE);
        default.map(|route| route.target.as_str())
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

/// A route to an IPv4 range.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Route {
    /// The range, for example `0.0.0.0/0`.
    pub destination: String,
    /// The id of the target, for example `igw-0a1b2c3d`, `nat-0a1b2c3d` or `local`.
    pub target: String,
}

/// The target of a route of a managed cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum RouteTarget<I> {
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
    CreateRouteTable {
        vpc: I,
        client_token: String,
        tags: Tags,
    },
    CreateRoute {
        table: I,
        destination: String,
        target: RouteTarget<I>,
    },
    ReplaceRoute {
        table: I,
        destination: String,
        target: RouteTarget<I>,
    },
    AssociateRouteTable {
        table: I,
        subnet: I,
    },
    ReplaceRouteTableAssociation {
        association: I,
        table: I,
    },
    DisassociateRouteTable {
        association: I,
    },
    DeleteRouteTable {
        table: I,
    },
}

impl<I> RouteTarget<I> {
    fn try_map<J, E>(&self, id: &mut dyn FnMut(&I) -> Result<J, E>) -> Result<RouteTarget<J>, E> {
        Ok(match self {
            Self::InternetGateway(gateway) => RouteTarget::InternetGateway(id(gateway)?),
            Self::NatGateway(gateway) => RouteTarget::NatGateway(id(gateway)?),
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
            Self::CreateRouteTable {
                vpc,
                client_token,
                tags,
            } => Call::CreateRouteTable {
                vpc: id(vpc)?,
                client_token: client_token.clone(),
                tags: tags.clone(),
            },
            Self::CreateRoute {
                table,
                destination,
                target,
            } => Call::CreateRoute {
                table: id(table)?,
                destination: destination.clone(),
                target: target.try_map(id)?,
            },
            Self::ReplaceRoute {
                table,
                destination,
                target,
            } => Call::ReplaceRoute {
                table: id(table)?,
                destination: destination.clone(),
                target: target.try_map(id)?,
            },
            Self::AssociateRouteTable { table, subnet } => Call::AssociateRouteTable {
                table: id(table)?,
                subnet: id(subnet)?,
            },
            Self::ReplaceRouteTableAssociation { association, table } => Call::ReplaceRouteTableAssociation {
                association: id(association)?,
                table: id(table)?,
            },
            Self::DisassociateRouteTable { association } => Call::DisassociateRouteTable {
                association: id(association)?,
            },
            Self::DeleteRouteTable { table } => Call::DeleteRouteTable { table: id(table)? },
        })
    }
}
