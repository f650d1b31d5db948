//! The launch protocol: the next step for a machine without a known instance, and the state machine of its launch
//! record. Pure.

use std::num::NonZeroU32;

use capa_api::machine::{LaunchAttempt, LaunchRecord, RecordedRequest};
use capa_cloud::{Instance, Timing};
use jiff::Timestamp;
use thiserror::Error;

use crate::launch_memory::progress::{AbsenceProof, Progress, is_fresh};
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

/// The message about a launch that may have succeeded and whose instance AWS does not show.
pub(in crate::awsmachine) fn unconfirmed(record: Option<&LaunchRecord>, is_deleted: bool) -> String {
    let known = match record {
        // The AWSMachine arrived with this provider's finalizer.
        None | Some(LaunchRecord::Unreadable(_)) => {
            "the AWSMachine came without a readable launch record (restored or moved)"
        }
        Some(LaunchRecord::Planned) => {
            "the launch record says that EC2 was never asked, and the AWSMachine or its Machine shows otherwise"
        }
        Some(_) => "EC2 was asked for an instance and has not answered, and no instance shows yet",
    };
    let follows = match record {
        _ if is_deleted => "its instance is looked for before the AWSMachine is released",
        None | Some(LaunchRecord::Planned | LaunchRecord::Unreadable(_)) => {
            "its instance is looked for before one is launched"
        }
        Some(_) => "it is looked up, and the call is not repeated",
    };
    format!("{known}: {follows}")
}

/// An event that changes a launch record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::awsmachine) enum LaunchEvent {
    /// A machine without a record has launched nothing.
    Planned,
    /// This process begins another attempt.
    Requested {
        /// Number of the attempt.
        number: NonZeroU32,
        /// The call.
        request: RecordedRequest,
        /// The id of this process.
        holder: String,
    },
    /// This process continues the attempt of another process.
    Claimed {
        /// The id of this process.
        holder: String,
    },
    /// EC2 has refused the attempt.
    Refused,
    /// EC2 has answered with an instance.
    Answered {
        /// The instance.
        instance_id: String,
        /// The launch time according to EC2, if there is one.
        launched_at: Option<Timestamp>,
    },
    /// The instance of the attempt ended before it ran.
    EndedBeforeRunning,
    /// A lookup found an instance of the machine from another attempt than the recorded one. If the record names an
    /// instance, that instance has ended before it ran, and a later call launched the found one.
    Adopted {
        /// The attempt that launched the instance, as far as it is known.
        number: NonZeroU32,
        /// The call that launched the instance, as far as it is known.
        request: RecordedRequest,
        /// The id of this process.
        holder: String,
        /// The instance.
        instance_id: String,
    },
}

impl LaunchEvent {
    /// The event of the answer of EC2 with this instance.
    pub(in crate::awsmachine) fn answered(instance: &Instance) -> Self {
        Self::Answered { instance_id: instance.id.clone(), launched_at: instance.launch_time }
    }
}

/// An event that the launch record does not allow. The pass fails, and nothing is stored or called.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("a launch record that is {from} does not allow the event {event}")]
pub(in crate::awsmachine) struct IllegalTransition {
    from: &'static str,
    event: &'static str,
}

impl IllegalTransition {
    fn new(record: Option<&LaunchRecord>, event: &LaunchEvent) -> Self {
        Self {
            from: match record {
                None => "absent",
                Some(LaunchRecord::Planned) => "planned",
                Some(LaunchRecord::Requested(_)) => "requested",
                Some(LaunchRecord::Refused(_)) => "refused",
                Some(LaunchRecord::Answered { .. }) => "answered",
                Some(LaunchRecord::Unreadable(_)) => "unreadable",
            },
            event: match event {
                LaunchEvent::Planned => "planned",
                LaunchEvent::Requested { .. } => "requested",
                LaunchEvent::Claimed { .. } => "claimed",
                LaunchEvent::Refused => "refused",
                LaunchEvent::Answered { .. } => "answered",
                LaunchEvent::EndedBeforeRunning => "ended before running",
                LaunchEvent::Adopted { .. } => "adopted",
            },
        }
    }
}

