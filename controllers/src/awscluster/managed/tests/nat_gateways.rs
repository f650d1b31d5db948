//! NAT gateways and their Elastic IPs.

use std::time::Duration;

use capa_api::common::Tags;
use capa_api::conditions::ConditionType;
use capa_cloud::ec2::{NatGateway, NatGatewayState};
use capa_fake_aws::Fault;

use super::world::World;

const ONE_ZONE: &str = "region: eu-west-1, network: {vpc: {availabilityZoneUsageLimit: 1}}";

/// The gateways that are not deleted.
fn live(world: &World) -> Vec<NatGateway> {
    let mut gateways = world.account.nat_gateways();
    gateways.retain(|gateway| gateway.state != NatGatewayState::Deleted);
    gateways
}

fn made(world: &World, action: &str) -> usize {
    let journal = world.account.journal();
    let calls = journal.iter().filter(|entry| entry.call.action() == action);
    calls.filter(|entry| entry.made().is_some()).count()
}

#[test]
fn each_zone_with_private_subnets_has_one_gateway() {
    let subnet = |id: &str, part: u8, zone: &str, more: &str| {
        format!("{{id: {id}, cidrBlock: 10.0.{part}.0/24, availabilityZone: eu-west-1{zone}{more}}}")
    };
    let pods = ", tags: {sigs.k8s.io/cluster-api-provider-aws/association: secondary}";
    let subnets = [
        subnet("front-a", 0, "a", ", isPublic: true"),
        subnet("front-a-2", 1, "a", ", isPublic: true"),
        subnet("back-a", 2, "a", ""),
        subnet("back-a-2", 3, "a", ""),
        subnet("front-b", 4, "b", ", isPublic: true"),
        subnet("pods-c", 5, "c", pods),
    ];
    let spec = format!("region: eu-west-1, network: {{subnets: [{}]}}", subnets.join(", "));
    let world = World::built(&spec);
    let gateways = live(&world);
    let [gateway] = &gateways[..] else { panic!("one gateway: {gateways:?}") };
    let names = world.account.subnets().into_iter();
    let subnet = names.into_iter().find(|subnet| subnet.id == gateway.subnet_id);
    assert_eq!(subnet.unwrap().tags["Name"], "front-a");
    assert_eq!(gateway.tags["Name"], "dev-nat");
    let addresses = world.account.addresses();
    assert_eq!(addresses.len(), 1);
    assert_eq!(addresses[0].tags["Name"], "dev-eip-common");
    assert_eq!(world.condition(ConditionType::NatGatewaysReady), "True/Ready");
}

#[test]
fn a_network_without_private_subnets_has_no_gateway_and_no_condition() {
    let world = World::built(
        "region: eu-west-1, network: {subnets: [{id: front, cidrBlock: 10.0.0.0/24, availabilityZone: eu-west-1a, \
         isPublic: true}]}",
    );
    assert!(world.account.nat_gateways().is_empty() && world.account.addresses().is_empty());
    assert_eq!(world.condition(ConditionType::NatGatewaysReady), "absent");
}

#[test]
fn a_private_subnet_without_a_public_one_in_its_zone_is_refused() {
    let mut world = World::new(
        "region: eu-west-1, network: {subnets: [{id: front, cidrBlock: 10.0.0.0/24, availabilityZone: eu-west-1a, \
         isPublic: true}, {id: back, cidrBlock: 10.0.1.0/24, availabilityZone: eu-west-1b}]}",
    );
    world.pass();
    assert_eq!(world.condition(ConditionType::SubnetsReady), "False/InvalidSpec");
    let message = world.message(ConditionType::SubnetsReady);
    assert!(message.contains("back") && message.contains("eu-west-1b"), "{message}");
    assert!(world.account.is_empty());
}

#[test]
fn a_failed_gateway_is_replaced_later_and_later_and_keeps_its_address() {
    let mut world = World::new(ONE_ZONE);
    world.account.fail_nat_gateways(3, "InternalError", "Network interface could not be created");
    let mut told = String::new();
    world.rest_watched(|world, _| {
        if world.condition(ConditionType::NatGatewaysReady) == "False/Failed" {
            told = world.message(ConditionType::NatGatewaysReady);
        }
        assert!(world.account.addresses().len() <= 1);
        assert!(live(world).len() <= 1);
        assert_ne!(world.condition(ConditionType::NatGatewaysReady), "False/Conflict");
    });
    assert!(told.contains("nat-") && told.contains("could not be created"), "{told}");
    assert_eq!(made(&world, "CreateNatGateway"), 4);
    let states: Vec<NatGatewayState> = live(&world).iter().map(|gateway| gateway.state).collect();
    assert_eq!(states, [NatGatewayState::Available]);
    assert_eq!(world.condition(ConditionType::NatGatewaysReady), "True/Ready");
    let starts: Vec<u64> = world
        .account
        .journal()
        .iter()
        .filter(|entry| entry.call.action() == "CreateNatGateway")
        .map(|entry| entry.at.as_secs())
        .collect();
    let waits: Vec<u64> = starts.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(waits[0] >= 60 && waits[1] >= 120 && waits[2] >= 240, "{waits:?}");
}

