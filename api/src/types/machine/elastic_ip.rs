//! The record of the Elastic IP that is allocated for an AWSMachine, stored before EC2 is called.

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
    /// Progress of the address. Absent: `Allocated`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<ElasticIpPhase>,
    /// Id of the manager process that allocates the address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub holder: Option<String>,
    /// Time of the record, which precedes the call; once the address is allocated, time at which that was recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requested_at: Option<Time>,
    /// Time at which the address was last seen to be that of the instance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub associated_at: Option<Time>,
}

/// Progress of the allocation of an Elastic IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema, Display, IntoStaticStr)]
pub enum ElasticIpPhase {
    /// The call to EC2 is about to be made, or has no answer yet. An address may be allocated.
    Requested,
    /// EC2 refused the call: no address is allocated.
    Refused,
    /// The address is allocated.
    Allocated,
    /// The address is that of the instance.
    Associated,
}

impl ElasticIp {
    /// Progress of the allocation.
    pub fn effective_phase(&self) -> ElasticIpPhase {
        self.phase.unwrap_or(ElasticIpPhase::Allocated)
    }

    /// Whether an address may be allocated.
    pub fn may_exist(&self) -> bool {
        self.effective_phase() != ElasticIpPhase::Refused
    }
}
