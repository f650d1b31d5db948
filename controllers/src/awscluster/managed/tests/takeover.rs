//! A cluster whose VPC CAPA has created: the provider takes it over without a write to AWS, and only if AWS shows the
//! tag of the cluster.

use std::time::Duration;

use capa_api::common::Tags;
use capa_api::conditions::ConditionType;
use capa_api::meta;
use serde_json::{Value, json};

use super::world::World;

const REGION: &str = "region: eu-west-1";
const NLB: &str = "region: eu-west-1, controlPlaneLoadBalancer: {loadBalancerType: nlb}";

/// The tags by which a cluster owns a VPC.
fn owned_by(cluster: &str) -> Tags {
    Tags::from([(meta::cluster_tag(cluster), "owned".to_owned())])
}

/// The VPC and the subnets of the account in the form in which CAPA writes them into the spec.
fn recorded(world: &World) -> Value {
    let account = &world.account;
    let vpc = &account.vpcs()[0];
    let tables = account.route_tables();
    let gateways = account.nat_gateways();
    let subnets = account.subnets().into_iter().map(|subnet| {
        let table = tables.iter().find(|table| table.association_of(&subnet.id).is_some());
        let gateway = gateways.iter().find(|gateway| gateway.subnet_id == subnet.id);
        let name = &subnet.tags[meta::NAME_TAG];
        json!({
            "id": name,
            "resourceID": subnet.id,
            "cidrBlock": subnet.cidr_block,
            "availabilityZone": subnet.zone,
            "isPublic": subnet.tags[meta::ROLE_TAG] == "public",
            "zoneType": "availability-zone",
            "routeTableId": table.map(|table| &table.id),
            "natGatewayId": gateway.map(|gateway| &gateway.id),
            "tags": {meta::NAME_TAG: name},
        })
    });
    let gateways = account.internet_gateways();
    json!({
        "vpc": {
            "id": vpc.id,
            "cidrBlock": vpc.cidr_blocks[0],
            "internetGatewayId": gateways.first().map(|gateway| &gateway.id),
            "tags": vpc.tags,
        },
        "subnets": subnets.collect::<Vec<_>>(),
    })
}

/// A spec with what CAPA has recorded.
fn with(spec: &str, network: &Value) -> String {
    format!("{spec}, network: {network}")
}

/// A spec that names a VPC, and says that the VPC was created for `cluster`.
fn of_vpc(vpc: &str, cluster: &str) -> String {
    with(REGION, &json!({"vpc": {"id": vpc, "tags": owned_by(cluster)}}))
}

/// Checks that a complete cluster, of which CAPA has recorded this network, is taken over without a call.
fn is_taken_over_without_a_call(world: &mut World, network: &Value) {
    world.lose_status();
    world.set_spec(&with(REGION, network));
    let calls = world.account.calls();
    world.rest();
    assert_eq!(world.account.calls(), calls, "{:?}", world.account.journal());
    assert!(world.status().provisioned(), "{:?}", world.status().conditions);
}

/// A complete cluster of this spec, as CAPA leaves it.
fn left_by_capa(spec: &str) -> World {
    let world = World::aged(spec);
    let spec = with(spec, &recorded(&world));
    world.lose_status();
    world.set_spec(&spec);
    world
}

#[test]
fn a_cluster_of_capa_is_taken_over_without_a_call() {
    for spec in [REGION, NLB] {
        let mut world = left_by_capa(spec);
        let calls = world.account.calls();
        let (preview, _) = world.preview().unwrap();
        assert!(!preview.has_changes(), "{preview}");
        world.rest();
        assert_eq!(world.account.calls(), calls, "{:?}", world.account.journal());
        assert!(world.status().provisioned(), "{:?}", world.status().conditions);
        let network = world.status().network.unwrap();
        assert_eq!(network.vpc.unwrap().id, world.account.vpcs()[0].id);
        assert_eq!(network.subnets.len(), 6);
        world.delete_completely();
    }
}

