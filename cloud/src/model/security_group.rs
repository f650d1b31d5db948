//! Security groups, as clusters, machines and checks look them up. The facts of a check are saved as JSON.

use capa_api::common::Tags;
use serde::{Deserialize, Serialize};

/// A security group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SecurityGroup {
    /// `sg-…`
    pub id: String,
    /// Name.
    pub name: String,
    /// VPC of the security group.
    pub vpc_id: String,
    /// Account that owns the security group.
    pub owner_id: String,
    /// Tags.
    pub tags: Tags,
    /// Rules for incoming packets.
    pub ingress: Vec<SecurityGroupRule>,
    /// Rules for outgoing packets.
    pub egress: Vec<SecurityGroupRule>,
}

/// Rules of a security group with the same protocol and ports.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SecurityGroupRule {
    /// `tcp`, `udp`, `icmp`, the number of another IP protocol, or `-1` for all.
    pub protocol: String,
    /// First and last port, or type and code for ICMP; absent for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ports: Option<(i32, i32)>,
    /// IPv4 and IPv6 ranges of the other side.
    pub cidr_blocks: Vec<String>,
    /// Security groups of the other side.
    pub group_ids: Vec<String>,
    /// Prefix lists of the other side.
    pub prefix_list_ids: Vec<String>,
}

impl SecurityGroupRule {
    /// The number of rules that AWS counts: one for each range, group and prefix list.
    pub const fn count(&self) -> usize {
        self.cidr_blocks.len() + self.group_ids.len() + self.prefix_list_ids.len()
    }
}