#[test]
fn a_gateway_deleted_by_hand_is_replaced_with_the_same_address() {
    let mut world = World::aged(ONE_ZONE);
    let before = world.account.contents();
    let (gateway, address) = (live(&world)[0].id.clone(), world.account.addresses()[0].allocation_id.clone());
    assert!(world.account.remove_nat_gateway(&gateway));
    world.pass();
    assert_eq!(world.condition(ConditionType::NatGatewaysReady), "False/Creating");
    world.rest();
    assert_eq!(world.account.contents(), before);
    assert_eq!(live(&world)[0].allocation_ids, [address]);
}

#[test]
fn a_repeated_call_has_the_same_token_and_makes_one_gateway() {
    let undisturbed = World::built(ONE_ZONE).account.journal();
    let mut calls = undisturbed.iter();
    let call = calls.position(|entry| entry.call.action() == "CreateNatGateway").unwrap();
    let mut world = World::new(ONE_ZONE);
    world.account.fail(call, Fault::AnswerLost);
    world.rest_watched(|world, _| {
        if world.account.calls() > call {
            world.account.set(|account| account.hidden = Duration::from_secs(30));
        }
    });
    let journal = world.account.journal();
    let calls: Vec<_> = journal
        .iter()
        .filter(|entry| entry.call.action() == "CreateNatGateway")
        .map(|entry| (&entry.call, entry.made()))
        .collect();
    assert!(calls.len() > 1, "the call is repeated");
    assert!(calls.iter().all(|call| *call == calls[0]), "{calls:?}");
    assert_eq!(live(&world).len(), 1);
}

#[test]
fn a_quota_of_addresses_stops_its_zone_alone_and_is_named() {
    let mut world = World::new("region: eu-west-1, network: {vpc: {availabilityZoneUsageLimit: 2}}");
    world.account.set(|account| account.address_quota = 1);
    for _ in 0..20 {
        world.pass();
        world.advance(Duration::from_secs(30));
    }
    assert_eq!(live(&world).len(), 1);
    assert_eq!(world.condition(ConditionType::NatGatewaysReady), "False/QuotaExceeded");
    let message = world.message(ConditionType::NatGatewaysReady);
    assert!(message.contains("L-0263D0A3") && message.contains("eu-west-1b"), "{message}");
    world.account.set(|account| account.address_quota = 5);
    world.rest();
    assert_eq!(world.condition(ConditionType::NatGatewaysReady), "True/Ready");
}

#[test]
fn an_address_that_something_else_uses_is_waited_for() {
    let mut world = World::aged(ONE_ZONE);
    let gateway = live(&world)[0].id.clone();
    let address = world.account.addresses()[0].allocation_id.clone();
    assert!(world.account.remove_nat_gateway(&gateway));
    world.advance(Duration::from_secs(30));
    assert!(world.account.set_association(&address, Some("eipassoc-foreign")));
    let calls = world.account.calls();
    for _ in 0..5 {
        world.pass();
        world.advance(Duration::from_secs(30));
    }
    let message = world.message(ConditionType::NatGatewaysReady);
    assert!(message.contains(&address) && message.contains("eipassoc-foreign"), "{message}");
    assert_eq!(world.account.calls(), calls);
    assert!(world.account.set_association(&address, None));
    world.rest();
    assert_eq!(world.condition(ConditionType::NatGatewaysReady), "True/Ready");
}

#[test]
fn addresses_that_aws_does_not_show_hold_up_no_cluster_that_has_them() {
    let mut world = World::aged(ONE_ZONE);
    world.account.set(|account| account.refused_describes = ["DescribeAddresses".to_owned()].into());
    world.pass();
    assert_eq!(world.condition(ConditionType::NatGatewaysReady), "True/Ready");
    world.delete();
    for _ in 0..30 {
        world.pass();
        world.advance(Duration::from_secs(30));
    }
    assert!(world.cluster().is_some(), "an address may be left");
    assert!(world.message(ConditionType::NatGatewaysReady).contains("DescribeAddresses"));
    world.account.set(|account| account.refused_describes.clear());
    world.assert_gone();
}

#[test]
fn the_addresses_of_machines_are_not_taken() {
    let mut world = World::new(ONE_ZONE);
    let owned = "sigs.k8s.io/cluster-api-provider-aws/cluster/dev";
    let tags = Tags::from([
        (owned.to_owned(), "owned".to_owned()),
        ("sigs.k8s.io/cluster-api-provider-aws/role".to_owned(), "node".to_owned()),
    ]);
    let of_machine = world.account.add_address(tags);
    world.rest();
    assert_eq!(world.account.addresses().len(), 2);
    world.delete();
    world.rest();
    let left: Vec<String> = world.account.addresses().into_iter().map(|address| address.allocation_id).collect();
    assert_eq!(left, [of_machine]);
}

