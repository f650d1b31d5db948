use capa_cloud::ec2::NatGateway;
use capa_cloud::ec2::NatGatewayState::{self, Available, Deleted, Deleting, Failed, Pending};

use super::*;

impl Network {
    fn only(&self) -> NatGateway {
        let mut gateways = self.account.nat_gateways();
        assert_eq!(gateways.len(), 1);
        gateways.remove(0)
    }

    fn state(&self) -> NatGatewayState {
        self.only().state
    }

    fn is_associated(&self) -> bool {
        self.account.addresses()[0].association_id.is_some()
    }
}

#[test]
fn a_nat_gateway_lives_from_pending_to_deleted() {
    let network = Network::new();
    network.account.advance(seconds(60));
    let gateway = network.make_nat_gateway("one");
    let delete = || network.call(delete_nat_gateway(&gateway));
    let made = network.only();
    assert_eq!(made.created_at.unwrap().to_string(), "1970-01-01T00:01:00Z");
    assert_eq!(made.allocation_ids, [&network.address[..]]);
    assert_eq!((made.id, made.failure), (gateway.clone(), None));
    let steps = [
        (19, Pending, ""),
        (1, Available, ""),
        (7200, Available, "delete"),
        (0, Deleting, "delete"),
        (19, Deleting, "delete"),
        (1, Deleted, "delete"),
        (3599, Deleted, ""),
    ];
    for (pause, state, act) in steps {
        network.account.advance(seconds(pause));
        assert_eq!(network.state(), state);
        assert_eq!(network.is_associated(), state != Deleted);
        if act == "delete" {
            assert_eq!(delete(), "");
        }
    }
    network.account.advance(seconds(1));
    assert_eq!(network.account.nat_gateways(), []);
    assert_eq!(delete(), "NatGatewayNotFound");
}

#[test]
fn a_nat_gateway_needs_a_subnet_and_a_free_address() {
    let network = Network::new();
    let account = &network.account;
    let foreign = account.add_address(Tags::new());
    assert!(account.set_association(&foreign, Some("eipassoc-foreign")));
    network.make_nat_gateway("one");
    let (subnet, address) = (&network.subnet, &network.address);
    let table: [(&str, &str, &str); 4] = [
        ("subnet-9", "eipalloc-9", "InvalidSubnetID.NotFound"),
        (subnet, "eipalloc-9", "InvalidAllocationID.NotFound"),
        (subnet, &foreign, "Resource.AlreadyAssociated"),
        (subnet, address, "Resource.AlreadyAssociated"),
    ];
    for (subnet, address, expected) in table {
        let answer = network.call(create_nat_gateway(subnet, address, "two"));
        assert_eq!(answer, expected, "{address} in {subnet}");
    }
    assert_eq!(network.call(release(address)), "InvalidIPAddress.InUse");
}

#[test]
fn a_client_token_stands_for_one_nat_gateway_for_good() {
    let network = Network::new();
    let gateway = network.make_nat_gateway("one");
    let repeats = || network.make_nat_gateway("one") == gateway;
    network.account.set(|behaviour| behaviour.nat_gateway_quota = 1);
    assert!(repeats());
    let other = create_nat_gateway(&network.subnet, "eipalloc-9", "one");
    assert_eq!(network.call(other), "IdempotentParameterMismatch");
    call(&network.account, delete_nat_gateway(&gateway)).unwrap();
    network.account.advance(seconds(20));
    assert!(repeats(), "a deleted gateway");
    network.account.advance(seconds(3600));
    assert!(repeats(), "a gateway that is not listed");
    assert_ne!(network.make_nat_gateway("two"), gateway);
}

#[test]
fn a_refused_call_does_not_use_its_client_token() {
    let network = Network::new();
    let refused = create_nat_gateway(&network.subnet, "eipalloc-9", "one");
    assert_eq!(network.call(refused), "InvalidAllocationID.NotFound");
    network.make_nat_gateway("one");
}

