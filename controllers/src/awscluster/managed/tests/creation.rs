//! What is created.

use std::collections::BTreeMap;
use std::time::Duration;

use capa_api::conditions::ConditionType;

use super::world::World;

/// The tags as sorted text.
fn shown(tags: &BTreeMap<String, String>) -> Vec<String> {
    tags.iter().map(|(key, value)| format!("{key}={value}")).collect()
}

#[test]
fn the_default_cluster_has_the_names_and_tags_of_capa() {
    let world = World::built("region: eu-west-1, additionalTags: {team: a}");
    let contents = world.account.contents();
    let [vpc] = &contents.vpcs[..] else { panic!("one VPC: {contents:?}") };
    assert_eq!(vpc.cidr_blocks, ["10.0.0.0/16"]);
    assert!(vpc.dns_support && vpc.dns_hostnames);
    let owned = "sigs.k8s.io/cluster-api-provider-aws/cluster/dev=owned";
    let role = "sigs.k8s.io/cluster-api-provider-aws/role";
    assert_eq!(shown(&vpc.tags), ["Name=dev-vpc", owned, &format!("{role}=common"), "team=a"]);
    let gateways: Vec<Vec<String>> = vpc.internet_gateways.iter().map(shown).collect();
    assert_eq!(gateways, [["Name=dev-igw", owned, &format!("{role}=common"), "team=a"]]);
    let subnets: Vec<(&str, &str, bool, &str)> = vpc
        .subnets
        .iter()
        .map(|subnet| {
            let name = subnet.tags["Name"].as_str();
            (name, subnet.cidr_block.as_str(), subnet.assigns_public_ip, subnet.zone.as_str())
        })
        .collect();
    assert_eq!(
        subnets,
        [
            ("dev-subnet-public-eu-west-1a", "10.0.0.0/20", true, "eu-west-1a"),
            ("dev-subnet-private-eu-west-1b", "10.0.128.0/18", false, "eu-west-1b"),
            ("dev-subnet-public-eu-west-1b", "10.0.16.0/20", true, "eu-west-1b"),
            ("dev-subnet-private-eu-west-1c", "10.0.192.0/18", false, "eu-west-1c"),
            ("dev-subnet-public-eu-west-1c", "10.0.32.0/20", true, "eu-west-1c"),
            ("dev-subnet-private-eu-west-1a", "10.0.64.0/18", false, "eu-west-1a"),
        ]
    );
    let tagged = |name: &str| {
        let mut subnets = vpc.subnets.iter();
        shown(&subnets.find(|subnet| subnet.tags["Name"] == name).unwrap().tags)
    };
    assert_eq!(
        tagged("dev-subnet-public-eu-west-1a"),
        [
            "Name=dev-subnet-public-eu-west-1a",
            "kubernetes.io/cluster/dev=owned",
            "kubernetes.io/role/elb=1",
            owned,
            &format!("{role}=public"),
            "team=a",
        ]
    );
    assert!(tagged("dev-subnet-private-eu-west-1a").contains(&"kubernetes.io/role/internal-elb=1".to_owned()));
}

#[test]
fn conditions_and_events_tell_what_was_made_and_what_is_missing() {
    let world = World::aged("region: eu-west-1");
    for condition in [
        ConditionType::VpcReady,
        ConditionType::SubnetsReady,
        ConditionType::InternetGatewayReady,
        ConditionType::NatGatewaysReady,
        ConditionType::RouteTablesReady,
        ConditionType::ClusterSecurityGroupsReady,
        ConditionType::LoadBalancerReady,
        ConditionType::ControlPlaneEndpointReady,
        ConditionType::IdentityReady,
        ConditionType::Ready,
    ] {
        assert_eq!(world.condition(condition), "True/Ready", "{condition}");
    }
    assert!(world.status().provisioned());
    let created = |reason: &str| world.reasons().iter().filter(|event| **event == reason).count();
    assert_eq!(created("SuccessfulCreateVpc"), 1);
    assert_eq!(created("SuccessfulCreateSubnet"), 6);
    assert_eq!(created("SuccessfulAttachInternetGateway"), 1);
    assert_eq!(created("SuccessfulCreateLoadBalancer"), 1);
    let status = world.status();
    assert_eq!(status.account_id.as_deref(), Some("111122223333"));
    assert_eq!(status.zones, ["eu-west-1a", "eu-west-1b", "eu-west-1c"]);
    assert_eq!(status.resources.len(), 25);
    assert!(status.resources.iter().all(|resource| resource.id.is_some() && resource.requested_at.is_none()));
}

