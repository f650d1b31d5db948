//! Properties over random worlds.

use capa_api::common::Tags;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::world::World;

/// What other people have in the account.
#[derive(Clone, Debug)]
enum Foreign {
    Vpc(&'static str),
    Gateway(&'static str),
    SubnetOfVpc(usize),
    GatewayOfVpc(usize),
    Address(&'static str),
    TableOfVpc(usize, &'static str),
    GroupOfVpc(usize, &'static str),
    NatGatewayOfSubnet(usize, &'static str),
}

fn foreign() -> impl Strategy<Value = Foreign> {
    // Tags that resemble those of the cluster `dev`.
    let tags = || select(&["", "cluster/dev-2", "cluster/de", "cluster/dev.", "Name"][..]);
    prop_oneof![
        tags().prop_map(Foreign::Vpc),
        tags().prop_map(Foreign::Gateway),
        any::<usize>().prop_map(Foreign::SubnetOfVpc),
        any::<usize>().prop_map(Foreign::GatewayOfVpc),
        tags().prop_map(Foreign::Address),
        (any::<usize>(), tags()).prop_map(|(index, text)| Foreign::TableOfVpc(index, text)),
        (any::<usize>(), tags()).prop_map(|(index, text)| Foreign::GroupOfVpc(index, text)),
        (any::<usize>(), tags()).prop_map(|(index, text)| Foreign::NatGatewayOfSubnet(index, text)),
    ]
}

fn tags(text: &str) -> Tags {
    match text {
        "" => Tags::new(),
        "Name" => Tags::from([("Name".to_owned(), "dev-vpc".to_owned())]),
        key => Tags::from([(format!("sigs.k8s.io/cluster-api-provider-aws/{key}"), "owned".to_owned())]),
    }
}

fn add(world: &World, foreign: &[Foreign]) {
    world
        .account
        .set(|account| (account.vpc_quota, account.internet_gateway_quota, account.address_quota) = (50, 50, 50));
    let (mut vpcs, mut subnets) = (vec![], vec![]);
    for thing in foreign {
        match thing {
            Foreign::Vpc(text) => vpcs.push(world.account.add_vpc("10.0.0.0/16", tags(text))),
            Foreign::Gateway(text) => drop(world.account.add_internet_gateway(None, tags(text))),
            Foreign::SubnetOfVpc(index) if !vpcs.is_empty() => {
                let vpc = &vpcs[index % vpcs.len()];
                let range = format!("10.0.{}.0/24", index % 200);
                subnets.push(world.account.add_subnet(vpc, &range, "eu-west-1a", Tags::new()));
            }
            Foreign::Address(text) => drop(world.account.add_address(tags(text))),
            Foreign::TableOfVpc(index, text) if !vpcs.is_empty() => {
                world.account.add_route_table(&vpcs[index % vpcs.len()], tags(text));
            }
            Foreign::GroupOfVpc(index, text) if !vpcs.is_empty() => {
                let name = format!("dev-node{index}");
                world.account.add_security_group(&vpcs[index % vpcs.len()], &name, tags(text));
            }
            Foreign::NatGatewayOfSubnet(index, text) if !subnets.is_empty() => {
                world.account.add_nat_gateway(&subnets[index % subnets.len()], tags(text));
            }
            Foreign::GatewayOfVpc(index) if !vpcs.is_empty() => {
                let vpc = &vpcs[index % vpcs.len()];
                world.account.add_internet_gateway(Some(vpc), Tags::new());
            }
            _ => {}
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn nothing_foreign_is_named_in_a_call(foreign in vec(foreign(), 0..12), zones in 1..4_i64, passes in 0..8_usize) {
        let spec = format!("region: eu-west-1, network: {{vpc: {{availabilityZoneUsageLimit: {zones}}}}}");
        let mut world = World::new(&spec);
        add(&world, &foreign);
        let before = world.account.contents();
        for _ in 0..passes {
            world.pass();
            world.advance(std::time::Duration::from_secs(5));
        }
        world.delete();
        world.rest();
        prop_assert!(world.account.foreign_writes().is_empty());
        prop_assert_eq!(world.account.contents(), before);
    }

    #[test]
    fn a_cluster_at_rest_has_nothing_to_do(
        zones in 1..4_i64,
        schema in select(&["PreferPrivate", "PreferPublic"][..]),
    ) {
        let vpc = format!("availabilityZoneUsageLimit: {zones}, subnetSchema: {schema}");
        let mut world = World::built(&format!("region: eu-west-1, network: {{vpc: {{{vpc}}}}}"));
        let calls = world.account.calls();
        world.lose_status();
        world.rest();
        prop_assert_eq!(world.account.calls(), calls);
    }
}
