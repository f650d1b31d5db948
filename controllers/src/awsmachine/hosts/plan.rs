//! The protocol of an allocation: decides the next step for a machine that needs a Dedicated Host. Pure.

use std::num::NonZeroU32;

use capa_api::machine::{DedicatedHost, HostPhase};
use capa_cloud::Timing;

use super::ownership::number_in;
use crate::awsmachine::launch::progress::{AbsenceProof, Progress};
use crate::awsmachine::time::{Moment, age};

/// The next step for a machine that needs a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum HostStep {
    /// Launch on this host.
    Use(String),
    /// Release this host, on which EC2 did not launch the instance, or which lies in another zone than the launch.
    /// Another one is allocated afterwards.
    Release(String),
    /// Look for a host of the machine. If there is none, write the record of this attempt, then make its call.
    Record(NonZeroU32),
    /// Look for the host of another process's record. If there is none, claim the record, then repeat its call.
    Claim,
    /// Confirm with the API server that the record of this process is unchanged, then repeat its call.
    Repeat,
    /// Only look for the host until its absence is proven, because the call cannot be repeated unchanged.
    LookOnly,
}

/// The known facts of the recorded call.
#[derive(Clone, Copy, Debug)]
pub(super) struct KnownCall {
    /// The progress of the call, as far as this process knows.
    pub(super) progress: Progress,
    /// The lookups of the call's host until now.
    pub(super) absence: Option<AbsenceProof>,
    /// Number of the first attempt, if no record contains an earlier one.
    pub(super) first_number: NonZeroU32,
}

/// Whether a host lies in another zone than the launch.
pub(super) fn is_elsewhere(record: &DedicatedHost, zone: Option<&str>) -> bool {
    let of_host = record.availability_zone.as_deref();
    of_host.is_some() && of_host != zone
}

/// Decides for a launch in this zone. A token never changes its zone, each call is recorded before it is made, and no
/// attempt follows an attempt that may have allocated a host.
pub(super) fn plan_host(
    record: Option<&DedicatedHost>,
    zone: Option<&str>,
    known: &KnownCall,
    now: Moment,
    timing: &Timing,
) -> HostStep {
    let next = HostStep::Record(next_number(record, known.first_number));
    let Some(record) = record else {
        return next;
    };
    match (record.effective_phase(), &record.id) {
        (HostPhase::Allocated, Some(id)) if is_elsewhere(record, zone) => HostStep::Release(id.clone()),
        (HostPhase::Allocated, Some(id)) => HostStep::Use(id.clone()),
        (HostPhase::Releasing, Some(id)) => HostStep::Release(id.clone()),
        (HostPhase::Requested, _) => after_request(record, known, next, now, timing),
        (HostPhase::Allocated | HostPhase::Releasing | HostPhase::Refused | HostPhase::Released, _) => next,
    }
}

fn after_request(record: &DedicatedHost, known: &KnownCall, next: HostStep, now: Moment, timing: &Timing) -> HostStep {
    let is_young = record
        .requested_at
        .as_ref()
        .is_some_and(|at| age(at.0, now.time) < timing.token_age);
    match known.progress {
        Progress::Unknown if is_young => HostStep::Claim,
        Progress::Recorded | Progress::Unanswered if is_young => HostStep::Repeat,
        // Nothing was allocated.
        Progress::Refused | Progress::Recorded => next,
        Progress::Unknown | Progress::Unanswered | Progress::Unclear => {
            let is_absent = known
                .absence
                .is_some_and(|proof| proof.remaining(now.uptime, timing).is_zero());
            if is_absent { next } else { HostStep::LookOnly }
        }
    }
}

fn next_number(record: Option<&DedicatedHost>, first: NonZeroU32) -> NonZeroU32 {
    let recorded = record.and_then(|record| number_in(record.client_token.as_deref()?));
    recorded.map_or(first, |number| NonZeroU32::MIN.saturating_add(number))
}

