use capa_api::cluster::load_balancer::LoadBalancerScheme;
use capa_cloud::managed::Seen;

use super::balancers::{create_balancer, texts};
use super::classic_balancers::*;
use super::*;

#[test]
fn a_new_classic_load_balancer_has_the_settings_of_aws() {
    let network = Network::new();
    assert_eq!(network.make_classic(), NAME);
    let internal = create_as(LoadBalancerScheme::Internal, "internal", &[&network.subnet], &[]);
    assert_eq!(network.call(internal), "");
    let public = network.classic();
    let digits = public.dns_name.strip_prefix("dev-apiserver-").unwrap();
    let digits = digits.strip_suffix(".eu-west-1.elb.amazonaws.com").unwrap();
    assert!(digits.chars().all(|digit| digit.is_ascii_digit()), "{digits}");
    let default_group = network.vpc.replacen("vpc", "sg", 1);
    assert_eq!(public.security_group_ids, [default_group]);
    assert_eq!(public.vpc_id, network.vpc);
    assert_eq!((public.zones, public.subnet_ids), (texts(&["eu-west-1a"]), vec![network.subnet.clone()]));
    assert_eq!(public.listeners, [listener(6443, 6443)]);
    assert_eq!(public.health_check.target, "TCP:6443");
    let timing = "every 30 s with 5 s for an answer, healthy after 10 and unhealthy after 2";
    assert_eq!(public.health_check.timing.to_string(), timing);
    let attributes = public.attributes.shown().unwrap();
    assert_eq!(attributes.to_string(), "cross-zone off, idle timeout 60 s");
    let internal = network.account.classic_load_balancers().remove(1);
    assert!(internal.dns_name.starts_with("internal-internal-"), "{}", internal.dns_name);
}

#[test]
fn a_classic_name_stands_for_one_balancer_also_while_hidden() {
    let network = Network::new();
    network.account.set(|behaviour| {
        behaviour.hidden = seconds(20);
        behaviour.classic_load_balancer_quota = 1;
    });
    let subnet: &str = &network.subnet;
    let default_group: &str = &network.vpc.replacen("vpc", "sg", 1);
    network.make_classic();
    assert_eq!(network.make_classic(), NAME);
    assert_eq!(network.call(create(NAME, &[subnet], &[default_group])), "", "the default group");
    assert_eq!(network.account.classic_load_balancers().len(), 1);
    let internal = create_as(LoadBalancerScheme::Internal, NAME, &[subnet], &[]);
    assert_eq!(network.call(internal), "DuplicateLoadBalancerName");
    assert_eq!(network.call(create(NAME, &[subnet], &["sg-9"])), "DuplicateLoadBalancerName");
    assert_eq!(network.call(create(NAME, &[], &[])), "DuplicateLoadBalancerName");
    assert_eq!(network.call(configure(NAME)), "LoadBalancerNotFound");
    assert_eq!(network.call(delete(NAME)), "", "an unknown one");
    assert_eq!(network.observe_classic().shown().unwrap().len(), 0);
    network.account.advance(seconds(20));
    assert_eq!(network.call(configure(NAME)), "");
    assert_eq!(network.observe_classic().shown().unwrap().len(), 1);
    assert!(network.account.set_tags(NAME, Tags::new()));
    assert_eq!(network.call(create(NAME, &[subnet], &[])), "DuplicateLoadBalancerName", "tags");
    assert!(network.account.set_tags(NAME, owned()));
    assert_eq!(network.make_classic(), NAME);
    assert_eq!(network.call(add_listener(NAME, listener(80, 80))), "");
    assert_eq!(network.call(create(NAME, &[subnet], &[])), "DuplicateLoadBalancerName");
    assert_eq!(network.call(create("other", &[subnet], &[])), "TooManyLoadBalancers");
}

#[test]
fn names_of_both_generations_do_not_clash() {
    let network = Network::new();
    let account = &network.account;
    account.set(|behaviour| {
        behaviour.classic_load_balancer_quota = 1;
        behaviour.load_balancer_quota = 1;
    });
    network.make_balancer();
    network.make_classic();
    assert_eq!(network.call(delete(NAME)), "");
    assert_eq!(account.load_balancers().len(), 1);
    assert_eq!(account.classic_load_balancers(), []);
    assert_eq!(network.call(create_balancer("other", &[&network.subnet], &[])), "TooManyLoadBalancers");
}

