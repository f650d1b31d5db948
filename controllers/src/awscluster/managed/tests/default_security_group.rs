//! The default security group of the VPC.

use std::time::Duration;

use capa_api::conditions::ConditionType;
use capa_cloud::ec2::SecurityGroup;
use capa_cloud::ec2::security_group::{Rule, Source, Traffic};

use super::brought::bring;
use super::world::World;

const GROUPS: ConditionType = ConditionType::ClusterSecurityGroupsReady;
const EMPTIED: &str = "region: eu-west-1, network: {vpc: {emptyRoutesDefaultVPCSecurityGroup: true}}";

fn default_group(world: &World) -> SecurityGroup {
    let mut groups = world.account.security_groups().into_iter();
    groups.find(|group| group.name == "default").unwrap()
}

fn rule(protocol: &str, source: Source<String>) -> Rule<String> {
    Rule { traffic: Traffic::new(protocol.parse().unwrap(), 22, 22), source, description: String::new() }
}

#[test]
fn the_default_group_has_no_rules_of_aws_where_the_spec_asks() {
    let world = World::built(EMPTIED);
    assert_eq!(world.condition(GROUPS), "True/Ready", "{}", world.message(GROUPS));
    let group = default_group(&world);
    assert_eq!((group.ingress, group.egress), (vec![], vec![]), "network.vpc.emptyRoutesDefaultVPCSecurityGroup");
    let group = default_group(&World::built("region: eu-west-1"));
    assert_eq!((group.ingress.len(), group.egress.len()), (1, 1));
}

#[test]
fn rules_of_the_user_in_the_default_group_stay() {
    let mut world = World::built(EMPTIED);
    let id = default_group(&world).id;
    let of_user = rule("tcp", Source::Cidr("192.0.2.0/24".to_owned()));
    let also_of_user = rule("-1", Source::Cidr("0.0.0.0/0".to_owned()));
    let as_aws_makes_it = rule("-1", Source::Group(id.clone()));
    for added in [&of_user, &also_of_user, &as_aws_makes_it] {
        assert!(world.account.add_rule(&id, added.clone()));
    }
    world.events.clear();
    world.advance(Duration::from_mins(10));
    world.pass();
    assert_eq!(default_group(&world).ingress, [of_user, also_of_user]);
    assert_eq!(world.reasons(), ["SuccessfulRevokeSecurityGroupIngress"]);
}

#[test]
fn the_default_group_in_a_vpc_of_the_user_stays_as_it_is() {
    let mut brought = bring();
    let before = default_group(&brought.world);
    let spec = brought.spec("", "");
    let spec = spec.replacen("vpc: {", "vpc: {emptyRoutesDefaultVPCSecurityGroup: true, ", 1);
    brought.world.set_spec(&spec);
    brought.world.rest();
    assert_eq!(brought.world.condition(ConditionType::Ready), "True/Ready");
    assert_eq!(default_group(&brought.world), before);
}

#[test]
fn a_refusal_to_empty_the_default_group_is_named() {
    let mut world = World::new(EMPTIED);
    world.account.set(|account| account.refused_calls = [String::from("RevokeSecurityGroupEgress")].into());
    world.rest_for(Duration::from_mins(10));
    assert_eq!(world.condition(GROUPS), "False/Unauthorized");
    assert!(world.message(GROUPS).contains("default security group"), "{}", world.message(GROUPS));
}
