use super::*;
use crate::machines::{Change, RepeatedAfterTermination};
use capa_cloud::{ErrorClass, UserData};

#[test]
fn a_repeated_launch_shows_the_same_instance_as_it_is_now() {
    let mut world = Fixture::new();
    let first = world.run(&request("token", "subnet-a")).unwrap();
    assert_eq!(first.state, InstanceState::Pending);
    world.pass(30);
    let second = world.run(&request("token", "subnet-a")).unwrap();
    assert_eq!((second.id, second.state), (first.id, InstanceState::Running));
    assert_eq!(world.ec2.launched().count(), 1);
}

#[test]
fn a_token_with_other_parameters_is_refused() {
    let mut world = Fixture::new();
    world.run(&request("token", "subnet-a")).unwrap();
    let other_type = LaunchRequest {
        instance_type: "m5.large".into(),
        ..request("token", "subnet-a")
    };
    assert_eq!(code(world.run(&other_type)), "IdempotentParameterMismatch");
    // Another subnet of the same zone is another parameter of the same idempotent request.
    assert_eq!(
        code(world.run(&request("token", "subnet-c"))),
        "IdempotentParameterMismatch"
    );
    assert_eq!(world.ec2.launched().count(), 1);
}

#[test]
fn a_token_launches_once_more_in_another_zone() {
    let mut world = Fixture::new();
    let first = world.run(&request("token", "subnet-a")).unwrap();
    let second = world.run(&request("token", "subnet-b")).unwrap();
    assert_ne!(first.id, second.id);
    assert_eq!(second.availability_zone, "eu-west-1b");
}

#[test]
fn a_token_is_forgotten_in_the_end_and_not_before() {
    let mut world = Fixture::new();
    let first = world.run(&request("token", "subnet-a")).unwrap();
    world.pass(24 * 3600 - 1);
    assert_eq!(world.run(&request("token", "subnet-a")).unwrap().id, first.id);
    world.pass(1);
    assert_ne!(world.run(&request("token", "subnet-a")).unwrap().id, first.id);
}

#[test]
fn a_refused_launch_uses_no_token_up() {
    let mut world = Fixture::new();
    world.region().set_capacity("t3.large", "eu-west-1a", false);
    assert_eq!(
        code(world.run(&request("token", "subnet-a"))),
        "InsufficientInstanceCapacity"
    );
    world.region().set_capacity("t3.large", "eu-west-1a", true);
    let other_type = LaunchRequest {
        instance_type: "m5.large".into(),
        ..request("token", "subnet-a")
    };
    world.run(&other_type).unwrap();
}

#[test]
fn a_known_token_needs_no_capacity() {
    let mut world = Fixture::new();
    let first = world.run(&request("token", "subnet-a")).unwrap();
    world
        .region()
        .set_capacity("t3.large", "eu-west-1a", false)
        .set_quota(Some(0));
    assert_eq!(world.run(&request("token", "subnet-a")).unwrap().id, first.id);
}

#[test]
fn capacity_depends_on_type_and_zone() {
    let mut world = Fixture::new();
    world.region().set_capacity("t3.large", "eu-west-1a", false);
    assert_eq!(
        code(world.run(&request("one", "subnet-a"))),
        "InsufficientInstanceCapacity"
    );
    assert_eq!(
        code(world.run(&request("two", "subnet-c"))),
        "InsufficientInstanceCapacity"
    );
    world.run(&request("three", "subnet-b")).unwrap();
}

#[test]
fn a_quota_counts_live_instances() {
    let mut world = Fixture::new();
    world.region().set_quota(Some(1));
    let first = world.run(&request("one", "subnet-a")).unwrap();
    let refused = world.run(&request("two", "subnet-b")).unwrap_err();
    assert_eq!(refused.class, ErrorClass::QuotaExceeded);
    world.terminate(&[&first.id]).unwrap();
    world.run(&request("two", "subnet-b")).unwrap();
}

