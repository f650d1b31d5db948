//! Table tests of the instance flow: what follows an instance that ends before it ran, and the names in a domain.

use std::num::NonZeroU32;
use std::time::Duration;

use capa_api::machine::{InstanceState, LaunchAttempt, LaunchRecord};
use capa_cloud::{Instance, StateReason, Timing};
use jiff::Timestamp;

use super::*;
use crate::awsmachine::instance::observation::{Ending, ended_before_running};
use crate::testing::{instance, recorded_request};

fn at(seconds: u64) -> Timestamp {
    Timestamp::UNIX_EPOCH + Duration::from_secs(seconds)
}

fn ending(state: InstanceState, code: Option<&str>, failed_before: u32, now: u64) -> Ending {
    let ended = Instance {
        state_reason: code.map(|code| StateReason { code: code.into(), message: String::new() }),
        ..instance("i-a", state, "dev", "team-a/m")
    };
    // Attempts that EC2 refused for lack of capacity have numbers too, but launched no instance.
    let attempt = LaunchAttempt {
        number: NonZeroU32::new(70).unwrap(),
        request: recorded_request(70),
        holder: "one".into(),
        failed_instances: failed_before,
    };
    let record = LaunchRecord::Answered { attempt, instance_id: "i-a".into() };
    ended_before_running(&ended, Some(&record), at(now), &Timing::default())
}

#[test]
fn only_a_failure_of_ec2_itself_leads_to_another_attempt() {
    let table = [
        (Some("Server.InternalError"), Ending::NextAttempt(Duration::ZERO)),
        (Some("Server.InsufficientInstanceCapacity"), Ending::NextAttempt(Duration::ZERO)),
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
    let after =
        |failed_before, now| ending(InstanceState::Terminated, Some("Server.InternalError"), failed_before, now);
    for (failed_before, wait) in [(0, 30), (1, 60), (2, 120), (3, 240)] {
        let expected = Ending::NextAttempt(Duration::from_secs(wait - 10));
        assert_eq!(after(failed_before, 10), expected, "after {failed_before} others");
    }
    assert_eq!(after(4, 3600), Ending::Final);
}

#[test]
fn an_instance_without_its_own_record_gets_no_other_attempt() {
    let ended = Instance {
        state_reason: Some(StateReason { code: "Server.InternalError".into(), message: String::new() }),
        ..instance("i-a", InstanceState::Terminated, "dev", "team-a/m")
    };
    for record in [None, Some(LaunchRecord::Planned)] {
        let ending = ended_before_running(&ended, record.as_ref(), at(3600), &Timing::default());
        assert_eq!(ending, Ending::Final, "{record:?}");
    }
}

fn addresses(names: &[&str]) -> Vec<MachineAddress> {
    let address = |address_type, address: &str| MachineAddress { address_type, address: address.to_owned() };
    let names = names.iter().map(|name| address(MachineAddressType::InternalDNS, name));
    let private = address(MachineAddressType::InternalIP, "10.0.0.5");
    names.chain([private]).collect()
}

#[test]
fn a_domain_of_the_users_gives_each_name_a_second_one() {
    let shown = addresses(&["ip-10-0-0-5.eu-west-1.compute.internal"]);
    let both = addresses(&["ip-10-0-0-5.eu-west-1.compute.internal", "ip-10-0-0-5.corp.example.com"]);
    assert_eq!(in_domain(&shown, "corp.example.com"), both);
    assert_eq!(known_domain(&both, &shown).as_deref(), Some("corp.example.com"));
    assert_eq!(known_domain(&shown, &shown), None);
    let of_another = addresses(&["ip-10-0-0-6.corp.example.com"]);
    assert_eq!(known_domain(&of_another, &shown), None);
}

#[test]
fn domains_of_ec2_itself_add_no_name() {
    let table = [
        ("corp.example.com", "eu-west-1", Some("corp.example.com")),
        ("a.example.com b.example.com", "eu-west-1", Some("a.example.com")),
        ("eu-west-1.compute.internal", "eu-west-1", None),
        ("eu-west-1.compute.internal", "eu-west-2", Some("eu-west-1.compute.internal")),
        ("ec2.internal", "us-east-1", None),
        ("ec2.internal", "eu-west-1", Some("ec2.internal")),
        ("", "eu-west-1", None),
        ("no_domain", "eu-west-1", None),
    ];
    for (option, region, expected) in table {
        assert_eq!(own_domain(option, region).as_deref(), expected, "{option} in {region}");
    }
}
