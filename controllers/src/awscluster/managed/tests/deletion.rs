//! The deletion of a cluster, and what prevents it.

use std::time::Duration;

use capa_api::common::Tags;
use capa_api::conditions::ConditionType;
use capa_cloud::ec2::IpProtocol;
use capa_cloud::ec2::security_group::{Rule, Source, Traffic};
use capa_fake_aws::Fault;

use super::world::World;

#[test]
fn a_deleted_cluster_leaves_nothing_in_aws() {
    let mut world = World::built("region: eu-west-1");
    world.delete_completely();
}

#[test]
fn a_half_made_cluster_can_be_deleted_after_each_pass() {
    for passes in 0..6 {
        let mut world = World::new("region: eu-west-1");
        world.account.set(|account| account.hidden = Duration::from_secs(20));
        for _ in 0..passes {
            world.pass();
        }
        world.delete_completely();
    }
}

#[test]
fn machines_keep_the_network_until_they_are_gone() {
    let mut world = World::built("region: eu-west-1");
    let calls = world.account.calls();
    world.set_machines(&["dev-cp-0"]);
    world.delete();
    world.rest();
    assert_eq!(world.account.calls(), calls);
    assert_eq!(world.condition(ConditionType::Ready), "True/DeletionBlocked", "machines go on working");
    assert!(world.message(ConditionType::Ready).contains("dev-cp-0"));
    world.set_machines(&[]);
    world.assert_gone();
}

#[test]
fn a_foreign_subnet_blocks_the_deletion_by_name_and_stays() {
    let mut world = World::built("region: eu-west-1");
    let vpc = world.account.vpcs()[0].id.clone();
    let foreign = world.account.add_subnet(&vpc, "10.0.48.0/24", "eu-west-1a", Tags::new());
    world.delete();
    for _ in 0..20 {
        world.pass();
        world.advance(Duration::from_secs(30));
    }
    assert_eq!(world.condition(ConditionType::VpcReady), "False/DeletionBlocked");
    assert!(world.message(ConditionType::VpcReady).contains(&foreign));
    assert_eq!(world.account.subnets().len(), 1, "everything else is deleted");
    assert!(world.account.foreign_writes().is_empty());
    assert!(world.account.remove_subnet(&foreign));
    world.assert_gone();
}

#[test]
fn what_is_in_use_is_waited_for_and_then_blocks() {
    let mut world = World::built(
        "region: eu-west-1, controlPlaneLoadBalancer: {loadBalancerType: disabled}, network: {subnets: [{id: front, \
         cidrBlock: 10.0.0.0/24, availabilityZone: eu-west-1a, isPublic: true}]}",
    );
    let first = world.account.calls();
    for call in 0..400 {
        world.account.fail(first + call, Fault::Refused("DependencyViolation"));
    }
    world.delete();
    world.pass();
    assert_eq!(world.condition(ConditionType::SubnetsReady), "False/Deleting");
    world.advance(Duration::from_secs(601));
    world.pass();
    assert_eq!(world.condition(ConditionType::SubnetsReady), "False/DeletionBlocked");
    assert!(world.message(ConditionType::SubnetsReady).contains("DependencyViolation"));
}

