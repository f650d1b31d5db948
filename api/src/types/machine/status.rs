//! Status of an AWSMachine.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::{Display, EnumString, IntoStaticStr};

use super::bootstrap::SecretsBackend;
use super::launch::LaunchRecord;
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
    /// State of the instance as EC2 names it: `pending`, `running`, `stopping`, `stopped`, `shutting-down`,
    /// `terminated`.
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
    /// Network that the instance was, or is being, launched into. Frozen at launch: later changes of its sources touch
    /// neither the running instance nor its deletion. Absent once the attempt was refused.
    #[serde(
        default,
        deserialize_with = "lenient::field",
        skip_serializing_if = "Option::is_none"
    )]
    pub network: Option<MachineNetworkInUse>,
    /// Whether the instance was seen running or stopped. From then on no other instance is launched in its place.
    #[serde(
        default,
        deserialize_with = "lenient::field",
        skip_serializing_if = "Option::is_none"
    )]
    pub has_run: Option<bool>,
    /// Where the instance of a control plane machine stands with each load balancer target: only what was last known of
    /// registrations, not the health of the target.
    #[serde(default, deserialize_with = "lenient::list", skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 8),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["target"])
    )]
    pub targets: Vec<MachineTargetStatus>,
    /// Instances whose termination the manager has submitted and that AWS has not shown as ending yet.
    #[serde(default, deserialize_with = "lenient::list", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), inner(length(min = 1, max = 64)), extend("x-kubernetes-list-type" = "set"))]
    pub submitted_terminations: Vec<String>,
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
    /// Whether a launch is under way: EC2 may have been asked for an instance, and neither its id nor a refusal is
    /// stored.
    pub fn has_open_attempt(&self) -> bool {
        self.launch.as_ref().is_some_and(LaunchRecord::is_open)
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

    /// Whether the instance is gone for good, or on its way there.
    pub const fn has_ended(self) -> bool {
        matches!(self, Self::ShuttingDown | Self::Terminated)
    }
}

/// Where an instance stands with a load balancer target.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MachineTargetStatus {
    /// ARN of the target group, or name of the classic load balancer.
    #[schemars(length(min = 1, max = 256))]
    pub target: String,
    /// Instance that the state is about.
    #[serde(rename = "instanceID")]
    #[schemars(length(min = 1, max = 64))]
    pub instance_id: String,
    /// State of the registration.
    pub state: MachineTargetState,
}

/// State of the registration of an instance in a load balancer target, in the order in which it goes through them.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize, JsonSchema, Display, IntoStaticStr,
)]
pub enum MachineTargetState {
    /// The instance is to be registered.
    Registering,
    /// The instance is registered and has not been healthy yet.
    Registered,
    /// The instance is registered, and has been healthy since.
    InService,
    /// The instance is to be deregistered, or drains.
    Deregistering,
    /// The instance has left for good: it is not deregistered again, because AWS may have given its address to another
    /// one.
    Deregistered,
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
