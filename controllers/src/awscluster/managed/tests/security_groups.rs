//! Security groups and their rules.

use std::time::Duration;

use capa_api::common::Tags;
use capa_api::conditions::ConditionType;
use capa_cloud::ec2::security_group::{Rule, Source, Traffic};
use capa_cloud::ec2::{IpProtocol, SecurityGroup};
use capa_fake_aws::Fault;

use super::world::World;

const ONE_ZONE: &str = "region: eu-west-1, network: {vpc: {availabilityZoneUsageLimit: 1}}";
const READY: ConditionType = ConditionType::ClusterSecurityGroupsReady;

fn group(world: &World, name: &str) -> SecurityGroup {
    let mut groups = world.account.security_groups().into_iter();
    groups.find(|group| group.name == name).expect("the group exists")
}

fn rule(port: i64, range: &str, description: &str) -> Rule<String> {
    Rule {
        traffic: Traffic::new(IpProtocol::Tcp, port, port),
        source: Source::Cidr(range.to_owned()),
        description: description.to_owned(),
    }
}

/// The ranges from which a group admits traffic to a port, sorted.
fn ranges(group: &SecurityGroup, port: i64) -> Vec<String> {
    let traffic = Traffic::new(IpProtocol::Tcp, port, port);
    let rules = group.ingress.iter().filter(|rule| rule.traffic == traffic);
    let mut ranges: Vec<String> = rules
        .filter_map(|rule| match &rule.source {
            Source::Cidr(range) => Some(range.clone()),
            _ => None,
        })
        .collect();
    ranges.sort_unstable();
    ranges
}

#[test]
fn a_cluster_has_the_groups_of_capa() {
    let world = World::built(ONE_ZONE);
    assert_eq!(world.condition(READY), "True/Ready");
    for role in ["apiserver-lb", "lb", "controlplane", "node"] {
        let group = group(&world, &format!("dev-{role}"));
        assert_eq!(group.tags["sigs.k8s.io/cluster-api-provider-aws/role"], role);
        assert_eq!(group.tags["Name"], format!("dev-{role}"));
        let of_kubernetes = group.tags.get("kubernetes.io/cluster/dev").map(String::as_str);
        assert_eq!(of_kubernetes, (role == "lb").then_some("owned"), "{role}");
    }
    let [node, control_plane] = ["dev-node", "dev-controlplane"].map(|name| group(&world, name));
    let kubelet = Traffic::new(IpProtocol::Tcp, 10_250, 10_250);
    let from = |source: &SecurityGroup| {
        let is_from = |rule: &Rule<String>| rule.source == Source::Group(source.id.clone());
        node.ingress.iter().any(|rule| rule.traffic == kubelet && is_from(rule))
    };
    assert!(from(&node) && from(&control_plane));
}

#[test]
fn the_balancer_admits_the_addresses_of_the_nat_gateways_and_nothing_wider_before() {
    let spec = "region: eu-west-1, controlPlaneLoadBalancer: {ingressRules: [{description: office, protocol: tcp, \
                fromPort: 6443, toPort: 6443, cidrBlocks: [192.0.2.0/24]}]}, network: {vpc: \
                {availabilityZoneUsageLimit: 2}}";
    let mut world = World::new(spec);
    let mut waited = false;
    world.account.set(|account| account.address_quota = 1);
    for _ in 0..10 {
        world.pass();
        world.advance(Duration::from_secs(10));
        let groups = world.account.security_groups();
        let balancer = groups.iter().find(|group| group.name == "dev-apiserver-lb");
        let admitted = balancer.map(|group| ranges(group, 6443)).unwrap_or_default();
        assert!(!admitted.contains(&"0.0.0.0/0".to_owned()));
        waited |= world.condition(READY) == "False/WaitingForNatGateways";
    }
    assert!(waited);
    world.account.set(|account| account.address_quota = 5);
    world.rest();
    let addresses = world.account.addresses().into_iter();
    let mut expected: Vec<String> = addresses.map(|address| format!("{}/32", address.public_ip)).collect();
    expected.push("192.0.2.0/24".to_owned());
    expected.sort_unstable();
    assert_eq!(ranges(&group(&world, "dev-apiserver-lb"), 6443), expected);
    assert_eq!(world.condition(READY), "True/Ready");
}

#[test]
fn all_ranges_of_the_vpc_reach_an_internal_balancer() {
    let mut world = World::aged(
        "region: eu-west-1, controlPlaneLoadBalancer: {scheme: internal}, network: {vpc: {availabilityZoneUsageLimit: \
         1}}",
    );
    let vpc = world.account.vpcs()[0].id.clone();
    assert!(world.account.add_cidr_block(&vpc, "10.9.0.0/16"));
    world.rest();
    let admitted = ranges(&group(&world, "dev-apiserver-lb"), 6443);
    assert_eq!(admitted, ["0.0.0.0/0", "10.0.0.0/16", "10.9.0.0/16"]);
}

