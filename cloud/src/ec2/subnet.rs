//! Subnets of managed clusters.

use capa_api::common::{HostnameType, Tags};
use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantNames};

use crate::resource::Effect;

/// A subnet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Subnet {
    /// Id, for example `subnet-0a1b2c3d`.
    pub id: String,
    /// The VPC of the subnet.
    pub vpc_id: String,
    /// Whether the subnet can be used: a new subnet is pending first.
    pub is_available: bool,
    /// IPv4 range.
    pub cidr_block: String,
    /// Zone, for example `eu-west-1a`.
    pub zone: String,
    /// Whether instances get a public IPv4 address.
    pub maps_public_ips: bool,
    /// Form of the private host names of instances.
    pub hostname_type: Option<HostnameType>,
    /// Tags.
    pub tags: Tags,
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
    CreateSubnet {
        vpc: I,
        cidr_block: String,
        zone: String,
        tags: Tags,
    },
    ModifySubnetAttribute {
        subnet: I,
        attribute: Attribute,
    },
    DeleteSubnet {
        subnet: I,
    },
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
            Self::CreateSubnet {
                vpc,
                cidr_block,
                zone,
                tags,
            } => Call::CreateSubnet {
                vpc: id(vpc)?,
                cidr_block: cidr_block.clone(),
                zone: zone.clone(),
                tags: tags.clone(),
            },
            Self::ModifySubnetAttribute { subnet, attribute } => Call::ModifySubnetAttribute {
                subnet: id(subnet)?,
                attribute: *attribute,
            },
            Self::DeleteSubnet { subnet } => Call::DeleteSubnet { subnet: id(subnet)? },
        })
    }
}
