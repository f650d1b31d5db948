//! Status of an AWSMachine.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::{Display, EnumString, IntoStaticStr};

use super::bootstrap::SecretsBackend;
use super::elastic_ip::ElasticIp;
use super::host::DedicatedHost;
use super::launch::LaunchRecord;
use super::options::PrivateDnsName;
use crate::common::{ControlPlaneTarget, IdentityReference, Initialization, MachineAddress, ResourceReference, Tags};
use crate::{conditions, lenient};

/// Observed state of an AWSMachine. Only the provider writes the status, and each write replaces the whole status.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AWSMachineStatus {
    /// Copy of `initialization.provisioned` for tools that were written against the older contract of Cluster API.
    #[serde(default, deserialize_with = "lenient::field", skip_serializing_if = "Option::is_none")]
    pub ready: Option<bool>,
    /// Milestones of the instance.
    #[serde(default, deserialize_with = "lenient::field", skip_serializing_if = "Option::is_none")]
    pub initialization: Option<Initialization>,
    /// State of the instance in EC2: `pending`, `running`, `stopping`, `stopped`, `shutting-down`, `terminated`.
    #[serde(default, deserialize_with = "lenient::field", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub instance_state: Option<InstanceState>,
    /// Whether AWS may interrupt the instance at any time, as is the case with Spot instances.
    #[serde(default, deserialize_with = "lenient::field", skip_serializing_if = "Option::is_none")]
    pub interruptible: Option<bool>,
    /// Addresses of the instance.
    #[serde(default, deserialize_with = "lenient::list", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 128), extend("x-kubernetes-list-type" = "atomic"))]
    pub addresses: Vec<MachineAddress>,
    /// Zone of the instance, for example `eu-west-1a`.
    #[serde(default, deserialize_with = "lenient::field", skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 256))]
    pub failure_domain: Option<String>,
    /// Record of the launch of the instance. The provider writes the record before the call to EC2, so that a crash
    /// never leads to a second instance.
    #[serde(default, deserialize_with = "lenient::field", skip_serializing_if = "Option::is_none")]
    pub launch: Option<LaunchRecord>,
    /// Network into which the instance is launched. The field is fixed at launch: later changes of the network's
    /// sources affect neither the running instance nor its deletion. Absent after EC2 refused the attempt.
    #[serde(default, deserialize_with = "lenient::field", skip_serializing_if = "Option::is_none")]
    pub network: Option<MachineNetworkInUse>,
    /// Whether the provider has observed the instance as running or stopped. If true, the provider launches no
    /// replacement instance for this AWSMachine.
    #[serde(default, deserialize_with = "lenient::field", skip_serializing_if = "Option::is_none")]
    pub has_run: Option<bool>,
    /// Last known state of the registration of a control plane instance in each load balancer target. The state does
    /// not include the health of the target.
    #[serde(default, deserialize_with = "lenient::list", skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 8),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["target"])
    )]
    pub targets: Vec<MachineTargetStatus>,
    /// Ids of instances for which the manager has submitted the termination and which AWS does not report as shutting
    /// down or terminated yet.
    #[serde(default, deserialize_with = "lenient::list", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), inner(length(min = 1, max = 64)), extend("x-kubernetes-list-type" = "set"))]
    pub submitted_terminations: Vec<String>,
    /// Secrets in AWS that hold the bootstrap data until the machine becomes a node.
    #[serde(default, deserialize_with = "lenient::field", skip_serializing_if = "Option::is_none")]
    pub bootstrap_secrets: Option<BootstrapSecrets>,
    /// Object in the cluster's S3 bucket that holds the bootstrap data until the machine becomes a node.
    #[serde(default, deserialize_with = "lenient::field", skip_serializing_if = "Option::is_none")]
    pub bootstrap_object: Option<BootstrapObject>,
    /// Tags that the provider has set on the instance, its volumes and its own network interface because
    /// `additionalTags` of the machine or of its network requested them. The provider changes and removes only these
    /// tags. Absent: the tags are unknown, and the provider removes no tag.
    #[serde(default, deserialize_with = "lenient::field", skip_serializing_if = "Option::is_none")]
    #[schemars(extend("maxProperties" = 100))]
    pub applied_tags: Option<Tags>,
    /// Tags that a change was about to set or remove, while the outcome of the change is unknown. The next change sets
    /// or removes these tags regardless of `appliedTags`.
    #[serde(default, deserialize_with = "lenient::field", skip_serializing_if = "Tags::is_empty")]
    #[schemars(extend("maxProperties" = 200))]
    pub pending_tags: Tags,
    /// Security groups that the instance has because of `spec.additionalSecurityGroups`. Absent: the groups are
    /// unknown, and the provider removes no group.
    #[serde(default, deserialize_with = "lenient::field", skip_serializing_if = "Option::is_none")]
    pub applied_security_groups: Option<AppliedSecurityGroups>,
    /// `spec.privateDnsName` as the provider applied it last. Absent: the settings are unknown, or the spec has
    /// requested none.
    #[serde(default, deserialize_with = "lenient::field", skip_serializing_if = "Option::is_none")]
    pub applied_private_dns_name: Option<PrivateDnsName>,
    /// Dedicated Host of `spec.dynamicHostAllocation`. The provider writes the record before the call to EC2, so that a
    /// crash never leads to a second host.
    #[serde(default, deserialize_with = "lenient::field", skip_serializing_if = "Option::is_none")]
    pub dedicated_host: Option<Box<DedicatedHost>>,
    /// Elastic IP of `spec.elasticIpPool`. The provider writes the record before the call to EC2, so that a crash never
    /// leads to a second address.
    #[serde(
        default,
        rename = "elasticIP",
        deserialize_with = "lenient::field",
        skip_serializing_if = "Option::is_none"
    )]
    pub elastic_ip: Option<Box<ElasticIp>>,
    /// Conditions of the machine. `Ready` summarises the other conditions.
    #[serde(default, deserialize_with = "lenient::list", skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "conditions::schema")]
    pub conditions: Vec<Condition>,
}

