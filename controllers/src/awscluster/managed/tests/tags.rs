//! Tags of existing resources: tags are added and removed as the spec changes.

use std::collections::BTreeSet;
use std::time::Duration;

use capa_api::common::Tags;
use capa_api::conditions::ConditionType;
use capa_api::meta;
use capa_fake_aws::Fault;
use capa_runtime::reconcile::Next;

use super::world::World;

const NLB: &str = "controlPlaneLoadBalancer: {loadBalancerType: nlb}";

/// The tags of everything that the cluster has, by id.
fn tags(world: &World) -> Vec<(String, Tags)> {
    let account = &world.account;
    let mut all: Vec<(String, Tags)> = vec![];
    all.extend(account.vpcs().into_iter().map(|vpc| (vpc.id, vpc.tags)));
    all.extend(account.subnets().into_iter().map(|subnet| (subnet.id, subnet.tags)));
    let gateways = account.internet_gateways().into_iter();
    all.extend(gateways.map(|gateway| (gateway.id, gateway.tags)));
    let gateways = account.nat_gateways().into_iter();
    all.extend(gateways.map(|gateway| (gateway.id, gateway.tags)));
    let addresses = account.addresses().into_iter();
    all.extend(addresses.map(|address| (address.allocation_id, address.tags)));
    let tables = account.route_tables().into_iter().filter(|table| !table.is_main);
    all.extend(tables.map(|table| (table.id, table.tags)));
    let groups = account.security_groups().into_iter();
    let groups = groups.filter(|group| group.name != "default");
    all.extend(groups.map(|group| (group.id, group.tags)));
    let balancers = account.load_balancers().into_iter();
    all.extend(balancers.map(|balancer| (balancer.arn, balancer.tags)));
    let groups = account.target_groups().into_iter();
    all.extend(groups.map(|group| (group.arn, group.tags)));
    let balancers = account.classic_load_balancers().into_iter();
    all.extend(balancers.map(|balancer| (balancer.name, balancer.tags)));
    all
}

fn with_tags(more: &str, tags: &str) -> String {
    format!("region: eu-west-1, additionalTags: {{{tags}}}, {more}")
}

fn change(world: &mut World, spec: &str) {
    world.set_spec(spec);
    world.rest();
}

fn refuse_tags(world: &World) {
    world.account.set(|behaviour| {
        let actions = ["CreateTags", "AddTags"];
        behaviour.refused_calls.extend(actions.map(str::to_owned));
    });
}

#[test]
fn tags_of_the_spec_reach_what_exists_and_leave_it() {
    for more in [NLB, "controlPlaneLoadBalancer: {loadBalancerType: classic}"] {
        let mut world = World::aged(&with_tags(more, "team: a, stage: test"));
        let all: BTreeSet<String> = tags(&world).into_iter().map(|(id, _)| id).collect();
        change(&mut world, &with_tags(more, "team: b, cost: high"));
        let after = tags(&world);
        assert_eq!(after.iter().map(|(id, _)| id.clone()).collect::<BTreeSet<_>>(), all);
        for (id, tags) in after {
            assert_eq!(tags.get("team").map(String::as_str), Some("b"), "{id}");
            assert_eq!(tags.get("cost").map(String::as_str), Some("high"), "{id}");
            assert_eq!(tags.get("stage"), None, "{id}");
            assert!(tags.contains_key(&meta::cluster_tag("dev")), "{id}");
        }
        assert_eq!(world.condition(ConditionType::Ready), "True/Ready");
        let calls = world.account.calls();
        for _ in 0..5 {
            world.advance(Duration::from_mins(10));
            world.pass();
        }
        assert_eq!(world.account.calls(), calls);
    }
}