#[test]
fn drift_of_rules_is_repaired_in_one_pass() {
    let mut world = World::aged(ONE_ZONE);
    let before = world.account.contents();
    let node = group(&world, "dev-node");
    let (first, extra) = (node.ingress[0].clone(), rule(22, "0.0.0.0/0", "by hand"));
    world.events.clear();
    assert!(world.account.remove_rule(&node.id, &first));
    world.pass();
    assert_eq!(world.reasons(), ["SuccessfulAuthorizeSecurityGroupIngress"]);
    world.events.clear();
    assert!(world.account.add_rule(&node.id, extra));
    world.pass();
    assert_eq!(world.reasons(), ["SuccessfulRevokeSecurityGroupIngress"]);
    world.rest();
    assert_eq!(world.account.contents(), before);
}

#[test]
fn a_changed_description_is_no_drift() {
    let mut world = World::aged(ONE_ZONE);
    let node = group(&world, "dev-node");
    let first = node.ingress[0].clone();
    assert!(world.account.remove_rule(&node.id, &first));
    let renamed = Rule { description: "renamed".to_owned(), ..first };
    assert!(world.account.add_rule(&node.id, renamed));
    let calls = world.account.calls();
    world.rest();
    assert_eq!(world.account.calls(), calls);
}

#[test]
fn rules_of_the_cloud_controller_in_its_group_stay() {
    let spec = "region: eu-west-1, controlPlaneLoadBalancer: {loadBalancerType: nlb}, network: {vpc: \
                {availabilityZoneUsageLimit: 1}}";
    let mut world = World::aged(spec);
    let lb = group(&world, "dev-lb");
    assert!(world.account.add_rule(&lb.id, rule(31_000, "0.0.0.0/0", "kubernetes.io/rule/nlb/client")));
    let before = world.account.contents();
    world.rest();
    assert_eq!(world.account.contents(), before);
    let own = rule(9_345, "10.0.0.0/16", "Allow NLB traffic to the control plane instances.");
    assert!(world.account.add_rule(&lb.id, own));
    world.rest();
    assert_eq!(world.account.contents(), before, "the spec does not name the port any more");
}

#[test]
fn a_rule_removed_from_the_spec_is_one_revoke() {
    let spec = |rules: &str| format!("region: eu-west-1, network: {{vpc: {{availabilityZoneUsageLimit: 1}}, {rules}}}");
    let rules = "additionalNodeIngressRules: [{description: a, protocol: tcp, fromPort: 1, toPort: 1, cidrBlocks: \
                 [10.0.0.0/8]}, {description: b, protocol: tcp, fromPort: 2, toPort: 2, cidrBlocks: [10.0.0.0/8]}]";
    let mut world = World::aged(&spec(rules));
    assert_eq!(ranges(&group(&world, "dev-node"), 2), ["10.0.0.0/8"]);
    world.set_spec(&spec("additionalNodeIngressRules: []"));
    let calls = world.account.calls();
    world.rest();
    let journal = world.account.journal();
    let actions: Vec<&str> = journal[calls..].iter().map(|entry| entry.call.action()).collect();
    assert_eq!(actions, ["RevokeSecurityGroupIngress"]);
    assert_eq!(ranges(&group(&world, "dev-node"), 1), [""; 0]);
}

#[test]
fn a_name_that_is_taken_is_a_conflict() {
    let mut world = World::new(ONE_ZONE);
    world.pass();
    let vpc = world.account.vpcs()[0].id.clone();
    let foreign = world.account.add_security_group(&vpc, "dev-node", Tags::new());
    for _ in 0..10 {
        world.pass();
        world.advance(Duration::from_secs(10));
    }
    assert_eq!(world.condition(READY), "False/Conflict");
    assert!(world.message(READY).contains(&foreign));
    assert!(world.account.foreign_writes().is_empty());
    assert!(world.account.remove_security_group(&foreign));
    world.rest();
    assert_eq!(world.condition(READY), "True/Ready");
}

#[test]
fn a_foreign_group_that_names_one_of_ours_blocks_the_deletion() {
    let mut world = World::aged(ONE_ZONE);
    let vpc = world.account.vpcs()[0].id.clone();
    let foreign = world.account.add_security_group(&vpc, "mine", Tags::new());
    let node = group(&world, "dev-node").id;
    let from_node = Rule { source: Source::Group(node), ..rule(80, "", "") };
    assert!(world.account.add_rule(&foreign, from_node));
    world.delete();
    for _ in 0..40 {
        world.pass();
        world.advance(Duration::from_secs(30));
    }
    assert_eq!(world.condition(READY), "False/DeletionBlocked");
    assert!(world.account.foreign_writes().is_empty());
    assert!(world.account.remove_security_group(&foreign));
    world.assert_gone();
}

