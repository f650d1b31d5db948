//! Secondary IPv4 ranges of the VPC.

use std::time::Duration;

use capa_api::conditions::ConditionType;
use capa_fake_aws::Fault;

use super::world::World;

const READY: ConditionType = ConditionType::SecondaryCidrsReady;
const PODS: &str = "100.64.0.0/16";

/// A cluster with a subnet in a secondary range.
fn spec() -> String {
    format!(
        "region: eu-west-1, network: {{vpc: {{secondaryCidrBlocks: [{{ipv4CidrBlock: {PODS}}}]}}, subnets: [{{id: \
         nodes, cidrBlock: 10.0.0.0/24, availabilityZone: eu-west-1a, isPublic: true}}, {{id: pods, cidrBlock: \
         100.64.0.0/18, availabilityZone: eu-west-1a}}]}}"
    )
}

fn order(world: &World, action: &str) -> Vec<usize> {
    let journal = world.account.journal();
    let made = journal.iter().enumerate();
    let made = made.filter(|(_, entry)| entry.call.action() == action);
    made.map(|(number, _)| number).collect()
}

#[test]
fn secondary_ranges_are_added_before_their_subnets() {
    let mut world = World::new(&spec());
    world.account.set(|account| account.network_pending = Duration::from_secs(20));
    world.rest();
    let field = "network.vpc.secondaryCidrBlocks[].ipv4CidrBlock";
    assert_eq!(world.account.vpcs()[0].cidr_blocks, ["10.0.0.0/16", PODS], "{field}");
    let (associated, subnets) = (order(&world, "AssociateVpcCidrBlock"), order(&world, "CreateSubnet"));
    assert_eq!(associated.len(), 1);
    assert!(associated[0] < subnets[1], "{associated:?} {subnets:?}");
    assert_eq!(world.condition(READY), "True/Ready");
    let published = world.status().network.unwrap().vpc.unwrap();
    assert_eq!(published.cidr_blocks, ["10.0.0.0/16", PODS]);
    world.delete_completely();
}

#[test]
fn a_range_can_be_added_to_a_running_cluster_and_stays() {
    let plain = "region: eu-west-1";
    let mut world = World::built(plain);
    assert_eq!(world.condition(READY), "absent");
    let more = format!("{plain}, network: {{vpc: {{secondaryCidrBlocks: [{{ipv4CidrBlock: {PODS}}}]}}}}");
    world.set_spec(&more);
    world.rest();
    assert_eq!(world.account.vpcs()[0].cidr_blocks.len(), 2);
    let calls = world.account.calls();
    world.set_spec(plain);
    world.rest();
    assert_eq!(world.account.calls(), calls, "machines may live there");
    assert_eq!(world.account.vpcs()[0].cidr_blocks.len(), 2);
}

#[test]
fn a_lost_answer_adds_no_range_twice() {
    let index = order(&World::built(&spec()), "AssociateVpcCidrBlock")[0];
    for fault in [Fault::CrashAfter, Fault::AnswerLost, Fault::CrashBefore] {
        let mut world = World::new(&spec());
        world.account.fail(index, fault);
        world.rest();
        assert_eq!(world.account.vpcs()[0].cidr_blocks.len(), 2, "{fault:?}");
        assert_eq!(world.account.subnets().len(), 2, "{fault:?}");
    }
}

#[test]
fn ranges_that_overlap_are_named_before_anything_is_made() {
    for (ranges, words) in [
        ("{ipv4CidrBlock: 10.0.128.0/17}", "overlaps with 10.0.0.0/16"),
        ("{ipv4CidrBlock: 100.64.0.0/16}, {ipv4CidrBlock: 100.64.1.0/24}", "overlaps with 100.64.0.0/16"),
        ("{ipv4CidrBlock: 100.64.0.0/8}", "from /16 to /28"),
    ] {
        let mut world =
            World::new(&format!("region: eu-west-1, network: {{vpc: {{secondaryCidrBlocks: [{ranges}]}}}}"));
        world.rest_for(Duration::from_mins(2));
        assert_eq!(world.condition(READY), "False/InvalidSpec", "{ranges}");
        let message = world.message(READY);
        assert!(message.contains(words), "{message}");
        assert_eq!(world.account.calls(), 0, "{ranges}");
    }
}

#[test]
fn the_quota_of_ranges_is_named() {
    let ranges: Vec<String> = (64..69).map(|number| format!("{{ipv4CidrBlock: 100.{number}.0.0/16}}")).collect();
    let mut world =
        World::new(&format!("region: eu-west-1, network: {{vpc: {{secondaryCidrBlocks: [{}]}}}}", ranges.join(", ")));
    world.rest_for(Duration::from_mins(2));
    assert_eq!(world.condition(READY), "False/QuotaExceeded");
    assert!(world.message(READY).contains("L-83CA0A9D"));
}
