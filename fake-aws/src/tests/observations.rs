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
fn dns_attributes_of_a_hidden_vpc_are_not_asked_for() {
    let account = FakeAccount::new();
    assert_eq!(observe(&account, Some("vpc-9")).dns, Seen::NotAsked);
    account.set(|behaviour| behaviour.refused_describes = ["DescribeVpcs".to_owned()].into());
    let dns = observe(&account, Some("vpc-9")).dns;
    let error = dns.answer().err().flatten().unwrap();
    assert_eq!(error.code.as_deref(), Some("InvalidVpcID.NotFound"));
}
