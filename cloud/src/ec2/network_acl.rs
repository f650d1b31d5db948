//! Network access control lists.

use serde::{Deserialize, Serialize};

use super::ip_protocol::IpProtocol;

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
    /// Protocol of the packets.
    pub protocol: IpProtocol,
    /// Range of the other side's addresses.
    pub cidr_block: String,
    /// First and last port; absent for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ports: Option<(u16, u16)>,
}