#[test]
fn a_wait_is_a_condition_that_names_what_is_waited_for() {
    let mut world = World::new("region: eu-west-1");
    world.pass();
    assert_eq!(world.condition(ConditionType::VpcReady), "False/Creating");
    assert_eq!(world.condition(ConditionType::SubnetsReady), "False/WaitingForVpc");
    assert!(world.message(ConditionType::SubnetsReady).contains("VPC dev-vpc"));
    assert_eq!(world.condition(ConditionType::Ready), "False/Creating");
    assert_eq!(world.account.calls(), 1);
}

#[test]
fn listed_subnets_have_the_ranges_zones_and_tags_of_the_spec() {
    let world = World::built(
        "region: eu-west-1, network: {vpc: {cidrBlock: 10.1.0.0/16, privateDnsHostnameTypeOnLaunch: resource-name, \
         tags: {cost: x}}, subnets: [{id: front, cidrBlock: 10.1.0.0/24, availabilityZone: eu-west-1b, isPublic: true, \
         tags: {tier: web}}, {id: back, cidrBlock: 10.1.1.0/24, availabilityZone: eu-west-1b}]}",
    );
    let contents = world.account.contents();
    let vpc = &contents.vpcs[0];
    assert_eq!((vpc.cidr_blocks[0].as_str(), vpc.tags["cost"].as_str()), ("10.1.0.0/16", "x"));
    let subnets: Vec<(&str, &str, bool, Option<&str>)> = vpc
        .subnets
        .iter()
        .map(|subnet| {
            (subnet.tags["Name"].as_str(), subnet.zone.as_str(), subnet.assigns_public_ip, subnet.hostname_type)
        })
        .collect();
    let form = Some("resource-name");
    assert_eq!(subnets, [("front", "eu-west-1b", true, form), ("back", "eu-west-1b", false, form)]);
    assert_eq!(vpc.subnets[0].tags["tier"], "web");
}

#[test]
fn the_zones_follow_limit_and_selection_and_are_not_chosen_again() {
    let mut world = World::built("region: eu-west-1, network: {vpc: {availabilityZoneUsageLimit: 1}}");
    assert_eq!(world.account.subnets().len(), 2);
    let before = world.account.contents();
    world.set_spec("region: eu-west-1, network: {vpc: {availabilityZoneUsageLimit: 3}}");
    world.rest();
    assert_eq!(world.account.contents(), before, "an existing network is not laid out again");
    world.lose_status();
    world.rest();
    assert_eq!(world.account.contents(), before, "not after a lost status either");
}

#[test]
fn a_cluster_costs_two_writes_a_pass_with_creations() {
    let mut world = World::new("region: eu-west-1");
    let passes = world.rest();
    assert!(passes <= 14, "{passes} passes");
    assert!(world.writes() <= 16, "{} writes to the API server", world.writes());
}

#[test]
fn a_new_cluster_whose_vpcs_are_not_shown_makes_nothing() {
    let mut world = World::new("region: eu-west-1");
    world.account.set(|account| account.refused_describes = ["DescribeVpcs".to_owned()].into());
    for _ in 0..3 {
        world.pass();
        world.advance(Duration::from_mins(5));
    }
    assert_eq!(world.condition(ConditionType::VpcReady), "Unknown/Unauthorized");
    assert_eq!(world.condition(ConditionType::InternetGatewayReady), "False/WaitingForVpc");
    assert_eq!(world.account.calls(), 0);
}
