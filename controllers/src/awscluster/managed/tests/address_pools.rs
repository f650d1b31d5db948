//! Elastic IPs from a pool of the user.

use std::time::Duration;

use capa_api::conditions::ConditionType;

use super::brought::{Brought, bring};
use super::load_balancers::READY;
use super::world::World;

const POOL: &str = "ipv4pool-ec2-1";
const NAT: ConditionType = ConditionType::NatGatewaysReady;

/// A cluster in two zones whose addresses are from the pool.
fn spec(fallback: &str, balancer: &str) -> String {
    format!(
        "region: eu-west-1, network: {{vpc: {{availabilityZoneUsageLimit: 2, elasticIpPool: {{publicIpv4Pool: {POOL}, \
         publicIpv4PoolFallbackOrder: {fallback}}}}}}}, controlPlaneLoadBalancer: {{{balancer}}}"
    )
}

fn pools_named(world: &World) -> Vec<bool> {
    let journal = world.account.journal();
    let calls = journal.iter().filter(|entry| entry.call.action() == "AllocateAddress");
    let calls = calls.map(|entry| serde_json::to_string(&entry.call).unwrap_or_default());
    calls.map(|call| call.contains(POOL)).collect()
}

/// A complete cluster in a VPC of the user, with a load balancer that has the only address of the pool.
fn brought_with_pool() -> Brought {
    let mut brought = bring();
    let pool = format!("elasticIpPool: {{publicIpv4Pool: {POOL}, publicIpv4PoolFallbackOrder: none}}");
    let spec = brought.spec("", ", controlPlaneLoadBalancer: {loadBalancerType: nlb}");
    let spec = spec.replacen("vpc: {", &format!("vpc: {{{pool}, "), 1);
    let world = &mut brought.world;
    world.account.add_pool(POOL, 1);
    world.set_spec(&spec);
    world.rest();
    brought
}

#[test]
fn gateways_and_public_load_balancers_have_addresses_of_the_pool() {
    let mut world = World::new(&spec("none", "loadBalancerType: nlb"));
    world.account.add_pool(POOL, 4);
    world.rest();
    assert_eq!(world.condition(READY), "True/Ready", "{}", world.message(READY));
    assert_eq!(pools_named(&world), [true; 4], "network.vpc.elasticIpPool.publicIpv4Pool");
    let addresses = world.account.addresses();
    let roles = |role: &str| {
        let roles = addresses.iter().map(|address| address.tags["Name"].as_str());
        roles.filter(|name| *name == format!("dev-eip-{role}")).count()
    };
    assert_eq!((roles("common"), roles("lb-apiserver")), (2, 2));
    assert!(addresses.iter().all(|address| address.association_id.is_some()), "{addresses:?}");
    world.delete_completely();
}

#[test]
fn a_load_balancer_in_a_vpc_of_the_user_has_addresses_of_the_pool() {
    let mut brought = brought_with_pool();
    let world = &mut brought.world;
    assert_eq!(world.condition(READY), "True/Ready", "{}", world.message(READY));
    assert_eq!(pools_named(world), [true]);
    world.delete();
    world.lose_status();
    world.rest();
    assert!(world.cluster().is_none());
    assert_eq!(world.account.contents(), brought.before);
}

#[test]
fn an_address_that_lacks_to_a_load_balancer_is_named_by_its_condition() {
    let mut world = World::new(&spec("none", "loadBalancerType: nlb"));
    world.account.add_pool(POOL, 3);
    world.rest_for(std::time::Duration::from_mins(10));
    assert_eq!(
        (world.condition(NAT), world.condition(READY)),
        ("True/Ready".to_owned(), "False/QuotaExceeded".to_owned())
    );
    assert!(world.message(READY).contains(POOL), "{}", world.message(READY));
}

#[test]
fn an_internal_load_balancer_takes_no_address() {
    let mut world = World::new(&spec("none", "loadBalancerType: nlb, scheme: internal"));
    world.account.add_pool(POOL, 2);
    world.rest();
    assert_eq!(world.condition(READY), "True/Ready");
    assert_eq!(pools_named(&world), [true; 2]);
}

#[test]
fn an_exhausted_pool_is_named_until_it_has_addresses() {
    let mut world = World::new(&spec("none", "loadBalancerType: nlb, scheme: internal"));
    world.account.add_pool(POOL, 1);
    world.rest_for(std::time::Duration::from_mins(10));
    assert_eq!(world.condition(NAT), "False/QuotaExceeded");
    assert!(world.message(NAT).contains(POOL), "{}", world.message(NAT));
    assert_eq!(world.account.addresses().len(), 1);
    world.account.add_pool(POOL, 1);
    world.advance(std::time::Duration::from_mins(10));
    world.rest();
    assert_eq!(world.condition(NAT), "True/Ready");
}

#[test]
fn an_exhausted_pool_may_be_followed_by_addresses_of_amazon() {
    let mut world = World::new(&spec("amazon-pool", "loadBalancerType: nlb, scheme: internal"));
    world.account.add_pool(POOL, 1);
    world.rest();
    assert_eq!(world.condition(NAT), "True/Ready");
    assert_eq!(pools_named(&world), [true, false], "network.vpc.elasticIpPool.publicIpv4PoolFallbackOrder");
}

#[test]
fn a_pool_that_is_not_there_is_named() {
    let mut world = World::new(&spec("none", "loadBalancerType: nlb, scheme: internal"));
    world.rest_for(std::time::Duration::from_mins(10));
    assert_eq!(world.condition(NAT), "False/NotFound");
    assert!(world.account.addresses().is_empty());
}

#[test]
fn an_address_is_released_once_aws_has_ended_its_association() {
    let mut brought = brought_with_pool();
    let world = &mut brought.world;
    world.delete();
    world.pass();
    let mut addresses = world.account.addresses().into_iter();
    let is_own = |name: &String| name == "dev-eip-lb-apiserver";
    let address = addresses.find(|address| address.tags.get("Name").is_some_and(is_own));
    let address = address.expect("an address").allocation_id;
    assert!(world.account.set_association(&address, Some("eipassoc-1")));
    world.rest_for(Duration::from_mins(5));
    assert_eq!(world.condition(READY), "False/Deleting");
    let releases = |world: &World| {
        let journal = world.account.journal().into_iter();
        journal.filter(|entry| entry.call.action() == "ReleaseAddress").count()
    };
    assert!(world.message(READY).contains("eipassoc-1"));
    let before = releases(world);
    assert!(world.account.set_association(&address, None));
    world.rest();
    assert_eq!(releases(world), before + 1);
    assert!(world.cluster().is_none());
}
