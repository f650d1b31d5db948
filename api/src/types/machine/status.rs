//! Status of an AWSMachine.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use strum::{Display, EnumString, IntoStaticStr};

use super::bootstrap::SecretsBackend;
use crate::common::{ControlPlaneTarget, IdentityReference, Initialization, MachineAddress};
use crate::{conditions, lenient};

/// Observed state of an AWSMachine. Written by the provider alone, and whole each time.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AWSMachineStatus {
    /// Mirror of `initialization.provisioned`, kept for tools written against Cluster API's older contract.
    #[serde(
        default,
        deserialize_with = "lenient::field",
        skip_serializing_if = "Option::is_none"
    )]
    pub ready: Option<bool>,
    /// Milestones of the instance.
    #[serde(
        default,
        deserialize_with = "lenient::field",
        skip_serializing_if = "Option::is_none"
    )]
    pub initialization: Option<Initialization>,
    /// State of the instance as EC2 names it: `pending`, `running`, `stopping`, `stopped`, `shutting-down`, `terminated`.
    #[serde(
        default,
        deserialize_with = "lenient::field",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(with = "Option<String>")]
    pub instance_state: Option<InstanceState>,
    /// Whether AWS may take the instance back at any time, as it may with Spot instances.
    #[serde(
        default,
        deserialize_with = "lenient::field",
        skip_serializing_if = "Option::is_none"
    )]
    pub interruptible: Option<bool>,
    /// Addresses of the instance.
    #[serde(default, deserialize_with = "lenient::list", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 128), extend("x-kubernetes-list-type" = "atomic"))]
    pub addresses: Vec<MachineAddress>,
    /// Zone that the instance runs in, for example `eu-west-1a`.
    #[serde(
        default,
        deserialize_with = "lenient::field",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(length(min = 1, max = 256))]
    pub failure_domain: Option<String>,
    /// The launch of the instance, recorded before EC2 is asked, so that a crash can never lead to a second instance.
    #[serde(
        default,
        deserialize_with = "lenient::field",
        skip_serializing_if = "Option::is_none"
    )]
    pub launch: Option<LaunchRecord>,
    /// Network that the instance was launched into. Frozen at launch: later changes of its sources touch neither the
    /// running instance nor its deletion.
    #[serde(
        default,
        deserialize_with = "lenient::field",
        skip_serializing_if = "Option::is_none"
    )]
    pub network: Option<MachineNetworkInUse>,
    /// Secrets in AWS that hold the bootstrap data until the machine is a node.
    #[serde(
        default,
        deserialize_with = "lenient::field",
        skip_serializing_if = "Option::is_none"
    )]
    pub bootstrap_secrets: Option<BootstrapSecrets>,
    /// Dedicated Host that was allocated for this machine.
    #[serde(
        default,
        deserialize_with = "lenient::field",
        skip_serializing_if = "Option::is_none"
    )]
    pub dedicated_host: Option<DedicatedHost>,
    /// State of the machine, aspect by aspect. `Ready` sums it up.
    #[serde(default, deserialize_with = "lenient::list", skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "conditions::schema")]
    pub conditions: Vec<Condition>,
}

impl AWSMachineStatus {
    /// Whether a launch is under way: EC2 may have been asked for an instance, and neither its id nor a refusal is stored.
    /// The record of a refused attempt stands without a network.
    pub fn has_open_attempt(&self) -> bool {
        self.network.is_some() && self.launch.as_ref().is_some_and(LaunchRecord::is_open)
    }

    /// Whether the instance has been reported as provisioned.
    pub fn provisioned(&self) -> bool {
        self.initialization.as_ref().and_then(|reached| reached.provisioned) == Some(true)
    }
}

/// State of an instance, spelled as EC2 does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize, Serialize, Display, EnumString, IntoStaticStr)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum InstanceState {
    /// Starting for the first time, or again after a stop.
    Pending,
    /// Running.
    Running,
    /// On its way to `stopped`.
    Stopping,
    /// Stopped, and can be started again.
    Stopped,
    /// On its way to `terminated`.
    ShuttingDown,
    /// Gone for good; EC2 still shows it for about an hour.
    Terminated,
}

impl InstanceState {
    /// Whether the state will change by itself soon.
    pub const fn is_in_transition(self) -> bool {
        matches!(self, Self::Pending | Self::Stopping | Self::ShuttingDown)
    }
}

/// Record of a launch: attempt 0 stands alone and says that nothing has been asked of EC2; any later attempt carries the
/// request that is made from it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LaunchRecord {
    /// Number of the attempt, counted from 1; 0 before the first.
    pub attempt: i32,
    /// What EC2 is asked; absent for attempt 0 only.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub request: Option<LaunchRequest>,
    /// The manager process that wrote the record or has claimed it since, by an id that it draws at its start. A process
    /// claims a record of another one before it repeats its call, so that whatever the other one still writes is refused.
    /// Absent in records of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<String>,
    /// How many instances of earlier attempts ended before they ran; absent for none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_instances: Option<i32>,
    /// Id of the instance that EC2 answered with.
    #[serde(default, rename = "instanceID", skip_serializing_if = "Option::is_none")]
    pub instance_id: Option<String>,
}

