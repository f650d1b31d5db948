use std::collections::BTreeMap;

use capa_cloud::ErrorClass;
use capa_cloud::managed::Seen;

use super::*;

fn ids<T>(seen: &Seen<Vec<T>>, id: impl Fn(&T) -> &String) -> Vec<String> {
    seen.shown().unwrap().iter().map(|one| id(one).clone()).collect()
}

#[test]
fn an_observation_by_id_shows_the_vpc_and_all_that_is_in_it() {
    let account = FakeAccount::new();
    let vpc = account.add_vpc("10.0.0.0/16", Tags::new());
    let other = account.add_vpc("10.0.0.0/16", owned());
    let subnet = account.add_subnet(&vpc, "10.0.0.0/24", "eu-west-1a", Tags::new());
    account.add_subnet(&other, "10.0.0.0/24", "eu-west-1a", owned());
    let attached = account.add_internet_gateway(Some(&vpc), Tags::new());
    let free = account.add_internet_gateway(None, owned());
    account.add_internet_gateway(None, Tags::new());
    let seen = observe(&account, Some(&vpc));
    assert_eq!(ids(&seen.vpcs, |vpc| &vpc.id), [vpc]);
    assert_eq!(ids(&seen.subnets, |subnet| &subnet.id), [subnet]);
    assert_eq!(ids(&seen.internet_gateways, |gateway| &gateway.id), [attached, free]);
    assert!(seen.dns.shown().unwrap().support);
}

#[test]
fn an_observation_by_tag_compares_key_and_value_whole() {
    let longer = format!("{OWNED}-2");
    let table = [
        (owned(), true),
        (tags(&[(OWNED, "shared")]), false),
        (tags(&[(OWNED, "owned ")]), false),
        (tags(&[(longer.as_str(), "owned")]), false),
        (Tags::new(), false),
    ];
    for (tags, is_seen) in table {
        let account = FakeAccount::new();
        account.add_vpc("10.0.0.0/16", tags.clone());
        account.add_internet_gateway(None, tags.clone());
        let seen = observe(&account, None);
        let count = usize::from(is_seen);
        assert_eq!(seen.vpcs.shown().unwrap().len(), count, "{tags:?}");
        assert_eq!(seen.internet_gateways.shown().unwrap().len(), count, "{tags:?}");
        assert_eq!(seen.subnets != Seen::NotAsked, is_seen, "{tags:?}");
        assert_eq!(seen.nat_gateways != Seen::NotAsked, is_seen, "{tags:?}");
        assert_eq!(seen.route_tables != Seen::NotAsked, is_seen, "{tags:?}");
        assert_eq!(seen.security_groups != Seen::NotAsked, is_seen, "{tags:?}");
    }
}

#[test]
fn an_observation_with_several_owned_vpcs_asks_for_no_subnets() {
    let account = FakeAccount::new();
    account.add_vpc("10.0.0.0/16", owned());
    account.add_vpc("10.0.0.0/16", owned());
    let seen = observe(&account, None);
    assert_eq!(seen.vpcs.shown().unwrap().len(), 2);
    assert_eq!((seen.subnets, seen.dns), (Seen::NotAsked, Seen::NotAsked));
}

#[test]
fn fresh_resources_are_hidden_from_observations_and_calls() {
    let account = FakeAccount::new();
    account.set(|behaviour| behaviour.hidden = seconds(20));
    let foreign = account.add_vpc("10.0.0.0/16", owned());
    let subnet = made(&account, create_subnet(&foreign, "10.0.0.0/24", "eu-west-1a"));
    let vpc = made(&account, create_vpc("10.0.0.0/16"));
    let gateway = made(&account, create_gateway());
    let refused = || {
        [
            code(call(&account, create_subnet(&vpc, "10.0.0.0/24", "eu-west-1a"))),
            code(call(&account, delete_subnet(&subnet))),
            code(call(&account, attach(&gateway, &vpc))),
        ]
    };
    account.advance(seconds(19));
    let seen = observe(&account, Some(&vpc));
    assert!(seen.vpcs.shown().unwrap().is_empty());
    assert!(seen.internet_gateways.shown().unwrap().is_empty());
    assert_eq!(seen.dns, Seen::NotAsked);
    assert!(observe(&account, Some(&foreign)).subnets.shown().unwrap().is_empty());
    let not_found = ["InvalidVpcID.NotFound", "InvalidSubnetID.NotFound", "InvalidInternetGatewayID.NotFound"];
    assert_eq!(refused(), not_found);
    let conflict = create_subnet(&foreign, "10.0.0.0/24", "eu-west-1a");
    assert_eq!(code(call(&account, conflict)), "InvalidSubnet.Conflict", "hidden, but there");
    account.advance(seconds(1));
    assert_eq!(refused(), ["", "", ""]);
    assert_eq!(observe(&account, Some(&vpc)).vpcs.shown().unwrap().len(), 1);
}

