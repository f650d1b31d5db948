//! Instances, as machines and the instance informers see them.

use std::collections::BTreeMap;
use std::sync::Arc;

use capa_api::common::MachineAddress;
use capa_api::machine::InstanceState;
use jiff::Timestamp;

use crate::InstanceMetadataOptions;

/// EC2's reason for the state of an instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateReason {
    /// Code of the reason, for example `Server.InsufficientInstanceCapacity` or `Client.InvalidSnapshot.NotFound`.
    pub code: String,
    /// EC2's message.
    pub message: String,
}

impl StateReason {
    /// Whether the zone had no capacity for the instance.
    pub fn is_insufficient_capacity(&self) -> bool {
        self.code == "Server.InsufficientInstanceCapacity"
    }

    /// Whether EC2 has interrupted a Spot instance.
    pub fn is_spot_interruption(&self) -> bool {
        self.code.starts_with("Server.SpotInstance")
    }
}

/// An EC2 instance, reduced to the fields that decisions and the status of a machine need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instance {
    /// `i-…`
    pub id: String,
    /// State of the instance.
    pub state: InstanceState,
    /// Reason for the state, if EC2 gives one.
    pub state_reason: Option<StateReason>,
    /// Name of the instance type, for example `t3.large`.
    pub instance_type: String,
    /// Zone of the instance.
    pub availability_zone: String,
    /// Subnet of the primary network interface.
    pub subnet_id: Option<String>,
    /// VPC of the instance. Absent once the instance is terminated.
    pub vpc_id: Option<String>,
    /// The primary network interface. Absent once the instance is terminated.
    pub primary_interface: Option<PrimaryInterface>,
    /// Ids of the volumes that are deleted together with the instance, in order. Other volumes, for example those of
    /// PersistentVolumes, outlive the instance.
    pub volume_ids: Vec<String>,
    /// Options of the instance metadata service. Absent while EC2 changes them.
    pub metadata_options: Option<InstanceMetadataOptions>,
    /// Client token of the launch.
    pub client_token: Option<String>,
    /// Time at which EC2 accepted the launch.
    pub launch_time: Option<Timestamp>,
    /// Addresses of the instance, in a stable order.
    pub addresses: Vec<MachineAddress>,
    /// The tags that identify the owner of the instance ([`identifying_tag`](crate::identifying_tag)).
    pub tags: BTreeMap<String, String>,
}

/// The network interface of an instance with the first device index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrimaryInterface {
    /// `eni-…`
    pub id: String,
    /// Ids of its security groups, in order.
    pub security_group_ids: Vec<String>,
}

/// The observation of an instance by an instance informer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Observation {
    /// Unknown: no listing has completed since the machine first asked for the instance.
    Unknown,
    /// AWS shows the instance.
    Seen(Arc<Instance>),
    /// Neither a complete listing nor a lookup by id shows the instance. Both began after the machine first asked for
    /// the instance.
    Absent,
}