#[test]
fn a_classic_balancer_has_one_vpc_and_a_subnet_for_each_zone() {
    let network = Network::new();
    let elsewhere = network.check_subnets_and_groups(|subnets, groups| create(NAME, subnets, groups));
    assert_eq!(network.classic().zones, ["eu-west-1a", "eu-west-1b"]);
    let internal = create_as(LoadBalancerScheme::Internal, "internal", &[&elsewhere], &[]);
    assert_eq!(network.call(internal), "", "needs no internet gateway");
}

#[test]
fn a_port_of_a_classic_load_balancer_has_one_listener() {
    let network = Network::new();
    network.make_classic();
    let table = [
        (NAME, listener(6443, 6443), ""),
        (NAME, listener(6443, 443), "DuplicateListener"),
        (NAME, listener(443, 6443), ""),
        ("other", listener(443, 6443), "LoadBalancerNotFound"),
    ];
    for (name, listener, expected) in table {
        let answer = network.call(add_listener(name, listener.clone()));
        assert_eq!(answer, expected, "{name} {listener}");
    }
    assert_eq!(network.classic().listeners, [listener(6443, 6443), listener(443, 6443)]);
}

#[test]
fn check_and_attributes_of_a_classic_balancer_change() {
    let network = Network::new();
    network.make_classic();
    assert_eq!(network.call(configure("other")), "LoadBalancerNotFound");
    assert_eq!(network.call(modify("other")), "LoadBalancerNotFound");
    assert_eq!(network.call(configure(NAME)), "");
    assert_eq!(network.call(modify(NAME)), "");
    assert_eq!(network.classic().health_check, check("HTTPS:6443/readyz"));
    assert_eq!(network.classic().attributes, Seen::Shown(CROSS_ZONE));
}

#[test]
fn subnets_are_added_to_a_classic_load_balancer() {
    let network = Network::new();
    let account = &network.account;
    network.make_classic();
    let other_vpc = account.add_vpc("10.0.0.0/16", owned());
    account.add_internet_gateway(Some(&other_vpc), owned());
    let elsewhere = account.add_subnet(&other_vpc, "10.0.1.0/24", "eu-west-1c", owned());
    let same_zone = account.add_subnet(&network.vpc, "10.0.1.0/24", "eu-west-1a", owned());
    let other_zone = account.add_subnet(&network.vpc, "10.0.2.0/24", "eu-west-1b", owned());
    let subnet: &str = &network.subnet;
    let table: [(&str, &[&str], &str); 7] = [
        ("other", &[&other_zone], "LoadBalancerNotFound"),
        (NAME, &["subnet-9"], "SubnetNotFound"),
        (NAME, &[&elsewhere], "InvalidConfigurationRequest"),
        (NAME, &[&same_zone, &other_zone], "InvalidConfigurationRequest"),
        (NAME, &[subnet], ""),
        (NAME, &[&other_zone], ""),
        (NAME, &[&other_zone], ""),
    ];
    for (name, subnets, expected) in table {
        assert_eq!(network.call(attach_subnets(name, subnets)), expected, "{name} {subnets:?}");
    }
    let changed = network.classic();
    assert_eq!(changed.subnet_ids, [subnet, &*other_zone]);
    assert_eq!(changed.zones, ["eu-west-1a", "eu-west-1b"]);
    assert_eq!(network.call(delete_subnet(&other_zone)), "DependencyViolation");
}

#[test]
fn security_groups_of_a_classic_load_balancer_are_replaced() {
    let network = Network::new();
    let account = &network.account;
    network.make_classic();
    let other_vpc = account.add_vpc("10.0.0.0/16", owned());
    let (one, two, far) = (
        account.add_security_group(&network.vpc, "one", owned()),
        account.add_security_group(&network.vpc, "two", owned()),
        account.add_security_group(&other_vpc, "far", owned()),
    );
    let table: [(&str, &[&str], &str); 6] = [
        ("other", &[&one], "LoadBalancerNotFound"),
        (NAME, &[], "InvalidConfigurationRequest"),
        (NAME, &["sg-9"], "InvalidSecurityGroup"),
        (NAME, &[&far], "InvalidSecurityGroup"),
        (NAME, &[&one], ""),
        (NAME, &[&two], ""),
    ];
    for (name, groups, expected) in table {
        assert_eq!(network.call(apply_groups(name, groups)), expected, "{name} {groups:?}");
    }
    assert_eq!(network.classic().security_group_ids, [&*two]);
    let delete_group =
        |group: &str| capa_cloud::ec2::security_group::Call::DeleteSecurityGroup { group: group.to_owned() };
    assert_eq!(network.call(delete_group(&one)), "");
    assert_eq!(network.call(delete_group(&two)), "DependencyViolation");
}

