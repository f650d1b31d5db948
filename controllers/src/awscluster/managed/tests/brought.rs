//! A VPC that the user brings: the provider creates security groups and load balancers in it, and changes no resource
//! of the user.

use std::time::Duration;

use capa_api::cluster::status::Lifecycle;
use capa_api::common::Tags;
use capa_api::conditions::ConditionType;
use capa_api::meta;
use capa_cloud::ec2::security_group::Source;
use capa_fake_aws::Contents;

use super::load_balancers::failure_domains;
use super::world::World;

const GROUPS: ConditionType = ConditionType::ClusterSecurityGroupsReady;
const ANYWHERE: &str = "0.0.0.0/0";

/// A world with a VPC of the user.
pub(super) struct Brought {
    pub(super) world: World,
    pub(super) vpc: String,
    public: String,
    pub(super) private: String,
    nat_gateway: String,
    pub(super) before: Contents,
}

/// A VPC with a public subnet that uses the main route table, and a private one that routes to a NAT gateway.
pub(super) fn bring() -> Brought {
    let world = World::new("region: eu-west-1");
    let account = &world.account;
    let vpc = account.add_vpc("10.7.0.0/16", Tags::new());
    let internet_gateway = account.add_internet_gateway(Some(&vpc), Tags::new());
    let subnet = |range: &str, zone: &str| account.add_subnet(&vpc, range, zone, Tags::new());
    let public = subnet("10.7.0.0/24", "eu-west-1a");
    let private = subnet("10.7.1.0/24", "eu-west-1a");
    let main = account.route_tables()[0].id.clone();
    assert!(account.set_route(&main, ANYWHERE, Some(&internet_gateway)));
    let address = account.add_address(Tags::new());
    let nat_gateway = account.add_nat_gateway(&public, Tags::new());
    assert!(account.add_nat_gateway_address(&nat_gateway, &address));
    let table = account.add_route_table(&vpc, Tags::new());
    assert!(account.set_route(&table, ANYWHERE, Some(&nat_gateway)));
    assert!(account.set_association_of_subnet(&private, Some(&table)));
    let before = account.contents();
    Brought { world, vpc, public, private, nat_gateway, before }
}

impl Brought {
    /// A spec that names VPC and subnets, with more fields of the network and of the spec.
    pub(super) fn spec(&self, of_network: &str, more: &str) -> String {
        let Self { vpc, public, private, .. } = self;
        format!(
            "region: eu-west-1, network: {{vpc: {{id: {vpc}}}, subnets: [{{id: {public}}}, {{id: \
             {private}}}]{of_network}}}{more}"
        )
    }

    pub(super) fn build(mut self) -> Self {
        self.world.set_spec(&self.spec("", ""));
        self.world.rest();
        self
    }

    /// The names of the security groups, without those that AWS makes.
    fn groups(&self) -> Vec<String> {
        let groups = self.world.account.security_groups().into_iter();
        let mut names: Vec<String> = groups.map(|group| group.name).filter(|name| name != "default").collect();
        names.sort_unstable();
        names
    }
}

#[test]
fn a_cluster_in_a_vpc_of_the_user_is_provisioned() {
    let brought = bring().build();
    let world = &brought.world;
    for condition in [
        ConditionType::VpcReady,
        ConditionType::SubnetsReady,
        GROUPS,
        ConditionType::LoadBalancerReady,
        ConditionType::Ready,
    ] {
        assert_eq!(world.condition(condition), "True/Ready", "{condition}: {}", world.message(condition));
    }
    for condition in
        [ConditionType::InternetGatewayReady, ConditionType::NatGatewaysReady, ConditionType::RouteTablesReady]
    {
        assert_eq!(world.condition(condition), "absent", "{condition}");
    }
    assert_eq!(brought.groups(), ["dev-apiserver-lb", "dev-controlplane", "dev-lb", "dev-node"]);
    let network = world.status().network.unwrap();
    assert_eq!(network.vpc.as_ref().unwrap().id, brought.vpc);
    let mut subnets: Vec<_> = network.subnets.iter().map(|subnet| (subnet.id.as_str(), subnet.public)).collect();
    subnets.sort_unstable_by_key(|(_, is_public)| *is_public);
    assert_eq!(subnets, [(brought.private.as_str(), Some(false)), (brought.public.as_str(), Some(true))]);
    let balancer = &world.account.classic_load_balancers()[0];
    assert_eq!(balancer.subnet_ids, [brought.public.as_str()]);
    let vpc = world.status().resources.into_iter().find(|resource| resource.resource_type == "Vpc");
    assert_eq!(vpc.map(|vpc| vpc.lifecycle), Some(Lifecycle::Shared));
}