#[test]
fn nat_gateways_have_a_quota_for_each_zone() {
    let network = Network::new();
    let account = &network.account;
    account.set(|behaviour| {
        behaviour.nat_gateway_quota = 1;
        behaviour.address_quota = 9;
    });
    let elsewhere = account.add_subnet(&network.vpc, "10.0.1.0/24", "eu-west-1b", owned());
    let create = |subnet: &str, token: &str| {
        let address = made(account, allocate());
        network.call(create_nat_gateway(subnet, &address, token))
    };
    account.fail_nat_gateways(1, "InternalError", "Please try again.");
    assert_eq!(create(&network.subnet, "one"), "");
    assert_eq!(create(&network.subnet, "two"), "NatGatewayLimitExceeded", "pending");
    assert_eq!(create(&elsewhere, "three"), "");
    account.advance(seconds(20));
    assert_eq!(create(&network.subnet, "four"), "", "a failed one does not count");
    account.advance(seconds(20));
    let last = account.nat_gateways().pop().unwrap();
    assert_eq!((last.state, network.call(delete_nat_gateway(&last.id))), (Available, String::new()));
    assert_eq!(create(&network.subnet, "five"), "NatGatewayLimitExceeded", "deleting");
    account.advance(seconds(20));
    assert_eq!(create(&network.subnet, "five"), "", "a deleted one does not count");
}

#[test]
fn a_nat_gateway_fails_without_an_internet_gateway() {
    let network = Network::new();
    let (account, vpc) = (&network.account, &network.vpc);
    assert!(account.set_attachment(&network.internet_gateway, None));
    let gateway = network.make_nat_gateway("one");
    assert!(account.set_attachment(&network.internet_gateway, Some(vpc)));
    account.advance(seconds(19));
    assert_eq!((network.state(), network.only().failure), (Pending, None));
    account.advance(seconds(1));
    let failure = format!("Gateway.NotAttached: Network {vpc} has no Internet gateway attached");
    let is_failed = |state| {
        let shown = network.only();
        (shown.state, shown.failure) == (state, Some(failure.clone())) && network.is_associated() == (state != Deleted)
    };
    assert!(is_failed(Failed));
    assert_eq!(network.make_nat_gateway("one"), gateway);
    call(account, delete_nat_gateway(&gateway)).unwrap();
    assert!(is_failed(Deleting));
    account.advance(seconds(20));
    assert!(is_failed(Deleted));
}

#[test]
fn a_nat_gateway_deleted_while_pending_never_fails() {
    let network = Network::new();
    network.account.fail_nat_gateways(1, "InternalError", "Please try again.");
    let gateway = network.make_nat_gateway("one");
    network.account.advance(seconds(10));
    call(&network.account, delete_nat_gateway(&gateway)).unwrap();
    network.account.advance(seconds(15));
    assert_eq!((network.state(), network.only().failure), (Deleting, None));
}

#[test]
fn a_failed_nat_gateway_is_deleted_after_an_hour() {
    let network = Network::new();
    network.account.fail_nat_gateways(1, "InternalError", "Please try again.");
    network.make_nat_gateway("one");
    network.account.advance(seconds(20 + 3599));
    assert_eq!((network.state(), network.is_associated()), (Failed, true));
    network.account.advance(seconds(1));
    assert_eq!((network.state(), network.is_associated()), (Deleted, false));
    network.account.advance(seconds(3600));
    assert_eq!(network.account.nat_gateways(), []);
}

#[test]
fn a_nat_gateway_keeps_its_subnet_and_internet_gateway() {
    let network = Network::new();
    let account = &network.account;
    account.fail_nat_gateways(1, "InternalError", "Please try again.");
    let gateway = network.make_nat_gateway("one");
    let attempts = || {
        [network.call(delete_subnet(&network.subnet)), network.call(detach(&network.internet_gateway, &network.vpc))]
    };
    let refused = ["DependencyViolation"; 2];
    assert_eq!((network.state(), attempts()), (Pending, refused.map(str::to_owned)));
    account.advance(seconds(20));
    assert_eq!((network.state(), attempts()), (Failed, refused.map(str::to_owned)));
    call(account, delete_nat_gateway(&gateway)).unwrap();
    assert_eq!((network.state(), attempts()), (Deleting, refused.map(str::to_owned)));
    account.advance(seconds(20));
    assert_eq!(attempts(), ["", ""]);
    assert_eq!(network.call(delete_vpc(&network.vpc)), "");
}

