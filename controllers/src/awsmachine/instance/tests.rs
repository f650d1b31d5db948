//! Table tests of the consequences of an instance that ends before it ran.

use std::num::NonZeroU32;
use std::time::Duration;

use capa_api::machine::{InstanceState, LaunchAttempt, LaunchRecord, RecordedRequest};
use capa_cloud::{Instance, StateReason, Timing};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::ending::{Ending, ended_before_running};
use crate::testing::instance;

fn at(seconds: u64) -> Timestamp {
    Timestamp::UNIX_EPOCH + Duration::from_secs(seconds)
}

fn ending(state: InstanceState, code: Option<&str>, failed_before: u32, now: u64) -> Ending {
    let ended = Instance {
        state_reason: code.map(|code| StateReason {
            code: code.into(),
            message: String::new(),
        }),
        ..instance("i-a", state, "dev", "team-a/m")
    };
    // Attempts that EC2 refused for lack of capacity have numbers too, but launched no instance.
    let attempt = LaunchAttempt {
        number: NonZeroU32::new(70).unwrap(),
        request: RecordedRequest {
            client_token: "uid-70".into(),
            subnet_id: "subnet-1".into(),
            image_id: "ami-1".into(),
            instance_type: "t3.large".into(),
            security_group_ids: vec!["sg-1".into()],
            parameters_hash: "h".into(),
            requested_at: Time(Timestamp::UNIX_EPOCH),
        },
        holder: "one".into(),
        failed_instances: failed_before,
    };
    let record = LaunchRecord::Answered {
        attempt,
        instance_id: "i-a".into(),
    };
    ended_before_running(&ended, Some(&record), at(now), &Timing::default())
}

#[test]
fn only_a_failure_of_ec2_itself_leads_to_another_attempt() {
    let table = [
        (Some("Server.InternalError"), Ending::NextAttempt(Duration::ZERO)),
        (
            Some("Server.InsufficientInstanceCapacity"),
            Ending::NextAttempt(Duration::ZERO),
        ),
        (Some("Server.SpotInstanceTermination"), Ending::Final),
        (Some("Server.ScheduledStop"), Ending::Final),
        (Some("Client.VolumeLimitExceeded"), Ending::Final),
        (Some("Client.UserInitiatedShutdown"), Ending::Final),
        (None, Ending::Final),
    ];
    for (code, expected) in table {
        assert_eq!(ending(InstanceState::Terminated, code, 0, 3600), expected, "{code:?}");
    }
    let shutting_down = ending(InstanceState::ShuttingDown, Some("Server.InternalError"), 0, 3600);
    assert_eq!(shutting_down, Ending::Awaited);
}

#[test]
fn delays_between_attempts_grow_until_the_fifth_attempt() {
    let after = |failed_before, now| {
        ending(
            InstanceState::Terminated,
            Some("Server.InternalError"),
            failed_before,
            now,
        )
    };
    for (failed_before, wait) in [(0, 30), (1, 60), (2, 120), (3, 240)] {
        let expected = Ending::NextAttempt(Duration::from_secs(wait - 10));
        assert_eq!(after(failed_before, 10), expected, "after {failed_before} others");
    }
    assert_eq!(after(4, 3600), Ending::Final);
}

#[test]
fn an_instance_without_its_own_record_gets_no_other_attempt() {
    let ended = Instance {
        state_reason: Some(StateReason {
            code: "Server.InternalError".into(),
            message: String::new(),
        }),
        ..instance("i-a", InstanceState::Terminated, "dev", "team-a/m")
    };
    for record in [None, Some(LaunchRecord::Planned)] {
        let ending = ended_before_running(&ended, record.as_ref(), at(3600), &Timing::default());
        assert_eq!(ending, Ending::Final, "{record:?}");
    }
}
