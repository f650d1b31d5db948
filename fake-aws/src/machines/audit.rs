//! The changes that calls have made, for invariants.

use jiff::Timestamp;

/// One change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditEntry {
    /// Time of the change.
    pub at: Timestamp,
    /// Access key that made the call.
    pub access_key: String,
    /// Account of the changed instance.
    pub account: String,
    /// Region of the changed instance.
    pub region: String,
    /// Id of the changed instance.
    pub instance_id: String,
    /// The kind of the change.
    pub change: Change,
}

/// A change of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// RunInstances launched the instance.
    Launched,
    /// RunInstances was repeated with its token and parameters, without effect.
    LaunchRepeated,
    /// TerminateInstances terminated the instance.
    Terminated,
    /// TerminateInstances was repeated, without effect.
    TerminationRepeated,
    /// StopInstances stopped the instance.
    Stopped,
    /// StartInstances started the instance.
    Started,
    /// CreateTags set tags of it.
    Tagged,
    /// DeleteTags removed tags of it.
    Untagged,
    /// ModifyNetworkInterfaceAttribute replaced the security groups of its network interface.
    Regrouped,
    /// It was registered with a load balancer, by its id or its address.
    Registered,
    /// It was taken out of a load balancer.
    Deregistered,
}