#[test]
fn tags_that_others_have_set_stay_and_those_of_the_provider_come_back() {
    let mut world = World::aged(&with_tags(NLB, "team: a"));
    for (id, mut tags) in tags(&world) {
        tags.insert("backup".to_owned(), "daily".to_owned());
        tags.insert("team".to_owned(), "z".to_owned());
        tags.remove(meta::NAME_TAG);
        assert!(world.account.set_tags(&id, tags));
    }
    let before = tags(&world).len();
    world.rest();
    let after = tags(&world);
    assert_eq!(after.len(), before);
    for (id, tags) in after {
        assert_eq!(tags.get("backup").map(String::as_str), Some("daily"), "{id}");
        assert_eq!(tags.get("team").map(String::as_str), Some("a"), "{id}");
        assert!(tags.contains_key(meta::NAME_TAG), "{id}");
    }
    // A key that another user set first belongs to the spec once the spec names it, and is removed with it.
    change(&mut world, &with_tags(NLB, "backup: weekly"));
    change(&mut world, &with_tags(NLB, ""));
    assert!(tags(&world).iter().all(|(_, tags)| !tags.contains_key("backup") && !tags.contains_key("team")));
}

#[test]
fn a_lost_status_forgets_only_tags_that_have_left_the_spec_before() {
    let mut world = World::aged(&with_tags(NLB, "team: a, stage: test"));
    world.set_spec(&with_tags(NLB, "team: a"));
    world.lose_status();
    world.rest();
    change(&mut world, &with_tags(NLB, ""));
    for (id, tags) in tags(&world) {
        assert_eq!(tags.get("team"), None, "{id}");
        assert_eq!(tags.get("stage").map(String::as_str), Some("test"), "{id}");
    }
}

#[test]
fn a_tag_that_others_set_after_it_was_gone_is_theirs() {
    let mut world = World::aged(&with_tags(NLB, "team: a"));
    let of_vpc = |world: &World| world.account.vpcs()[0].tags.clone();
    let id = world.account.vpcs()[0].id.clone();
    let mut without = of_vpc(&world);
    without.remove("team");
    assert!(world.account.set_tags(&id, without.clone()));
    change(&mut world, &with_tags(NLB, ""));
    without.insert("team".to_owned(), "theirs".to_owned());
    assert!(world.account.set_tags(&id, without.clone()));
    world.edit(|cluster| cluster.metadata.generation = cluster.metadata.generation.map(|known| known + 1));
    world.rest_for(Duration::from_mins(15));
    assert_eq!(of_vpc(&world), without);
}

#[test]
fn a_cluster_is_provisioned_although_its_tags_are_refused() {
    let mut world = World::new(&with_tags(NLB, "team: a"));
    while world.account.vpcs().is_empty() {
        world.pass();
    }
    refuse_tags(&world);
    world.set_spec(&with_tags(NLB, "team: b"));
    world.rest_for(Duration::from_mins(15));
    assert_eq!(world.condition(ConditionType::Ready), "True/Ready");
    assert!(world.message(ConditionType::VpcReady).starts_with("tags of VPC dev-vpc: "));
}

#[test]
fn a_failure_about_tags_of_either_load_balancer_shows() {
    let more = "secondaryControlPlaneLoadBalancer: {loadBalancerType: nlb, scheme: internal, name: inside}";
    let mut world = World::aged(&with_tags(more, "team: a"));
    refuse_tags(&world);
    world.set_spec(&with_tags(more, "team: b"));
    world.rest_for(Duration::from_mins(15));
    assert_eq!(world.condition(ConditionType::LoadBalancerReady), "True/Ready");
    let message = world.message(ConditionType::LoadBalancerReady);
    assert!(message.starts_with("tags of "), "{message}");
}

