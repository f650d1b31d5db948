//! Route tables, routes and associations.

use std::time::Duration;

use capa_api::common::Tags;
use capa_api::conditions::ConditionType;
use capa_cloud::ec2::RouteTable;

use super::world::World;

const ONE_ZONE: &str = "region: eu-west-1, network: {vpc: {availabilityZoneUsageLimit: 1}}";
const ANYWHERE: &str = "0.0.0.0/0";

/// The table of this name.
fn table(world: &World, name: &str) -> RouteTable {
    let mut tables = world.account.route_tables().into_iter();
    let found = tables.find(|table| table.tags.get("Name").is_some_and(|is| is == name));
    found.expect("the table exists")
}

fn target(table: &RouteTable) -> Option<&str> {
    let mut routes = table.routes.iter();
    let found = routes.find(|route| route.destination == ANYWHERE);
    found.map(|route| route.target.id())
}

#[test]
fn public_subnets_leave_by_the_internet_gateway_and_private_ones_by_their_nat_gateway() {
    let world = World::built(ONE_ZONE);
    let [public, private] = ["public", "private"].map(|class| table(&world, &format!("dev-rt-{class}-eu-west-1a")));
    let gateway = &world.account.internet_gateways()[0].id;
    let nat = &world.account.nat_gateways()[0].id;
    assert_eq!((target(&public), target(&private)), (Some(gateway.as_str()), Some(nat.as_str())));
    for (table, class) in [(public, "public"), (private, "private")] {
        assert_eq!(table.tags["kubernetes.io/cluster/dev"], "owned");
        let [association] = &table.associations[..] else { panic!("one subnet: {table:?}") };
        let mut subnets = world.account.subnets().into_iter();
        let subnet = subnets.find(|subnet| subnet.id == association.subnet_id).unwrap();
        assert_eq!(subnet.tags["Name"], format!("dev-subnet-{class}-eu-west-1a"));
    }
}

#[test]
fn private_routes_wait_for_nat_gateways_that_work() {
    let mut world = World::new(ONE_ZONE);
    let mut waited = false;
    world.rest_watched(|world, _| {
        waited |= world.condition(ConditionType::RouteTablesReady) == "False/WaitingForNatGateways";
    });
    assert!(waited);
    assert_eq!(world.condition(ConditionType::RouteTablesReady), "True/Ready");
}

#[test]
fn drift_of_routes_and_associations_is_repaired_in_one_pass() {
    type Drift = fn(&World, &RouteTable);
    let drifts: [(&str, Drift); 4] = [
        ("SuccessfulCreateRoute", |world, table| {
            assert!(world.account.set_route(&table.id, ANYWHERE, None));
        }),
        ("SuccessfulReplaceRoute", |world, table| {
            assert!(world.account.set_route(&table.id, ANYWHERE, Some("eni-foreign")));
        }),
        ("SuccessfulAssociateRouteTable", |world, table| {
            let subnet = &table.associations[0].subnet_id;
            assert!(world.account.set_association_of_subnet(subnet, None));
        }),
        ("SuccessfulReplaceRouteTableAssociation", |world, other| {
            let subnet = &table(world, "dev-rt-private-eu-west-1a").associations[0].subnet_id;
            assert!(world.account.set_association_of_subnet(subnet, Some(&other.id)));
        }),
    ];
    for (event, drift) in drifts {
        let mut world = World::aged(ONE_ZONE);
        let before = world.account.contents();
        world.events.clear();
        drift(&world, &table(&world, "dev-rt-public-eu-west-1a"));
        assert_ne!(world.account.contents(), before, "{event}: the drift is there");
        world.pass();
        assert_eq!(world.reasons(), [event]);
        world.rest();
        assert_eq!(world.account.contents(), before, "{event}");
    }
}

#[test]
fn a_deleted_table_is_made_again_after_a_minute() {
    let mut world = World::aged(ONE_ZONE);
    let before = world.account.contents();
    let deleted = table(&world, "dev-rt-public-eu-west-1a").id;
    assert!(world.account.remove_route_table(&deleted));
    world.rest();
    assert_eq!(world.account.contents(), before);
}

#[test]
fn routes_of_others_in_a_table_stay() {
    let mut world = World::aged(ONE_ZONE);
    let public = table(&world, "dev-rt-public-eu-west-1a").id;
    assert!(world.account.set_route(&public, "10.9.0.0/16", Some("pcx-1")));
    let before = world.account.contents();
    world.rest();
    assert_eq!(world.account.contents(), before);
}

#[test]
fn a_foreign_table_of_a_subnet_is_named_and_left() {
    let mut world = World::aged(ONE_ZONE);
    let vpc = world.account.vpcs()[0].id.clone();
    let foreign = world.account.add_route_table(&vpc, Tags::new());
    let subnet = table(&world, "dev-rt-public-eu-west-1a").associations[0].subnet_id.clone();
    assert!(world.account.set_association_of_subnet(&subnet, Some(&foreign)));
    world.pass();
    assert_eq!(world.condition(ConditionType::RouteTablesReady), "False/Conflict");
    assert!(world.message(ConditionType::RouteTablesReady).contains(&foreign));
    world.delete();
    for _ in 0..20 {
        world.pass();
        world.advance(Duration::from_secs(30));
    }
    assert!(world.message(ConditionType::VpcReady).contains(&foreign));
    assert!(world.account.foreign_writes().is_empty());
    assert!(world.account.remove_route_table(&foreign));
    world.assert_gone();
}

#[test]
fn a_table_that_a_foreign_subnet_uses_is_not_taken_from_it() {
    let mut world = World::aged(ONE_ZONE);
    let vpc = world.account.vpcs()[0].id.clone();
    let foreign = world.account.add_subnet(&vpc, "10.0.250.0/24", "eu-west-1a", Tags::new());
    let public = table(&world, "dev-rt-public-eu-west-1a").id;
    assert!(world.account.set_association_of_subnet(&foreign, Some(&public)));
    world.delete();
    for _ in 0..20 {
        world.pass();
        world.advance(Duration::from_secs(30));
    }
    assert_eq!(world.condition(ConditionType::RouteTablesReady), "False/DeletionBlocked");
    assert!(world.message(ConditionType::RouteTablesReady).contains(&foreign));
    assert!(world.account.foreign_writes().is_empty());
    assert!(world.account.remove_subnet(&foreign));
    world.assert_gone();
}

#[test]
fn a_refused_change_of_a_subnet_moves_no_route_and_makes_no_gateway() {
    let spec = |back: &str| {
        format!(
            "region: eu-west-1, network: {{subnets: [{{id: front-a, cidrBlock: 10.0.0.0/24, availabilityZone: \
             eu-west-1a, isPublic: true}}, {{id: front-b, cidrBlock: 10.0.1.0/24, availabilityZone: eu-west-1b, \
             isPublic: true}}, {{id: back, cidrBlock: 10.0.2.0/24, {back}}}]}}"
        )
    };
    let mut world = World::aged(&spec("availabilityZone: eu-west-1a"));
    let calls = world.account.calls();
    for changed in ["availabilityZone: eu-west-1b", "availabilityZone: eu-west-1a, isPublic: true"] {
        world.set_spec(&spec(changed));
        for _ in 0..5 {
            world.pass();
            world.advance(Duration::from_secs(30));
        }
        assert_eq!(world.condition(ConditionType::SubnetsReady), "False/InvalidSpec", "{changed}");
        assert_eq!(world.account.calls(), calls, "{changed}");
    }
}
