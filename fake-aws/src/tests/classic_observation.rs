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
