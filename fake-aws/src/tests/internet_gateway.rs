use super::*;

#[test]
fn internet_gateways_have_a_quota() {
    let account = FakeAccount::new();
    for _ in 0..5 {
        made(&account, create_gateway());
    }
    assert_eq!(code(call(&account, create_gateway())), "InternetGatewayLimitExceeded");
    account.set(|behaviour| behaviour.internet_gateway_quota = 6);
    made(&account, create_gateway());
}

#[test]
fn a_gateway_has_one_vpc_and_a_vpc_one_gateway() {
    let account = FakeAccount::new();
    let vpc = account.add_vpc("10.0.0.0/16", owned());
    let free_vpc = account.add_vpc("10.0.0.0/16", owned());
    let gateway = account.add_internet_gateway(Some(&vpc), owned());
    let free_gateway = account.add_internet_gateway(None, owned());
    let table: [(&str, &str, &str); 6] = [
        (&gateway, &vpc, "Resource.AlreadyAssociated"),
        (&gateway, &free_vpc, "Resource.AlreadyAssociated"),
        (&free_gateway, &vpc, "InvalidParameterValue"),
        ("igw-9", &vpc, "InvalidInternetGatewayID.NotFound"),
        (&free_gateway, "vpc-9", "InvalidVpcID.NotFound"),
        (&free_gateway, &free_vpc, ""),
    ];
    for (gateway, vpc, expected) in table {
        let answer = call(&account, attach(gateway, vpc));
        assert_eq!(code(answer), expected, "{gateway} to {vpc}");
    }
}

#[test]
fn only_the_attached_gateway_can_be_detached() {
    let account = FakeAccount::new();
    let vpc = account.add_vpc("10.0.0.0/16", owned());
    let other_vpc = account.add_vpc("10.0.0.0/16", owned());
    let gateway = account.add_internet_gateway(Some(&vpc), owned());
    let free_gateway = account.add_internet_gateway(None, owned());
    let table: [(&str, &str, &str); 6] = [
        (&gateway, &other_vpc, "Gateway.NotAttached"),
        (&free_gateway, &vpc, "Gateway.NotAttached"),
        ("igw-9", &vpc, "InvalidInternetGatewayID.NotFound"),
        (&gateway, "vpc-9", "InvalidVpcID.NotFound"),
        (&gateway, &vpc, ""),
        (&gateway, &vpc, "Gateway.NotAttached"),
    ];
    for (gateway, vpc, expected) in table {
        let answer = call(&account, detach(gateway, vpc));
        assert_eq!(code(answer), expected, "{gateway} from {vpc}");
    }
}

#[test]
fn an_attached_gateway_cannot_be_deleted() {
    let account = FakeAccount::new();
    let vpc = account.add_vpc("10.0.0.0/16", owned());
    let gateway = account.add_internet_gateway(Some(&vpc), owned());
    let delete = || code(call(&account, delete_gateway(&gateway)));
    assert_eq!(delete(), "DependencyViolation");
    call(&account, detach(&gateway, &vpc)).unwrap();
    assert_eq!(delete(), "");
    assert_eq!(delete(), "InvalidInternetGatewayID.NotFound");
}
