//! The launch protocol: what to do for a machine without a known instance. Pure.

use std::num::NonZeroU32;

use capa_api::machine::LaunchRecord;
use capa_cloud::Timing;

use super::progress::{AbsenceProof, Progress};
use crate::awsmachine::time::{Moment, age};

/// What to do for a machine without a known instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::awsmachine) struct LaunchPlan {
    /// How AWS is asked for instances of this machine first. An instance that is found is adopted, and none is
    /// launched.
    pub(in crate::awsmachine) look_up: LookUp,
    /// What follows if no instance is found.
    pub(in crate::awsmachine) step: LaunchStep,
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
pub(in crate::awsmachine) enum LaunchStep {
    /// Write the record of this attempt, then make its call.
    Record(NonZeroU32),
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

/// What is known of the recorded attempt.
#[derive(Clone, Copy, Debug)]
pub(in crate::awsmachine) struct Attempt {
    /// How far this process knows it has come.
    pub(in crate::awsmachine) progress: Progress,
    /// Whether this process has made it in the account that the credentials belong to now.
    pub(in crate::awsmachine) same_account: bool,
    /// Whether the call would be the recorded one.
    pub(in crate::awsmachine) same_parameters: bool,
    /// When this process last knew from the API server that the record stands.
    pub(in crate::awsmachine) confirmed_at: Option<Moment>,
    /// How long its instance has been looked for.
    pub(in crate::awsmachine) absence: Option<AbsenceProof>,
    /// Number of the first attempt where no readable record tells of an earlier one.
    pub(in crate::awsmachine) first_number: NonZeroU32,
}

/// The launch protocol. A token never changes its subnet, no call is made that is not recorded, and no attempt follows
/// one that may have launched.
pub(in crate::awsmachine) fn plan_launch(
    record: Option<&LaunchRecord>,
    attempt: &Attempt,
    now: Moment,
    timing: &Timing,
) -> LaunchPlan {
    let next_attempt = LaunchStep::Record(next_number(record, attempt.first_number));
    let absence_proven = attempt
        .absence
        .is_some_and(|proof| proof.remaining(now.uptime, timing).is_zero());
    let after_absence = |step| if absence_proven { step } else { LaunchStep::LookOnly };
    let request = match record {
        // New: the record was stored before our own finalizer was.
        Some(LaunchRecord::Planned) => return LaunchPlan::new(LookUp::ByTags, next_attempt),
        // Restored, moved or taken over: an instance that is too young to show may be there already.
        None | Some(LaunchRecord::Unreadable(_)) => {
            return LaunchPlan::new(LookUp::ByTags, after_absence(next_attempt));
        }
        Some(LaunchRecord::Refused(_)) => return after_refusal(attempt, next_attempt),
        // The instance is known: nothing is to be launched.
        Some(LaunchRecord::Answered { .. }) => return LaunchPlan::new(LookUp::ByTags, LaunchStep::LookOnly),
        Some(LaunchRecord::Requested(recorded)) => &recorded.request,
    };
    let repeatable = attempt.same_parameters && age(request.requested_at.0, now.time) < timing.token_age;
    match attempt.progress {
        Progress::Refused => after_refusal(attempt, next_attempt),
        Progress::Unknown if repeatable => LaunchPlan::new(LookUp::ByTags, LaunchStep::Claim),
        Progress::Recorded | Progress::Unanswered if repeatable => {
            let is_fresh = is_fresh(attempt.confirmed_at, now, timing);
            LaunchPlan::new(
                LookUp::No,
                if is_fresh {
                    LaunchStep::Repeat
                } else {
                    LaunchStep::Verify
                },
            )
        }
        // Nothing was launched, and the parameters of the call have changed.
        Progress::Recorded => LaunchPlan::new(LookUp::No, next_attempt),
        // The call can neither be repeated nor be taken as refused.
        _ => LaunchPlan::new(LookUp::ByTagsAndToken, after_absence(next_attempt)),
    }
}

impl LaunchPlan {
    fn new(look_up: LookUp, step: LaunchStep) -> Self {
        Self { look_up, step }
    }
}

/// A refused attempt is followed by the next one. The record may be another process's and restored from a backup, and
/// in another account nothing was looked up yet: then AWS is asked first.
fn after_refusal(attempt: &Attempt, next_attempt: LaunchStep) -> LaunchPlan {
    let look_up = match attempt.progress {
        Progress::Refused if attempt.same_account => LookUp::No,
        _ => LookUp::ByTags,
    };
    LaunchPlan::new(look_up, next_attempt)
}

/// The number of the next attempt. A record that cannot be read may have lost its own number.
fn next_number(record: Option<&LaunchRecord>, first: NonZeroU32) -> NonZeroU32 {
    let following = |record: &LaunchRecord| NonZeroU32::MIN.saturating_add(record.attempt_number());
    match record {
        None => first,
        Some(record @ LaunchRecord::Unreadable(_)) => following(record).max(first),
        Some(record) => following(record),
    }
}

/// Whether a call may follow what the API server said then.
pub(in crate::awsmachine) fn is_fresh(confirmed_at: Option<Moment>, now: Moment, timing: &Timing) -> bool {
    confirmed_at.is_some_and(|at| now.at_most_since(at) <= timing.confirmation_age)
}