#[test]
fn a_subnet_with_ipv6_alone_to_the_internet_is_public() {
    let brought = bring();
    let account = &brought.world.account;
    let main = account.route_tables()[0].clone();
    assert!(account.set_route(&main.id, "::/0", main.default_target()));
    assert!(account.set_route(&main.id, ANYWHERE, None));
    let brought = brought.build();
    let network = brought.world.status().network.unwrap();
    let public = network.subnets.iter().find(|subnet| subnet.id == brought.public).unwrap();
    assert_eq!(public.public, Some(true));
}

#[test]
fn nothing_of_the_user_is_written_to_or_deleted() {
    let mut brought = bring().build();
    let world = &mut brought.world;
    world.advance(Duration::from_mins(10));
    let calls = world.account.calls();
    for _ in 0..10 {
        world.pass();
        world.advance(Duration::from_mins(10));
    }
    assert_eq!(world.account.calls(), calls, "a quiet cluster");
    let actions: Vec<&str> = world.account.journal().iter().map(|entry| entry.call.action()).collect();
    let of_network = ["Vpc", "Subnet", "Gateway", "Route", "Address", "Tags"];
    let is_of_network = |action: &&&str| of_network.iter().any(|part| action.contains(part));
    let written: Vec<_> = actions.iter().filter(is_of_network).collect();
    assert!(written.is_empty(), "{written:?}");
    world.delete();
    world.rest();
    assert!(world.cluster().is_none());
    assert_eq!(world.account.contents(), brought.before);
}

#[test]
fn tags_reach_what_is_ours_in_a_vpc_of_the_user_and_nothing_else() {
    let mut brought = bring().build();
    let theirs = |world: &World| {
        let account = &world.account;
        (account.vpcs(), account.subnets(), account.route_tables(), account.nat_gateways())
    };
    let before = theirs(&brought.world);
    let spec = brought.spec("", ", additionalTags: {team: a}");
    brought.world.set_spec(&spec);
    brought.world.rest();
    assert_eq!(theirs(&brought.world), before);
    for group in brought.world.account.security_groups() {
        let is_ours = group.name.starts_with("dev-");
        assert_eq!(group.tags.contains_key("team"), is_ours, "{}", group.name);
    }
    let balancers = brought.world.account.load_balancers();
    assert!(balancers.iter().all(|balancer| balancer.tags["team"] == "a"));
}

#[test]
fn nodes_reach_the_api_by_the_nat_gateways_of_the_user() {
    let brought = bring().build();
    let gateways = brought.world.account.nat_gateways();
    let gateway = gateways.iter().find(|gateway| gateway.id == brought.nat_gateway).unwrap();
    let wanted = Source::Cidr(format!("{}/32", gateway.public_ips[0]));
    let groups = brought.world.account.security_groups();
    let group = groups.iter().find(|group| group.name == "dev-apiserver-lb").unwrap();
    assert!(group.ingress.iter().any(|rule| rule.source == wanted), "{:?}", group.ingress);
}

