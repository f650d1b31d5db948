//! The protocol of an allocation: decides the next step for a machine that needs a Dedicated Host, and which hosts are
//! its own. Pure.

use std::num::NonZeroU32;

use capa_api::machine::{DedicatedHost, HostPhase, LaunchRecord};
use capa_api::meta;
use capa_cloud::{Host, Query, Timing};

use crate::awsmachine::ownership::uid_in;
use crate::awsmachine::scope::MachineScope;
use crate::launch_memory::progress::{AbsenceProof, Progress};
use crate::time::{Moment, age};

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
    pub(in crate::awsmachine) progress: Progress,
    /// The lookups of the call's host so far.
    pub(in crate::awsmachine) absence: Option<AbsenceProof>,
    /// Number of the first attempt, if no record contains an earlier one.
    pub(in crate::awsmachine) first_number: NonZeroU32,
}

/// Whether a host lies in another zone than the launch.
pub(in crate::awsmachine) fn is_elsewhere(record: &DedicatedHost, zone: Option<&str>) -> bool {
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
    let is_young = record.requested_at.as_ref().is_some_and(|at| age(at.0, now.time) < timing.token_age);
    match known.progress {
        Progress::Unknown if is_young => HostStep::Claim,
        Progress::Recorded | Progress::Unanswered if is_young => HostStep::Repeat,
        // Nothing was allocated.
        Progress::Refused | Progress::Recorded => next,
        Progress::Unknown | Progress::Unanswered | Progress::Unclear => {
            let is_absent = known.absence.is_some_and(|proof| proof.remaining(now.uptime, timing).is_zero());
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

/// The UID that this AWSMachine had when it launched its instance. It differs from the present UID after a move.
fn uid_of_launch(scope: &MachineScope) -> Option<&str> {
    let launch = scope.status.launch.as_ref().and_then(LaunchRecord::request)?;
    uid_in(&launch.client_token)
}

/// The hosts that are not released and that were allocated for this machine, the earliest first. The tags alone prove
/// nothing, because a copy of the AWSMachine has the same; the client token contains the UID. A host from before a move
/// must have the tags of the machine too.
pub(super) fn hosts_of(scope: &MachineScope, found: Vec<Host>) -> Vec<Host> {
    hosts_since(scope, uid_of_launch(scope), found)
}

/// Like [`hosts_of`], with `earlier_uid` as the UID that the AWSMachine had before a move.
pub(super) fn hosts_since(scope: &MachineScope, earlier_uid: Option<&str>, found: Vec<Host>) -> Vec<Host> {
    let tag = meta::machine_name_tag_value(scope.namespace(), scope.machine.machine_name());
    let number = |host: &Host| {
        let token = host.client_token.as_deref()?;
        let own = host_number(token, scope.uid());
        own.or_else(|| host_number(token, earlier_uid?).filter(|_| host.tags.get(meta::MACHINE_NAME_TAG) == Some(&tag)))
    };
    let named = scope.machine.spec.host_id.as_deref();
    let living = found.into_iter().filter(|host| !host.is_released() && Some(host.id.as_str()) != named);
    let mut ours: Vec<(u32, Host)> = living.filter_map(|host| Some((number(&host)?, host))).collect();
    ours.sort_by_key(|(number, _)| *number);
    ours.into_iter().map(|(_, host)| host).collect()
}

/// The query for hosts of machines. DescribeHosts has no filter for the value of a tag, and the client tokens of a
/// machine whose status was lost are not known.
pub(super) fn host_query() -> Query {
    Query::filter("tag-key", [meta::MACHINE_NAME_TAG])
}

/// Between the UID and the number in the client token of a host.
const HOST: &str = "-host-";

/// The client token of the allocation of a host.
pub(super) fn host_token(uid: &str, number: NonZeroU32) -> String {
    format!("{uid}{HOST}{number}")
}

/// The number of the allocation with this client token, if an AWSMachine with that UID has made it.
pub(super) fn host_number(token: &str, uid: &str) -> Option<u32> {
    let number = token.strip_prefix(uid)?.strip_prefix(HOST)?;
    number.parse().ok().filter(|_| !uid.is_empty())
}

/// The number in the client token of a host.
pub(super) fn number_in(token: &str) -> Option<u32> {
    token.rsplit_once(HOST)?.1.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use capa_api::common::Tags;
    use capa_cloud::HostState;
    use jiff::Timestamp;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use crate::awsmachine::ownership::OwnerProblem;
    use crate::awsmachine::scope::Owners;
    use crate::testing::read;

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
        let now = Moment { time: Timestamp::UNIX_EPOCH + uptime, uptime };
        let at = |second| Duration::from_secs(second);
        let known = KnownCall {
            progress,
            absence: absent_since.map(|since| AbsenceProof { since: at(since), first_empty: Some(at(since)) }),
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
            (Some(record(HostPhase::Allocated)), Progress::Unknown, HostStep::Use("h-1".into())),
            (Some(record(HostPhase::Releasing)), Progress::Unknown, HostStep::Release("h-1".into())),
            (Some(requested.clone()), Progress::Unknown, HostStep::Claim),
            (Some(requested.clone()), Progress::Recorded, HostStep::Repeat),
            (Some(requested.clone()), Progress::Unanswered, HostStep::Repeat),
            (Some(requested.clone()), Progress::Refused, attempt(2)),
            (Some(requested), Progress::Unclear, HostStep::LookOnly),
        ];
        for (record, progress, expected) in table {
            assert_eq!(planned(record.as_ref(), progress, None, 1), expected, "{record:?}, {progress:?}");
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
        let of_capa = DedicatedHost { availability_zone: None, ..host };
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

    fn scope(status: &str) -> MachineScope {
        let machine = read(&format!(
            "{{apiVersion: infrastructure.cluster.x-k8s.io/v1beta2, kind: AWSMachine, \
              metadata: {{name: m, namespace: team-a, uid: new}}, spec: {{instanceType: t3.large, hostID: h-9}}, \
              status: {status}}}"
        ));
        let owners = Owners { machine: Err(OwnerProblem::Missing), cluster: None::<Arc<_>> };
        MachineScope::new(machine, owners)
    }

    fn host(id: &str, token: &str) -> Host {
        Host {
            id: id.into(),
            client_token: Some(token.into()),
            availability_zone: "eu-west-1a".into(),
            instance_type: "t3.large".into(),
            state: HostState::Available,
            tags: Tags::default(),
        }
    }

    #[test]
    fn only_a_token_with_the_uid_proves_a_host() {
        assert_eq!(host_number("uid-host-2", "uid"), Some(2));
        for (token, uid) in [("uid-2", "uid"), ("uid-host-x", "uid"), ("other-host-2", "uid"), ("-host-2", "")] {
            assert_eq!(host_number(token, uid), None, "{token}");
        }
    }

    #[test]
    fn living_hosts_of_the_uid_are_ours_the_earliest_first() {
        let released = Host { state: HostState::Released, ..host("h-4", "new-host-4") };
        let found = vec![
            host("h-3", "new-host-3"),
            host("h-2", "new-host-2"),
            host("h-1", "other-host-1"),
            host("h-9", "new-host-9"),
            released,
        ];
        let ids: Vec<String> = hosts_of(&scope("{}"), found).into_iter().map(|host| host.id).collect();
        assert_eq!(ids, ["h-2", "h-3"], "and the host of the spec is the user's");
    }

    #[test]
    fn the_uid_in_the_token_of_the_launch_proves_a_host() {
        let launch = "{launch: {phase: Answered, attempt: 1, holder: one, clientToken: old-1, subnetID: s, imageID: i, \
                      instanceType: t, securityGroupIDs: [g], parametersHash: h, requestedAt: '2026-01-01T00:00:00Z', \
                      instanceID: i-0000000000000000a}}";
        let tagged = |name: &str| Host {
            tags: Tags::from([(meta::MACHINE_NAME_TAG.to_owned(), name.to_owned())]),
            ..host("h-1", "old-host-1")
        };
        for (status, tag, ours) in [(launch, "team-a/m", 1), (launch, "team-b/m", 0), ("{}", "team-a/m", 0)] {
            assert_eq!(hosts_of(&scope(status), vec![tagged(tag)]).len(), ours, "{tag} of {status}");
        }
    }
}
