use std::collections::BTreeSet;

use super::*;

fn seen(account: &FakeAccount, ids: &[&str]) -> Vec<String> {
    let seen = observe_addresses(account, None, ids).addresses;
    let addresses = seen.shown().unwrap().iter();
    addresses.map(|address| address.allocation_id.clone()).collect()
}

#[test]
fn each_call_allocates_another_address_up_to_a_quota() {
    let account = FakeAccount::new();
    for _ in 0..5 {
        made(&account, allocate());
    }
    assert_eq!(code(call(&account, allocate())), "AddressLimitExceeded");
    account.set(|behaviour| behaviour.address_quota = 6);
    made(&account, allocate());
    let addresses: BTreeSet<_> = account.addresses().into_iter().map(|known| known.public_ip).collect();
    assert_eq!(addresses.len(), 6);
}

#[test]
fn an_address_is_released_once_and_not_while_associated() {
    let account = FakeAccount::new();
    let address = made(&account, allocate());
    let attempt = || code(call(&account, release(&address)));
    assert!(account.set_association(&address, Some("eipassoc-foreign")));
    assert_eq!(attempt(), "InvalidIPAddress.InUse");
    assert!(account.set_association(&address, None));
    assert_eq!(attempt(), "");
    assert_eq!(attempt(), "InvalidAllocationID.NotFound");
    assert!(account.is_empty());
}

#[test]
fn an_address_of_something_else_is_not_given_to_an_instance() {
    let account = FakeAccount::new();
    let address = made(&account, allocate());
    let associate = || account.ec2().associate_with_instance("AssociateAddress", &address, "eni-1", "i-1");
    assert!(account.set_association(&address, Some("eipassoc-foreign")));
    assert_eq!(associate().unwrap_err().code.as_deref(), Some("Resource.AlreadyAssociated"));
    assert!(account.set_association(&address, None));
    associate().unwrap();
    associate().unwrap();
    assert_eq!(account.addresses()[0].instance_id.as_deref(), Some("i-1"));
}

#[test]
fn an_observation_shows_owned_addresses_and_those_it_names() {
    let account = FakeAccount::new();
    let other = account.add_address(Tags::new());
    let own = account.add_address(owned());
    account.add_address(Tags::new());
    assert_eq!(seen(&account, &[]), [&own[..]]);
    assert_eq!(seen(&account, &[&own]), [&own[..]]);
    assert_eq!(account.describes()["DescribeAddresses"], 2, "one describe is enough");
    account.reset_describes();
    assert_eq!(seen(&account, &[&own, &other, "eipalloc-9"]), [&other[..], &own]);
    assert_eq!(account.describes()["DescribeAddresses"], 2, "one more by id");
}

#[test]
fn a_fresh_address_is_hidden_and_its_tags_come_later() {
    let account = FakeAccount::new();
    account.set(|behaviour| {
        behaviour.hidden = seconds(10);
        behaviour.hidden_tags = seconds(20);
    });
    let address = made(&account, allocate());
    assert_eq!(seen(&account, &[&address]), [""; 0]);
    assert_eq!(code(call(&account, release(&address))), "InvalidAllocationID.NotFound");
    account.advance(seconds(10));
    assert_eq!(seen(&account, &[]), [""; 0]);
    assert_eq!(seen(&account, &[&address]), [&address[..]]);
    account.advance(seconds(10));
    assert_eq!(seen(&account, &[]), [address]);
}