#[test]
fn security_groups_of_the_user_take_the_place_of_ours() {
    let mut brought = bring();
    let account = brought.world.account.clone();
    let [node, balancer] =
        ["their-nodes", "their-balancer"].map(|name| account.add_security_group(&brought.vpc, name, Tags::new()));
    let overrides = format!(", securityGroupOverrides: {{node: {node}, apiserver-lb: {balancer}}}");
    brought.world.set_spec(&brought.spec(&overrides, ""));
    brought.world.rest();
    assert_eq!(brought.world.condition(GROUPS), "True/Ready", "{}", brought.world.message(GROUPS));
    assert_eq!(brought.groups(), ["dev-controlplane", "dev-lb", "their-balancer", "their-nodes"]);
    let groups = account.security_groups();
    let rules = |id: &str| groups.iter().find(|group| group.id == id).unwrap().ingress.clone();
    assert!(rules(&node).is_empty() && rules(&balancer).is_empty(), "the user's rules");
    let control_plane = groups.iter().find(|group| group.name == "dev-controlplane").unwrap();
    for theirs in [&node, &balancer] {
        let mut rules = control_plane.ingress.iter();
        assert!(rules.any(|rule| rule.source == Source::Group(theirs.clone())), "{theirs}");
    }
    assert_eq!(account.classic_load_balancers()[0].security_group_ids, [balancer]);
    let network = brought.world.status().network.unwrap().security_groups.unwrap();
    assert!(network.all.contains(&node), "{network:?}");
    brought.world.delete();
    brought.world.rest();
    assert_eq!(brought.groups(), ["their-balancer", "their-nodes"]);
}

#[test]
fn what_does_not_exist_is_named_and_nothing_is_made() {
    let brought = bring();
    let Brought { vpc, public, private, .. } = &brought;
    let network = |of: &str| format!("region: eu-west-1, network: {{{of}}}");
    for (spec, condition, expected, part) in [
        (
            network(&format!("vpc: {{id: vpc-0f0f0f0f}}, subnets: [{{id: {public}}}]")),
            ConditionType::VpcReady,
            "False/NotFound",
            "vpc-0f0f0f0f",
        ),
        (
            network(&format!("vpc: {{id: {vpc}}}, subnets: [{{id: {public}}}, {{id: subnet-0f0f0f0f}}]")),
            ConditionType::SubnetsReady,
            "False/NotFound",
            "subnet-0f0f0f0f",
        ),
        (
            network(&format!("vpc: {{id: {vpc}}}, subnets: [{{id: mine, cidrBlock: 10.7.9.0/24}}]")),
            ConditionType::SubnetsReady,
            "False/InvalidSpec",
            "creates no subnets",
        ),
        (network(&format!("vpc: {{id: {vpc}}}")), ConditionType::SubnetsReady, "False/InvalidSpec", "list them by id"),
        (
            network(&format!(
                "vpc: {{id: {vpc}}}, subnets: [{{id: {public}}}, {{id: {private}}}], securityGroupOverrides: {{node: \
                 sg-0f0f0f0f}}"
            )),
            GROUPS,
            "False/NotFound",
            "sg-0f0f0f0f",
        ),
        (
            network(&format!(
                "vpc: {{id: {vpc}}}, subnets: [{{id: {public}}}], securityGroupOverrides: {{nodes: sg-0f0f0f0f}}"
            )),
            GROUPS,
            "False/InvalidSpec",
            "no role of a security group",
        ),
    ] {
        let Brought { mut world, before, .. } = bring();
        world.set_spec(&spec);
        world.rest_for(Duration::from_mins(5));
        assert_eq!(world.condition(condition), expected, "{spec}: {}", world.message(condition));
        assert!(world.message(condition).contains(part), "{}", world.message(condition));
        assert!(!world.status().provisioned(), "{spec}");
        assert_eq!(world.account.calls(), 0, "{spec}: {:?}", world.account.journal());
        world.delete();
        world.rest();
        assert_eq!(world.account.contents(), before, "{spec}");
        assert!(world.cluster().is_none(), "{spec}");
    }
}

#[test]
fn a_lost_status_changes_nothing_in_a_vpc_of_the_user() {
    for is_deleted in [false, true] {
        let mut brought = bring().build();
        let world = &mut brought.world;
        world.advance(Duration::from_mins(10));
        let (calls, contents) = (world.account.calls(), world.account.contents());
        world.lose_status();
        if is_deleted {
            world.delete();
        }
        world.rest();
        if is_deleted {
            assert_eq!(world.account.contents(), brought.before);
            assert!(world.cluster().is_none());
        } else {
            assert_eq!((world.account.calls(), world.account.contents()), (calls, contents));
            assert!(world.status().provisioned());
        }
    }
}

