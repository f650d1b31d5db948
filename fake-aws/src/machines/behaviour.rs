//! The behaviour that EC2's documentation does not define and that a test can set.

use std::time::Duration;

use jiff::Timestamp;

use capa_cloud::StateReason;

/// The behaviour of a region. The durations of an instance's states are read when the state begins; `staleness` and
/// the limits apply to the current call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Behaviour {
    /// Duration of the state `pending`.
    pub pending: Duration,
    /// Duration of the state `stopping`.
    pub stopping: Duration,
    /// Duration of the state `shutting-down`.
    pub shutting_down: Duration,
    /// Time for which a terminated instance is still shown: "approximately one hour".
    pub shown_after_termination: Duration,
    /// Time for which a new instance is unknown to every call except RunInstances, as other new resources are to calls
    /// other than the one that created them, and for which an address shows its association with an instance that has
    /// ended.
    pub hidden: Duration,
    /// Age of the state that describe calls return.
    pub staleness: Duration,
    /// Time for which a client token is remembered after its launch. EC2 guarantees at least a day.
    pub token_memory: Duration,
    /// The answer to a known token after its instance was terminated.
    pub repeated_after_termination: RepeatedAfterTermination,
    /// The reason with which new instances are terminated at the end of `pending`. `None`: new instances run.
    pub death_in_pending: Option<StateReason>,
    /// Whether EC2's published request limits are enforced.
    pub throttling: bool,
    /// The time until which every call is throttled.
    pub throttles_all_until: Timestamp,
}

/// EC2's documentation lets a repeated launch succeed with "updated information", and also has an error code for a
/// launch whose instance has been terminated. The documentation does not say when EC2 gives which answer, so callers
/// must handle both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RepeatedAfterTermination {
    /// The terminated instance while it is shown, and the error afterwards.
    #[default]
    Shown,
    /// The error `IdempotentInstanceTerminated`, from the moment the instance is terminated.
    Refused,
}

impl Default for Behaviour {
    fn default() -> Self {
        Self {
            pending: Duration::from_secs(20),
            stopping: Duration::from_secs(30),
            shutting_down: Duration::from_secs(30),
            shown_after_termination: Duration::from_secs(3600),
            hidden: Duration::ZERO,
            staleness: Duration::ZERO,
            token_memory: Duration::from_secs(24 * 3600),
            repeated_after_termination: RepeatedAfterTermination::default(),
            death_in_pending: None,
            throttling: false,
            throttles_all_until: Timestamp::MIN,
        }
    }
}
