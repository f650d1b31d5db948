//! What holds for Classic Load Balancers and for network load balancers.

use std::time::Duration;

use capa_api::common::Tags;
use capa_api::conditions::ConditionType;

use super::load_balancers::{NLB, READY};
use super::world::World;

const CLASSIC: &str = "region: eu-west-1";

#[derive(Clone, Copy, Debug)]
enum Generation {
    Classic,
    Network,
}

use Generation::{Classic, Network};

impl Generation {
    /// The spec of a cluster with a load balancer, and the name of the load balancer.
    fn spec_and_name(self) -> (&'static str, &'static str) {
        match self {
            Classic => (CLASSIC, "dev-apiserver"),
            Network => (NLB, "team-a-dev-apiserver"),
        }
    }

    /// Adds a load balancer in the first VPC, or else in a new one. Returns its id and the VPC.
    fn add(self, world: &World, name: &str, tags: Tags) -> (String, String) {
        let first = world.account.subnets().first().map(|subnet| (subnet.vpc_id.clone(), subnet.id.clone()));
        let (vpc, subnet) = first.unwrap_or_else(|| {
            let vpc = world.account.add_vpc("10.9.0.0/16", Tags::new());
            let subnet = world.account.add_subnet(&vpc, "10.9.0.0/24", "eu-west-1a", Tags::new());
            (vpc, subnet)
        });
        let id = match self {
            Classic => world.account.add_classic_load_balancer(name, &vpc, &[&subnet], tags),
            Network => world.account.add_load_balancer(name, &vpc, &[&subnet], tags),
        };
        (id, vpc)
    }

    fn remove(self, world: &World, id: &str) -> bool {
        match self {
            Classic => world.account.remove_classic_load_balancer(id),
            Network => world.account.remove_load_balancer(id),
        }
    }
}

/// The only load balancer: its id, its DNS name and its tags.
fn balancer(world: &World) -> (String, String, Tags) {
    let classic =
        world.account.classic_load_balancers().into_iter().map(|found| (found.name, found.dns_name, found.tags));
    let network = world.account.load_balancers().into_iter().map(|found| (found.arn, found.dns_name, found.tags));
    let mut all: Vec<_> = classic.chain(network).collect();
    assert_eq!(all.len(), 1, "{all:?}");
    all.remove(0)
}

#[test]
fn a_lost_load_balancer_is_never_silently_replaced() {
    let classic = |fields: &str| (Classic, format!("{CLASSIC}, controlPlaneLoadBalancer: {{{fields}}}"));
    for (generation, spec) in [
        (Network, NLB.to_owned()),
        (Classic, CLASSIC.to_owned()),
        classic("name: internal-api"),
        classic("scheme: internal, name: api"),
        classic("scheme: internal, name: internal-api"),
    ] {
        let mut world = World::aged(&spec);
        let (id, host, _) = balancer(&world);
        assert!(generation.remove(&world, &id));
        world.rest_for(Duration::from_mins(15));
        for condition in [READY, ConditionType::Ready] {
            assert_eq!(world.condition(condition), "False/Failed", "{spec}");
            assert!(world.message(condition).contains(&host), "{}", world.message(condition));
        }
        world.lose_status();
        world.rest_for(Duration::from_mins(15));
        assert_eq!(world.condition(READY), "False/Failed", "{spec}");
        let account = &world.account;
        assert!(account.classic_load_balancers().is_empty() && account.load_balancers().is_empty(), "{spec}");
        world.delete_completely();
    }
}

#[test]
fn a_name_that_others_use_is_a_conflict() {
    for generation in [Classic, Network] {
        let (spec, name) = generation.spec_and_name();
        let mut world = World::new(spec);
        let (id, vpc) = generation.add(&world, name, Tags::new());
        world.rest_for(Duration::from_mins(5));
        assert_eq!(world.condition(READY), "False/Conflict", "{generation:?}");
        let message = world.message(READY);
        assert!(message.contains(&vpc) && message.contains(&id), "{message}");
        assert!(world.account.foreign_writes().is_empty(), "{generation:?}");
        assert!(generation.remove(&world, &id));
        world.rest();
        assert!(world.status().provisioned(), "{generation:?}");
    }
}

/// It is deleted with the cluster, because the tag shows that it belongs to the cluster.
#[test]
fn another_load_balancer_with_the_tag_is_named_and_goes_with_the_cluster() {
    for generation in [Classic, Network] {
        let mut world = World::aged(generation.spec_and_name().0);
        let (_, _, tags) = balancer(&world);
        let (id, _) = generation.add(&world, "copy", tags);
        world.rest_for(Duration::from_mins(15));
        assert_eq!(world.condition(READY), "False/Conflict", "{generation:?}");
        assert!(world.message(READY).contains(&id), "{}", world.message(READY));
        assert!(world.account.foreign_writes().is_empty(), "{generation:?}");
        world.delete_completely();
    }
}

#[test]
fn a_load_balancer_of_others_keeps_the_vpc_and_is_named() {
    for (cluster, generation) in [(Classic, Classic), (Network, Classic), (Network, Network)] {
        let mut world = World::aged(cluster.spec_and_name().0);
        let tags = Tags::from([("kubernetes.io/cluster/dev".to_owned(), "owned".to_owned())]);
        let (id, _) = generation.add(&world, "a1b2", tags);
        world.delete();
        world.rest_for(Duration::from_mins(20));
        let message = world.message(ConditionType::VpcReady);
        assert!(message.contains(&id), "{message}");
        assert!(world.account.foreign_writes().is_empty(), "{cluster:?} {generation:?}");
        assert!(generation.remove(&world, &id));
        world.assert_gone();
    }
}