#[test]
fn a_refused_observation_at_subnets_of_the_user_loses_no_machine_its_network() {
    for action in ["DescribeSubnets", "DescribeRouteTables", "DescribeNatGateways"] {
        let mut brought = bring().build();
        let world = &mut brought.world;
        let network = world.status().network;
        let calls = world.account.calls();
        world.account.set(|account| account.refused_describes.extend([action.to_owned()]));
        world.rest_for(Duration::from_mins(15));
        assert_eq!(world.status().network, network, "{action}");
        assert_eq!(world.account.calls(), calls, "{action}");
        assert_eq!(world.condition(ConditionType::Ready), "True/Ready", "{action}");
    }
}

#[test]
fn what_only_a_vpc_of_ours_needs_may_be_refused() {
    let mut brought = bring();
    brought.world.account.set(|account| {
        let refused =
            ["DescribeAvailabilityZones", "DescribeVpcAttribute", "DescribeInternetGateways", "DescribeAddresses"];
        account.refused_describes.extend(refused.map(str::to_owned));
    });
    brought = brought.build();
    let world = &mut brought.world;
    for condition in [ConditionType::VpcReady, ConditionType::SubnetsReady, ConditionType::Ready] {
        assert_eq!(world.condition(condition), "True/Ready", "{}", world.message(condition));
    }
    world.delete();
    world.rest();
    assert!(world.cluster().is_none());
    assert_eq!(world.account.contents(), brought.before);
}

#[test]
fn an_observation_that_fails_at_first_is_waited_for() {
    for (action, condition) in [
        ("DescribeSubnets", ConditionType::SubnetsReady),
        ("DescribeRouteTables", ConditionType::SubnetsReady),
        ("DescribeNatGateways", GROUPS),
    ] {
        let mut brought = bring();
        let spec = brought.spec("", "");
        brought.world.account.set(|account| account.refused_describes.extend([action.to_owned()]));
        brought.world.set_spec(&spec);
        brought.world.rest_for(Duration::from_mins(5));
        assert_eq!(brought.world.condition(condition), "False/Unauthorized", "{action}");
        assert!(!brought.world.status().provisioned(), "{action}");
        if condition == ConditionType::SubnetsReady {
            assert_eq!(brought.world.account.calls(), 0, "{action}");
        }
        brought.world.account.set(|account| account.refused_describes.clear());
        brought.world.rest();
        assert!(brought.world.status().provisioned(), "{action}");
    }
}

#[test]
fn nothing_is_made_for_a_load_balancer_that_has_no_subnet() {
    let brought = bring();
    let public = format!("{{id: {}}}, ", brought.public);
    let spec = brought.spec("", "").replace(&public, "");
    let mut world = brought.world;
    world.set_spec(&spec);
    world.rest_for(Duration::from_mins(5));
    assert_eq!(world.condition(ConditionType::LoadBalancerReady), "False/InvalidSpec");
    assert_eq!(world.account.calls(), 0, "{:?}", world.account.journal());
}

#[test]
fn the_control_plane_is_in_zones_of_the_load_balancer_only() {
    let brought = bring();
    let account = brought.world.account.clone();
    let private = account.add_subnet(&brought.vpc, "10.7.2.0/24", "eu-west-1b", Tags::new());
    let table = account.route_tables().into_iter().find(|table| table.association_of(&brought.private).is_some());
    assert!(account.set_association_of_subnet(&private, Some(&table.unwrap().id)));
    let subnets = format!("{{id: {}}}, {{id: {private}}}", brought.private);
    let spec = brought.spec("", "").replace(&format!("{{id: {}}}", brought.private), &subnets);
    let served = [("eu-west-1a".to_owned(), true), ("eu-west-1b".to_owned(), false)];
    for balancer in [
        "controlPlaneLoadBalancer: {loadBalancerType: nlb}".to_owned(),
        format!("controlPlaneLoadBalancer: {{loadBalancerType: nlb, subnets: [{}]}}", brought.public),
        "controlPlaneLoadBalancer: {loadBalancerType: classic}".to_owned(),
    ] {
        let mut world = brought.world.fork();
        world.set_spec(&format!("{spec}, {balancer}"));
        world.rest();
        assert_eq!(failure_domains(&world), served, "{balancer}");
    }
    let mut world = brought.world;
    world.set_spec(&format!("{spec}, controlPlaneLoadBalancer: {{loadBalancerType: nlb, scheme: internal}}"));
    world.rest();
    assert_eq!(failure_domains(&world), served.map(|(zone, _)| (zone, true)));
}

