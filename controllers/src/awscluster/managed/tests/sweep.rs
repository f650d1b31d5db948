//! The crash sweep: every call of creation and of deletion with every kind of fault. All runs end like the run without
//! a fault. The sweep contains no knowledge about particular resources.

use std::collections::BTreeMap;
use std::time::Duration;

use capa_cloud::managed::Call;
use capa_fake_aws::{Contents, Fault};

use super::world::World;

/// The zones of the cluster. Each has two subnets.
const ZONES: usize = 2;
const SPEC: &str = "region: eu-west-1, network: {vpc: {availabilityZoneUsageLimit: 2}}, controlPlaneLoadBalancer: \
                    {loadBalancerType: nlb, additionalListeners: [{port: 9345}]}";

/// One zone with a load balancer of each generation.
const CLASSIC: &str = "region: eu-west-1, network: {vpc: {availabilityZoneUsageLimit: 1}}, \
                       secondaryControlPlaneLoadBalancer: {loadBalancerType: nlb, scheme: internal, name: inside}";

/// One zone with a network load balancer, for tests that take many runs.
const SMALL: &str = "region: eu-west-1, network: {vpc: {availabilityZoneUsageLimit: 1}}, controlPlaneLoadBalancer: \
                     {loadBalancerType: nlb}";

/// One zone with a network load balancer, whose addresses are from a pool of the user.
const POOL: &str = "region: eu-west-1, network: {vpc: {availabilityZoneUsageLimit: 1, elasticIpPool: {publicIpv4Pool: \
                    ipv4pool-ec2-1, publicIpv4PoolFallbackOrder: none}}}, controlPlaneLoadBalancer: {loadBalancerType: \
                    nlb}";

/// The fault at one call, and its circumstances.
#[derive(Clone, Copy, Debug)]
struct Trouble {
    fault: Fault,
    /// How long AWS hides new resources. It hides their tags for twice as long.
    hidden: Duration,
    /// Whether the status is lost in the pass with the fault.
    loses_status: bool,
}

const FAULTS: [Fault; 7] = [
    Fault::CrashBefore,
    Fault::CrashAfter,
    Fault::CrashInFlight,
    Fault::AnswerLost,
    Fault::NoEffect,
    Fault::Throttled,
    Fault::Refused("UnauthorizedOperation"),
];

/// The faults after which the outcome of the call is unknown.
const UNKNOWN_OUTCOMES: [Fault; 4] = [Fault::CrashBefore, Fault::CrashAfter, Fault::CrashInFlight, Fault::AnswerLost];

/// How long AWS hides new resources.
const HIDDEN: [Duration; 2] = [Duration::ZERO, Duration::from_secs(20)];

/// Every fault with each of [`HIDDEN`]. The status is lost only after a call whose outcome is unknown: after any other
/// call, it is as if it were lost between two calls.
fn troubles() -> impl Iterator<Item = Trouble> {
    let all = FAULTS.into_iter().flat_map(|fault| {
        HIDDEN
            .into_iter()
            .flat_map(move |hidden| [false, true].map(|loses_status| Trouble { fault, hidden, loses_status }))
    });
    all.filter(|trouble| !trouble.loses_status || UNKNOWN_OUTCOMES.contains(&trouble.fault))
}

fn hide(world: &World, hidden: Duration) {
    world.account.set(|account| (account.hidden, account.hidden_tags) = (hidden, hidden * 2));
}

/// A cluster before each pass of a run without faults, for each of [`HIDDEN`]. Runs that differ from one call on begin
/// there, because all of them are alike before it.
struct Checkpoints(BTreeMap<Duration, Vec<World>>);

impl Checkpoints {
    /// Of the run that begins with this world.
    fn of(start: &World) -> Self {
        let of_hidden = HIDDEN.map(|hidden| {
            let mut world = start.fork();
            hide(&world, hidden);
            let mut checkpoints = vec![world.fork()];
            world.rest_watched(|world, _| {
                if world.cluster().is_some() {
                    checkpoints.push(world.fork());
                }
            });
            (hidden, checkpoints)
        });
        Self(BTreeMap::from(of_hidden))
    }

    /// The cluster one pass before the one that makes this call, so that the provider remembers what a pass has seen.
    fn before(&self, call: usize, hidden: Duration) -> World {
        let checkpoints = &self.0[&hidden];
        let later = checkpoints.partition_point(|world| world.account.calls() <= call);
        checkpoints[later.saturating_sub(2)].fork()
    }
}

