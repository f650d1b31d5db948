//! What EC2's documentation leaves open, for a test to choose.

use std::time::Duration;

use crate::StateReason;

/// How a region behaves. The lengths of an instance's states are taken when the state begins; `staleness` and
/// `throttling` hold for the call being made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Behaviour {
    /// How long an instance is `pending`.
    pub pending: Duration,
    /// How long it is `stopping`.
    pub stopping: Duration,
    /// How long it is `shutting-down`.
    pub shutting_down: Duration,
    /// How long after its end a terminated instance is still shown: "approximately one hour".
    pub shown_after_termination: Duration,
    /// How long a fresh instance is unknown to every call but RunInstances itself.
    pub hidden: Duration,
    /// Describes answer with what was to be seen so long ago.
    pub staleness: Duration,
    /// How long after its launch a client token is remembered. EC2 promises a day at least.
    pub token_memory: Duration,
    /// What becomes of a known token once its instance is terminated.
    pub repeated_after_termination: RepeatedAfterTermination,
    /// Why instances launched from now on die at the end of `pending`, if they do.
    pub death_in_pending: Option<StateReason>,
    /// Whether EC2's published request limits are enforced.
    pub throttling: bool,
}

/// EC2's documentation lets a repeated launch succeed with "updated information", and also has an error code for one
/// whose instance has been terminated; it does not say which comes when. Callers have to live with both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RepeatedAfterTermination {
    /// The terminated instance is the answer, for as long as it is shown; then the error.
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
        }
    }
}