/// The record after an event. A record with an instance id may be replaced only if that instance ended before it ran:
/// by another attempt, or by the instance of a later call that a lookup found. A process never uses the number of a
/// recorded attempt again.
pub(in crate::awsmachine) fn transition(
    record: Option<LaunchRecord>,
    event: LaunchEvent,
) -> Result<LaunchRecord, IllegalTransition> {
    let failed_instances = failed_instances(record.as_ref());
    match (record, event) {
        (None, LaunchEvent::Planned) => Ok(LaunchRecord::Planned),
        (record, LaunchEvent::Requested { number, request, holder }) if may_follow(record.as_ref(), number) => {
            Ok(LaunchRecord::Requested(LaunchAttempt { number, request, holder, failed_instances }))
        }
        (Some(LaunchRecord::Requested(attempt)), LaunchEvent::Claimed { holder }) => {
            Ok(LaunchRecord::Requested(LaunchAttempt { holder, ..attempt }))
        }
        (Some(LaunchRecord::Requested(attempt)), LaunchEvent::Refused) => Ok(LaunchRecord::Refused(attempt)),
        (Some(LaunchRecord::Requested(attempt)), LaunchEvent::Answered { instance_id, launched_at }) => {
            Ok(LaunchRecord::Answered { attempt: not_older_than(attempt, launched_at), instance_id })
        }
        (Some(LaunchRecord::Answered { attempt, .. }), LaunchEvent::EndedBeforeRunning) => {
            Ok(LaunchRecord::Refused(LaunchAttempt { failed_instances: failed_instances.saturating_add(1), ..attempt }))
        }
        (record, LaunchEvent::Adopted { number, request, holder, instance_id })
            if may_be_adopted(record.as_ref(), number, &instance_id) =>
        {
            let has_failed = !has_no_instance(record.as_ref());
            let attempt = LaunchAttempt {
                number,
                request,
                holder,
                failed_instances: failed_instances.saturating_add(u32::from(has_failed)),
            };
            Ok(LaunchRecord::Answered { attempt, instance_id })
        }
        (record, event) => Err(IllegalTransition::new(record.as_ref(), &event)),
    }
}

fn failed_instances(record: Option<&LaunchRecord>) -> u32 {
    let attempt = record.and_then(LaunchRecord::attempt);
    attempt.map_or(0, |attempt| attempt.failed_instances)
}

fn has_no_instance(record: Option<&LaunchRecord>) -> bool {
    record.is_none_or(|record| record.instance_id().is_none())
}

/// Whether this instance of this attempt may be recorded. The instance of an earlier attempt never replaces another
/// one. A number may occur twice if a backup from before the attempt was restored.
fn may_be_adopted(record: Option<&LaunchRecord>, number: NonZeroU32, id: &str) -> bool {
    let is_other = |record: &LaunchRecord| record.instance_id() != Some(id);
    let is_later = |record: &LaunchRecord| record.attempt_number() <= number.get() && is_other(record);
    has_no_instance(record) || record.is_some_and(is_later)
}

fn may_follow(record: Option<&LaunchRecord>, number: NonZeroU32) -> bool {
    has_no_instance(record) && record.is_none_or(|record| record.attempt_number() < number.get())
}