impl LaunchRecord {
    /// The record that precedes the first attempt.
    pub fn before_first_attempt() -> Self {
        Self::default()
    }

    /// Whether EC2 may have been asked and no instance id is known. It has not, or has refused, where
    /// [`AWSMachineStatus::network`] is absent.
    pub fn is_open(&self) -> bool {
        self.attempt > 0 && self.instance_id.is_none()
    }
}

/// Everything of a launch that a repetition must repeat.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LaunchRequest {
    /// EC2's idempotency token, `<UID of the AWSMachine>-<attempt>`.
    pub client_token: String,
    /// Subnet, and with it the zone.
    #[serde(rename = "subnetID")]
    pub subnet_id: String,
    /// Machine image.
    #[serde(rename = "imageID")]
    pub image_id: String,
    /// Instance type.
    pub instance_type: String,
    /// All security groups.
    #[serde(rename = "securityGroupIDs")]
    pub security_group_ids: Vec<String>,
    /// Hash of all parameters of the request.
    pub parameters_hash: String,
    /// When the record was written.
    pub requested_at: Time,
}

impl JsonSchema for LaunchRecord {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "LaunchRecord".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        // By hand, because a schema has no flattened part that is there as a whole or not at all.
        json_schema!({
            "type": "object",
            "required": ["attempt"],
            "properties": {
                "attempt": {
                    "description": "Number of the attempt, counted from 1; 0 stands alone and says that EC2 has not been asked yet.",
                    "type": "integer", "format": "int32", "minimum": 0,
                },
                "clientToken": {
                    "description": "Idempotency token that EC2 gets with the attempt, `<UID of the AWSMachine>-<attempt>`: the same token never launches twice in a zone.",
                    "type": "string", "minLength": 1, "maxLength": 64,
                },
                "subnetID": {
                    "description": "Subnet, and with it the zone, of the attempt.",
                    "type": "string", "minLength": 1, "maxLength": 64,
                },
                "imageID": {
                    "description": "Machine image that the instance boots.",
                    "type": "string", "minLength": 1, "maxLength": 64,
                },
                "instanceType": {
                    "description": "EC2 instance type of the attempt.",
                    "type": "string", "minLength": 1, "maxLength": 64,
                },
                "securityGroupIDs": {
                    "description": "All security groups of the instance, the cluster's and additional ones.",
                    "type": "array", "minItems": 1, "maxItems": 64, "x-kubernetes-list-type": "atomic",
                    "items": { "type": "string", "maxLength": 64 },
                },
                "parametersHash": {
                    "description": "Hash of all parameters of the request; a repetition with another one is not sent.",
                    "type": "string", "minLength": 1, "maxLength": 128,
                },
                "requestedAt": {
                    "description": "When the attempt was recorded, just before EC2 was asked.",
                    "type": "string", "format": "date-time",
                },
                "holder": {
                    "description": "Manager process that wrote the record or has claimed it since: a random id of its lifetime. Another process claims the record before it repeats the call.",
                    "type": "string", "minLength": 1, "maxLength": 64,
                },
                "failedInstances": {
                    "description": "How many instances of earlier attempts ended before they ran, by EC2's own failure; absent for none. After five the machine has failed.",
                    "type": "integer", "format": "int32", "minimum": 1,
                },
                "instanceID": {
                    "description": "Instance that EC2 answered with, for example `i-0123456789abcdef0`; absent while the answer is not known.",
                    "type": "string", "minLength": 1, "maxLength": 64,
                },
            },
            "x-kubernetes-validations": [
                {
                    "rule": "self.attempt > 0 || !(has(self.clientToken) || has(self.subnetID) || has(self.imageID) || has(self.instanceType) || has(self.securityGroupIDs) || has(self.parametersHash) || has(self.requestedAt) || has(self.holder) || has(self.failedInstances) || has(self.instanceID))",
                    "message": "attempt 0 stands alone",
                },
                {
                    "rule": "self.attempt == 0 || (has(self.clientToken) && has(self.subnetID) && has(self.imageID) && has(self.instanceType) && has(self.securityGroupIDs) && has(self.parametersHash) && has(self.requestedAt))",
                    "message": "from attempt 1 on everything but holder, failedInstances and instanceID is required",
                },
            ],
        })
    }
}

