//! The launch protocol: decides the next step for a machine without a known instance. Pure.

use std::num::NonZeroU32;

use capa_api::machine::LaunchRecord;
use capa_cloud::Timing;

use super::record::{AbsenceProof, Progress};
use crate::time::{Moment, age};

/// The next step for a machine without a known instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::awsmachine) struct LaunchPlan {
    /// The lookup that precedes the step. If the lookup finds an instance, the instance is adopted and none is
    /// launched.
    pub(in crate::awsmachine) look_up: LookUp,
    /// The step if no instance is found.
    pub(in crate::awsmachine) step: LaunchStep,
}

/// The lookup of a machine's instances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::awsmachine) enum LookUp {
    /// No lookup, because this process knows that no instance exists.
    No,
    /// A lookup by the machine's tags.
    ByTags,
    /// A lookup by the machine's tags and by the client token of the open attempt.
    ByTagsAndToken,
}

/// The step of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::awsmachine) enum LaunchStep {
    /// Write the record of this attempt, then make its call.
    Record(NonZeroU32),
    /// Claim the record of another process, then repeat its call. A call with the same token and parameters launches no
    /// second instance.
    Claim,
    /// Confirm with the API server that the record of this process is unchanged, then repeat its call.
    Verify,
    /// Repeat the call from the record of this process.
    Repeat,
    /// Only look up the instance until its absence is proven, because the call cannot be repeated unchanged.
    LookOnly,
}

/// The facts about the recorded attempt.
#[derive(Clone, Copy, Debug)]
pub(in crate::awsmachine) struct Attempt {
    /// The progress of the attempt, as far as this process knows.
    pub(in crate::awsmachine) progress: Progress,
    /// Whether this process has made the attempt in the account of the current credentials.
    pub(super) same_account: bool,
    /// Whether a call now would have the recorded parameters.
    pub(super) same_parameters: bool,
    /// The last time when the API server confirmed the record to this process.
    pub(in crate::awsmachine) confirmed_at: Option<Moment>,
    /// The lookups of the attempt's instance until now.
    pub(in crate::awsmachine) absence: Option<AbsenceProof>,
    /// Number of the first attempt, if no readable record contains an earlier one.
    pub(in crate::awsmachine) first_number: NonZeroU32,
}

/// The launch protocol. A token never changes its subnet, each call is recorded before it is made, and no attempt
/// follows an attempt that may have launched an instance.
pub(in crate::awsmachine) fn plan_launch(
    record: Option<&LaunchRecord>,
    attempt: &Attempt,
    now: Moment,
    timing: &Timing,
) -> LaunchPlan {
    let next_attempt = LaunchStep::Record(next_number(record, attempt.first_number));
    let absence_proven = attempt.absence.is_some_and(|proof| proof.remaining(now.uptime, timing).is_zero());
    let after_absence = |step| if absence_proven { step } else { LaunchStep::LookOnly };
    let request = match record {
        // The AWSMachine is new: the record was stored before the finalizer.
        Some(LaunchRecord::Planned) => return LaunchPlan::new(LookUp::ByTags, next_attempt),
        // The AWSMachine was restored, moved or taken over. Its instance may exist and be too young for a lookup.
        None | Some(LaunchRecord::Unreadable(_)) => {
            return LaunchPlan::new(LookUp::ByTags, after_absence(next_attempt));
        }
        Some(LaunchRecord::Refused(_)) => return after_refusal(attempt, next_attempt),
        // The instance is known, so nothing is launched.
        Some(LaunchRecord::Answered { .. }) => return LaunchPlan::new(LookUp::ByTags, LaunchStep::LookOnly),
        Some(LaunchRecord::Requested(recorded)) => &recorded.request,
    };
    let repeatable = attempt.same_parameters && age(request.requested_at.0, now.time) < timing.token_age;
    match attempt.progress {
        Progress::Refused => after_refusal(attempt, next_attempt),
        Progress::Unknown if repeatable => LaunchPlan::new(LookUp::ByTags, LaunchStep::Claim),
        Progress::Recorded | Progress::Unanswered if repeatable => {
            let is_fresh = is_fresh(attempt.confirmed_at, now, timing);
            LaunchPlan::new(LookUp::No, if is_fresh { LaunchStep::Repeat } else { LaunchStep::Verify })
        }
        // Nothing was launched, and the parameters of the call have changed.
        Progress::Recorded => LaunchPlan::new(LookUp::No, next_attempt),
        // The call can neither be repeated nor count as refused.
        _ => LaunchPlan::new(LookUp::ByTagsAndToken, after_absence(next_attempt)),
    }
}

impl LaunchPlan {
    fn new(look_up: LookUp, step: LaunchStep) -> Self {
        Self { look_up, step }
    }
}

/// The plan after a refused attempt: the next attempt. A lookup comes first if another process wrote the record, which
/// may come from a backup, or if the account has changed.
fn after_refusal(attempt: &Attempt, next_attempt: LaunchStep) -> LaunchPlan {
    let look_up = match attempt.progress {
        Progress::Refused if attempt.same_account => LookUp::No,
        _ => LookUp::ByTags,
    };
    LaunchPlan::new(look_up, next_attempt)
}

/// The number of the next attempt. An unreadable record may lack its number.
fn next_number(record: Option<&LaunchRecord>, first: NonZeroU32) -> NonZeroU32 {
    let following = |record: &LaunchRecord| NonZeroU32::MIN.saturating_add(record.attempt_number());
    match record {
        None => first,
        Some(record @ LaunchRecord::Unreadable(_)) => following(record).max(first),
        Some(record) => following(record),
    }
}

/// Whether the last confirmation of the record is recent enough for a call.
pub(in crate::awsmachine) fn is_fresh(confirmed_at: Option<Moment>, now: Moment, timing: &Timing) -> bool {
    confirmed_at.is_some_and(|at| now.at_most_since(at) <= timing.confirmation_age)
}