#[test]
fn tags_beyond_the_limit_of_aws_hold_up_no_others() {
    let mut world = World::aged(&with_tags(NLB, "team: a"));
    let vpc = || world.account.vpcs().remove(0);
    let mut full = vpc().tags;
    for number in full.len()..50 {
        full.insert(format!("theirs-{number}"), "x".to_owned());
    }
    assert!(world.account.set_tags(&vpc().id, full.clone()));
    world.set_spec(&with_tags(NLB, "team: b, cost: high"));
    world.rest_for(Duration::from_mins(15));
    full.insert("team".to_owned(), "b".to_owned());
    assert_eq!(world.account.vpcs()[0].tags, full);
    let message = world.message(ConditionType::VpcReady);
    assert!(message.contains("TagLimitExceeded"), "{message}");
    // Tags that are removed from the spec make room for others.
    change(&mut world, &with_tags(NLB, "cost: high"));
    full.remove("team");
    full.insert("cost".to_owned(), "high".to_owned());
    assert_eq!(world.account.vpcs()[0].tags, full);
    assert_eq!(world.message(ConditionType::VpcReady), "");
}

#[test]
fn a_name_in_the_spec_takes_the_place_of_ours_and_gives_it_back() {
    let mut world = World::aged(&with_tags(NLB, ""));
    let before = tags(&world);
    change(&mut world, &with_tags(NLB, "Name: theirs"));
    assert!(tags(&world).iter().any(|(_, tags)| tags[meta::NAME_TAG] == "theirs"));
    change(&mut world, &with_tags(NLB, ""));
    assert_eq!(tags(&world), before);
}

#[test]
fn refused_tags_hold_nothing_else_up() {
    let mut world = World::aged(&with_tags(NLB, "team: a"));
    refuse_tags(&world);
    world.set_spec(&with_tags(NLB, "team: b"));
    let table = world.account.route_tables().into_iter().find(|table| !table.is_main).unwrap();
    assert!(world.account.set_route(&table.id, "0.0.0.0/0", None));
    world.rest_for(Duration::from_mins(15));
    let table = world.account.route_tables().into_iter().find(|known| known.id == table.id).unwrap();
    assert!(table.routes.iter().any(|route| route.destination == "0.0.0.0/0"), "{table:?}");
    assert_eq!(world.condition(ConditionType::VpcReady), "True/Ready");
    assert!(world.message(ConditionType::VpcReady).starts_with("tags of VPC dev-vpc: "));
    assert_eq!(world.condition(ConditionType::Ready), "True/Ready");
    world.delete_completely();
}

#[test]
fn tags_of_a_subnet_whose_class_was_changed_stay() {
    let subnets = |is_public: bool| {
        format!(
            "region: eu-west-1, additionalTags: {{team: {is_public}}}, network: {{subnets: [\
             {{id: one, cidrBlock: 10.0.0.0/24, availabilityZone: eu-west-1a, isPublic: true}}, \
             {{id: two, cidrBlock: 10.0.1.0/24, availabilityZone: eu-west-1a, isPublic: {is_public}}}]}}"
        )
    };
    let mut world = World::aged(&subnets(true));
    let before = tags(&world);
    let id = |name: &str| {
        let subnets = world.account.subnets().into_iter();
        let mut named = subnets.filter(|subnet| subnet.tags[meta::NAME_TAG] == name);
        named.next().unwrap().id
    };
    let (one, two) = (id("one"), id("two"));
    let tables = world.account.route_tables().into_iter();
    let mut of_two = tables.filter(|table| table.association_of(&two).is_some());
    let table = of_two.next().unwrap().id;
    world.set_spec(&subnets(false));
    world.rest_for(Duration::from_mins(15));
    for ((id, before), (_, after)) in before.into_iter().zip(tags(&world)) {
        let stays = [&two, &table].contains(&&id);
        assert_eq!(after == before, stays, "{id}");
        assert!(id != one || after["team"] == "false");
    }
}

#[test]
fn tags_that_the_own_limits_put_off_follow_as_soon_as_they_allow() {
    let mut world = World::aged(&with_tags(NLB, "team: a"));
    let after = Duration::from_secs(1);
    world.account.fail(world.account.calls(), Fault::Deferred(after));
    world.set_spec(&with_tags(NLB, "team: b"));
    assert_eq!(world.pass(), Some(Next::Deferred(after)));
}