#[test]
fn interfaces_of_a_classic_load_balancer_outlive_it() {
    let network = Network::new();
    let group = network.account.add_security_group(&network.vpc, "one", owned());
    made(&network.account, create(NAME, &[&network.subnet], &[&group]));
    network.check_interfaces_outlive(delete(NAME), &group);
}

#[test]
fn interfaces_of_a_former_classic_namesake_live_on() {
    let network = Network::new();
    let account = &network.account;
    let other_zone = account.add_subnet(&network.vpc, "10.0.2.0/24", "eu-west-1b", owned());
    network.make_classic();
    assert_eq!(network.call(delete(NAME)), "");
    let internal = create_as(LoadBalancerScheme::Internal, NAME, &[&other_zone], &[]);
    assert_eq!(network.call(internal), "");
    assert_eq!(network.call(delete_subnet(&network.subnet)), "DependencyViolation");
    account.advance(seconds(20));
    assert_eq!(network.call(delete_subnet(&network.subnet)), "");
    assert_eq!(network.call(delete_subnet(&other_zone)), "DependencyViolation");
    let detached = network.call(detach(&network.internet_gateway, &network.vpc));
    assert_eq!(detached, "", "an internal one has no public addresses");
}

#[test]
fn contents_have_groups_listeners_and_tags_of_classic_balancers() {
    let network = Network::new();
    network.make_classic();
    let balancer = network.account.contents().vpcs.remove(0).classic_load_balancers.remove(0);
    assert_eq!(balancer.security_groups, ["default"]);
    assert_eq!(balancer.listeners, ["TCP 6443 to TCP 6443"]);
    assert_eq!(balancer.tags, owned());
}

#[test]
fn tags_of_classic_balancers_change_by_any_name() {
    let network = Network::new();
    let account = &network.account;
    for name in ["vpc-apiserver", "nat-apiserver", "dev"] {
        account.add_classic_load_balancer(name, &network.vpc, &[], Tags::new());
        assert!(account.set_tags(name, owned()), "{name}");
    }
    let balancers = account.classic_load_balancers();
    assert!(balancers.iter().all(|balancer| balancer.tags == owned()));
}

#[test]
fn a_vpc_removed_by_hand_takes_its_classic_load_balancers() {
    let network = Network::new();
    let account = &network.account;
    network.make_classic();
    let other = account.add_vpc("10.0.0.0/16", owned());
    account.add_classic_load_balancer("other", &other, &[], owned());
    assert!(account.remove_vpc(&network.vpc));
    assert_eq!(network.classic().name, "other");
    assert!(account.remove_vpc(&other));
    assert!(account.remove_internet_gateway(&network.internet_gateway));
    assert!(account.remove_address(&network.address));
    assert!(account.is_empty());
    account.add_classic_load_balancer("other", &other, &[], owned());
    assert!(!account.is_empty());
}

#[test]
fn writes_to_a_classic_balancer_added_by_hand_are_foreign() {
    let network = Network::new();
    let account = &network.account;
    let foreign = |name: &str| {
        let writes = account.foreign_writes().into_iter();
        writes.filter(|entry| entry.ids().iter().any(|id| id == name)).count()
    };
    account.add_classic_load_balancer(NAME, &network.vpc, &[&network.subnet], owned());
    network.make_classic();
    assert_eq!(foreign(NAME), 0, "the call names no id of a load balancer");
    assert_eq!(network.call(configure(NAME)), "");
    assert_eq!(foreign(NAME), 1);
    assert!(account.remove_classic_load_balancer(NAME));
    assert_eq!(network.call(configure(NAME)), "LoadBalancerNotFound");
    assert_eq!(foreign(NAME), 2, "also after it was removed");
    network.make_classic();
    assert_eq!(network.call(configure(NAME)), "");
    assert_eq!(foreign(NAME), 2, "the new one is not foreign");
    account.add_classic_load_balancer(NAME, &network.vpc, &[], Tags::new());
    assert_eq!(foreign(NAME), 2, "earlier calls named another one");
    assert_eq!(network.call(delete(NAME)), "");
    assert_eq!(foreign(NAME), 3);
}