#[test]
fn a_refused_rule_names_the_quota() {
    let mut world = World::new(ONE_ZONE);
    world.account.set(|account| account.rules_quota = 3);
    for _ in 0..10 {
        world.pass();
        world.advance(Duration::from_secs(10));
    }
    assert_eq!(world.condition(READY), "False/QuotaExceeded");
    assert!(world.message(READY).contains("L-0EA8095F"));
}

#[test]
fn rules_that_are_there_already_are_observed_again() {
    let undisturbed = World::built(ONE_ZONE);
    let journal = undisturbed.account.journal();
    let mut calls = journal.iter();
    let call = calls.position(|entry| entry.call.action() == "AuthorizeSecurityGroupIngress");
    let mut world = World::new(ONE_ZONE);
    world.account.fail(call.unwrap(), Fault::Refused("InvalidPermission.Duplicate"));
    world.rest_watched(|world, _| assert_ne!(world.condition(READY), "False/InvalidSpec"));
    assert_eq!(world.account.contents(), undisturbed.account.contents());
}

#[test]
fn a_wrong_rule_in_the_spec_closes_nothing() {
    let spec = |ranges: &str| {
        format!(
            "region: eu-west-1, network: {{vpc: {{availabilityZoneUsageLimit: 1}}, nodePortIngressRuleCidrBlocks: \
             {ranges}}}"
        )
    };
    let mut world = World::aged(&spec("[10.0.0.0/8]"));
    let calls = world.account.calls();
    world.set_spec(&spec("[10.0.0.0]"));
    for _ in 0..3 {
        world.pass();
        world.advance(Duration::from_secs(30));
    }
    assert_eq!(world.condition(READY), "False/InvalidSpec");
    assert_eq!(world.account.calls(), calls);
}

#[test]
fn a_refused_rule_keeps_no_other_one_from_being_admitted_or_removed() {
    let rule_of_group = "additionalNodeIngressRules: [{description: a, protocol: tcp, fromPort: 80, toPort: 80, \
                         sourceSecurityGroupIds: [sg-typo]}]";
    let spec = format!("region: eu-west-1, network: {{vpc: {{availabilityZoneUsageLimit: 1}}, {rule_of_group}}}");
    let mut world = World::new(&spec);
    for _ in 0..20 {
        world.pass();
        world.advance(Duration::from_secs(30));
    }
    assert_eq!(world.condition(READY), "False/NotFound");
    let node = group(&world, "dev-node");
    assert!(!node.ingress.is_empty());
    assert!(world.account.add_rule(&node.id, rule(22, "0.0.0.0/0", "by hand")));
    world.pass();
    assert_eq!(ranges(&group(&world, "dev-node"), 22), [""; 0]);
}

#[test]
fn more_rules_than_fit_beside_the_old_ones_take_their_place() {
    let spec = |part: u8| {
        let ranges: Vec<String> = (0..40).map(|number| format!("10.{part}.{number}.0/24")).collect();
        let network = format!("nodePortIngressRuleCidrBlocks: [{}]", ranges.join(", "));
        format!("region: eu-west-1, network: {{vpc: {{availabilityZoneUsageLimit: 1}}, {network}}}")
    };
    let mut world = World::aged(&spec(1));
    world.set_spec(&spec(2));
    world.rest();
    assert_eq!(world.condition(READY), "True/Ready");
    let node = group(&world, "dev-node");
    let of_first = |rule: &&Rule<String>| matches!(&rule.source, Source::Cidr(range) if range.starts_with("10.1."));
    assert_eq!(node.ingress.iter().filter(of_first).count(), 0);
}

#[test]
fn a_group_made_again_by_hand_takes_the_place_of_the_old_one() {
    let mut world = World::aged(ONE_ZONE);
    let before = world.account.contents();
    let node = group(&world, "dev-node");
    assert!(world.account.remove_security_group(&node.id));
    let again = world.account.add_security_group(&node.vpc_id, "dev-node", node.tags.clone());
    world.rest();
    world.advance(Duration::from_secs(60));
    world.rest();
    assert_eq!(world.condition(READY), "True/Ready");
    assert_eq!(group(&world, "dev-node").id, again);
    assert_eq!(world.account.contents().vpcs[0].security_groups.len(), before.vpcs[0].security_groups.len());
}

#[test]
fn a_refused_rule_keeps_open_nothing_that_it_is_to_replace() {
    let spec = |source: &str| {
        format!(
            "region: eu-west-1, network: {{vpc: {{availabilityZoneUsageLimit: 1}}, additionalNodeIngressRules: \
             [{{description: ssh, protocol: tcp, fromPort: 22, toPort: 22, {source}}}]}}"
        )
    };
    let mut world = World::aged(&spec("cidrBlocks: [0.0.0.0/0]"));
    assert_eq!(ranges(&group(&world, "dev-node"), 22), ["0.0.0.0/0"]);
    world.set_spec(&spec("sourceSecurityGroupIds: [sg-typo]"));
    world.rest_for(Duration::from_mins(5));
    assert_eq!(ranges(&group(&world, "dev-node"), 22), [""; 0]);
}