#[test]
fn tags_of_fresh_resources_can_show_later() {
    let account = FakeAccount::new();
    account.set(|behaviour| behaviour.hidden_tags = seconds(20));
    let vpc = made(&account, create_vpc("10.0.0.0/16"));
    let seen = observe(&account, Some(&vpc));
    assert_eq!(seen.vpcs.shown().unwrap()[0].tags, Tags::new());
    assert!(observe(&account, None).vpcs.shown().unwrap().is_empty());
    account.advance(seconds(20));
    assert_eq!(observe(&account, None).vpcs.shown().unwrap()[0].tags, owned());
}

#[test]
fn a_refused_describe_leaves_the_others() {
    let account = FakeAccount::new();
    let vpc = account.add_vpc("10.0.0.0/16", owned());
    let actions = [
        "DescribeVpcs",
        "DescribeVpcAttribute",
        "DescribeSubnets",
        "DescribeInternetGateways",
        "DescribeNatGateways",
        "DescribeAddresses",
        "DescribeRouteTables",
        "DescribeSecurityGroups",
    ];
    for action in actions {
        account.set(|behaviour| behaviour.refused_describes = [action.to_owned()].into());
        let seen = observe(&account, Some(&vpc));
        let errors = [
            seen.vpcs.answer().err().flatten(),
            seen.dns.answer().err().flatten(),
            seen.subnets.answer().err().flatten(),
            seen.internet_gateways.answer().err().flatten(),
            seen.nat_gateways.answer().err().flatten(),
            seen.addresses.answer().err().flatten(),
            seen.route_tables.answer().err().flatten(),
            seen.security_groups.answer().err().flatten(),
        ];
        let expected = actions.map(|known| known == action);
        assert_eq!(errors.map(|error| error.is_some()), expected, "{action}");
        for error in errors.into_iter().flatten() {
            assert_eq!(error.code.as_deref(), Some("UnauthorizedOperation"));
            assert!(error.message.contains(&format!("ec2:{action}")), "{error}");
        }
    }
}

#[test]
fn dns_attributes_of_a_hidden_vpc_are_not_asked_for() {
    let account = FakeAccount::new();
    assert_eq!(observe(&account, Some("vpc-9")).dns, Seen::NotAsked);
    account.set(|behaviour| behaviour.refused_describes = ["DescribeVpcs".to_owned()].into());
    let dns = observe(&account, Some("vpc-9")).dns;
    let error = dns.answer().err().flatten().unwrap();
    assert_eq!(error.code.as_deref(), Some("InvalidVpcID.NotFound"));
}

#[test]
fn zones_and_account_are_what_the_test_sets() {
    let account = FakeAccount::new();
    let zones = || account.zones().now_or_never().unwrap();
    assert_eq!(zones().unwrap(), ["eu-west-1a", "eu-west-1b", "eu-west-1c"]);
    account.set(|behaviour| {
        behaviour.zones = ["us-east-1b", "us-east-1a"].map(str::to_owned).to_vec();
        "444455556666".clone_into(&mut behaviour.account_id);
    });
    assert_eq!(zones().unwrap(), ["us-east-1a", "us-east-1b"]);
    assert_eq!(account.account_id().now_or_never().unwrap().unwrap(), "444455556666");
    account.set(|behaviour| behaviour.refused_describes = ["DescribeAvailabilityZones".to_owned()].into());
    assert_eq!(zones().unwrap_err().class, ErrorClass::Unauthorized);
}

#[test]
fn reads_are_counted_by_action() {
    let account = FakeAccount::new();
    let vpc = account.add_vpc("10.0.0.0/16", owned());
    observe(&account, Some(&vpc));
    let once = [
        ("DescribeAddresses", 1),
        ("DescribeInternetGateways", 2),
        ("DescribeNatGateways", 1),
        ("DescribeRouteTables", 1),
        ("DescribeSecurityGroups", 1),
        ("DescribeSubnets", 1),
        ("DescribeVpcAttribute", 2),
        ("DescribeVpcs", 1),
    ];
    assert_eq!(account.describes(), BTreeMap::from(once));
    account.reset_describes();
    assert!(account.describes().is_empty());
}
