//! How far an attempt of a machine to create something is, and the proof by lookups that it has created nothing. Pure.

use std::time::Duration;

use capa_cloud::{ErrorClass, Timing};

use crate::time::Moment;

/// The progress of an attempt, as far as this process knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// The progress is unknown: there is no record, or another process wrote the record and may have made the call.
    Unknown,
    /// This process wrote the record, and no call had an effect so far.
    Recorded,
    /// A call of this process or of an earlier one is unanswered, and may have created something.
    Unanswered,
    /// AWS has refused the attempt by code, and no earlier call is unanswered: nothing was created.
    Refused,
    /// AWS has refused a call, but an earlier call may have created something: the refusal proves nothing.
    Unclear,
}

impl Progress {
    /// The progress after the failure of a call.
    pub(super) fn after(self, failure: ErrorClass) -> Self {
        match failure {
            _ if failure.is_refusal() && matches!(self, Self::Recorded | Self::Refused) => Self::Refused,
            ErrorClass::Throttled => self,
            ErrorClass::NoAnswer => Self::Unanswered,
            _ => Self::Unclear,
        }
    }

    /// Whether this process knows that the attempt has created nothing. This knowledge is valid while the record is
    /// unchanged, because another process claims the record before it makes a call.
    pub(crate) fn is_proof_of_absence(self) -> bool {
        matches!(self, Self::Recorded | Self::Refused)
    }
}

/// The running proof, by lookups without a result, that an attempt has created nothing. Times are counted from the
/// start of the process, because the wall clock may be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AbsenceProof {
    /// The last known call of the attempt, or else the first lookup.
    pub(crate) since: Duration,
    /// The first lookup after `since` without a result.
    pub(crate) first_empty: Option<Duration>,
}

impl AbsenceProof {
    /// The time until a further lookup without a result proves that the attempt created nothing. The proof needs two
    /// lookups some time apart, and the second one at an age at which a lookup shows everything that was created.
    pub(crate) fn remaining(&self, now: Duration, timing: &Timing) -> Duration {
        let quiet = (self.since + timing.launch_lookup_age).saturating_sub(now);
        let second_look = self.first_empty.unwrap_or(now) + timing.lookup_spacing;
        quiet.max(second_look.saturating_sub(now))
    }
}

/// Whether the last confirmation of the record is recent enough for a call.
pub(crate) fn is_fresh(confirmed_at: Option<Moment>, now: Moment, timing: &Timing) -> bool {
    confirmed_at.is_some_and(|at| now.at_most_since(at) <= timing.confirmation_age)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_a_proof_only_if_every_call_was_answered() {
        let refusal = ErrorClass::InsufficientCapacity;
        assert_eq!(Progress::Recorded.after(refusal), Progress::Refused);
        assert_eq!(Progress::Recorded.after(ErrorClass::Throttled).after(refusal), Progress::Refused);
        assert_eq!(Progress::Recorded.after(ErrorClass::NoAnswer).after(refusal), Progress::Unclear);
        assert_eq!(Progress::Unanswered.after(refusal), Progress::Unclear);
        assert_eq!(Progress::Recorded.after(ErrorClass::IdempotentParameterMismatch), Progress::Unclear);
    }
}
