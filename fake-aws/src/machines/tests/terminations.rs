use super::*;

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
fn an_instance_that_vanished_cannot_be_terminated() {
    let mut world = Fixture::new();
    let id = world.run(&request("token", "subnet-a")).unwrap().id;
    world.terminate(&[&id]).unwrap();
    world.pass(2 * 3600);
    assert_eq!(code(world.terminate(&[&id])), "InvalidInstanceID.NotFound");
}

#[test]
fn an_instance_can_be_named_twice_and_once_its_protection_ends() {
    let mut world = Fixture::new();
    let id = world.run(&request("one", "subnet-a")).unwrap().id;
    world.region().protect(&id, true);
    assert_eq!(code(world.terminate(&[&id])), "OperationNotPermitted");
    world.region().protect(&id, false);
    assert_eq!(world.terminate(&[&id, &id]).unwrap().len(), 1);
    assert_eq!(world.states(), [InstanceState::ShuttingDown]);
}