/// Runs a cluster with troubles at calls until it is at rest. No pass may see a resource twice.
fn rest_with(world: &mut World, troubles: &[(usize, Trouble)]) {
    for (call, trouble) in troubles {
        world.account.fail(*call, trouble.fault);
        hide(world, trouble.hidden);
    }
    let losses: Vec<usize> =
        troubles.iter().filter(|(_, trouble)| trouble.loses_status).map(|(call, _)| *call).collect();
    let mut lost = 0;
    world.rest_watched(|world, _| {
        if losses.get(lost).is_some_and(|call| world.account.calls() > *call) && world.cluster().is_some() {
            lost += 1;
            world.lose_status();
        }
        assert!(world.account.vpcs().len() <= 1, "{troubles:?}: a second VPC: {:?}", world.account.journal());
        for (what, count, most) in [
            ("internet gateway", world.account.internet_gateways().len(), 1),
            ("address", world.account.addresses().len(), ZONES),
            ("NAT gateway", world.account.nat_gateways().len(), ZONES),
            ("route table", world.account.route_tables().len(), 2 * ZONES + 1),
            ("security group", world.account.security_groups().len(), 5),
            ("load balancer", world.account.load_balancers().len(), 1),
            ("target group", world.account.target_groups().len(), 2),
            ("listener", world.account.listeners().len(), 2),
        ] {
            assert!(count <= most, "{troubles:?}: one {what} too many: {:?}", world.account.journal());
        }
    });
}

/// The resources and the number of calls of a run without troubles.
fn undisturbed(spec: &str) -> (Contents, usize) {
    let world = World::built(spec);
    (world.account.contents(), world.account.calls())
}

/// The keys of the tags that the provider has set, by the name of the resource.
fn recorded_tag_keys(world: &World) -> Vec<(String, String, Vec<String>)> {
    let resources = world.status().resources.into_iter();
    resources.map(|resource| (resource.resource_type, resource.name, resource.tag_keys)).collect()
}

fn assert_deleted(world: &mut World, what: &dyn std::fmt::Debug) {
    world.delete();
    world.rest();
    assert!(world.account.is_empty(), "{what:?} leaves {:?}", world.account.contents());
    assert!(world.cluster().is_none(), "{what:?}");
}

#[test]
fn a_fault_at_any_call_of_creation_changes_nothing_in_the_end() {
    let (expected, calls) = undisturbed(SPEC);
    let creation = Checkpoints::of(&World::new(SPEC));
    for call in 0..calls {
        for trouble in troubles() {
            let mut world = creation.before(call, trouble.hidden);
            rest_with(&mut world, &[(call, trouble)]);
            assert_eq!(world.account.contents(), expected, "call {call}, {trouble:?}");
        }
    }
}

/// Runs every trouble at each of these calls of creation and of deletion.
fn sweep(start: &World, is_about: impl Fn(&Call<String>) -> bool) {
    let mut built = start.fork();
    built.rest();
    let (expected, made) = (built.account.contents(), built.account.calls());
    let mut whole = built.fork();
    whole.delete();
    let (creation, deletion) = (Checkpoints::of(start), Checkpoints::of(&whole));
    whole.rest();
    let journal = whole.account.journal();
    for call in (0..journal.len()).filter(|call| is_about(&journal[*call].call)) {
        for trouble in troubles() {
            if call < made {
                let mut world = creation.before(call, trouble.hidden);
                rest_with(&mut world, &[(call, trouble)]);
                assert_eq!(world.account.contents(), expected, "call {call}, {trouble:?}");
            } else {
                let mut world = deletion.before(call, trouble.hidden);
                rest_with(&mut world, &[(call, trouble)]);
                assert!(world.account.is_empty(), "call {call}, {trouble:?}");
                assert!(world.cluster().is_none(), "call {call}, {trouble:?}");
            }
        }
    }
}

#[test]
fn a_fault_at_any_call_about_both_load_balancers_changes_nothing() {
    sweep(&World::new(CLASSIC), |call| matches!(call, Call::Elb(_)));
}

/// The pool has no address beyond those that the cluster needs.
#[test]
fn a_fault_at_any_call_about_addresses_of_a_pool_changes_nothing() {
    let start = World::new(POOL);
    start.account.add_pool("ipv4pool-ec2-1", 2);
    let actions = ["AllocateAddress", "CreateLoadBalancer", "DeleteLoadBalancer", "ReleaseAddress"];
    sweep(&start, |call| actions.contains(&call.action()));
}

