use capa_api::common::HostnameType;
use capa_cloud::ec2::subnet::Attribute;

use super::*;

#[test]
fn resources_added_by_hand_are_shown_at_once() {
    let account = FakeAccount::new();
    account.set(|behaviour| {
        behaviour.hidden = seconds(20);
        behaviour.hidden_tags = seconds(20);
    });
    let vpc = account.add_vpc("10.0.0.0/16", owned());
    account.add_subnet(&vpc, "10.0.0.0/24", "eu-west-1a", owned());
    account.add_internet_gateway(Some(&vpc), owned());
    let seen = observe(&account, None);
    assert!(seen.vpcs.shown().unwrap()[0].is_available());
    assert!(seen.subnets.shown().unwrap()[0].is_available());
    assert_eq!(seen.internet_gateways.shown().unwrap()[0].tags, owned());
}

#[test]
fn contents_have_ranges_tags_and_host_names() {
    let account = FakeAccount::new();
    let vpc = account.add_vpc("10.0.0.0/16", owned());
    let subnet = account.add_subnet(&vpc, "10.0.0.0/24", "eu-west-1a", owned());
    assert!(account.add_cidr_block(&vpc, "10.1.0.0/16"));
    let before = account.contents().vpcs.remove(0);
    assert_eq!(before.cidr_blocks, ["10.0.0.0/16", "10.1.0.0/16"]);
    assert_eq!([&before.tags, &before.subnets[0].tags], [&owned(); 2]);
    assert!(account.set_subnet_attribute(&subnet, Attribute::HostnameType(HostnameType::ResourceName)));
    assert_ne!(account.contents().vpcs[0].subnets, before.subnets);
}

#[test]
fn a_vpc_removed_by_hand_takes_its_subnets() {
    let account = FakeAccount::new();
    let vpc = made(&account, create_vpc("10.0.0.0/16"));
    made(&account, create_subnet(&vpc, "10.0.0.0/24", "eu-west-1a"));
    let gateway = made(&account, create_gateway());
    call(&account, attach(&gateway, &vpc)).unwrap();
    assert!(account.remove_vpc(&vpc));
    assert!(account.subnets().is_empty());
    assert_eq!(account.contents().unattached_internet_gateways, [owned()]);
}

#[test]
fn contents_are_equal_whatever_the_ids_and_the_order() {
    let blocks = ["10.0.0.0/24", "10.0.1.0/24"];
    let account = |order: [&str; 2], pause| {
        let account = FakeAccount::new();
        let surplus = made(&account, create_gateway());
        let gateway = made(&account, create_gateway());
        call(&account, delete_gateway(&surplus)).unwrap();
        account.advance(seconds(pause));
        let vpc = made(&account, create_vpc("10.0.0.0/16"));
        for block in order {
            made(&account, create_subnet(&vpc, block, "eu-west-1a"));
        }
        call(&account, attach(&gateway, &vpc)).unwrap();
        account
    };
    let [first, second] = blocks;
    let one = account([first, second], 0);
    let other = account([second, first], 60);
    assert_eq!(one.contents(), other.contents());
    assert_eq!(one.contents().vpcs[0].internet_gateways, [owned()]);
    assert_ne!(one.subnets()[0].cidr_block, other.subnets()[0].cidr_block);
    assert!(other.remove_subnet(&other.subnets()[0].id));
    assert_ne!(one.contents(), other.contents());
}

#[test]
fn foreign_writes_are_calls_that_name_what_was_added_by_hand() {
    let account = FakeAccount::new();
    let foreign = account.add_vpc("10.0.0.0/16", Tags::new());
    let vpc = made(&account, create_vpc("10.0.0.0/16"));
    let gateway = made(&account, create_gateway());
    call(&account, attach(&gateway, &vpc)).unwrap();
    assert_eq!(account.foreign_writes(), []);
    assert!(account.remove_vpc(&foreign));
    call(&account, delete_vpc(&foreign)).unwrap_err();
    let calls: Vec<_> = account.foreign_writes().into_iter().map(|entry| entry.call).collect();
    assert_eq!(calls, [Call::from(delete_vpc(&foreign))]);
}