impl AWSMachineStatus {
    /// Whether a launch is in progress: the provider may have called EC2, and the record contains neither an instance
    /// id nor a refusal.
    pub fn has_open_attempt(&self) -> bool {
        self.launch.as_ref().is_some_and(LaunchRecord::is_open)
    }

    /// Whether the instance has been reported as provisioned.
    pub fn provisioned(&self) -> bool {
        self.initialization.as_ref().and_then(|reached| reached.provisioned) == Some(true)
    }
}

/// State of an instance, in EC2's spelling.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize, Serialize, Display, EnumString, IntoStaticStr)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum InstanceState {
    /// The instance is starting, for the first time or after a stop.
    Pending,
    /// The instance is running.
    Running,
    /// The instance is stopping.
    Stopping,
    /// The instance is stopped and can be started again.
    Stopped,
    /// The instance is being terminated.
    ShuttingDown,
    /// The instance is terminated. EC2 reports a terminated instance for about an hour.
    Terminated,
}

impl InstanceState {
    /// Whether EC2 will soon change the state without another call.
    pub const fn is_in_transition(self) -> bool {
        matches!(self, Self::Pending | Self::Stopping | Self::ShuttingDown)
    }

    /// Whether the instance is terminated or is being terminated.
    pub const fn has_ended(self) -> bool {
        matches!(self, Self::ShuttingDown | Self::Terminated)
    }
}

/// Registration of an instance in a load balancer target.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MachineTargetStatus {
    /// ARN of the target group, or name of the Classic Load Balancer.
    #[schemars(length(min = 1, max = 256))]
    pub target: String,
    /// Id of the registered instance.
    #[serde(rename = "instanceID")]
    #[schemars(length(min = 1, max = 64))]
    pub instance_id: String,
    /// State of the registration.
    pub state: MachineTargetState,
}

