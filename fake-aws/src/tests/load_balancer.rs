use capa_api::cluster::load_balancer::LoadBalancerScheme;
use capa_cloud::elb::LoadBalancerState::{self, Active, Provisioning};
use capa_cloud::elb::Observed;
use capa_cloud::managed::Seen;

use super::balancers::*;
use super::*;

const PROTECTION: &str = "deletion_protection.enabled";

impl Network {
    fn balancer_state(&self) -> LoadBalancerState {
        self.account.load_balancers().remove(0).state
    }
}

#[test]
fn a_load_balancer_is_provisioning_before_it_is_active() {
    let network = Network::new();
    let arn = network.make_balancer();
    let made = network.account.load_balancers().remove(0);
    let (_, id) = arn.rsplit_once('/').unwrap();
    let beginning = "arn:aws:elasticloadbalancing:eu-west-1:111122223333:loadbalancer/net/dev-apiserver/";
    assert_eq!(arn, format!("{beginning}{id}"));
    assert_eq!(made.dns_name, format!("dev-apiserver-{id}.elb.eu-west-1.amazonaws.com"));
    assert_eq!(made.subnets["eu-west-1a"], network.subnet);
    let attributes = made.attributes.shown().unwrap();
    assert_eq!(attributes["load_balancing.cross_zone.enabled"], "false");
    assert_eq!(attributes[PROTECTION], "false");
    network.account.advance(seconds(19));
    assert_eq!(network.balancer_state(), Provisioning);
    network.account.advance(seconds(1));
    assert_eq!(network.balancer_state(), Active);
}

#[test]
fn a_name_stands_for_one_load_balancer_also_while_hidden() {
    let network = Network::new();
    network.account.set(|behaviour| {
        behaviour.hidden = seconds(20);
        behaviour.load_balancer_quota = 1;
    });
    let arn = network.make_balancer();
    assert_eq!(network.make_balancer(), arn);
    let subnet: &str = &network.subnet;
    let internal = create_balancer_as(LoadBalancerScheme::Internal, "dev-apiserver", &[subnet], &[]);
    assert_eq!(network.call(internal), "DuplicateLoadBalancerName");
    let with_group = create_balancer("dev-apiserver", &[subnet], &["sg-9"]);
    assert_eq!(network.call(with_group), "DuplicateLoadBalancerName");
    assert_eq!(network.call(set_subnets(&arn, &[subnet])), "LoadBalancerNotFound");
    assert_eq!(network.observe().load_balancers.shown().unwrap().len(), 0);
    network.account.advance(seconds(20));
    assert_eq!(network.call(set_subnets(&arn, &[subnet])), "");
    assert_eq!(network.observe().load_balancers.shown().unwrap().len(), 1);
    let other = create_balancer("other", &[subnet], &[]);
    assert_eq!(network.call(other), "TooManyLoadBalancers");
}

#[test]
fn a_load_balancer_has_one_vpc_and_one_subnet_for_each_zone() {
    let network = Network::new();
    let elsewhere =
        network.check_subnets_and_groups(|subnets, groups| create_balancer("dev-apiserver", subnets, groups));
    let internal = create_balancer_as(LoadBalancerScheme::Internal, "internal", &[&elsewhere], &[]);
    assert_eq!(network.call(internal), "", "needs no internet gateway");
}

#[test]
fn settings_of_a_load_balancer_change_one_by_one() {
    let network = Network::new();
    let account = &network.account;
    let other_zone = account.add_subnet(&network.vpc, "10.0.2.0/24", "eu-west-1b", owned());
    let (one, two) = (
        account.add_security_group(&network.vpc, "one", owned()),
        account.add_security_group(&network.vpc, "two", owned()),
    );
    let without = network.make_balancer();
    let arn = made(account, create_balancer("groups", &[&network.subnet], &[&one]));
    let refused = network.call(set_groups(&without, &[&one]));
    assert_eq!(refused, "InvalidConfigurationRequest", "created without groups");
    assert_eq!(network.call(set_groups(&arn, &["sg-9"])), "InvalidSecurityGroup");
    assert_eq!(network.call(set_groups(&arn, &[&two])), "");
    assert_eq!(network.call(set_subnets(&arn, &["subnet-9"])), "SubnetNotFound");
    assert_eq!(network.call(set_subnets(&arn, &[&other_zone])), "");
    let cross_zone = set_attribute(&arn, "load_balancing.cross_zone.enabled", "true");
    assert_eq!(network.call(cross_zone), "");
    let changed = account.load_balancers().pop().unwrap();
    assert_eq!(changed.security_group_ids, [two]);
    assert_eq!(changed.subnets["eu-west-1b"], other_zone);
    let attributes = changed.attributes.shown().unwrap();
    assert_eq!(attributes["load_balancing.cross_zone.enabled"], "true");
    assert_eq!(attributes[PROTECTION], "false");
    let unknown = set_attribute("arn:aws:9", PROTECTION, "true");
    assert_eq!(network.call(unknown), "LoadBalancerNotFound");
}

