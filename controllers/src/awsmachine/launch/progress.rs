//! How far an attempt to launch has come, and what proves that it launched nothing. Pure.

use std::time::Duration;

use capa_cloud::{ErrorClass, Timing};

/// How far an attempt has come, as far as this process knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::awsmachine) enum Progress {
    /// Nothing is known: another process wrote the record and may have called, or none is there.
    Unknown,
    /// This process wrote the record, and every call so far was turned away without effect.
    Recorded,
    /// A call was not answered, or is under way, or was left to us by another process: it may have launched.
    Unanswered,
    /// AWS has refused the attempt by code, and no earlier call was left unanswered: nothing was launched.
    Refused,
    /// AWS has refused a call after an earlier one may have launched: the refusal proves nothing.
    Doubtful,
}

impl Progress {
    /// What the failure of a call adds to what was known before.
    pub(in crate::awsmachine) fn after(self, failure: ErrorClass) -> Self {
        match failure {
            _ if failure.is_refusal() && matches!(self, Self::Recorded | Self::Refused) => Self::Refused,
            ErrorClass::Throttled => self,
            ErrorClass::NoAnswer => Self::Unanswered,
            _ => Self::Doubtful,
        }
    }

    /// Whether this process knows that the attempt has launched nothing. It holds as long as the record is the one that
    /// this process wrote: no other process calls without claiming it.
    pub(in crate::awsmachine) fn is_proof_of_absence(self) -> bool {
        matches!(self, Self::Recorded | Self::Refused)
    }
}

/// The proof, under way, that an attempt has launched nothing: this process looks for its instance in vain. Moments are
/// counted from the beginning of the process: a clock that somebody sets proves nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::awsmachine) struct AbsenceProof {
    /// The last call of the attempt that this process knows of, else its first lookup.
    pub(in crate::awsmachine) since: Duration,
    /// The first lookup since then that showed nothing.
    pub(in crate::awsmachine) first_empty: Option<Duration>,
}

impl AbsenceProof {
    /// How long until another empty lookup proves that the attempt launched nothing. Two lookups are needed, well
    /// apart, and the second one at an age at which an instance would long have shown.
    pub(in crate::awsmachine) fn remaining(&self, now: Duration, timing: &Timing) -> Duration {
        let quiet = (self.since + timing.launch_lookup_age).saturating_sub(now);
        let second_look = self.first_empty.unwrap_or(now) + timing.lookup_spacing;
        quiet.max(second_look.saturating_sub(now))
    }
}
