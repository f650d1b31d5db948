use super::*;
use capa_cloud::StateReason;

#[test]
fn states_last_as_programmed_and_terminated_instances_vanish() {
    let mut world = Fixture::new();
    world.behaviour().pending = Duration::from_secs(10);
    world.behaviour().shutting_down = Duration::from_secs(7);
    let id = world.run(&request("token", "subnet-a")).unwrap().id;
    world.pass(9);
    assert_eq!(world.states(), [InstanceState::Pending]);
    world.pass(1);
    assert_eq!(world.states(), [InstanceState::Running]);
    world.terminate(&[&id]).unwrap();
    world.pass(6);
    assert_eq!(world.states(), [InstanceState::ShuttingDown]);
    world.pass(1);
    assert_eq!(world.states(), [InstanceState::Terminated]);
    world.pass(3599);
    assert_eq!(world.states(), [InstanceState::Terminated]);
    world.pass(1);
    assert_eq!(world.states(), []);
    assert_eq!(code(world.terminate(&[&id])), "InvalidInstanceID.NotFound");
    assert_eq!(world.accounts.launched().count(), 1, "the test itself forgets nothing");
}

#[test]
fn an_instance_that_ends_in_pending_shows_the_reason() {
    let mut world = Fixture::new();
    let reason = StateReason {
        code: "Server.InternalError".into(),
        message: "Server.InternalError: Internal error on launch".into(),
    };
    world.behaviour().death_in_pending = Some(reason.clone());
    world.run(&request("token", "subnet-a")).unwrap();
    world.behaviour().death_in_pending = None;
    assert_eq!(world.states(), [InstanceState::Pending]);
    world.pass(20);
    let shown = world.describe(&Query::default()).remove(0);
    assert_eq!((shown.state, shown.state_reason), (InstanceState::Terminated, Some(reason)));
    let now = world.now;
    assert!(!world.accounts.launched().next().unwrap().has_run(now));
    world.run(&request("next", "subnet-a")).unwrap();
    world.pass(20);
    assert_eq!(world.states(), [InstanceState::Terminated, InstanceState::Running]);
}

#[test]
fn durations_are_read_when_a_state_begins() {
    let mut world = Fixture::new();
    world.run(&request("slow", "subnet-a")).unwrap();
    world.behaviour().pending = Duration::ZERO;
    assert_eq!(world.run(&request("fast", "subnet-a")).unwrap().state, InstanceState::Pending);
    assert_eq!(world.states(), [InstanceState::Pending, InstanceState::Running]);
}

#[test]
fn addresses_belong_to_an_instance_until_it_is_terminated() {
    let mut world = Fixture::new();
    let public = LaunchRequest { public_ip: Some(true), ..request("token", "subnet-a") };
    let fresh = world.run(&public).unwrap();
    assert_eq!(fresh.addresses.len(), 2);
    world.pass(20);
    assert_eq!(world.describe(&Query::default())[0].addresses.len(), 3);
    world.terminate(&[&fresh.id]).unwrap();
    world.pass(60);
    let gone = world.describe(&Query::default()).remove(0);
    assert!(gone.addresses.is_empty());
    assert_eq!(gone.subnet_id, None);
}
