use super::*;
use capa_cloud::ErrorClass;

#[test]
fn a_key_acts_in_its_account_and_sees_no_other() {
    let mut world = Fixture::new();
    let first = world.run(&request("token", "subnet-a")).unwrap();
    world.accounts.issue_key("key-2", "444455556666");
    world
        .accounts
        .account("444455556666")
        .region(REGION)
        .vpc("vpc-1", "10.0.0.0/16")
        .subnet("subnet-a", "vpc-1", "eu-west-1a")
        .security_group("sg-1", "vpc-1", "nodes")
        .image("ami-1", "/dev/xvda");
    let now = world.now;
    let mut other = world.accounts.client("key-2", REGION);
    assert_eq!(other.account_id().unwrap(), "444455556666");
    assert_eq!(other.describe_instances(now, &Query::default()).unwrap(), []);
    let refused = other.terminate_instances(now, std::slice::from_ref(&first.id));
    assert_eq!(code(refused), "InvalidInstanceID.NotFound");
    let second = other.run_instances(now, &request("token", "subnet-a")).unwrap();
    assert_ne!(first.id, second.id, "ids and tokens are each account's own");
    world.accounts.issue_key(KEY, "444455556666");
    assert_eq!(world.describe(&Query::default())[0].id, second.id);
}

#[test]
fn regions_are_apart_and_one_without_endpoint_does_not_answer() {
    let mut world = Fixture::new();
    world.run(&request("token", "subnet-a")).unwrap();
    world.accounts.account(ACCOUNT).region("us-east-1");
    let now = world.now;
    let shown = world.accounts.client(KEY, "us-east-1").describe_instances(now, &Query::default());
    assert_eq!(shown.unwrap(), []);
    let error = world.accounts.client(KEY, "eu-west-9").describe_instances(now, &Query::default());
    assert_eq!(error.unwrap_err().class, ErrorClass::NoAnswer);
}

#[test]
fn an_unknown_key_is_refused() {
    let mut world = Fixture::new();
    let now = world.now;
    let mut stranger = world.accounts.client("stranger", REGION);
    assert_eq!(code(stranger.account_id()), "InvalidClientTokenId");
    assert_eq!(code(stranger.describe_vpcs(now, &Query::default())), "AuthFailure");
}

#[test]
fn equal_calls_give_equal_states() {
    let history = || {
        let mut world = Fixture::new();
        let id = world.run(&request("one", "subnet-a")).unwrap().id;
        world.pass(7);
        world.run(&request("two", "subnet-b")).unwrap();
        world.terminate(&[&id]).unwrap();
        world.pass(100);
        (world.describe(&Query::default()), format!("{:?}", world.accounts.audit()))
    };
    assert_eq!(history(), history());
}
