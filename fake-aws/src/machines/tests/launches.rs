use super::*;
use crate::RepeatedAfterTermination;
use crate::machines::Change;

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
fn a_launch_names_an_image_and_a_key_pair_that_exist() {
    let mut world = Fixture::new();
    let without_image = LaunchRequest { image_id: String::new(), ..request("token", "subnet-a") };
    let refused = world.run(&without_image).unwrap_err();
    assert_eq!(refused.code.as_deref(), Some("MissingParameter"));
    assert!(refused.class.is_refusal(), "{refused}");
    world.region().key_pair("ops");
    let with_key = LaunchRequest { key_name: Some("ops".into()), ..request("token", "subnet-a") };
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
        assert_eq!(code(world.run(&request("token", "subnet-a"))), "IdempotentInstanceTerminated");
        assert_eq!(world.accounts.launched().count(), 1);
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
    let changes: Vec<_> = world.accounts.audit().into_iter().map(|entry| entry.change).collect();
    let expected = [Change::Launched, Change::LaunchRepeated, Change::Terminated, Change::TerminationRepeated];
    assert_eq!(changes, expected);
    let launch = world.accounts.audit()[0].clone();
    assert_eq!((launch.at, launch.access_key.as_str()), (Timestamp::UNIX_EPOCH, KEY));
    assert_eq!((launch.account.as_str(), launch.region.as_str()), (ACCOUNT, REGION));
    assert_eq!(launch.instance_id, first.id);
}