#[test]
fn what_uses_the_network_is_named_ten_minutes_after_the_deletion() {
    let mut world = World::built("region: eu-west-1, controlPlaneLoadBalancer: {loadBalancerType: disabled}");
    let subnet = world.account.subnets()[0].clone();
    let groups = world.account.security_groups();
    let node = groups.iter().find(|group| group.name == "dev-node").expect("the group").id.clone();
    let of_user = world.account.add_security_group(&subnet.vpc_id, "database", Tags::new());
    let from_nodes = Rule {
        traffic: Traffic::new(IpProtocol::Tcp, 5432, 5432),
        source: Source::Group(node.clone()),
        description: String::new(),
    };
    assert!(world.account.add_rule(&of_user, from_nodes));
    let interface = world.account.add_network_interface(&subnet.id, &[&node], "aws-K8S-i-0123456789abcdef0");
    world.delete();
    world.rest_for(Duration::from_mins(9));
    assert_eq!(world.condition(ConditionType::SubnetsReady), "False/Deleting");
    assert!(!world.account.describes().contains_key("DescribeNetworkInterfaces"));
    world.rest_for(Duration::from_mins(5));
    for (condition, named) in [
        (ConditionType::SubnetsReady, "aws-K8S-i-0123456789abcdef0, in account 111122223333"),
        (ConditionType::ClusterSecurityGroupsReady, &of_user),
    ] {
        assert_eq!(world.condition(condition), "False/DeletionBlocked");
        let message = world.message(condition);
        assert!(message.contains(&interface) && message.contains(named), "{message}");
    }
    assert!(world.account.remove_network_interface(&interface));
    assert!(world.account.remove_security_group(&of_user));
    world.assert_gone();
}

#[test]
fn a_deletion_needs_no_permission_to_describe_network_interfaces() {
    let mut world = World::built("region: eu-west-1, controlPlaneLoadBalancer: {loadBalancerType: disabled}");
    let describe = "DescribeNetworkInterfaces".to_owned();
    world.account.set(|account| account.refused_describes = [describe].into());
    let subnet = world.account.subnets()[0].id.clone();
    let interface = world.account.add_network_interface(&subnet, &[], "");
    world.delete();
    world.rest_for(Duration::from_mins(15));
    let message = world.message(ConditionType::SubnetsReady);
    assert!(message.contains("UnauthorizedOperation") && message.contains("DependencyViolation"), "{message}");
    assert!(world.account.remove_network_interface(&interface));
    world.assert_gone();
}

#[test]
fn nothing_is_called_for_a_cluster_for_which_nothing_was_made() {
    let mut world = World::new("region: eu-west-1");
    // A finalizer of somebody else keeps the object.
    world.edit(|cluster| cluster.metadata.finalizers = Some(vec!["example.org/other".to_owned()]));
    world.delete();
    world.pass();
    assert_eq!(world.account.calls(), 0);
    assert_eq!(world.account.describes().values().sum::<usize>(), 0);
}

#[test]
fn a_deletion_goes_on_without_the_cluster_object() {
    let mut world = World::built("region: eu-west-1");
    world.forget_owner();
    world.delete_completely();
}

#[test]
fn a_surplus_gateway_goes_with_the_cluster() {
    let mut world = World::aged("region: eu-west-1");
    let tags = world.account.internet_gateways()[0].tags.clone();
    world.account.add_internet_gateway(None, tags);
    world.delete_completely();
}

#[test]
fn a_refused_deletion_of_a_young_resource_is_not_its_end() {
    let mut world = World::built("region: eu-west-1");
    let first = world.account.calls();
    for call in 0..12 {
        world.account.fail(first + call, Fault::Throttled);
    }
    world.delete();
    world.pass();
    world.account.set(|account| account.hidden = Duration::from_secs(55));
    world.assert_gone();
}

#[test]
fn no_observation_that_fails_ends_a_deletion() {
    let mut world = World::built("region: eu-west-1");
    let refused = ["DescribeVpcs", "DescribeSubnets", "DescribeInternetGateways"].map(str::to_owned);
    world.account.set(|account| account.refused_describes = refused.into());
    world.delete();
    for _ in 0..30 {
        world.pass();
        world.advance(Duration::from_secs(60));
    }
    assert!(world.cluster().is_some(), "what AWS does not show may be there");
    world.account.set(|account| account.refused_describes.clear());
    world.assert_gone();
}

#[test]
fn a_young_vpc_that_its_deletion_does_not_find_is_looked_for() {
    let mut world = World::new("region: eu-west-1");
    world.pass();
    world.delete();
    world.account.fail(world.account.calls(), Fault::Refused("InvalidVpcID.NotFound"));
    world.pass();
    world.account.set(|account| account.hidden = Duration::from_secs(55));
    world.assert_gone();
}
