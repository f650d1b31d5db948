use std::collections::BTreeMap;

use capa_cloud::elb::target_group::Call;

use super::balancers::*;
use super::*;

#[test]
fn a_name_stands_for_one_target_group() {
    let network = Network::new();
    let account = &network.account;
    account.set(|behaviour| behaviour.target_group_quota = 1);
    let arn = network.make_target_group();
    assert_eq!(network.make_target_group(), arn);
    let beginning = "arn:aws:elasticloadbalancing:eu-west-1:111122223333:targetgroup/apiserver-target-1/";
    assert!(arn.starts_with(beginning), "{arn}");
    let other_port = create_target_group(&network.vpc, "apiserver-target-1", 443);
    assert_eq!(network.call(other_port), "DuplicateTargetGroupName");
    let more = create_target_group(&network.vpc, "more", 6443);
    assert_eq!(network.call(more), "TooManyTargetGroups");
    let nowhere = create_target_group("vpc-9", "more", 6443);
    assert_eq!(network.call(nowhere), "ValidationError");
}

#[test]
fn a_new_target_group_has_the_attributes_of_aws() {
    let network = Network::new();
    network.make_target_group();
    let group = network.account.target_groups().remove(0);
    let attributes = group.attributes.shown().unwrap();
    let attributes: Vec<_> = attributes.iter().map(|(name, value)| (&**name, &**value)).collect();
    let expected = [
        ("deregistration_delay.timeout_seconds", "300"),
        ("preserve_client_ip.enabled", "true"),
        ("target_health_state.unhealthy.connection_termination.enabled", "true"),
        ("target_health_state.unhealthy.draining_interval_seconds", "0"),
    ];
    assert_eq!(attributes, expected);
}

#[test]
fn health_check_and_attributes_of_a_target_group_change() {
    let network = Network::new();
    let arn = network.make_target_group();
    let modify = |group: &str| Call::ModifyTargetGroup { group: group.to_owned(), health_check: check("443") };
    let set = |group: &str| Call::ModifyTargetGroupAttributes {
        group: group.to_owned(),
        attributes: BTreeMap::from([("preserve_client_ip.enabled", "false".to_owned())]),
    };
    assert_eq!(network.call(modify("arn:aws:9")), "TargetGroupNotFound");
    assert_eq!(network.call(set("arn:aws:9")), "TargetGroupNotFound");
    assert_eq!((network.call(modify(&arn)), network.call(set(&arn))), Default::default());
    let group = network.account.target_groups().remove(0);
    assert_eq!(group.health_check, check("443"));
    let attributes = group.attributes.shown().unwrap();
    assert_eq!((attributes.len(), &*attributes["preserve_client_ip.enabled"]), (4, "false"));
}

#[test]
fn a_target_group_in_use_cannot_be_deleted() {
    let network = Network::new();
    let (balancer, group) = (network.make_balancer(), network.make_target_group());
    assert_eq!(network.call(create_listener(&balancer, &group, 6443)), "");
    assert_eq!(network.call(delete_target_group(&group)), "ResourceInUse");
    assert_eq!(network.call(delete_balancer(&balancer)), "");
    assert_eq!(network.call(delete_target_group(&group)), "");
    assert_eq!(network.account.target_groups(), []);
    assert_eq!(network.call(delete_target_group(&group)), "", "an unknown one");
}

#[test]
fn a_target_group_outlives_its_vpc() {
    let account = FakeAccount::new();
    let vpc = account.add_vpc("10.0.0.0/16", owned());
    let group = made(&account, create_target_group(&vpc, "apiserver-target-1", 6443));
    assert_eq!(account.contents().vpcs[0].target_groups.len(), 1);
    call(&account, delete_vpc(&vpc)).unwrap();
    assert!(!account.is_empty());
    assert_eq!(account.contents().target_groups_without_vpc.len(), 1);
    call(&account, delete_target_group(&group)).unwrap();
    assert!(account.is_empty());
}

#[test]
fn an_observation_asks_for_tags_of_target_groups_with_known_names() {
    let network = Network::new();
    let account = &network.account;
    account.add_target_group("foreign", &network.vpc, 80, owned());
    account.add_target_group("apiserver-target-2", &network.vpc, 80, owned());
    let other_vpc = account.add_vpc("10.0.0.0/16", Tags::new());
    account.add_target_group("apiserver-target-3", &other_vpc, 80, owned());
    let seen = network.observe();
    let shown = seen.target_groups.shown().unwrap().iter();
    let shown: Vec<_> =
        shown.map(|group| (&*group.name, group.tags.len(), group.attributes.shown().is_some())).collect();
    assert_eq!(shown, [("apiserver-target-2", 1, true), ("foreign", 0, false)]);
}