#[test]
fn a_fresh_nat_gateway_is_hidden_from_observations_and_calls() {
    let network = Network::new();
    let account = &network.account;
    account.set(|behaviour| {
        behaviour.hidden = seconds(10);
        behaviour.hidden_tags = seconds(15);
    });
    let gateway = network.make_nat_gateway("one");
    let seen = || observe(account, Some(&network.vpc)).nat_gateways.shown().unwrap().clone();
    assert_eq!(seen(), []);
    assert_eq!(network.make_nat_gateway("one"), gateway);
    assert_eq!(network.call(delete_nat_gateway(&gateway)), "NatGatewayNotFound");
    assert_eq!(network.call(delete_subnet(&network.subnet)), "DependencyViolation");
    assert!(network.is_associated());
    account.advance(seconds(10));
    assert_eq!(seen()[0].tags, Tags::new());
    account.advance(seconds(5));
    assert_eq!((seen()[0].tags.clone(), seen()[0].state), (owned(), Pending));
    assert_eq!(network.call(delete_nat_gateway(&gateway)), "");
    account.advance(seconds(20));
    assert_eq!(seen()[0].state, Deleted);
}

#[test]
fn a_hidden_address_or_subnet_is_unknown_to_a_nat_gateway() {
    let network = Network::new();
    let account = &network.account;
    account.set(|behaviour| behaviour.hidden = seconds(10));
    let address = made(account, allocate());
    let subnet = made(account, create_subnet(&network.vpc, "10.0.1.0/24", "eu-west-1a"));
    let create = |subnet: &str, address: &str| network.call(create_nat_gateway(subnet, address, "one"));
    assert_eq!(create(&subnet, &network.address), "InvalidSubnetID.NotFound");
    assert_eq!(create(&network.subnet, &address), "InvalidAllocationID.NotFound");
    account.advance(seconds(10));
    assert_eq!(create(&subnet, &address), "");
}

#[test]
fn a_nat_gateway_without_address_keeps_no_internet_gateway() {
    let network = Network::new();
    network.account.add_nat_gateway(&network.subnet, owned());
    assert_eq!(network.call(detach(&network.internet_gateway, &network.vpc)), "");
    assert_eq!(network.call(delete_subnet(&network.subnet)), "DependencyViolation");
}

#[test]
fn a_subnet_or_vpc_removed_by_hand_takes_its_nat_gateways() {
    let removals: [&dyn Fn(&Network) -> bool; 2] =
        [&|network| network.account.remove_subnet(&network.subnet), &|network| {
            network.account.remove_vpc(&network.vpc)
        }];
    for remove in removals {
        let network = Network::new();
        network.make_nat_gateway("one");
        assert!(remove(&network));
        assert_eq!(network.account.nat_gateways(), []);
        assert!(!network.is_associated());
    }
}

#[test]
fn contents_have_nat_gateways_until_they_are_deleted() {
    let network = Network::new();
    let account = &network.account;
    let gateway = network.make_nat_gateway("one");
    let contents = account.contents();
    let nat_gateway = &contents.vpcs[0].nat_gateways[0];
    assert_eq!((&nat_gateway.subnet[..], &nat_gateway.tags), ("10.0.0.0/24", &owned()));
    assert!(contents.addresses[0].is_associated);
    call(account, delete_nat_gateway(&gateway)).unwrap();
    assert_eq!(account.contents(), contents, "a deleting one");
    account.advance(seconds(20));
    assert_eq!(account.contents(), Network::new().account.contents());
    call(account, delete_subnet(&network.subnet)).unwrap();
    call(account, release(&network.address)).unwrap();
    call(account, detach(&network.internet_gateway, &network.vpc)).unwrap();
    call(account, delete_gateway(&network.internet_gateway)).unwrap();
    assert!(!account.is_empty());
    call(account, delete_vpc(&network.vpc)).unwrap();
    assert!(account.is_empty());
    assert_eq!(account.contents(), crate::Contents::default());
    assert_eq!(network.state(), Deleted, "listed, but gone");
}