#[test]
fn a_second_gateway_with_the_tags_of_the_cluster_is_named() {
    let mut world = World::aged(ONE_ZONE);
    let first = live(&world)[0].clone();
    let second = world.account.add_nat_gateway(&first.subnet_id, first.tags.clone());
    world.pass();
    assert_eq!(world.condition(ConditionType::NatGatewaysReady), "False/Conflict");
    assert!(world.message(ConditionType::NatGatewaysReady).contains(&second));
    world.delete_completely();
}

#[test]
fn a_gateway_of_capa_in_each_public_subnet_stays_until_the_deletion() {
    let subnet = |id: &str, number: u8, is_public: bool| {
        format!("{{id: {id}, cidrBlock: 10.0.{number}.0/24, availabilityZone: eu-west-1a, isPublic: {is_public}}}")
    };
    let subnets = [subnet("front", 0, true), subnet("side", 1, true), subnet("back", 2, false)].join(", ");
    let mut world = World::aged(&format!("region: eu-west-1, network: {{subnets: [{subnets}]}}"));
    let first = live(&world)[0].clone();
    let other =
        world.account.subnets().into_iter().find(|subnet| subnet.assigns_public_ip && subnet.id != first.subnet_id);
    let second = world.account.add_nat_gateway(&other.unwrap().id, first.tags.clone());
    let address = world.account.add_address(world.account.addresses()[0].tags.clone());
    assert!(world.account.add_nat_gateway_address(&second, &address));
    world.lose_status();
    world.rest();
    for condition in [ConditionType::NatGatewaysReady, ConditionType::Ready] {
        assert_eq!(world.condition(condition), "True/Ready", "{}", world.message(condition));
    }
    assert_eq!(live(&world).len(), 2);
    world.delete_completely();
}

#[test]
fn a_failed_gateway_is_replaced_with_its_address_after_a_lost_status() {
    let mut world = World::new(ONE_ZONE);
    world.account.fail_nat_gateways(1, "InternalError", "no capacity");
    let mut is_lost = false;
    world.rest_watched(|world, _| {
        let has_failed = live(world).iter().any(|gateway| gateway.failure.is_some());
        if has_failed && !is_lost {
            is_lost = true;
            world.lose_status();
        }
        assert!(world.account.addresses().len() <= 1);
    });
    assert!(is_lost);
    assert_eq!(live(&world).len(), 1);
    assert_eq!(world.condition(ConditionType::NatGatewaysReady), "True/Ready");
}

#[test]
fn a_gateway_stays_in_its_subnet_when_the_list_changes_and_the_status_is_lost() {
    let subnet = |id: &str, part: u8, more: &str| {
        format!("{{id: {id}, cidrBlock: 10.0.{part}.0/24, availabilityZone: eu-west-1a{more}}}")
    };
    let public = ", isPublic: true";
    let [one, two, back] = [subnet("one", 0, public), subnet("two", 1, public), subnet("back", 2, "")];
    let mut world = World::aged(&format!("region: eu-west-1, network: {{subnets: [{one}, {two}, {back}]}}"));
    let before = world.account.contents();
    world.set_spec(&format!("region: eu-west-1, network: {{subnets: [{two}, {one}, {back}]}}"));
    world.lose_status();
    world.rest();
    assert_eq!(world.account.contents(), before);
}

#[test]
fn a_gateway_whose_subnets_left_the_spec_is_no_conflict() {
    let spec = |back: &str| {
        format!(
            "region: eu-west-1, network: {{subnets: [{{id: front, cidrBlock: 10.0.0.0/24, availabilityZone: \
             eu-west-1a, isPublic: true}}{back}]}}"
        )
    };
    let mut world = World::aged(&spec(", {id: back, cidrBlock: 10.0.1.0/24, availabilityZone: eu-west-1a}"));
    let before = world.account.contents();
    world.set_spec(&spec(""));
    world.rest();
    assert_eq!(world.condition(ConditionType::NatGatewaysReady), "True/Ready");
    assert_eq!(world.account.contents(), before);
    world.delete_completely();
}

#[test]
fn a_lost_status_ends_no_deletion_while_aws_shows_no_addresses() {
    let mut world = World::aged(ONE_ZONE);
    world.lose_status();
    world.account.set(|account| account.refused_describes = ["DescribeAddresses".to_owned()].into());
    world.delete();
    world.rest_for(Duration::from_mins(30));
    assert!(world.cluster().is_some(), "an address may be left");
    let message = world.message(ConditionType::NatGatewaysReady);
    assert!(message.contains("DescribeAddresses"), "{message}");
    world.account.set(|account| account.refused_describes.clear());
    world.assert_gone();
}
