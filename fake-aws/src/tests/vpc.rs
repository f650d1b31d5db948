use capa_cloud::ec2::VpcDns;
use capa_cloud::ec2::vpc::{Call, DnsAttribute};

use super::*;

fn modify(vpc: &str, attribute: DnsAttribute) -> Call<String> {
    Call::ModifyVpcAttribute { vpc: vpc.to_owned(), attribute }
}

#[test]
fn a_vpc_has_a_range_of_an_allowed_size() {
    let table = [
        ("10.0.0.0/16", ""),
        ("10.0.0.0/28", ""),
        ("10.0.0.0/15", "InvalidVpc.Range"),
        ("10.0.0.0/29", "InvalidVpc.Range"),
        ("10.0.0.0", "InvalidParameterValue"),
        ("", "InvalidParameterValue"),
    ];
    for (cidr_block, expected) in table {
        let account = FakeAccount::new();
        assert_eq!(code(call(&account, create_vpc(cidr_block))), expected, "{cidr_block}");
        assert_eq!(account.vpcs().len(), usize::from(expected.is_empty()), "{cidr_block}");
    }
}

#[test]
fn the_range_of_a_vpc_loses_its_host_bits() {
    let account = FakeAccount::new();
    made(&account, create_vpc("10.0.7.9/16"));
    assert_eq!(account.vpcs()[0].cidr_blocks, ["10.0.0.0/16"]);
}

#[test]
fn a_vpc_is_pending_before_it_is_available() {
    let account = FakeAccount::new();
    account.set(|behaviour| behaviour.network_pending = seconds(20));
    let vpc = made(&account, create_vpc("10.0.0.0/16"));
    let is_available = || observe(&account, Some(&vpc)).vpcs.shown().unwrap()[0].is_available();
    account.advance(seconds(19));
    assert!(!is_available());
    account.advance(seconds(1));
    assert!(is_available());
}

#[test]
fn ids_count_up_and_are_never_used_again() {
    let account = FakeAccount::new();
    let first = made(&account, create_vpc("10.0.0.0/16"));
    assert_eq!(first, "vpc-00000001");
    call(&account, delete_vpc(&first)).unwrap();
    assert_eq!(made(&account, create_vpc("10.0.0.0/16")), "vpc-00000002");
    assert_eq!(code(call(&account, delete_vpc(&first))), "InvalidVpcID.NotFound");
}

#[test]
fn vpcs_have_a_quota_that_counts_foreign_ones() {
    let account = FakeAccount::new();
    account.add_vpc("10.0.0.0/16", Tags::new());
    for _ in 0..4 {
        made(&account, create_vpc("10.0.0.0/16"));
    }
    assert_eq!(code(call(&account, create_vpc("10.0.0.0/16"))), "VpcLimitExceeded");
    account.set(|behaviour| behaviour.vpc_quota = 6);
    made(&account, create_vpc("10.0.0.0/16"));
}

#[test]
fn dns_host_names_need_dns_support() {
    let account = FakeAccount::new();
    let vpc = made(&account, create_vpc("10.0.0.0/16"));
    let dns = |support, hostnames| Some(VpcDns { support, hostnames });
    assert_eq!(account.dns(&vpc), dns(true, false), "a new VPC");
    assert!(account.set_dns(&vpc, VpcDns::default()));
    let hostnames = || modify(&vpc, DnsAttribute::Hostnames);
    assert_eq!(code(call(&account, hostnames())), "InvalidParameterValue");
    call(&account, modify(&vpc, DnsAttribute::Support)).unwrap();
    call(&account, hostnames()).unwrap();
    assert_eq!(account.dns(&vpc), dns(true, true));
    let unknown = modify("vpc-9", DnsAttribute::Support);
    assert_eq!(code(call(&account, unknown)), "InvalidVpcID.NotFound");
}

#[test]
fn a_vpc_with_a_subnet_or_gateway_stays() {
    let account = FakeAccount::new();
    let vpc = made(&account, create_vpc("10.0.0.0/16"));
    let subnet = made(&account, create_subnet(&vpc, "10.0.0.0/24", "eu-west-1a"));
    let gateway = made(&account, create_gateway());
    call(&account, attach(&gateway, &vpc)).unwrap();
    assert_eq!(code(call(&account, delete_vpc(&vpc))), "DependencyViolation");
    call(&account, delete_subnet(&subnet)).unwrap();
    assert_eq!(code(call(&account, delete_vpc(&vpc))), "DependencyViolation");
    call(&account, detach(&gateway, &vpc)).unwrap();
    call(&account, delete_vpc(&vpc)).unwrap();
    assert!(account.vpcs().is_empty());
}
