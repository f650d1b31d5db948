use capa_cloud::ErrorClass;
use capa_cloud::elb::Observed;
use capa_cloud::managed::Seen;

use super::balancers::NAMES;
use super::classic_balancers::*;
use super::*;

#[test]
fn an_observation_asks_for_the_generations_that_it_names() {
    let network = Network::new();
    let account = &network.account;
    network.make_balancer();
    network.make_classic();
    let vpc = Some(&*network.vpc);
    let both = observe_named(account, vpc, &NAMES, &[NAME]);
    let classic_only = observe_named(account, vpc, &[], &[NAME]);
    let expected = Observed { classic_load_balancers: both.classic_load_balancers.clone(), ..Observed::default() };
    assert_eq!(classic_only, expected);
    let second_only = Observed { classic_load_balancers: Seen::NotAsked, ..both.clone() };
    assert_eq!(observe_named(account, vpc, &NAMES, &[]), second_only);
    assert!(both.load_balancers.shown().is_some() && both.classic_load_balancers.shown().is_some());
    assert_eq!(observe_named(account, None, &NAMES, &[NAME]), both, "the VPC by tag");
    account.reset_describes();
    assert_eq!(observe_named(&FakeAccount::new(), None, &NAMES, &[NAME]), Observed::default());
    assert_eq!(observe_named(account, vpc, &[], &[]), Observed::default());
    let mut counts = account.describes();
    counts.retain(|action, _| action.contains("LoadBalancer") || action.contains("Tags"));
    assert!(counts.is_empty(), "{counts:?}");
}

#[test]
fn an_observation_shows_classic_balancers_of_the_vpc_and_namesakes() {
    let network = Network::new();
    let account = &network.account;
    let vpc = account.add_vpc("10.0.0.0/16", Tags::new());
    account.add_classic_load_balancer(NAME, &vpc, &[], owned());
    account.add_classic_load_balancer("elsewhere", &vpc, &[], owned());
    account.add_classic_load_balancer("other", &network.vpc, &[&network.subnet], Tags::new());
    let seen = network.observe_classic();
    let shown = seen.shown().unwrap().iter();
    let shown: Vec<_> = shown.map(|balancer| (&*balancer.name, balancer.tags.len(), &balancer.attributes)).collect();
    assert_eq!(shown, [(NAME, 0, &Seen::NotAsked), ("other", 0, &Seen::NotAsked)]);
}

#[test]
fn looks_at_classic_balancers_are_counted_with_a_prefix() {
    let network = Network::new();
    let account = &network.account;
    network.make_classic();
    let counts = || {
        account.reset_describes();
        network.observe_classic();
        let mut counts = account.describes();
        counts.retain(|action, _| action.contains("LoadBalancer") || action.contains("Tags"));
        counts.into_iter().collect::<Vec<_>>()
    };
    let attributes = ("DescribeClassicLoadBalancerAttributes", 1);
    let balancers = ("DescribeClassicLoadBalancers", 1);
    assert_eq!(counts(), [attributes, balancers, ("DescribeClassicTags", 1)]);
    for number in 0..20 {
        account.add_classic_load_balancer(&format!("other-{number}"), &network.vpc, &[], Tags::new());
    }
    assert_eq!(counts(), [attributes, balancers, ("DescribeClassicTags", 2)]);
    assert_eq!(network.call(delete(NAME)), "");
    let elsewhere = account.add_vpc("10.0.0.0/16", Tags::new());
    account.add_classic_load_balancer(NAME, &elsewhere, &[], owned());
    assert_eq!(counts(), [balancers, ("DescribeClassicTags", 1)]);
}

#[test]
fn a_refused_classic_describe_fails_the_kind_or_a_part() {
    let network = Network::new();
    network.make_balancer();
    network.make_classic();
    // Whether the Classic Load Balancers and their attributes are seen, and the operation of the error.
    let table = [
        ("DescribeClassicLoadBalancers", [false, false], "DescribeLoadBalancers"),
        ("DescribeClassicTags", [false, false], "DescribeTags"),
        ("DescribeClassicLoadBalancerAttributes", [true, false], "DescribeLoadBalancerAttributes"),
        ("DescribeLoadBalancers", [true, true], ""),
        ("DescribeTags", [true, true], ""),
    ];
    for (name, expected, operation) in table {
        let refused = [name.to_owned()].into();
        network.account.set(|behaviour| behaviour.refused_describes = refused);
        let seen = observe_named(&network.account, Some(&network.vpc), &NAMES, &[NAME]);
        assert_eq!(seen.load_balancers.shown().is_some(), !operation.is_empty(), "{name}");
        let balancers = &seen.classic_load_balancers;
        let attributes = balancers.shown().map(|balancers| &balancers[0].attributes);
        let is_seen = [balancers.shown().is_some(), attributes.is_some_and(|attributes| attributes.shown().is_some())];
        assert_eq!(is_seen, expected, "{name}");
        let errors =
            [balancers.answer().err().flatten(), attributes.and_then(|attributes| attributes.answer().err().flatten())];
        let error = errors.into_iter().flatten().next();
        assert_eq!(error.map_or("", |error| error.operation), operation, "{name}");
        assert!(error.is_none_or(|error| error.class == ErrorClass::Unauthorized), "{name}");
    }
}

#[test]
fn tags_of_fresh_classic_balancers_can_show_later() {
    let network = Network::new();
    network.account.set(|behaviour| behaviour.hidden_tags = seconds(20));
    network.make_classic();
    let seen = network.observe_classic();
    assert_eq!(seen.shown().unwrap()[0].tags, Tags::new());
    assert_eq!(seen.shown().unwrap()[0].attributes, Seen::NotAsked);
    network.account.advance(seconds(20));
    let seen = network.observe_classic();
    assert_eq!(seen.shown().unwrap()[0].tags, owned());
    assert!(seen.shown().unwrap()[0].attributes.shown().is_some());
}
