//! The launch protocol: what to do for a machine without a known instance.

use std::time::Duration;

use capa_api::machine::LaunchRecord;
use capa_cloud::{ErrorClass, Timing};
use jiff::Timestamp;

use crate::awsmachine::observe::age;

/// What to do for a machine without a known instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::awsmachine) struct LaunchPlan {
    /// How AWS is asked for instances of this machine first; whatever is found is adopted and nothing is launched.
    pub(in crate::awsmachine) look_up: LookUp,
    /// What follows if nothing is found.
    pub(in crate::awsmachine) then: Then,
}

/// How AWS is asked for instances of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::awsmachine) enum LookUp {
    /// Not at all: this process knows that there is none.
    No,
    /// By the machine's tags.
    ByTags,
    /// By the machine's tags and by the client token of the open attempt.
    ByTagsAndToken,
}

/// How a launch goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::awsmachine) enum Then {
    /// Write the record of this attempt, then make its call.
    Record(i32),
    /// Claim the record of another process, then make its call again: with the same token and parameters that is a
    /// lookup.
    Claim,
    /// Ask the API server whether our own record still stands, then make its call again.
    Verify,
    /// Make the call of our own record again.
    Repeat,
    /// The call cannot be repeated as it was: only look, until absence is proven.
    LookOnly,
}

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

/// How long this process has been looking in vain for the instance of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::awsmachine) struct Search {
    /// The last call of the attempt that this process knows of, else its first look.
    pub(in crate::awsmachine) since: Timestamp,
    /// The first lookup after that which showed nothing.
    pub(in crate::awsmachine) first_empty: Option<Timestamp>,
}

impl Search {
    /// How long until another empty lookup proves that the attempt launched nothing. Two are needed, well apart, and the
    /// second one only when an instance would have shown for long.
    pub(in crate::awsmachine) fn rest(&self, now: Timestamp, timing: &Timing) -> Duration {
        let quiet = timing.launch_lookup_age.saturating_sub(age(self.since, now));
        let spacing = self.first_empty.map_or(Duration::ZERO, |at| age(at, now));
        quiet.max(timing.lookup_spacing.saturating_sub(spacing))
    }
}

/// What is known of the recorded attempt.
#[derive(Clone, Copy, Debug)]
pub(in crate::awsmachine) struct Attempt {
    /// How far this process knows it has come.
    pub(in crate::awsmachine) progress: Progress,
    /// Whether its refusal is stored.
    pub(in crate::awsmachine) refusal_stored: bool,
    /// Whether this process has made it in the account that the credentials belong to now.
    pub(in crate::awsmachine) same_account: bool,
    /// Whether the call would be the recorded one.
    pub(in crate::awsmachine) same_parameters: bool,
    /// When this process last knew from the API server that the record stands.
    pub(in crate::awsmachine) confirmed_at: Option<Timestamp>,
    /// How long its instance has been looked for.
    pub(in crate::awsmachine) search: Option<Search>,
    /// Number of the first attempt where no record tells of an earlier one.
    pub(in crate::awsmachine) first_number: i32,
}

/// The launch protocol. A token never changes its subnet, no call is made that is not recorded, and no attempt follows
/// one that may have launched.
pub(in crate::awsmachine) fn launch(
    record: Option<&LaunchRecord>,
    attempt: &Attempt,
    now: Timestamp,
    timing: &Timing,
) -> LaunchPlan {
    let next_attempt = Then::Record(record.map_or(attempt.first_number, |record| record.attempt.saturating_add(1)));
    let absence_proven = attempt.search.is_some_and(|search| search.rest(now, timing).is_zero());
    let Some(request) = record.and_then(|record| record.request.as_ref()) else {
        // New, if our own finalizer came with the record of no attempt; else restored, moved or taken over, and an
        // instance that is too young to show may be there already.
        let is_new = record.is_some_and(|record| record.attempt == 0);
        return LaunchPlan {
            look_up: LookUp::ByTags,
            then: if is_new || absence_proven {
                next_attempt
            } else {
                Then::LookOnly
            },
        };
    };
    if attempt.progress == Progress::Refused || attempt.refusal_stored {
        // Somebody else's record may have been restored from a backup, and in another account nothing was looked up yet.
        let look_up = match attempt.progress {
            Progress::Refused if attempt.same_account => LookUp::No,
            _ => LookUp::ByTags,
        };
        return LaunchPlan {
            look_up,
            then: next_attempt,
        };
    }
    let repeatable = attempt.same_parameters && age(request.requested_at.0, now) < timing.token_age;
    match attempt.progress {
        Progress::Unknown if repeatable => LaunchPlan {
            look_up: LookUp::ByTags,
            then: Then::Claim,
        },
        Progress::Recorded | Progress::Unanswered if repeatable => LaunchPlan {
            look_up: LookUp::No,
            then: if is_fresh(attempt.confirmed_at, now, timing) {
                Then::Repeat
            } else {
                Then::Verify
            },
        },
        // Nothing was launched, and what was to be asked has changed.
        Progress::Recorded => LaunchPlan {
            look_up: LookUp::No,
            then: next_attempt,
        },
        // The call can neither be repeated nor be taken as refused.
        _ => LaunchPlan {
            look_up: LookUp::ByTagsAndToken,
            then: if absence_proven { next_attempt } else { Then::LookOnly },
        },
    }
}

/// Whether a call may follow what the API server said then.
pub(in crate::awsmachine) fn is_fresh(confirmed_at: Option<Timestamp>, now: Timestamp, timing: &Timing) -> bool {
    confirmed_at.is_some_and(|at| age(at, now) <= timing.confirmation_age)
}