#[test]
fn a_cluster_that_has_made_nothing_in_a_vpc_of_another_one_can_be_deleted() {
    let mut brought = bring();
    let owned = Tags::from([(meta::cluster_tag("dev"), meta::OWNED_TAG_VALUE.to_owned())]);
    assert!(brought.world.account.set_tags(&brought.vpc, owned.clone()));
    brought.world.account.add_security_group(&brought.vpc, "dev-node", owned.clone());
    brought.world.account.add_classic_load_balancer("dev-apiserver", &brought.vpc, &[&brought.public], owned);
    let before = brought.world.account.contents();
    brought.world.set_spec(&brought.spec("", ""));
    brought.world.rest_for(Duration::from_mins(5));
    assert_eq!(brought.world.condition(ConditionType::VpcReady), "False/Conflict");
    brought.world.delete();
    brought.world.rest();
    assert!(brought.world.cluster().is_none(), "{}", brought.world.message(ConditionType::Ready));
    assert_eq!((brought.world.account.contents(), brought.world.account.calls()), (before, 0));
}

#[test]
fn a_private_nat_gateway_is_not_waited_for() {
    let mut brought = bring();
    let account = brought.world.account.clone();
    let private = account.add_nat_gateway(&brought.private, Tags::new());
    for table in account.route_tables().iter().filter(|table| !table.is_main) {
        assert!(account.set_route(&table.id, ANYWHERE, Some(&private)));
    }
    brought = brought.build();
    assert_eq!(brought.world.condition(ConditionType::Ready), "True/Ready", "{}", brought.world.message(GROUPS));
}

#[test]
fn an_edge_zone_is_refused_before_anything_is_made() {
    let mut brought = bring();
    let edge = brought.world.account.add_subnet(&brought.vpc, "10.7.9.0/24", "eu-west-1-lon-1a", Tags::new());
    let spec = brought.spec("", "").replace(&brought.private, &edge);
    brought.world.set_spec(&spec);
    brought.world.rest_for(Duration::from_mins(5));
    let world = &brought.world;
    assert_eq!(world.condition(ConditionType::SubnetsReady), "False/InvalidSpec");
    assert!(world.message(ConditionType::SubnetsReady).contains("eu-west-1-lon-1a"));
    assert_eq!(world.account.calls(), 0);
}

#[test]
fn a_group_of_the_user_stays_whatever_tags_it_has() {
    let mut brought = bring();
    let owned = Tags::from([(capa_api::meta::cluster_tag("dev"), "owned".to_owned())]);
    let theirs = brought.world.account.add_security_group(&brought.vpc, "theirs", owned);
    // The role of a bastion, which the cluster does not have, is ignored.
    let overrides = format!(", securityGroupOverrides: {{node: {theirs}, bastion: {theirs}}}");
    brought.world.set_spec(&brought.spec(&overrides, ""));
    brought.world.rest();
    brought.world.delete();
    brought.world.rest();
    assert_eq!(brought.groups(), ["theirs"]);
    assert!(brought.world.cluster().is_none());
}

#[test]
fn a_deletion_ends_although_the_vpc_of_the_user_is_gone() {
    let mut brought = bring().build();
    assert!(brought.world.account.remove_vpc(&brought.vpc));
    brought.world.delete();
    brought.world.rest();
    assert!(brought.world.cluster().is_none());
}

#[test]
fn a_fault_at_any_call_in_a_vpc_of_the_user_changes_nothing() {
    use capa_fake_aws::Fault;
    let whole = bring().build();
    let (expected, calls) = (whole.world.account.contents(), whole.world.account.calls());
    for call in 0..calls {
        for fault in [Fault::CrashBefore, Fault::CrashAfter, Fault::AnswerLost, Fault::Throttled] {
            let brought = bring();
            brought.world.account.fail(call, fault);
            let mut brought = brought.build();
            assert_eq!(brought.world.account.contents(), expected, "{call} {fault:?}");
            brought.world.delete();
            brought.world.rest();
            assert_eq!(brought.world.account.contents(), brought.before, "{call} {fault:?}");
        }
    }
}
