//! The state machine of the launch record, and the progress of an attempt. Pure.

use std::num::NonZeroU32;
use std::time::Duration;

use capa_api::machine::{LaunchAttempt, LaunchRecord, RecordedRequest};
use capa_cloud::{ErrorClass, Instance, Timing};
use jiff::Timestamp;
use thiserror::Error;

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

/// The progress of an attempt, as far as this process knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::awsmachine) enum Progress {
    /// The progress is unknown: there is no record, or another process wrote the record and may have made the call.
    Unknown,
    /// This process wrote the record, and no call had an effect so far.
    Recorded,
    /// A call of this process or of an earlier one is unanswered, and may have launched an instance.
    Unanswered,
    /// AWS has refused the attempt by code, and no earlier call is unanswered: nothing was launched.
    Refused,
    /// AWS has refused a call, but an earlier call may have launched an instance: the refusal proves nothing.
    Unclear,
}

impl Progress {
    /// The progress after the failure of a call.
    pub(in crate::awsmachine) fn after(self, failure: ErrorClass) -> Self {
        match failure {
            _ if failure.is_refusal() && matches!(self, Self::Recorded | Self::Refused) => Self::Refused,
            ErrorClass::Throttled => self,
            ErrorClass::NoAnswer => Self::Unanswered,
            _ => Self::Unclear,
        }
    }

    /// Whether this process knows that the attempt has launched nothing. This knowledge is valid while the record is
    /// unchanged, because another process claims the record before it makes a call.
    pub(in crate::awsmachine) fn is_proof_of_absence(self) -> bool {
        matches!(self, Self::Recorded | Self::Refused)
    }
}

/// The running proof, by lookups without a result, that an attempt has launched nothing. Times are counted from the
/// start of the process, because the wall clock may be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::awsmachine) struct AbsenceProof {
    /// The last known call of the attempt, or else the first lookup.
    pub(in crate::awsmachine) since: Duration,
    /// The first lookup after `since` without a result.
    pub(in crate::awsmachine) first_empty: Option<Duration>,
}

impl AbsenceProof {
    /// The time until a further lookup without a result proves that the attempt launched nothing. The proof needs two
    /// lookups some time apart, and the second one at an age at which a lookup shows every instance.
    pub(in crate::awsmachine) fn remaining(&self, now: Duration, timing: &Timing) -> Duration {
        let quiet = (self.since + timing.launch_lookup_age).saturating_sub(now);
        let second_look = self.first_empty.unwrap_or(now) + timing.lookup_spacing;
        quiet.max(second_look.saturating_sub(now))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use serde_json::json;

    use super::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    fn request(number: u32) -> RecordedRequest {
        RecordedRequest {
            client_token: format!("uid-{number}"),
            subnet_id: "subnet-1".into(),
            image_id: Some("ami-1".into()),
            instance_type: "t3.large".into(),
            security_group_ids: vec!["sg-1".into()],
            parameters_hash: Some("h".into()),
            requested_at: Time(at(100)),
        }
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
