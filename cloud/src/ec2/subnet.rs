//! Subnets, and the calls that change those of managed clusters.

use capa_api::common::{HostnameType, Tags};
use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantNames};

use super::RouteTable;
use crate::Availability;
use crate::resource::Effect;

/// A subnet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Subnet {
    /// Id, for example `subnet-0a1b2c3d`.
    pub id: String,
    /// VPC of the subnet.
    pub vpc_id: String,
    /// State of the subnet.
    pub state: Availability,
    /// Zone, for example `eu-west-1a`.
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
    /// Form of the private host names of instances.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hostname_type: Option<HostnameType>,
    /// Tags.
    pub tags: Tags,
}

impl Subnet {
    /// Whether the subnet can be used.
    pub fn is_available(&self) -> bool {
        self.state == Availability::Available
    }

    /// Whether instances can have an IPv6 address.
    pub fn has_ipv6(&self) -> bool {
        !self.ipv6_cidr_blocks.is_empty()
    }

    /// The route table of the subnet: its own, or else the main one of its VPC. `None` if neither is among `tables`.
    pub fn route_table<'a>(&self, tables: &'a [RouteTable]) -> Option<&'a RouteTable> {
        RouteTable::of_subnet(&self.id, &self.vpc_id, tables)
    }

    /// Whether the subnet is public: its route table has a default route to an internet gateway. `None` if its route
    /// table is not among `tables`.
    pub fn is_public(&self, tables: &[RouteTable]) -> Option<bool> {
        self.route_table(tables).map(RouteTable::leads_to_the_internet)
    }
}

/// An attribute of a subnet with its new value. One call changes one attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Attribute {
    /// Whether instances get a public IPv4 address.
    MapPublicIpOnLaunch(bool),
    /// Form of the private host names of instances.
    HostnameType(HostnameType),
}

/// A call about a subnet; each variant is an action of EC2.
#[derive(Clone, Debug, PartialEq, Eq, IntoStaticStr, VariantNames, Serialize)]
#[serde(rename_all_fields = "camelCase")]
#[allow(missing_docs)]
pub enum Call<I> {
    CreateSubnet { vpc: I, cidr_block: String, zone: String, tags: Tags },
    ModifySubnetAttribute { subnet: I, attribute: Attribute },
    DeleteSubnet { subnet: I },
}

impl<I> Call<I> {
    pub(super) fn effect(&self) -> Effect {
        match self {
            Self::CreateSubnet { .. } => Effect::Create,
            Self::ModifySubnetAttribute { .. } => Effect::Change,
            Self::DeleteSubnet { .. } => Effect::Delete,
        }
    }

    pub(super) fn try_map<J, E>(&self, id: &mut dyn FnMut(&I) -> Result<J, E>) -> Result<Call<J>, E> {
        Ok(match self {
            Self::CreateSubnet { vpc, cidr_block, zone, tags } => Call::CreateSubnet {
                vpc: id(vpc)?,
                cidr_block: cidr_block.clone(),
                zone: zone.clone(),
                tags: tags.clone(),
            },
            Self::ModifySubnetAttribute { subnet, attribute } => {
                Call::ModifySubnetAttribute { subnet: id(subnet)?, attribute: *attribute }
            }
            Self::DeleteSubnet { subnet } => Call::DeleteSubnet { subnet: id(subnet)? },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ec2::route_table::ANYWHERE;
    use crate::ec2::{Route, RouteTableAssociation, RouteTarget};

    fn table(vpc_id: &str, subnet: Option<&str>, default: Option<RouteTarget>) -> RouteTable {
        let association =
            |subnet: &str| RouteTableAssociation { id: "rtbassoc-1".into(), subnet_id: subnet.to_owned() };
        let route = |target| Route { destination: ANYWHERE.to_owned(), target, is_blackhole: false };
        RouteTable {
            vpc_id: vpc_id.into(),
            is_main: subnet.is_none(),
            associations: subnet.map(association).into_iter().collect(),
            routes: default.map(route).into_iter().collect(),
            ..RouteTable::default()
        }
    }

    #[test]
    fn a_subnet_without_a_route_table_has_the_main_one_of_its_vpc() {
        let subnet = Subnet { id: "subnet-1".into(), vpc_id: "vpc-1".into(), ..Subnet::default() };
        let gateway = || Some(RouteTarget::InternetGateway("igw-1".into()));
        let (main, elsewhere) = (table("vpc-1", None, gateway()), table("vpc-2", None, gateway()));
        let of = |subnet| table("vpc-1", Some(subnet), None);
        for (tables, expected) in [
            (vec![main.clone(), of("subnet-1")], Some(false)),
            (vec![of("subnet-2"), main], Some(true)),
            (vec![elsewhere], None),
        ] {
            assert_eq!(subnet.is_public(&tables), expected, "{tables:?}");
        }
    }
}
