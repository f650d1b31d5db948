//! What calls have changed, for invariants to read.

use jiff::Timestamp;

/// One change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditEntry {
    /// When.
    pub at: Timestamp,
    /// Access key that made the call.
    pub access_key: String,
    /// Account in which it happened.
    pub account: String,
    /// Region in which it happened.
    pub region: String,
    /// Instance that it happened to.
    pub instance_id: String,
    /// What happened.
    pub change: Change,
}

/// What happened to an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// RunInstances made it.
    Launched,
    /// RunInstances was repeated with its token and parameters, without effect.
    LaunchRepeated,
    /// TerminateInstances ended it.
    Terminated,
    /// TerminateInstances was repeated, without effect.
    TerminationRepeated,
    /// StopInstances stopped it.
    Stopped,
    /// StartInstances started it.
    Started,
}