/// Sets the time of the attempt to the launch time, if that is later: a call may be repeated long after its record was
/// written.
fn not_older_than(mut attempt: LaunchAttempt, launched_at: Option<Timestamp>) -> LaunchAttempt {
    let requested_at = &mut attempt.request.requested_at.0;
    *requested_at = launched_at.map_or(*requested_at, |at| at.max(*requested_at));
    attempt
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use serde_json::json;

    use super::*;
    use crate::testing::recorded_request;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    fn request(number: u32) -> RecordedRequest {
        RecordedRequest { requested_at: Time(at(100)), ..recorded_request(number) }
    }

    fn attempt(number: u32, holder: &str, failed_instances: u32) -> LaunchAttempt {
        LaunchAttempt {
            number: NonZeroU32::new(number).unwrap(),
            request: request(number),
            holder: holder.into(),
            failed_instances,
        }
    }

    fn requested(number: u32) -> LaunchRecord {
        LaunchRecord::Requested(attempt(number, "one", 1))
    }

    fn refused(number: u32) -> LaunchRecord {
        LaunchRecord::Refused(attempt(number, "one", 1))
    }

    fn answered(number: u32) -> LaunchRecord {
        LaunchRecord::Answered { attempt: attempt(number, "one", 1), instance_id: "i-1".into() }
    }

    fn unreadable() -> LaunchRecord {
        serde_json::from_value(json!({"attempt": 2})).unwrap()
    }

    fn request_event(number: u32) -> LaunchEvent {
        LaunchEvent::Requested {
            number: NonZeroU32::new(number).unwrap(),
            request: request(number),
            holder: "two".into(),
        }
    }

    fn claim() -> LaunchEvent {
        LaunchEvent::Claimed { holder: "two".into() }
    }

    fn answer(launched_at: Option<Timestamp>) -> LaunchEvent {
        LaunchEvent::Answered { instance_id: "i-1".into(), launched_at }
    }

    fn adoption(number: u32) -> LaunchEvent {
        LaunchEvent::Adopted {
            number: NonZeroU32::new(number).unwrap(),
            request: request(number),
            holder: "two".into(),
            instance_id: "i-2".into(),
        }
    }

    fn adopted(number: u32, failed_instances: u32) -> LaunchRecord {
        LaunchRecord::Answered { attempt: attempt(number, "two", failed_instances), instance_id: "i-2".into() }
    }

    #[test]
    fn each_legal_transition_has_its_record() {
        let next = |number, failed| LaunchRecord::Requested(attempt(number, "two", failed));
        let mut late = attempt(1, "one", 1);
        late.request.requested_at = Time(at(500));
        let table = [
            (None, LaunchEvent::Planned, LaunchRecord::Planned),
            (None, request_event(7), next(7, 0)),
            (Some(LaunchRecord::Planned), request_event(1), next(1, 0)),
            (Some(requested(1)), request_event(2), next(2, 1)),
            (Some(refused(1)), request_event(2), next(2, 1)),
            (Some(unreadable()), request_event(3), next(3, 0)),
            (Some(requested(1)), claim(), next(1, 1)),
            (Some(requested(1)), LaunchEvent::Refused, refused(1)),
            (Some(requested(1)), answer(None), answered(1)),
            (Some(requested(1)), answer(Some(at(50))), answered(1)),
            (
                Some(requested(1)),
                answer(Some(at(500))),
                LaunchRecord::Answered { attempt: late, instance_id: "i-1".into() },
            ),
            (Some(answered(1)), LaunchEvent::EndedBeforeRunning, LaunchRecord::Refused(attempt(1, "one", 2))),
            (None, adoption(1), adopted(1, 0)),
            (Some(LaunchRecord::Planned), adoption(1), adopted(1, 0)),
            (Some(requested(2)), adoption(1), adopted(1, 1)),
            (Some(refused(2)), adoption(2), adopted(2, 1)),
            (Some(unreadable()), adoption(2), adopted(2, 0)),
            (Some(answered(1)), adoption(2), adopted(2, 2)),
            (Some(answered(2)), adoption(2), adopted(2, 2)),
        ];
        for (record, event, expected) in table {
            let named = format!("{record:?} after {event:?}");
            assert_eq!(transition(record, event), Ok(expected), "{named}");
        }
    }

    #[test]
    fn every_other_transition_is_refused() {
        let records = [
            None,
            Some(LaunchRecord::Planned),
            Some(requested(2)),
            Some(refused(2)),
            Some(answered(2)),
            Some(unreadable()),
        ];
        // For each event, whether it is legal for each record in the order above.
        let table = [
            (LaunchEvent::Planned, [true, false, false, false, false, false]),
            (request_event(3), [true, true, true, true, false, true]),
            (request_event(2), [true, true, false, false, false, false]),
            (claim(), [false, false, true, false, false, false]),
            (LaunchEvent::Refused, [false, false, true, false, false, false]),
            (answer(None), [false, false, true, false, false, false]),
            (LaunchEvent::EndedBeforeRunning, [false, false, false, false, true, false]),
            (adoption(1), [true, true, true, true, false, true]),
            (adoption(2), [true, true, true, true, true, true]),
            (adoption(3), [true, true, true, true, true, true]),
        ];
        for (event, legal) in table {
            for (record, legal) in records.iter().zip(legal) {
                let next = transition(record.clone(), event.clone());
                assert_eq!(next.is_ok(), legal, "{record:?} after {event:?}");
            }
        }
    }

    #[test]
    fn a_refused_transition_says_neither_token_nor_parameters() {
        let refused = transition(Some(answered(2)), claim()).unwrap_err();
        assert_eq!(refused.to_string(), "a launch record that is answered does not allow the event claimed");
    }

    #[test]
    fn the_recorded_instance_is_not_adopted_again() {
        let again = adopted(2, 0);
        for number in [2, 3] {
            assert!(transition(Some(again.clone()), adoption(number)).is_err(), "{number}");
        }
    }
}