/// State of the registration of an instance in a load balancer target. A registration goes through the states in this
/// order.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize, JsonSchema, Display, IntoStaticStr,
)]
pub enum MachineTargetState {
    /// The provider is about to register the instance.
    Registering,
    /// The instance is registered and has not been healthy yet.
    Registered,
    /// The instance is registered and has been healthy at least once since.
    InService,
    /// The provider is about to deregister the instance, or the load balancer drains it.
    Deregistering,
    /// The deregistration is complete. The instance is not deregistered again, because AWS may have given its address
    /// to another instance.
    Deregistered,
}

/// The network of an instance.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MachineNetworkInUse {
    /// AWS account of the instance. With credentials of another account, the provider neither launches an instance nor
    /// treats the instance as deleted.
    #[serde(default, rename = "accountID", skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 12), regex(pattern = "^[0-9]{12}$"))]
    pub account_id: Option<String>,
    /// AWS region of the instance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 32))]
    pub region: Option<String>,
    /// Zone of the chosen subnet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64))]
    pub availability_zone: Option<String>,
    /// Chosen subnet.
    #[serde(default, rename = "subnetID", skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64))]
    pub subnet_id: Option<String>,
    /// Security groups that the provider has given the instance: at launch, and later because of
    /// `spec.additionalSecurityGroups`.
    #[serde(default, rename = "securityGroupIDs", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(max = 64)), extend("x-kubernetes-list-type" = "atomic"))]
    pub security_group_ids: Vec<String>,
    /// Identity with which the provider launches and terminates the instance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity_ref: Option<IdentityReference>,
    /// Load balancer targets of a control plane instance.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8), extend("x-kubernetes-list-type" = "atomic"))]
    pub control_plane_targets: Vec<ControlPlaneTarget>,
    /// Cluster name in the keys of the instance's tags.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 100))]
    pub cluster_tag: Option<String>,
    /// Source object of each field of the network, as `Kind/name`, for example `subnets: AWSCluster/prod`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 32))]
    pub sources: BTreeMap<String, String>,
}

/// Secrets in AWS with the bootstrap data of a machine.
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
    /// AWS region of the secrets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 32))]
    pub region: Option<String>,
    /// AWS account of the secrets.
    #[serde(default, rename = "accountID", skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 12, max = 12))]
    pub account_id: Option<String>,
    /// Identity with which the secrets were stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity_ref: Option<IdentityReference>,
}

/// Object in S3 with the bootstrap data of a machine.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BootstrapObject {
    /// Name of the bucket with the object.
    #[schemars(length(min = 3, max = 63))]
    pub bucket: String,
    /// Key of the object. It ends with the UID of the AWSMachine.
    #[schemars(length(min = 1, max = 1024))]
    pub key: String,
    /// Time from which the presigned URL in the user data is valid. Absent: the user data has no presigned URL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub presigned_at: Option<Time>,
    /// Whether the deletion of the machine continues if AWS does not allow the deletion of the object.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub best_effort_delete: bool,
    /// AWS region of the bucket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 32))]
    pub region: Option<String>,
    /// AWS account of the credentials with which the object was stored.
    #[serde(default, rename = "accountID", skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 12, max = 12))]
    pub account_id: Option<String>,
    /// Identity with which the object was stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity_ref: Option<IdentityReference>,
}

/// The result of `spec.additionalSecurityGroups`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AppliedSecurityGroups {
    /// The references that the provider resolved last. The provider resolves the references of the spec again if they
    /// differ from these.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "atomic"))]
    pub references: Vec<ResourceReference>,
    /// Ids of the groups, except the groups that the instance has because of its network. The provider adds new ids
    /// before it calls EC2, so that a crash leaves no group behind.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(max = 64)), extend("x-kubernetes-list-type" = "atomic"))]
    pub ids: Vec<String>,
    /// Whether a call to EC2 may have changed the groups without a record of the answer. If true, the provider resolves
    /// the references of the spec again even if they equal `references`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pending: Option<bool>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

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
