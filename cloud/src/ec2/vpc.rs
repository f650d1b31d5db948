//! VPCs, and the calls that change those of managed clusters.

use capa_api::common::Tags;
use capa_api::machine::Tenancy;
use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantNames};

use crate::Availability;
use crate::resource::{Effect, Repeat};

/// A VPC.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Vpc {
    /// Id, for example `vpc-0a1b2c3d`.
    pub id: String,
    /// State of the VPC.
    pub state: Availability,
    /// Account that owns the VPC.
    pub owner_id: String,
    /// Associated IPv4 ranges; the primary range is the first.
    pub cidr_blocks: Vec<String>,
    /// The IPv4 ranges that AWS has accepted and not associated yet.
    #[serde(default)]
    pub associating_cidr_blocks: Vec<String>,
    /// Associated IPv6 ranges.
    pub ipv6_cidr_blocks: Vec<String>,
    /// Tenancy of instances: `default` or `dedicated`.
    pub tenancy: Tenancy,
    /// Id of the DHCP options; absent if the VPC has none.
    pub dhcp_options_id: Option<String>,
    /// Tags.
    #[serde(default)]
    pub tags: Tags,
}

impl Vpc {
    /// Whether the VPC can be used.
    pub fn is_available(&self) -> bool {
        self.state == Availability::Available
    }
}

/// The DNS attributes of a VPC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VpcDns {
    /// `enableDnsSupport`: whether the VPC has a DNS server.
    pub support: bool,
    /// `enableDnsHostnames`: whether instances get DNS names.
    pub hostnames: bool,
}

/// An attribute of a VPC that is switched on. One call changes one attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum DnsAttribute {
    /// `enableDnsSupport`.
    Support,
    /// `enableDnsHostnames`, which needs `enableDnsSupport`.
    Hostnames,
}

/// A call about a VPC; each variant is an action of EC2.
#[derive(Clone, Debug, PartialEq, Eq, IntoStaticStr, VariantNames, Serialize)]
#[serde(rename_all_fields = "camelCase")]
#[allow(missing_docs)]
pub enum Call<I> {
    CreateVpc { cidr_block: String, tags: Tags },
    ModifyVpcAttribute { vpc: I, attribute: DnsAttribute },
    AssociateVpcCidrBlock { vpc: I, cidr_block: String },
    DeleteVpc { vpc: I },
}

impl<I> Call<I> {
    pub(super) fn effect(&self) -> Effect {
        match self {
            Self::CreateVpc { .. } => Effect::Create,
            Self::ModifyVpcAttribute { .. } | Self::AssociateVpcCidrBlock { .. } => Effect::Change,
            Self::DeleteVpc { .. } => Effect::Delete,
        }
    }

    pub(super) fn repeat(&self) -> Repeat<'_> {
        match self {
            Self::CreateVpc { .. } => Repeat::CreatesSecond,
            Self::ModifyVpcAttribute { .. } | Self::AssociateVpcCidrBlock { .. } | Self::DeleteVpc { .. } => {
                Repeat::Idempotent
            }
        }
    }

    pub(super) fn try_map<J, E>(&self, id: &mut dyn FnMut(&I) -> Result<J, E>) -> Result<Call<J>, E> {
        Ok(match self {
            Self::CreateVpc { cidr_block, tags } => {
                Call::CreateVpc { cidr_block: cidr_block.clone(), tags: tags.clone() }
            }
            Self::ModifyVpcAttribute { vpc, attribute } => {
                Call::ModifyVpcAttribute { vpc: id(vpc)?, attribute: *attribute }
            }
            Self::AssociateVpcCidrBlock { vpc, cidr_block } => {
                Call::AssociateVpcCidrBlock { vpc: id(vpc)?, cidr_block: cidr_block.clone() }
            }
            Self::DeleteVpc { vpc } => Call::DeleteVpc { vpc: id(vpc)? },
        })
    }
}