/// The zone in which the machine must be launched, because it has a host there, or may have one.
pub(in crate::awsmachine) fn zone_of_host(record: Option<&DedicatedHost>) -> Option<&str> {
    let record =
        record.filter(|record| matches!(record.effective_phase(), HostPhase::Requested | HostPhase::Allocated));
    record?.availability_zone.as_deref()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use jiff::Timestamp;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;

    const HOUR: u64 = 3600;

    fn record(phase: HostPhase) -> DedicatedHost {
        DedicatedHost {
            id: matches!(phase, HostPhase::Allocated | HostPhase::Releasing | HostPhase::Released)
                .then(|| "h-1".to_owned()),
            phase: Some(phase),
            client_token: Some("uid-host-1".into()),
            availability_zone: Some("eu-west-1a".into()),
            requested_at: Some(Time(Timestamp::UNIX_EPOCH)),
            ..DedicatedHost::default()
        }
    }

    fn planned(record: Option<&DedicatedHost>, progress: Progress, absent_since: Option<u64>, hour: u64) -> HostStep {
        let uptime = Duration::from_secs(hour * HOUR);
        let now = Moment {
            time: Timestamp::UNIX_EPOCH + uptime,
            uptime,
        };
        let at = |second| Duration::from_secs(second);
        let known = KnownCall {
            progress,
            absence: absent_since.map(|since| AbsenceProof {
                since: at(since),
                first_empty: Some(at(since)),
            }),
            first_number: NonZeroU32::new(7).unwrap(),
        };
        plan_host(record, Some("eu-west-1a"), &known, now, &Timing::default())
    }

    fn attempt(number: u32) -> HostStep {
        HostStep::Record(NonZeroU32::new(number).unwrap())
    }

    #[test]
    fn each_state_of_the_record_has_its_step() {
        let requested = record(HostPhase::Requested);
        let table = [
            (None, Progress::Unknown, attempt(7)),
            (Some(record(HostPhase::Refused)), Progress::Unknown, attempt(2)),
            (Some(record(HostPhase::Released)), Progress::Unknown, attempt(2)),
            (
                Some(record(HostPhase::Allocated)),
                Progress::Unknown,
                HostStep::Use("h-1".into()),
            ),
            (
                Some(record(HostPhase::Releasing)),
                Progress::Unknown,
                HostStep::Release("h-1".into()),
            ),
            (Some(requested.clone()), Progress::Unknown, HostStep::Claim),
            (Some(requested.clone()), Progress::Recorded, HostStep::Repeat),
            (Some(requested.clone()), Progress::Unanswered, HostStep::Repeat),
            (Some(requested.clone()), Progress::Refused, attempt(2)),
            (Some(requested), Progress::Unclear, HostStep::LookOnly),
        ];
        for (record, progress, expected) in table {
            assert_eq!(
                planned(record.as_ref(), progress, None, 1),
                expected,
                "{record:?}, {progress:?}"
            );
        }
    }

    #[test]
    fn an_old_call_is_not_repeated() {
        let requested = record(HostPhase::Requested);
        for (progress, expected) in [
            (Progress::Unknown, HostStep::LookOnly),
            (Progress::Unanswered, HostStep::LookOnly),
            (Progress::Recorded, attempt(2)),
        ] {
            assert_eq!(planned(Some(&requested), progress, None, 13), expected, "{progress:?}");
        }
    }

    #[test]
    fn another_attempt_follows_the_proof_of_absence() {
        let requested = record(HostPhase::Requested);
        let since = |second| planned(Some(&requested), Progress::Unclear, Some(second), 1);
        assert_eq!(since(HOUR - 599), HostStep::LookOnly);
        assert_eq!(since(HOUR - 600), attempt(2));
    }

    #[test]
    fn a_host_in_another_zone_than_the_launch_is_released() {
        let host = record(HostPhase::Allocated);
        for (zone, elsewhere) in [(Some("eu-west-1a"), false), (Some("eu-west-1b"), true), (None, true)] {
            assert_eq!(is_elsewhere(&host, zone), elsewhere, "{zone:?}");
        }
        let of_capa = DedicatedHost {
            availability_zone: None,
            ..host
        };
        assert!(!is_elsewhere(&of_capa, Some("eu-west-1b")), "its zone is not known");
    }

    #[test]
    fn a_record_without_an_id_is_no_host() {
        let empty = DedicatedHost::default();
        assert_eq!(planned(Some(&empty), Progress::Unknown, None, 1), attempt(7));
    }

    #[test]
    fn a_host_ties_the_machine_to_its_zone_until_it_is_given_up() {
        for (phase, tied) in [
            (HostPhase::Requested, true),
            (HostPhase::Allocated, true),
            (HostPhase::Releasing, false),
            (HostPhase::Refused, false),
            (HostPhase::Released, false),
        ] {
            assert_eq!(zone_of_host(Some(&record(phase))).is_some(), tied, "{phase}");
        }
    }
}
