//! What the provider says before it does anything.

use std::time::Duration;

use capa_cloud::ec2::route_table::ANYWHERE;
use capa_cloud::ec2::subnet::Attribute;
use capa_runtime::reconcile::Next;

use super::super::PlanFacts;
use super::super::preview::{Preview, What};
use super::world::{PASSES, World};

const SPEC: &str = "region: eu-west-1, network: {vpc: {availabilityZoneUsageLimit: 1}}, controlPlaneLoadBalancer: \
                    {loadBalancerType: nlb}";

fn preview(world: &World) -> Preview {
    world.preview().expect("a preview").0
}

/// The calls of a preview that wait for nothing.
fn ready(preview: &Preview) -> Vec<&'static str> {
    let entries = preview.sections.iter().flat_map(|section| &section.entries);
    let calls = entries.filter_map(|entry| match &entry.what {
        What::Create(call) | What::Delete(call) | What::Change { call, .. } => Some(call),
        What::Wait { .. } | What::Problem { .. } => None,
    });
    let mut ready: Vec<_> = calls
        .filter(|call| call.waits_for.is_none())
        .map(|call| call.action)
        .collect();
    ready.sort_unstable();
    ready
}

/// Passes until the cluster is at rest or gone. Each makes the calls that a preview shows before it.
fn rest_as_shown(world: &mut World) {
    for _ in 0..PASSES {
        if world.cluster().is_none() {
            return;
        }
        let preview = preview(world);
        let before = world.account.calls();
        let next = world.pass();
        let mut made: Vec<&str> = world.account.journal()[before..]
            .iter()
            .map(|entry| entry.call.action())
            .collect();
        made.sort_unstable();
        assert_eq!(made, ready(&preview), "{preview}");
        if next == Some(Next::AwaitChange) {
            assert_eq!(
                (preview.has_changes(), preview.has_problems()),
                (false, false),
                "{preview}"
            );
            return;
        }
        world.advance(Duration::from_secs(15));
    }
    panic!("the cluster comes to no rest");
}

#[test]
fn each_pass_makes_the_calls_that_a_preview_shows() {
    let mut world = World::new(SPEC);
    rest_as_shown(&mut world);
    world.delete();
    rest_as_shown(&mut world);
    assert!(world.account.is_empty());
}

#[test]
fn a_preview_of_a_new_cluster_shows_all_resources_in_words() {
    let world = World::new(SPEC);
    let text = preview(&world).to_string();
    for part in [
        "Cluster dev in eu-west-1, account 111122223333\n\nVpcReady\n  + VPC dev-vpc: CreateVpc cidrBlock: 10.0.0.0/16\n",
        "\nSubnetsReady\n  + subnet dev-subnet-private-eu-west-1a: CreateSubnet cidrBlock: 10.0.128.0/17, vpc: VPC \
         dev-vpc, zone: eu-west-1a (after VPC dev-vpc)\n",
        "\n15 to create, 0 to change, 0 to delete, 0 waiting, 0 with a problem.\n",
    ] {
        assert!(text.contains(part), "{text}");
    }
    assert_eq!((world.account.calls(), world.writes()), (0, 0));
}

#[test]
fn a_preview_can_be_repeated_from_its_facts() {
    let mut world = World::aged(SPEC);
    let table = world.account.route_tables().into_iter().find(|table| !table.is_main);
    assert!(
        world
            .account
            .set_route(&table.expect("a route table").id, ANYWHERE, None)
    );
    let (seen, facts) = world.preview().expect("a preview");
    let text = serde_json::to_string(&facts).expect("JSON");
    let facts: PlanFacts = serde_json::from_str(&text).expect("facts");
    assert_eq!(world.preview_with(&facts).expect("a preview").0, seen);
    assert_eq!(ready(&seen), ["CreateRoute"]);
    world.rest();
    assert!(!preview(&world).has_changes());
}

#[test]
fn a_preview_shows_what_differs_and_what_needs_a_person() {
    let mut world = World::aged(SPEC);
    let subnets = world.account.subnets();
    let subnet = subnets
        .iter()
        .find(|subnet| subnet.maps_public_ips)
        .expect("a public subnet");
    let off = Attribute::MapPublicIpOnLaunch(false);
    assert!(world.account.set_subnet_attribute(&subnet.id, off));
    let text = preview(&world).to_string();
    let change = "\n  ~ attributes of subnet dev-subnet-public-eu-west-1a: ModifySubnetAttribute mapPublicIpOnLaunch: \
                  false -> true\n";
    assert!(text.contains(change), "{text}");
    world.rest();
    assert_eq!(
        preview(&world).to_string(),
        "Cluster dev in eu-west-1, account 111122223333\n\nNo changes: AWS is as the spec asks.\n"
    );
    world.set_spec(&SPEC.replace("vpc: {", "vpc: {cidrBlock: 10.2.0.0/16, "));
    let refused = preview(&world);
    assert_eq!(
        (refused.has_changes(), refused.has_problems()),
        (false, true),
        "{refused}"
    );
    assert!(
        refused.to_string().contains("\n  ! VPC dev-vpc: InvalidSpec: "),
        "{refused}"
    );
    world.set_spec("region: eu-west-1, network: {vpc: {ipv6: {}}}");
    let error = world.preview().expect_err("nothing is offered");
    assert!(error.contains("does not offer network.vpc.ipv6"), "{error}");
}

#[test]
fn what_aws_does_not_show_is_a_problem_of_a_preview() {
    let world = World::aged(SPEC);
    world
        .account
        .set(|account| account.refused_describes = ["DescribeRouteTables".to_owned()].into());
    let preview = preview(&world);
    assert!(preview.has_problems(), "{preview}");
    assert!(
        preview
            .to_string()
            .contains("\n  ! route table of subnet: Unauthorized: "),
        "{preview}"
    );
}
