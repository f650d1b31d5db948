//! Internet gateways of managed clusters.

use capa_api::common::Tags;
use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantNames};

use crate::resource::{Effect, Repeat};

/// An internet gateway.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InternetGateway {
    /// Id, for example `igw-0a1b2c3d`.
    pub id: String,
    /// The VPC to which the gateway is attached.
    pub vpc_id: Option<String>,
    /// Tags.
    pub tags: Tags,
}

/// A call about an internet gateway; each variant is an action of EC2.
#[derive(Clone, Debug, PartialEq, Eq, IntoStaticStr, VariantNames, Serialize)]
#[serde(rename_all_fields = "camelCase")]
#[allow(missing_docs)]
pub enum Call<I> {
    CreateInternetGateway { tags: Tags },
    AttachInternetGateway { gateway: I, vpc: I },
    DetachInternetGateway { gateway: I, vpc: I },
    DeleteInternetGateway { gateway: I },
}

impl<I> Call<I> {
    pub(super) fn effect(&self) -> Effect {
        match self {
            Self::CreateInternetGateway { .. } => Effect::Create,
            Self::AttachInternetGateway { .. } => Effect::Change,
            Self::DetachInternetGateway { .. } | Self::DeleteInternetGateway { .. } => Effect::Delete,
        }
    }

    pub(super) fn repeat(&self) -> Repeat<'_> {
        match self {
            Self::CreateInternetGateway { .. } => Repeat::CreatesSecond,
            _ => Repeat::Idempotent,
        }
    }

    pub(super) fn try_map<J, E>(&self, id: &mut dyn FnMut(&I) -> Result<J, E>) -> Result<Call<J>, E> {
        Ok(match self {
            Self::CreateInternetGateway { tags } => Call::CreateInternetGateway { tags: tags.clone() },
            Self::AttachInternetGateway { gateway, vpc } => {
                Call::AttachInternetGateway { gateway: id(gateway)?, vpc: id(vpc)? }
            }
            Self::DetachInternetGateway { gateway, vpc } => {
                Call::DetachInternetGateway { gateway: id(gateway)?, vpc: id(vpc)? }
            }
            Self::DeleteInternetGateway { gateway } => Call::DeleteInternetGateway { gateway: id(gateway)? },
        })
    }
}
