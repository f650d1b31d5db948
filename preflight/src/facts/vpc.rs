//! Facts about a VPC and its parts.

use capa_cloud::Availability;
use serde::{Deserialize, Serialize};

/// DHCP options of a VPC.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DhcpOptions {
    /// `dopt-…`
    pub id: String,
    /// Values of `domain-name`.
    pub domain_names: Vec<String>,
    /// Values of `domain-name-servers`.
    pub domain_name_servers: Vec<String>,
}

/// A zone of the region.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Zone {
    /// Name, for example `eu-west-1a`.
    pub name: String,
    /// `availability-zone`, `local-zone` or `wavelength-zone`.
    pub zone_type: String,
    /// `available`, `impaired` or `unavailable`.
    pub state: String,
}

/// A region.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Region {
    /// Name, for example `eu-west-1`.
    pub name: String,
    /// `opt-in-not-required`, `opted-in` or `not-opted-in`.
    pub opt_in_status: String,
}

/// A network access control list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NetworkAcl {
    /// `acl-…`
    pub id: String,
    /// Subnets that the list is associated with.
    pub subnet_ids: Vec<String>,
    /// Entries in any order.
    pub entries: Vec<AclEntry>,
}

/// An entry of a network access control list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AclEntry {
    /// Entries apply in the order of their numbers.
    pub number: i32,
    /// Whether the entry is for outgoing packets.
    pub is_egress: bool,
    /// Whether the packets are allowed.
    pub allows: bool,
    /// Number of the IP protocol, or `-1` for all.
    pub protocol: String,
    /// Range of the other side's addresses.
    pub cidr_block: String,
    /// First and last port; absent for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ports: Option<(u16, u16)>,
}

/// A VPC endpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VpcEndpoint {
    /// `vpce-…`
    pub id: String,
    /// Name of the service without the prefix of the region, for example `ecr.api`.
    pub service: String,
    /// `Interface`, `Gateway` or another type.
    pub endpoint_type: String,
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
