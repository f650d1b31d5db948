//! VPC endpoints.

use serde::{Deserialize, Serialize};
use strum::{Display, EnumString};

use super::availability::Availability;

/// A VPC endpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VpcEndpoint {
    /// `vpce-…`
    pub id: String,
    /// Name of the service without the prefix of the region, for example `ecr.api`.
    pub service: String,
    /// Type of the endpoint.
    pub endpoint_type: VpcEndpointType,
    /// State of the endpoint.
    pub state: Availability,
    /// Whether the usual DNS name of the service leads to the endpoint.
    pub has_private_dns: bool,
    /// Subnets of an interface endpoint.
    pub subnet_ids: Vec<String>,
    /// Security groups of an interface endpoint.
    pub security_group_ids: Vec<String>,
    /// Route tables of a gateway endpoint.
    pub route_table_ids: Vec<String>,
}

/// The type of a VPC endpoint, in AWS's words.
#[derive(Clone, Debug, Default, Display, EnumString, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
#[strum(serialize_all = "PascalCase")]
pub enum VpcEndpointType {
    /// Network interfaces in subnets.
    #[default]
    Interface,
    /// Routes in route tables.
    Gateway,
    /// Another type, for example `GatewayLoadBalancer`.
    #[serde(untagged)]
    #[strum(default)]
    Other(String),
}