#[test]
fn references_of_a_launch_must_exist_in_one_vpc() {
    let mut world = Fixture::new();
    world
        .region()
        .vpc("vpc-2", "10.1.0.0/16")
        .security_group("sg-2", "vpc-2", "nodes");
    let base = || request("token", "subnet-a");
    let table = [
        (request("token", "subnet-x"), "InvalidSubnetID.NotFound"),
        (
            LaunchRequest {
                image_id: "ami-x".into(),
                ..base()
            },
            "InvalidAMIID.NotFound",
        ),
        (
            LaunchRequest {
                security_group_ids: vec!["sg-1".into(), "sg-x".into()],
                ..base()
            },
            "InvalidGroup.NotFound",
        ),
        (
            LaunchRequest {
                security_group_ids: vec!["sg-2".into()],
                ..base()
            },
            "InvalidParameter",
        ),
        (
            LaunchRequest {
                key_name: Some("ops".into()),
                ..base()
            },
            "InvalidKeyPair.NotFound",
        ),
        (
            LaunchRequest {
                image_id: String::new(),
                ..base()
            },
            "MissingParameter",
        ),
        (request(&"t".repeat(65), "subnet-a"), "InvalidParameterValue"),
        (
            LaunchRequest {
                user_data: UserData::new(vec![0; UserData::MAX_BYTES + 1]),
                ..base()
            },
            "InvalidParameterValue",
        ),
    ];
    for (request, expected) in table {
        let error = world.run(&request).unwrap_err();
        assert_eq!(error.code.as_deref(), Some(expected));
        assert!(error.class.is_refusal(), "{error}");
    }
    world.region().key_pair("ops");
    let with_key = LaunchRequest {
        key_name: Some("ops".into()),
        ..base()
    };
    world.run(&with_key).unwrap();
}

#[test]
fn the_token_of_a_terminated_instance_launches_nothing() {
    for (choice, expected) in [
        (RepeatedAfterTermination::Shown, Ok(InstanceState::Terminated)),
        (RepeatedAfterTermination::Refused, Err("IdempotentInstanceTerminated")),
    ] {
        let mut world = Fixture::new();
        world.behaviour().repeated_after_termination = choice;
        let first = world.run(&request("token", "subnet-a")).unwrap();
        world.terminate(&[&first.id]).unwrap();
        let during = world.run(&request("token", "subnet-a")).unwrap();
        assert_eq!(during.state, InstanceState::ShuttingDown);
        world.pass(60);
        let repeated = world.run(&request("token", "subnet-a"));
        match expected {
            Ok(state) => assert_eq!(repeated.unwrap().state, state),
            Err(expected) => assert_eq!(code(repeated), expected),
        }
        world.pass(2 * 3600);
        assert_eq!(
            code(world.run(&request("token", "subnet-a"))),
            "IdempotentInstanceTerminated"
        );
        assert_eq!(world.ec2.launched().count(), 1);
    }
}

#[test]
fn the_audit_distinguishes_launches_from_repetitions() {
    let mut world = Fixture::new();
    let first = world.run(&request("token", "subnet-a")).unwrap();
    world.pass(5);
    world.run(&request("token", "subnet-a")).unwrap();
    let _ = world.run(&request("token", "subnet-c")).unwrap_err();
    world.terminate(&[&first.id]).unwrap();
    world.terminate(&[&first.id]).unwrap();
    let changes: Vec<_> = world.ec2.audit().into_iter().map(|entry| entry.change).collect();
    let expected = [
        Change::Launched,
        Change::LaunchRepeated,
        Change::Terminated,
        Change::TerminationRepeated,
    ];
    assert_eq!(changes, expected);
    let launch = world.ec2.audit()[0].clone();
    assert_eq!((launch.at, launch.access_key.as_str()), (Timestamp::UNIX_EPOCH, KEY));
    assert_eq!((launch.account.as_str(), launch.region.as_str()), (ACCOUNT, REGION));
    assert_eq!(launch.instance_id, first.id);
}