#[test]
fn a_fault_at_any_call_of_a_change_of_tags_changes_nothing_in_the_end() {
    let tagged = |tags: &str| format!("{SMALL}, additionalTags: {{{tags}}}");
    let (before, after) = (tagged("team: a, stage: test"), tagged("team: b, cost: high"));
    let built = World::built(&before);
    let made = built.account.calls();
    let mut whole = built.fork();
    whole.set_spec(&after);
    whole.rest();
    let ends = |world: &World| (world.account.contents(), recorded_tag_keys(world));
    let expected = ends(&whole);
    assert!(made < whole.account.calls());
    for call in made..whole.account.calls() {
        // Nothing is new, and after a lost status it is unknown which tags the provider has set.
        for trouble in troubles().filter(|trouble| !trouble.loses_status && trouble.hidden.is_zero()) {
            let mut world = built.fork();
            world.set_spec(&after);
            rest_with(&mut world, &[(call, trouble)]);
            assert_eq!(ends(&world), expected, "call {call}, {trouble:?}");
        }
    }
}

#[test]
fn resources_of_one_name_are_not_mixed_up_by_a_fault() {
    let subnet = |id: &str, part: u8, more: &str| {
        format!("{{id: {id}, cidrBlock: 10.0.{part}.0/24, availabilityZone: eu-west-1a{more}}}")
    };
    let public = ", isPublic: true";
    let subnets = [subnet("one", 0, public), subnet("two", 1, public), subnet("three", 2, "")].join(", ");
    let balancer = "controlPlaneLoadBalancer: {loadBalancerType: disabled}";
    let spec = format!("region: eu-west-1, {balancer}, network: {{subnets: [{subnets}]}}");
    let (expected, calls) = undisturbed(&spec);
    let creation = Checkpoints::of(&World::new(&spec));
    let [_, hidden] = HIDDEN;
    let unknown = UNKNOWN_OUTCOMES.map(|fault| Trouble { fault, hidden, loses_status: false });
    for call in 0..calls {
        for first in &unknown {
            for second in [Fault::NoEffect, Fault::AnswerLost] {
                let mut world = creation.before(call, hidden);
                let second = Trouble { fault: second, ..*first };
                let troubles = [(call, *first), (call + 1, second)];
                rest_with(&mut world, &troubles);
                assert_eq!(world.account.contents(), expected, "{troubles:?}");
            }
        }
    }
}

#[test]
fn a_fault_at_any_call_of_deletion_leaves_nothing() {
    let built = World::built(SPEC);
    let made = built.account.calls();
    let mut whole = built.fork();
    whole.delete();
    let deletion = Checkpoints::of(&whole);
    whole.rest();
    for call in made..whole.account.calls() {
        for trouble in troubles() {
            let mut world = deletion.before(call, trouble.hidden);
            rest_with(&mut world, &[(call, trouble)]);
            assert!(world.account.is_empty(), "call {call}, {trouble:?}: {:?}", world.account.contents());
            assert!(world.cluster().is_none(), "call {call}, {trouble:?}");
        }
    }
}

mod long_stories {
    use super::*;

    #[test]
    fn a_cluster_deleted_after_a_fault_leaves_nothing() {
        let (_, calls) = undisturbed(SMALL);
        let creation = Checkpoints::of(&World::new(SMALL));
        for call in 0..calls {
            for trouble in troubles().filter(|trouble| UNKNOWN_OUTCOMES.contains(&trouble.fault)) {
                let mut world = creation.before(call, trouble.hidden);
                world.account.fail(call, trouble.fault);
                while world.account.calls() <= call {
                    world.pass();
                    world.advance(Duration::from_secs(5));
                }
                if trouble.loses_status {
                    world.lose_status();
                }
                assert_deleted(&mut world, &(call, trouble));
            }
        }
    }

    #[test]
    fn pairs_of_faults_in_creation_change_nothing_in_the_end() {
        let (expected, calls) = undisturbed(SMALL);
        let creation = Checkpoints::of(&World::new(SMALL));
        let [_, hidden] = HIDDEN;
        let trouble = |fault| Trouble { fault, hidden, loses_status: false };
        for first in 0..calls {
            for second in first + 1..(first + 3).min(calls + 1) {
                for one in UNKNOWN_OUTCOMES {
                    for other in [Fault::CrashInFlight, Fault::AnswerLost, Fault::Refused("UnauthorizedOperation")] {
                        let mut world = creation.before(first, hidden);
                        let troubles = [(first, trouble(one)), (second, trouble(other))];
                        rest_with(&mut world, &troubles);
                        assert_eq!(world.account.contents(), expected, "{troubles:?}");
                    }
                }
            }
        }
    }
}
