//! Network interfaces.

use serde::{Deserialize, Serialize};

/// A network interface.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NetworkInterface {
    /// `eni-…`
    pub id: String,
    /// VPC of the interface.
    pub vpc_id: String,
    /// Subnet of the interface.
    pub subnet_id: String,
    /// Name of the subnet's zone.
    pub availability_zone: String,
    /// Ids of its security groups.
    pub security_group_ids: Vec<String>,
    /// Id of the instance that it is attached to, if any.
    pub instance_id: Option<String>,
    /// The description by which services name their interfaces, for example `ELB net/web/0123456789abcdef`. May be
    /// empty.
    pub description: String,
    /// Account that owns the interface.
    pub owner_id: String,
    /// Account or service that created the interface, for example `amazon-elb`.
    pub requester_id: Option<String>,
    /// Public IPv4 address of the interface, if it has any.
    pub public_ip: Option<String>,
}

impl NetworkInterface {
    /// The id of the interface, and the instance that it is attached to.
    pub fn attached(&self) -> Option<(&str, &str)> {
        Some((&self.id, self.instance_id.as_deref()?))
    }
}
