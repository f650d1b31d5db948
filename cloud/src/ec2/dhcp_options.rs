//! DHCP options of VPCs.

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
