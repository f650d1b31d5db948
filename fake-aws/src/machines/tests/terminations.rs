use super::*;

#[test]
fn terminating_is_idempotent_and_reports_both_states() {
    let mut world = Fixture::new();
    let id = world.run(&request("token", "subnet-a")).unwrap().id;
    let states = |changes: Vec<crate::machines::StateChange>| {
        let change = changes.into_iter().next().unwrap();
        (change.previous, change.current)
    };
    let first = states(world.terminate(&[&id, &id]).unwrap());
    assert_eq!(first, (InstanceState::Pending, InstanceState::ShuttingDown));
    world.pass(20);
    let second = states(world.terminate(&[&id]).unwrap());
    assert_eq!(second, (InstanceState::ShuttingDown, InstanceState::ShuttingDown));
    world.pass(10);
    let third = states(world.terminate(&[&id]).unwrap());
    assert_eq!(third, (InstanceState::Terminated, InstanceState::Terminated));
}

#[test]
fn one_unknown_id_refuses_the_whole_call() {
    let mut world = Fixture::new();
    let id = world.run(&request("token", "subnet-a")).unwrap().id;
    let result = world.terminate(&[&id, "i-0123456789abcdef0"]);
    assert_eq!(code(result), "InvalidInstanceID.NotFound");
    assert_eq!(code(world.terminate(&[&id, "instance"])), "InvalidInstanceID.Malformed");
    assert_eq!(code(world.terminate(&[])), "MissingParameter");
    assert_eq!(world.states(), [InstanceState::Pending]);
}

#[test]
fn a_hidden_instance_cannot_be_terminated_yet() {
    let mut world = Fixture::new();
    world.behaviour().hidden = Duration::from_secs(5);
    let hidden = world.run(&request("hidden", "subnet-a")).unwrap().id;
    assert_eq!(code(world.terminate(&[&hidden])), "InvalidInstanceID.NotFound");
    world.pass(5);
    world.terminate(&[&hidden]).unwrap();
}

#[test]
fn an_instance_that_vanished_cannot_be_terminated() {
    let mut world = Fixture::new();
    let id = world.run(&request("token", "subnet-a")).unwrap().id;
    world.terminate(&[&id]).unwrap();
    world.pass(2 * 3600);
    assert_eq!(code(world.terminate(&[&id])), "InvalidInstanceID.NotFound");
}

#[test]
fn a_protected_instance_blocks_terminations_in_its_zone() {
    let mut world = Fixture::new();
    let protected = world.run(&request("one", "subnet-a")).unwrap().id;
    let beside = world.run(&request("two", "subnet-c")).unwrap().id;
    let elsewhere = world.run(&request("three", "subnet-b")).unwrap().id;
    world.region().protect(&protected, true);
    let result = world.terminate(&[&protected, &beside, &elsewhere]);
    assert_eq!(code(result), "OperationNotPermitted");
    let expected = [
        InstanceState::Pending,
        InstanceState::Pending,
        InstanceState::ShuttingDown,
    ];
    assert_eq!(world.states(), expected);
    world.region().protect(&protected, false);
    world.terminate(&[&protected, &beside]).unwrap();
    assert_eq!(world.states(), [InstanceState::ShuttingDown; 3]);
}
