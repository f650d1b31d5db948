//! NAT gateways of managed clusters, and the Elastic IPs that they use.

use capa_api::common::Tags;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use strum::{Display, IntoStaticStr, VariantNames};

use crate::resource::{Effect, Repeat};

/// A NAT gateway. AWS continues to list a failed or deleted gateway for about an hour.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NatGateway {
    /// Id, for example `nat-0a1b2c3d`.
    pub id: String,
    /// The VPC of the gateway.
    pub vpc_id: String,
    /// The subnet of the gateway.
    pub subnet_id: String,
    /// State of the gateway.
    pub state: NatGatewayState,
    /// AWS's reason why the gateway could not be created. Absent unless the gateway failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// Time at which AWS accepted the call that created the gateway.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_at: Option<Timestamp>,
    /// The Elastic IPs that the gateway uses, for example `eipalloc-0a1b2c3d`.
    pub allocation_ids: Vec<String>,
    /// The public addresses of the gateway, once it works.
    pub public_ips: Vec<String>,
    /// Tags.
    pub tags: Tags,
}

/// The state of a NAT gateway, in AWS's words.
#[derive(Clone, Copy, Debug, Default, Display, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum NatGatewayState {
    /// AWS is creating the gateway.
    #[default]
    Pending,
    /// The gateway works.
    Available,
    /// AWS could not create the gateway. The state is final.
    Failed,
    /// AWS is deleting the gateway, which still uses its Elastic IPs.
    Deleting,
    /// The gateway is deleted.
    Deleted,
}

/// A call about a NAT gateway or its Elastic IP; each variant is an action of EC2.
#[derive(Clone, Debug, PartialEq, Eq, IntoStaticStr, VariantNames, Serialize)]
#[serde(rename_all_fields = "camelCase")]
#[allow(missing_docs)]
pub enum Call<I> {
    AllocateAddress {
        /// The public IPv4 pool that the address is taken from. `None`: Amazon's addresses.
        #[serde(skip_serializing_if = "Option::is_none")]
        public_ipv4_pool: Option<String>,
        tags: Tags,
    },
    CreateNatGateway {
        subnet: I,
        address: I,
        client_token: String,
        tags: Tags,
    },
    DeleteNatGateway {
        gateway: I,
    },
    ReleaseAddress {
        address: I,
    },
}

impl<I> Call<I> {
    pub(super) fn effect(&self) -> Effect {
        match self {
            Self::AllocateAddress { .. } | Self::CreateNatGateway { .. } => Effect::Create,
            Self::DeleteNatGateway { .. } | Self::ReleaseAddress { .. } => Effect::Delete,
        }
    }

    pub(super) fn repeat(&self) -> Repeat<'_> {
        match self {
            Self::AllocateAddress { .. } => Repeat::CreatesSecond,
            Self::CreateNatGateway { client_token, .. } => Repeat::Token(client_token),
            Self::DeleteNatGateway { .. } | Self::ReleaseAddress { .. } => Repeat::Idempotent,
        }
    }

    pub(super) fn try_map<J, E>(&self, id: &mut dyn FnMut(&I) -> Result<J, E>) -> Result<Call<J>, E> {
        Ok(match self {
            Self::AllocateAddress { public_ipv4_pool, tags } => {
                Call::AllocateAddress { public_ipv4_pool: public_ipv4_pool.clone(), tags: tags.clone() }
            }
            Self::CreateNatGateway { subnet, address, client_token, tags } => Call::CreateNatGateway {
                subnet: id(subnet)?,
                address: id(address)?,
                client_token: client_token.clone(),
                tags: tags.clone(),
            },
            Self::DeleteNatGateway { gateway } => Call::DeleteNatGateway { gateway: id(gateway)? },
            Self::ReleaseAddress { address } => Call::ReleaseAddress { address: id(address)? },
        })
    }
}
