//! The record of the Dedicated Host of an AWSMachine. The provider stores the record before it calls EC2.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::{Display, IntoStaticStr};

use crate::common::{IdentityReference, Tags, tags_schema};

/// A Dedicated Host that is allocated for a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DedicatedHost {
    /// Id of the host, for example `h-0123456789abcdef0`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub id: Option<String>,
    /// Progress of the allocation. Absent: `Allocated`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<HostPhase>,
    /// Client token of the call to EC2: the UID of the AWSMachine, `-host-`, and the number of the attempt. A call with
    /// the same token allocates no second host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub client_token: Option<String>,
    /// Id of the manager process that makes the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub holder: Option<String>,
    /// Zone of the host. The machine is launched only in this zone while it has the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub availability_zone: Option<String>,
    /// Instance type for which the host is allocated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub instance_type: Option<String>,
    /// Tags of the host. Empty once EC2 has answered the call.
    #[serde(default, skip_serializing_if = "Tags::is_empty")]
    #[schemars(schema_with = "tags_schema")]
    pub tags: Tags,
    /// Time at which the record was written. Once the host is allocated, time of the call that allocated it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requested_at: Option<Time>,
    /// AWS region of the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub region: Option<String>,
    /// AWS account of the host.
    #[serde(default, rename = "accountID", skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 12))]
    pub account_id: Option<String>,
    /// Identity with which the host is allocated and released.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity_ref: Option<IdentityReference>,
}

/// Progress of the allocation of a Dedicated Host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema, Display, IntoStaticStr)]
pub enum HostPhase {
    /// The provider is about to call EC2, or has no answer yet. A host may exist.
    Requested,
    /// EC2 refused the call: no host is allocated.
    Refused,
    /// The host is allocated.
    Allocated,
    /// EC2 did not launch the instance on the host. The provider releases the host before it allocates another one.
    Releasing,
    /// The host is released.
    Released,
}

impl DedicatedHost {
    /// Progress of the allocation.
    pub fn effective_phase(&self) -> HostPhase {
        self.phase.unwrap_or(HostPhase::Allocated)
    }

    /// Id of the host if instances can be launched on it.
    pub fn usable_id(&self) -> Option<&str> {
        self.id.as_deref().filter(|_| self.effective_phase() == HostPhase::Allocated)
    }

    /// Whether AWS may have a host for this record.
    pub fn may_exist(&self) -> bool {
        match self.effective_phase() {
            HostPhase::Requested | HostPhase::Allocated | HostPhase::Releasing => true,
            HostPhase::Refused | HostPhase::Released => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_with_an_id_alone_is_an_allocated_host() {
        let record: DedicatedHost = serde_json::from_str(r#"{"id": "h-1"}"#).unwrap();
        assert_eq!(record.usable_id(), Some("h-1"));
        assert!(record.may_exist());
    }

    #[test]
    fn only_an_allocated_host_is_launched_on() {
        for (phase, usable, exists) in [
            (HostPhase::Requested, false, true),
            (HostPhase::Refused, false, false),
            (HostPhase::Allocated, true, true),
            (HostPhase::Releasing, false, true),
            (HostPhase::Released, false, false),
        ] {
            let record = DedicatedHost { id: Some("h-1".into()), phase: Some(phase), ..DedicatedHost::default() };
            assert_eq!(record.usable_id().is_some(), usable, "{phase}");
            assert_eq!(record.may_exist(), exists, "{phase}");
        }
    }
}
