//! Target groups: those that users name, and those of managed clusters.

use std::collections::BTreeMap;
use std::fmt;

use capa_api::cluster::load_balancer::HealthCheckTiming;
use capa_api::common::Tags;
use serde::{Deserialize, Serialize};
use strum::{Display, IntoStaticStr, VariantNames};

use super::protocol::Protocol;
use crate::resource::{Effect, Seen};

/// Prefixes of the names of the target groups of clusters: for the port of the API server, and for other ports. CAPA
/// uses the same prefixes.
pub const PREFIXES: [&str; 2] = ["apiserver-target-", "additional-listener-"];

/// A target group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TargetGroup {
    /// ARN, which is the id of the target group.
    pub arn: String,
    /// Name, which is unique in the region of the account.
    pub name: String,
    /// The VPC of the targets.
    pub vpc_id: String,
    /// The protocol to the targets.
    pub protocol: Protocol,
    /// The port of the targets.
    pub port: i32,
    /// Type of the targets.
    pub target_type: TargetType,
    /// Health check of the targets.
    pub health_check: HealthCheck,
    /// ARNs of the load balancers that forward to the target group.
    pub load_balancer_arns: Vec<String>,
    /// Attributes by AWS's names, for example `preserve_client_ip.enabled`; only for target groups that a cluster owns.
    pub attributes: Seen<BTreeMap<String, String>>,
    /// Tags; only for target groups in the VPC of a managed cluster whose names have one of the [`PREFIXES`].
    pub tags: Tags,
}

/// The type of the targets of a group, in AWS's words.
#[derive(Clone, Debug, Default, Display, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum TargetType {
    /// The targets are instances.
    #[default]
    Instance,
    /// The targets are private addresses of this family.
    Ip(AddressFamily),
    /// Another type, which instances cannot be, for example `alb` or `lambda`.
    #[serde(untagged)]
    #[strum(default)]
    Other(String),
}

/// The family of an IP address.
#[derive(Clone, Copy, Debug, Display, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AddressFamily {
    /// IPv4.
    #[strum(serialize = "IPv4")]
    Ipv4,
    /// IPv6.
    #[strum(serialize = "IPv6")]
    Ipv6,
}

impl AddressFamily {
    /// Whether an address is of this family.
    pub(crate) fn has(self, address: &str) -> bool {
        (self == Self::Ipv6) == address.contains(':')
    }
}

/// The health check of the targets of a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HealthCheck {
    /// `TCP`, `HTTP` or `HTTPS`.
    pub protocol: Protocol,
    /// A port, or `traffic-port` for the port of the target.
    pub port: String,
    /// The path of a request; absent for `TCP`.
    pub path: Option<String>,
    /// Timing of the health check.
    pub timing: HealthCheckTiming,
}

impl fmt::Display for HealthCheck {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { protocol, port, path, timing } = self;
        write!(formatter, "{protocol} {port}{} {timing}", path.as_deref().unwrap_or_default())
    }
}

/// A call about a target group; each variant is an action of Elastic Load Balancing.
#[derive(Clone, Debug, PartialEq, Eq, IntoStaticStr, VariantNames, Serialize)]
#[serde(rename_all_fields = "camelCase")]
#[allow(missing_docs)]
pub enum Call<I> {
    CreateTargetGroup { vpc: I, name: String, port: i32, health_check: HealthCheck, tags: Tags },
    ModifyTargetGroup { group: I, health_check: HealthCheck },
    ModifyTargetGroupAttributes { group: I, attributes: BTreeMap<&'static str, String> },
    DeleteTargetGroup { group: I },
}

impl<I> Call<I> {
    pub(super) fn effect(&self) -> Effect {
        match self {
            Self::CreateTargetGroup { .. } => Effect::Create,
            Self::ModifyTargetGroup { .. } | Self::ModifyTargetGroupAttributes { .. } => Effect::Change,
            Self::DeleteTargetGroup { .. } => Effect::Delete,
        }
    }

    pub(super) fn try_map<J, E>(&self, id: &mut dyn FnMut(&I) -> Result<J, E>) -> Result<Call<J>, E> {
        Ok(match self {
            Self::CreateTargetGroup { vpc, name, port, health_check, tags } => Call::CreateTargetGroup {
                vpc: id(vpc)?,
                name: name.clone(),
                port: *port,
                health_check: health_check.clone(),
                tags: tags.clone(),
            },
            Self::ModifyTargetGroup { group, health_check } => {
                Call::ModifyTargetGroup { group: id(group)?, health_check: health_check.clone() }
            }
            Self::ModifyTargetGroupAttributes { group, attributes } => {
                Call::ModifyTargetGroupAttributes { group: id(group)?, attributes: attributes.clone() }
            }
            Self::DeleteTargetGroup { group } => Call::DeleteTargetGroup { group: id(group)? },
        })
    }
}