#[test]
fn a_load_balancer_takes_its_listeners_unless_protected() {
    let network = Network::new();
    let arn = network.make_balancer();
    let group = network.make_target_group();
    assert_eq!(network.call(create_listener(&arn, &group, 6443)), "");
    assert_eq!(network.call(set_attribute(&arn, PROTECTION, "true")), "");
    assert_eq!(network.call(delete_balancer(&arn)), "OperationNotPermitted");
    assert_eq!(network.call(set_attribute(&arn, PROTECTION, "false")), "");
    assert_eq!(network.call(delete_balancer(&arn)), "");
    assert_eq!(network.account.listeners(), []);
    assert_eq!(network.call(delete_balancer(&arn)), "", "an unknown one");
}

#[test]
fn interfaces_of_a_load_balancer_outlive_it() {
    let network = Network::new();
    let group = network.account.add_security_group(&network.vpc, "one", owned());
    let arn = made(&network.account, create_balancer("dev-apiserver", &[&network.subnet], &[&group]));
    network.check_interfaces_outlive(delete_balancer(&arn), &group);
}

#[test]
fn an_internal_load_balancer_does_not_hold_the_gateway() {
    let network = Network::new();
    let internal = create_balancer_as(LoadBalancerScheme::Internal, "internal", &[&network.subnet], &[]);
    assert_eq!(network.call(internal), "");
    assert_eq!(network.call(detach(&network.internet_gateway, &network.vpc)), "");
}

#[test]
fn an_observation_without_names_or_vpc_asks_for_no_load_balancers() {
    let network = Network::new();
    network.make_balancer();
    assert_eq!(observe_load_balancers(&network.account, Some(&network.vpc), &[]), Observed::default());
    assert!(!network.account.describes().contains_key("DescribeLoadBalancers"));
    assert_eq!(observe_load_balancers(&network.account, None, &NAMES), network.observe(), "the VPC by tag");
    let account = FakeAccount::new();
    assert_eq!(observe_load_balancers(&account, None, &NAMES), Observed::default());
}

#[test]
fn an_observation_shows_load_balancers_of_the_vpc_and_namesakes() {
    let network = Network::new();
    let account = &network.account;
    let vpc = account.add_vpc("10.0.0.0/16", Tags::new());
    account.add_load_balancer("dev-apiserver", &vpc, &[], owned());
    account.add_load_balancer("elsewhere", &vpc, &[], owned());
    let here = account.add_load_balancer("other", &network.vpc, &[&network.subnet], Tags::new());
    account.add_listener(&here, 80, "arn:aws:9", Tags::new());
    let seen = network.observe();
    let shown = seen.load_balancers.shown().unwrap().iter();
    let shown: Vec<_> = shown.map(|balancer| (&*balancer.name, balancer.tags.len(), &balancer.attributes)).collect();
    assert_eq!(shown, [("dev-apiserver", 0, &Seen::NotAsked), ("other", 0, &Seen::NotAsked)]);
    assert_eq!(seen.listeners, Seen::Shown(vec![]), "of owned ones only");
}

#[test]
fn contents_have_tags_and_targets_of_load_balancers() {
    let network = Network::new();
    let (arn, group) = (network.make_balancer(), network.make_target_group());
    assert_eq!(network.call(create_listener(&arn, &group, 6443)), "");
    let vpc = network.account.contents().vpcs.remove(0);
    let (balancer, group) = (&vpc.load_balancers[0], &vpc.target_groups[0]);
    let listener = &balancer.listeners[0];
    assert_eq!([&balancer.tags, &group.tags, &listener.tags], [&owned(); 3]);
    assert_eq!(listener.target_groups, ["apiserver-target-1"]);
    assert_eq!(group.health_check.port, "traffic-port");
}