#[test]
fn ids_of_parts_that_capa_has_recorded_are_not_read() {
    let mut world = World::aged(REGION);
    let mut network = recorded(&world);
    let subnets = network["subnets"].as_array().unwrap();
    let public = subnets.iter().position(|subnet| subnet["isPublic"] == true).unwrap();
    for (field, pointer) in [
        ("network.vpc.internetGatewayId", "/vpc/internetGatewayId".to_owned()),
        ("network.subnets[].routeTableId", format!("/subnets/{public}/routeTableId")),
        ("network.subnets[].natGatewayId", format!("/subnets/{public}/natGatewayId")),
    ] {
        let recorded = network.pointer_mut(&pointer).unwrap();
        assert!(recorded.is_string(), "{field}: {recorded}");
        *recorded = json!("another-0123456789abcdef0");
    }
    is_taken_over_without_a_call(&mut world, &network);
}

#[test]
fn a_cluster_of_capa_can_be_deleted_at_once() {
    let mut world = left_by_capa(REGION);
    world.delete_completely();
}

#[test]
fn what_capa_has_half_made_is_completed() {
    let complete = World::built(REGION);
    let mut halves = 0;
    for passes in 1..20 {
        let mut world = World::new(REGION);
        for _ in 0..passes {
            world.pass();
            world.advance(Duration::from_secs(5));
        }
        let is_half_made = world.account.subnets().len() == 6 && world.account.classic_load_balancers().is_empty();
        if !is_half_made {
            continue;
        }
        halves += 1;
        let spec = with(REGION, &recorded(&world));
        world.lose_status();
        world.set_spec(&spec);
        world.rest();
        assert_eq!(world.account.contents(), complete.account.contents(), "{passes}");
    }
    assert!(halves > 1, "{halves}");
}

#[test]
fn subnets_that_capa_has_recorded_by_id_keep_their_names() {
    let mut world = World::aged(REGION);
    let mut network = recorded(&world);
    for subnet in network["subnets"].as_array_mut().unwrap() {
        let fields = subnet.as_object_mut().unwrap();
        fields["id"] = fields.remove("resourceID").unwrap();
        fields.remove("tags");
    }
    is_taken_over_without_a_call(&mut world, &network);
}

#[test]
fn tags_of_the_vpc_follow_the_spec_and_not_what_capa_has_recorded() {
    let tagged = |team: &str| format!("{REGION}, additionalTags: {{team: {team}}}");
    let mut world = World::aged(&tagged("a"));
    let network = recorded(&world);
    assert_eq!(network["vpc"]["tags"]["team"], "a");
    world.lose_status();
    world.set_spec(&with(&tagged("b"), &network));
    world.rest();
    assert_eq!(world.account.vpcs()[0].tags["team"], "b");
    world.set_spec(&with(REGION, &network));
    world.rest();
    assert!(!world.account.vpcs()[0].tags.contains_key("team"));
}

#[test]
fn tags_that_an_older_capa_has_recorded_of_subnets_are_no_mistake() {
    let mut world = World::aged(REGION);
    let mut network = recorded(&world);
    let shown = world.account.subnets();
    for subnet in network["subnets"].as_array_mut().unwrap() {
        let tags = shown.iter().find(|shown| shown.id == subnet["resourceID"].as_str().unwrap());
        subnet["tags"] = json!(tags.unwrap().tags);
    }
    is_taken_over_without_a_call(&mut world, &network);
}

