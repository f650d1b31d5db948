//! Elastic IPs: what AWS shows of them, and the calls that change them.

use capa_api::common::Tags;
use serde::{Deserialize, Serialize};

/// An Elastic IP, with only the fields that decisions need.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ElasticIp {
    /// `eipalloc-…`
    pub allocation_id: String,
    /// The address, for example `203.0.113.25`.
    pub public_ip: String,
    /// `eipassoc-…`, while the address is associated with an instance or a network interface. A NAT gateway has a
    /// network interface, too.
    pub association_id: Option<String>,
    /// The instance with which the address is associated.
    pub instance_id: Option<String>,
    /// Tags of the address.
    pub tags: Tags,
}

/// A call that changes Elastic IPs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ElasticIpCall {
    /// AllocateAddress. The call has no client token: a repeated call allocates a second address.
    Allocate {
        /// The public IPv4 pool that the address is taken from, for example `ipv4pool-ec2-0123456789abcdef0`. `None`:
        /// Amazon's addresses.
        pool: Option<String>,
        /// Tags of the address.
        tags: Tags,
    },
    /// AssociateAddress with a network interface, because EC2 refuses instances that have several interfaces. EC2
    /// refuses an address that is associated elsewhere, and an interface that has another Elastic IP.
    Associate {
        /// `eipalloc-…`
        allocation_id: String,
        /// `eni-…`
        interface_id: String,
    },
    /// ReleaseAddress. EC2 refuses the call while the address is associated.
    Release {
        /// `eipalloc-…`
        allocation_id: String,
    },
}

impl ElasticIpCall {
    /// The action of EC2.
    pub const fn action(&self) -> &'static str {
        match self {
            Self::Allocate { .. } => "AllocateAddress",
            Self::Associate { .. } => "AssociateAddress",
            Self::Release { .. } => "ReleaseAddress",
        }
    }
}

/// The answer to an [`ElasticIpCall`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ElasticIpAnswer {
    /// The address is allocated.
    Allocated {
        /// `eipalloc-…`
        allocation_id: String,
        /// The address.
        public_ip: String,
    },
    /// The call took effect.
    Done,
}
