use capa_api::common::HostnameType;
use capa_cloud::ec2::subnet::{Attribute, Call};

use super::*;

fn modify(subnet: &str, attribute: Attribute) -> Call<String> {
    Call::ModifySubnetAttribute { subnet: subnet.to_owned(), attribute }
}

#[test]
fn a_subnet_lies_in_its_vpc_and_beside_its_neighbours() {
    let account = FakeAccount::new();
    let vpc = made(&account, create_vpc("10.0.0.0/20"));
    let other = made(&account, create_vpc("10.0.0.0/20"));
    assert!(account.add_cidr_block(&vpc, "10.1.0.0/20"));
    made(&account, create_subnet(&vpc, "10.0.1.0/24", "eu-west-1a"));
    let table: [(&str, &str, &str, &str); 13] = [
        (&vpc, "10.0.2.0/24", "eu-west-1b", ""),
        (&vpc, "10.1.1.0/24", "eu-west-1b", ""),
        (&other, "10.0.1.0/24", "eu-west-1a", ""),
        (&vpc, "10.0.1.0/24", "eu-west-1a", "InvalidSubnet.Conflict"),
        (&vpc, "10.0.1.128/25", "eu-west-1b", "InvalidSubnet.Conflict"),
        (&vpc, "10.0.0.0/23", "eu-west-1b", "InvalidSubnet.Conflict"),
        (&vpc, "10.0.16.0/24", "eu-west-1a", "InvalidSubnet.Range"),
        (&vpc, "10.0.0.0/16", "eu-west-1a", "InvalidSubnet.Range"),
        (&other, "10.1.1.0/24", "eu-west-1a", "InvalidSubnet.Range"),
        (&vpc, "10.0.3.0/29", "eu-west-1a", "InvalidSubnet.Range"),
        (&vpc, "10.0.3.0", "eu-west-1a", "InvalidParameterValue"),
        (&vpc, "10.0.3.0/24", "eu-west-1d", "InvalidParameterValue"),
        ("vpc-9", "10.0.3.0/24", "eu-west-1a", "InvalidVpcID.NotFound"),
    ];
    for (vpc, cidr_block, zone, expected) in table {
        let answer = call(&account, create_subnet(vpc, cidr_block, zone));
        assert_eq!(code(answer), expected, "{cidr_block} in {vpc} and {zone}");
    }
    assert_eq!(account.subnets().len(), 4);
}

#[test]
fn a_subnet_is_pending_before_it_is_available() {
    let account = FakeAccount::new();
    let vpc = account.add_vpc("10.0.0.0/16", owned());
    made(&account, create_subnet(&vpc, "10.0.0.0/24", "eu-west-1a"));
    let is_available = || observe(&account, Some(&vpc)).subnets.shown().unwrap()[0].is_available();
    assert!(!is_available());
    account.advance(seconds(2));
    assert!(is_available());
}

#[test]
fn attributes_of_a_subnet_change_one_by_one() {
    let account = FakeAccount::new();
    let vpc = made(&account, create_vpc("10.0.0.0/16"));
    let subnet = made(&account, create_subnet(&vpc, "10.0.0.0/24", "eu-west-1a"));
    let attributes = || {
        let subnet = account.subnets().remove(0);
        (subnet.assigns_public_ip, subnet.hostname_type.unwrap())
    };
    assert_eq!(attributes(), (false, HostnameType::IpName), "a new subnet");
    call(&account, modify(&subnet, Attribute::MapPublicIpOnLaunch(true))).unwrap();
    assert_eq!(attributes(), (true, HostnameType::IpName));
    let form = Attribute::HostnameType(HostnameType::ResourceName);
    call(&account, modify(&subnet, form)).unwrap();
    assert_eq!(attributes(), (true, HostnameType::ResourceName));
    let unknown = modify("subnet-9", form);
    assert_eq!(code(call(&account, unknown)), "InvalidSubnetID.NotFound");
}

#[test]
fn a_deleted_subnet_is_unknown_and_leaves_its_range() {
    let account = FakeAccount::new();
    let vpc = made(&account, create_vpc("10.0.0.0/16"));
    let create = || create_subnet(&vpc, "10.0.0.0/24", "eu-west-1a");
    let subnet = made(&account, create());
    call(&account, delete_subnet(&subnet)).unwrap();
    assert_eq!(code(call(&account, delete_subnet(&subnet))), "InvalidSubnetID.NotFound");
    assert_ne!(made(&account, create()), subnet);
}