/// The network an instance was launched into.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MachineNetworkInUse {
    /// AWS account that the instance is in. With credentials of another account the machine is neither launched nor
    /// taken for gone.
    #[serde(default, rename = "accountID", skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 12), regex(pattern = "^[0-9]{12}$"))]
    pub account_id: Option<String>,
    /// AWS region that the instance is in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 32))]
    pub region: Option<String>,
    /// Zone of the subnet that was chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64))]
    pub availability_zone: Option<String>,
    /// Subnet that was chosen.
    #[serde(default, rename = "subnetID", skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64))]
    pub subnet_id: Option<String>,
    /// Security groups that the instance was launched with.
    #[serde(default, rename = "securityGroupIDs", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(max = 64)), extend("x-kubernetes-list-type" = "atomic"))]
    pub security_group_ids: Vec<String>,
    /// Identity that launched the instance, and that deletes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity_ref: Option<IdentityReference>,
    /// Load balancer targets of a control plane instance.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8), extend("x-kubernetes-list-type" = "atomic"))]
    pub control_plane_targets: Vec<ControlPlaneTarget>,
    /// Cluster name as it stands in the instance's tag keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 100))]
    pub cluster_tag: Option<String>,
    /// Object, as `Kind/name`, that each field of the network came from, for example `subnets: AWSCluster/prod`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 32))]
    pub sources: BTreeMap<String, String>,
}

/// Secrets in AWS with a machine's bootstrap data.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BootstrapSecrets {
    /// AWS service that keeps the secrets.
    pub backend: SecretsBackend,
    /// Prefix of the secrets' names; a number from 0 to `count` - 1 follows.
    #[schemars(length(min = 1, max = 512))]
    pub prefix: String,
    /// Number of secrets.
    #[schemars(range(min = 0))]
    pub count: i32,
}

/// A Dedicated Host that was allocated for a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DedicatedHost {
    /// Id of the host, for example `h-0123456789abcdef0`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn record() -> serde_json::Value {
        json!({
            "attempt": 1,
            "clientToken": "uid-1",
            "subnetID": "subnet-0000000b",
            "imageID": "ami-0123456789abcdef0",
            "instanceType": "m7i.large",
            "securityGroupIDs": ["sg-0000000a"],
            "parametersHash": "3b1f0c9a",
            "requestedAt": "2026-11-20T10:02:41Z",
        })
    }

    #[test]
    fn a_launch_record_keeps_its_flat_shape() {
        let read: LaunchRecord = serde_json::from_value(record()).unwrap();
        assert_eq!(read.request.as_ref().unwrap().subnet_id, "subnet-0000000b");
        assert!(read.is_open());
        assert_eq!(read.holder, None, "records of earlier versions name none");
        assert_eq!(serde_json::to_value(&read).unwrap(), record());
        let mut held = record();
        held["holder"] = json!("a1b2");
        let read: LaunchRecord = serde_json::from_value(held.clone()).unwrap();
        assert_eq!(read.holder.as_deref(), Some("a1b2"));
        assert_eq!(serde_json::to_value(&read).unwrap(), held);
    }

    #[test]
    fn an_attempt_is_open_from_its_record_until_an_id_or_a_refusal_is_stored() {
        let status = |launch: serde_json::Value, network: serde_json::Value| -> AWSMachineStatus {
            serde_json::from_value(json!({"launch": launch, "network": network})).unwrap()
        };
        let network = json!({"region": "eu-west-1"});
        let mut answered = record();
        answered["instanceID"] = json!("i-0123456789abcdef0");
        assert!(status(record(), network.clone()).has_open_attempt());
        assert!(!status(answered, network.clone()).has_open_attempt());
        assert!(!status(record(), json!(null)).has_open_attempt());
        assert!(!status(json!({"attempt": 0}), network).has_open_attempt());
    }

    #[test]
    fn attempt_0_stands_alone() {
        let record = LaunchRecord::before_first_attempt();
        assert!(!record.is_open());
        assert_eq!(serde_json::to_value(&record).unwrap(), json!({"attempt": 0}));
        assert_eq!(
            serde_json::from_value::<LaunchRecord>(json!({"attempt": 0})).unwrap(),
            record
        );
    }

    #[test]
    fn half_a_request_reads_as_an_open_attempt_without_request() {
        let read: LaunchRecord = serde_json::from_value(json!({"attempt": 2, "clientToken": "uid-2"})).unwrap();
        assert_eq!(read.request, None);
        assert!(read.is_open());
    }

    #[test]
    fn an_ill_typed_launch_reads_as_absent() {
        let status: AWSMachineStatus =
            serde_json::from_value(json!({"launch": {"attempt": "first"}, "instanceState": "exploded", "ready": true}))
                .unwrap();
        assert_eq!(status.launch, None);
        assert_eq!(status.instance_state, None);
        assert_eq!(status.ready, Some(true));
    }

    #[test]
    fn states_are_spelled_as_ec2_does() {
        assert_eq!(InstanceState::ShuttingDown.to_string(), "shutting-down");
        assert_eq!("shutting-down".parse(), Ok(InstanceState::ShuttingDown));
    }
}
