//! The record of the Elastic IP of an AWSMachine. The provider stores the record before it calls EC2.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::{Display, IntoStaticStr};

/// The Elastic IP of a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ElasticIp {
    /// Allocation id of the address, for example `eipalloc-0123456789abcdef0`.
    #[serde(default, rename = "allocationID", skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub allocation_id: Option<String>,
    /// The address, for example `203.0.113.25`.
    #[serde(default, rename = "publicIP", skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub public_ip: Option<String>,
    /// Progress of the allocation of the address. Absent: `Allocated`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<ElasticIpPhase>,
    /// Id of the manager process that allocates the address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub holder: Option<String>,
    /// Time at which the provider wrote the record, before the call to EC2. Once the address is allocated, time at
    /// which the provider recorded the allocation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requested_at: Option<Time>,
    /// Time at which the provider last saw that the address is associated with the instance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub associated_at: Option<Time>,
}

/// Progress of the allocation of an Elastic IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema, Display, IntoStaticStr)]
pub enum ElasticIpPhase {
    /// The provider is about to call EC2, or has no answer yet. An address may exist.
    Requested,
    /// EC2 refused the call: no address is allocated.
    Refused,
    /// The address is allocated.
    Allocated,
    /// The address is associated with the instance.
    Associated,
}

impl ElasticIp {
    /// Progress of the allocation.
    pub fn effective_phase(&self) -> ElasticIpPhase {
        self.phase.unwrap_or(ElasticIpPhase::Allocated)
    }

    /// Whether AWS may have an address for this record.
    pub fn may_exist(&self) -> bool {
        self.effective_phase() != ElasticIpPhase::Refused
    }
}