#[test]
fn nothing_in_a_vpc_without_the_tag_is_changed_or_deleted() {
    let mut world = left_by_capa(NLB);
    let vpc = world.account.vpcs().remove(0);
    assert!(world.account.set_tags(&vpc.id, Tags::new()));
    let table = world.account.route_tables().into_iter().find(|table| !table.is_main).unwrap();
    assert!(world.account.set_route(&table.id, "0.0.0.0/0", Some("igw-of-somebody")));
    let (before, calls) = (world.account.contents(), world.account.calls());
    world.rest_for(Duration::from_mins(5));
    assert_eq!(world.condition(ConditionType::VpcReady), "False/NotOwned");
    assert_eq!(world.condition(ConditionType::LoadBalancerReady), "absent");
    world.delete();
    world.rest_for(Duration::from_mins(15));
    assert_eq!(world.account.contents(), before);
    assert_eq!(world.account.calls(), calls, "{:?}", world.account.journal());
    assert!(world.cluster().is_some(), "the condition says what to do");
    assert!(world.account.set_tags(&vpc.id, vpc.tags));
    world.assert_gone();
}

#[test]
fn subnets_of_the_user_are_not_deleted_whatever_is_recorded_of_them() {
    let mut world = World::aged(REGION);
    let vpc = world.account.vpcs().remove(0);
    let subnets = world.account.subnets();
    for id in subnets.iter().map(|subnet| &subnet.id).chain([&vpc.id]) {
        assert!(world.account.set_tags(id, Tags::new()));
    }
    world.edit(|cluster| {
        let resources = &mut cluster.status.as_mut().unwrap().resources;
        resources.retain(|resource| resource.resource_type == "Subnet");
    });
    world.set_spec(&format!("{REGION}, network: {{vpc: {{id: {}}}, subnets: [{{id: {}}}]}}", vpc.id, subnets[0].id));
    world.rest_for(Duration::from_mins(5));
    world.delete();
    world.rest_for(Duration::from_mins(15));
    assert_eq!(world.account.subnets().len(), subnets.len());
}

#[test]
fn the_plan_for_what_capa_has_half_made_names_what_is_missing() {
    let mut world = World::new(REGION);
    for _ in 0..2 {
        world.pass();
        world.advance(Duration::from_secs(5));
    }
    let spec = with(REGION, &recorded(&world));
    world.lose_status();
    world.set_spec(&spec);
    let (preview, _) = world.preview().unwrap();
    assert!(preview.to_string().contains("CreateLoadBalancer"), "{preview}");
}

#[test]
fn a_vpc_without_the_tag_in_aws_is_not_taken_over() {
    let mut world = World::new(REGION);
    let vpc = world.account.add_vpc("10.0.0.0/16", Tags::new());
    let before = world.account.contents();
    world.set_spec(&of_vpc(&vpc, "dev"));
    world.rest_for(Duration::from_mins(5));
    assert_eq!(world.condition(ConditionType::VpcReady), "False/NotOwned");
    let message = world.message(ConditionType::VpcReady);
    assert!(message.contains("remove network.vpc.tags"), "{message}");
    assert_eq!(world.account.contents(), before);
    // Without the tags in the spec, the VPC belongs to the user.
    world.set_spec(&format!("{REGION}, network: {{vpc: {{id: {vpc}}}}}"));
    world.delete();
    world.rest();
    assert_eq!(world.account.contents(), before);
    assert!(world.cluster().is_none());
}

#[test]
fn no_vpc_takes_the_place_of_one_that_capa_has_made() {
    let mut world = World::new(&of_vpc("vpc-0123456789abcdef0", "dev"));
    world.rest_for(Duration::from_mins(5));
    assert_eq!(world.condition(ConditionType::VpcReady), "False/NotFound");
    assert!(world.account.is_empty());
    world.delete();
    world.rest();
    assert!(world.cluster().is_none());
}

#[test]
fn a_vpc_that_was_made_for_another_cluster_is_the_users() {
    let mut world = World::new(REGION);
    let vpc = world.account.add_vpc("10.0.0.0/16", owned_by("other"));
    let before = world.account.contents();
    world.set_spec(&of_vpc(&vpc, "other"));
    world.rest_for(Duration::from_mins(5));
    let message = world.message(ConditionType::Ready);
    assert!(message.contains(&format!("the VPC {vpc} is yours")), "{message}");
    world.delete();
    world.rest();
    assert_eq!(world.account.contents(), before);
    assert!(world.cluster().is_none());
}
