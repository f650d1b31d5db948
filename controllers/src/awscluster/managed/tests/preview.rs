//! Tests of previews.

use std::time::Duration;

use capa_api::conditions::{ConditionType, Reason, set};
use capa_api::meta;
use capa_cloud::ec2::route_table::ANYWHERE;
use capa_cloud::ec2::subnet::Attribute;
use capa_runtime::reconcile::Next;
use jiff::Timestamp;
use kube::ResourceExt;
use serde_json::json;

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
    let mut ready: Vec<_> = calls.filter(|call| call.waits_for.is_none()).map(|call| call.action).collect();
    ready.sort_unstable();
    ready
}

/// Runs passes until the cluster is at rest or gone. Each pass makes the calls that a preview before it shows.
fn rest_as_shown(world: &mut World) {
    for _ in 0..PASSES {
        if world.cluster().is_none() {
            return;
        }
        let preview = preview(world);
        let before = world.account.calls();
        let next = world.pass();
        let mut made: Vec<&str> = world.account.journal()[before..].iter().map(|entry| entry.call.action()).collect();
        made.sort_unstable();
        assert_eq!(made, ready(&preview), "{preview}");
        if next == Some(Next::AwaitChange) {
            assert_eq!((preview.has_changes(), preview.has_problems()), (false, false), "{preview}");
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
        "Cluster dev in eu-west-1, account 111122223333\n\nVpcReady\n  \
         + VPC dev-vpc: CreateVpc cidrBlock: 10.0.0.0/16\n",
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
    assert!(world.account.set_route(&table.expect("a route table").id, ANYWHERE, None));
    let (seen, facts) = world.preview().expect("a preview");
    let text = serde_json::to_string(&facts).expect("JSON");
    let facts: PlanFacts = serde_json::from_str(&text).expect("facts");
    assert_eq!(world.preview_with(&facts).expect("a preview").0, seen);
    assert_eq!(ready(&seen), ["CreateRoute"]);
    world.rest();
    let (seen, facts) = world.preview().expect("a preview");
    assert!(seen.sections.is_empty());
    let without_status = World::new(SPEC);
    without_status.edit(|cluster| cluster.metadata.uid = None);
    let (seen, _) = without_status.preview_with(&facts).expect("a preview");
    assert!(seen.sections.is_empty(), "{seen}");
    without_status.set_spec(&SPEC.replace("nlb", "nlb, name: other"));
    let error = without_status.preview_with(&facts).expect_err("other names");
    assert!(error.contains("the facts tell nothing of a load balancer other"), "{error}");
}

#[test]
fn a_preview_shows_what_differs_and_what_needs_a_person() {
    let mut world = World::aged(SPEC);
    let subnets = world.account.subnets();
    let subnet = subnets.iter().find(|subnet| subnet.assigns_public_ip).expect("a public subnet");
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
    assert_eq!((refused.has_changes(), refused.has_problems()), (false, true), "{refused}");
    assert!(refused.to_string().contains("\n  ! VPC dev-vpc: InvalidSpec: "), "{refused}");
    world.set_spec("region: eu-west-1, network: {vpc: {ipv6: {}}}");
    let error = world.preview().expect_err("nothing is offered");
    assert!(error.contains("does not offer network.vpc.ipv6"), "{error}");
}

#[test]
fn a_wrong_spec_of_a_new_cluster_is_no_change() {
    let world = World::new(&format!("{SPEC}, additionalTags: {{'aws:x': a}}"));
    let preview = preview(&world);
    assert_eq!((preview.has_changes(), preview.has_problems()), (false, true), "{preview}");
    assert!(preview.to_string().contains(" (held up by "), "{preview}");
}

#[test]
fn what_aws_does_not_show_is_a_problem_of_a_preview() {
    let world = World::aged(SPEC);
    let without_status = world.fork();
    without_status.edit(|cluster| {
        cluster.status = None;
        cluster.metadata.finalizers = None;
    });
    for action in ["DescribeVpcs", "DescribeRouteTables", "DescribeAddresses", "DescribeLoadBalancerAttributes"] {
        for world in [&world, &without_status] {
            let refused = [action.to_owned()];
            world.account.set(|account| account.refused_describes = refused.into());
            let (seen, facts) = world.preview().expect("a preview");
            let text = seen.to_string();
            assert!(text.contains("\n  ! what AWS did not show: Unauthorized: "), "{text}");
            assert!(seen.has_problems() && ready(&seen).is_empty(), "{text}");
            assert!(facts.error().is_some(), "{text}");
        }
    }
}

#[test]
fn a_preview_for_programs_has_calls_with_ids_and_tags() {
    let world = World::aged(SPEC);
    world.set_spec(&SPEC.replace("nlb", "nlb, additionalListeners: [{port: 9345}]"));
    let seen = serde_json::to_value(preview(&world)).expect("JSON");
    let mut sections = seen["sections"].as_array().expect("sections").iter();
    let section = sections.find(|section| section["condition"] == "LoadBalancerReady");
    let entries = &section.expect("a section")["entries"];
    let group = &entries[0];
    assert_eq!((&group["kind"], &group["action"]), (&json!("create"), &json!("CreateTargetGroup")), "{seen}");
    let vpc = &world.account.vpcs()[0].id;
    assert_eq!(group["parameters"]["vpc"], json!(vpc), "{seen}");
    assert_eq!(group["parameters"]["tags"]["sigs.k8s.io/cluster-api-provider-aws/cluster/dev"], "owned");
    assert!(group.get("waitsFor").is_none(), "{seen}");
    let listener = &entries[1];
    assert_eq!(listener["action"], "CreateListener", "{seen}");
    assert_eq!(listener["waitsFor"], group["target"], "{seen}");
}

#[test]
fn a_paused_cluster_has_a_note_in_its_preview() {
    let world = World::new(SPEC);
    world.edit(|cluster| {
        let annotations = cluster.metadata.annotations.get_or_insert_default();
        annotations.insert(meta::PAUSED_ANNOTATION.to_owned(), String::new());
    });
    let text = preview(&world).to_string();
    assert!(text.contains("\nNote: AWSCluster has the cluster.x-k8s.io/paused annotation: "), "{text}");
}

fn set_plan_only(world: &World, is_set: bool) {
    world.edit(|cluster| {
        let annotations = cluster.metadata.annotations.get_or_insert_default();
        annotations.clear();
        if is_set {
            annotations.insert(meta::PLAN_ONLY_ANNOTATION.to_owned(), String::new());
        }
    });
}

#[test]
fn a_cluster_that_only_plans_changes_nothing_until_it_may() {
    let mut world = World::new(SPEC);
    set_plan_only(&world, true);
    let writes = world.writes();
    assert_eq!(world.rest(), 1);
    assert_eq!(world.condition(ConditionType::Ready), "False/PlanOnly");
    assert!(world.message(ConditionType::Ready).contains("15 to create"));
    let mut shown = preview(&world);
    assert!(shown.notes[0].starts_with("AWSCluster has the annotation "), "{shown}");
    shown.notes.clear();
    assert_eq!(world.status().plan, Some(shown.to_string()));
    assert_eq!((world.account.calls(), world.writes() - writes), (0, 1));
    assert!(world.cluster().expect("an AWSCluster").finalizers().is_empty());
    set_plan_only(&world, false);
    world.rest();
    assert_eq!(world.condition(ConditionType::Ready), "True/Ready");
    assert_eq!(world.status().plan, None);
}

#[test]
fn a_provisioned_cluster_that_only_plans_works_on_and_is_deleted_later() {
    let mut world = World::aged(SPEC);
    let calls = world.account.calls();
    set_plan_only(&world, true);
    world.set_spec(&format!("{SPEC}, additionalTags: {{team: a}}"));
    world.rest();
    assert_eq!(world.condition(ConditionType::Ready), "True/PlanOnly");
    assert!(world.status().plan.is_some_and(|plan| plan.contains("CreateTags")));
    world.delete();
    world.rest();
    assert!(world.status().plan.is_some_and(|plan| plan.contains("DeleteVpc")));
    assert_eq!(world.account.calls(), calls);
    set_plan_only(&world, false);
    world.assert_gone();
}

#[test]
fn what_stays_away_is_missing_for_a_cluster_that_only_plans() {
    for loses_status in [false, true] {
        let mut world = World::aged(SPEC);
        set_plan_only(&world, true);
        if loses_status {
            world.lose_status();
        }
        let tables = world.account.route_tables().into_iter();
        let table = tables.clone().find(|table| !table.associations.is_empty() && !table.is_main);
        let table = table.expect("a route table").id;
        assert!(world.account.remove_route_table(&table));
        world.pass();
        let plan = |world: &World| world.status().plan.expect("a plan");
        assert!(plan(&world).contains("AWS does not show the route table"), "{}", plan(&world));
        world.rest_for(Duration::from_mins(20));
        assert!(plan(&world).contains("+ route table of subnet"), "{}", plan(&world));
        assert!(preview(&world).has_changes());
    }
}

#[test]
fn ready_comes_back_while_a_cluster_only_plans() {
    let mut world = World::aged(SPEC);
    set_plan_only(&world, true);
    world.edit(|cluster| {
        let status = cluster.status.as_mut().expect("a status");
        for condition in [ConditionType::Ready, ConditionType::IdentityReady] {
            let update = condition.is_false(Reason::CredentialsFailed, "no credentials");
            set(&mut status.conditions, update, None, Timestamp::UNIX_EPOCH);
        }
    });
    world.rest();
    assert_eq!(world.condition(ConditionType::Ready), "True/PlanOnly");
    assert_eq!(world.condition(ConditionType::IdentityReady), "True/Ready");
}

#[test]
fn a_cluster_that_only_plans_is_deleted_with_what_it_finds() {
    let built = World::aged(SPEC);
    let mut world = built.fork();
    world.lose_status();
    set_plan_only(&world, true);
    world.pass();
    world.delete();
    world.pass();
    assert!(world.cluster().is_some(), "the deletion waits");
    set_plan_only(&world, false);
    world.assert_gone();
}
