//! Changes by AWS or by users after the cluster is complete.

use std::time::Duration;

use capa_api::conditions::ConditionType;
use capa_cloud::ec2::VpcDns;
use capa_cloud::ec2::subnet::Attribute;
use capa_runtime::reconcile::Next;

use super::world::World;

#[test]
fn a_quiet_cluster_is_observed_and_not_written_to() {
    let mut world = World::aged("region: eu-west-1");
    let (calls, writes) = (world.account.calls(), world.writes());
    world.account.reset_describes();
    for _ in 0..100 {
        assert_eq!(world.pass(), Some(Next::AwaitChange));
        world.advance(Duration::from_mins(10));
    }
    assert_eq!((world.account.calls(), world.writes()), (calls, writes));
    let describes: usize = world.account.describes().values().sum();
    assert_eq!(
        describes,
        83 * (6 + 3 + 1) + 17 * (11 + 3 + 1),
        "of the network, of the load balancer, and of the account: lists in 83 observations, everything in 17"
    );
}

#[test]
fn a_quiet_network_load_balancer_costs_64_describes_an_hour() {
    let mut world = World::aged("region: eu-west-1, controlPlaneLoadBalancer: {loadBalancerType: nlb}");
    world.account.reset_describes();
    for minutes in (0..60).step_by(10) {
        let before: usize = world.account.describes().values().sum();
        assert_eq!(world.pass(), Some(Next::AwaitChange));
        let describes = world.account.describes().values().sum::<usize>() - before;
        // One is that of the account.
        assert_eq!(describes - 1, if minutes == 0 { 19 } else { 9 }, "after {minutes} min");
        world.advance(Duration::from_mins(10));
    }
}

#[test]
fn a_surplus_internet_gateway_changes_the_status_once() {
    let mut world = World::aged("region: eu-west-1");
    let tags = world.account.internet_gateways()[0].tags.clone();
    world.account.add_internet_gateway(None, tags);
    world.pass();
    let writes = world.writes();
    for _ in 0..12 {
        world.advance(Duration::from_mins(10));
        world.pass();
    }
    assert_eq!(world.writes(), writes);
}

#[test]
fn a_list_that_aws_does_not_show_is_asked_for_once_an_observation() {
    let mut world = World::aged("region: eu-west-1");
    world.pass();
    world.account.set(|account| account.refused_describes = ["DescribeSecurityGroups".to_owned()].into());
    world.account.reset_describes();
    world.advance(Duration::from_mins(10));
    world.pass();
    assert_eq!(world.condition(ConditionType::ClusterSecurityGroupsReady), "Unknown/Unauthorized");
    assert_eq!(world.account.describes()["DescribeSecurityGroups"], 1);
    assert!(!world.account.describes().contains_key("DescribeAddresses"));
}

#[test]
fn what_the_lists_do_not_show_is_read_once_an_hour_and_when_asked_for() {
    let off = VpcDns { support: true, hostnames: false };
    let mut world = World::aged("region: eu-west-1");
    world.pass();
    let id = world.account.vpcs()[0].id.clone();
    let is_on = |world: &World| world.account.dns(&id).unwrap().hostnames;
    assert!(world.account.set_dns(&id, off));
    for _ in 0..5 {
        world.advance(Duration::from_mins(10));
        world.pass();
        assert!(!is_on(&world));
    }
    world.advance(Duration::from_mins(10));
    world.pass();
    assert!(is_on(&world), "after an hour");
    world.rest();
    assert!(world.account.set_dns(&id, off));
    world.pass();
    assert!(!is_on(&world));
    world.edit(|cluster| {
        let annotations = cluster.metadata.annotations.get_or_insert_default();
        annotations.insert("example.org/look".to_owned(), "again".to_owned());
    });
    world.pass();
    assert!(is_on(&world), "after a change of an annotation");
}

#[test]
fn a_change_that_the_lists_show_is_repaired_after_an_observation_at_everything() {
    let mut world = World::aged("region: eu-west-1");
    world.pass();
    let gateway = world.account.internet_gateways()[0].id.clone();
    assert!(world.account.set_attachment(&gateway, None));
    world.account.reset_describes();
    world.advance(Duration::from_mins(10));
    world.pass();
    assert_eq!(world.account.internet_gateways()[0].vpc_id.as_deref(), Some(&*world.account.vpcs()[0].id));
    assert!(world.account.describes().contains_key("DescribeAddresses"));
}

#[test]
fn drift_is_repaired_in_one_pass() {
    type Drift = fn(&World, &str);
    let drifts: [(&str, Drift); 4] = [
        ("SuccessfulModifyVpcAttribute", |world, vpc| {
            let dns = VpcDns { support: true, hostnames: false };
            assert!(world.account.set_dns(vpc, dns));
        }),
        ("SuccessfulModifySubnetAttribute", |world, _| {
            let mut public = world.account.subnets().into_iter().filter(|subnet| subnet.assigns_public_ip);
            let subnet = public.next().unwrap().id;
            assert!(world.account.set_subnet_attribute(&subnet, Attribute::MapPublicIpOnLaunch(false)));
        }),
        ("SuccessfulAttachInternetGateway", |world, _| {
            let gateway = world.account.internet_gateways()[0].id.clone();
            assert!(world.account.set_attachment(&gateway, None));
        }),
        ("SuccessfulCreateSubnet", |world, _| {
            let subnet = world.account.subnets()[0].id.clone();
            assert!(world.account.remove_subnet(&subnet));
        }),
    ];
    for (event, drift) in drifts {
        let mut world = World::aged("region: eu-west-1");
        let before = world.account.contents();
        world.events.clear();
        drift(&world, &world.account.vpcs()[0].id);
        assert_ne!(world.account.contents(), before, "{event}: the drift is there");
        world.pass();
        if event == "SuccessfulCreateSubnet" {
            // A single observation without the resource proves nothing.
            assert_eq!(world.reasons(), [""; 0]);
            world.advance(Duration::from_secs(60));
            world.pass();
        }
        assert_eq!(world.reasons(), [event]);
        world.rest();
        assert_eq!(world.account.contents(), before, "{event}");
    }
}

#[test]
fn a_vpc_that_vanished_is_not_made_anew() {
    let mut world = World::aged("region: eu-west-1");
    for subnet in world.account.subnets() {
        assert!(world.account.remove_subnet(&subnet.id));
    }
    let gateway = world.account.internet_gateways()[0].id.clone();
    assert!(world.account.set_attachment(&gateway, None));
    let vpc = world.account.vpcs()[0].id.clone();
    assert!(world.account.remove_vpc(&vpc));
    let calls = world.account.calls();
    world.pass();
    assert_eq!(world.condition(ConditionType::VpcReady), "False/Creating");
    world.advance(Duration::from_secs(60));
    world.pass();
    assert_eq!(world.condition(ConditionType::VpcReady), "False/NotFound");
    assert!(world.message(ConditionType::VpcReady).contains(&vpc));
    assert_eq!(world.account.calls(), calls);
    world.delete_completely();
}

#[test]
fn a_changed_range_or_zone_is_refused_and_changes_nothing() {
    let spec = |range: &str| {
        format!(
            "region: eu-west-1, network: {{subnets: [{{id: front, cidrBlock: {range}, availabilityZone: eu-west-1a, \
             isPublic: true}}]}}"
        )
    };
    let mut world = World::aged(&spec("10.0.0.0/24"));
    let calls = world.account.calls();
    world.set_spec(&spec("10.0.1.0/24"));
    world.pass();
    assert_eq!(world.condition(ConditionType::SubnetsReady), "False/InvalidSpec");
    assert!(world.message(ConditionType::SubnetsReady).contains("10.0.0.0/24"));
    world.set_spec("region: eu-west-1, network: {vpc: {cidrBlock: 10.2.0.0/16}}");
    world.pass();
    assert_eq!(world.condition(ConditionType::VpcReady), "False/InvalidSpec");
    assert_eq!(world.account.calls(), calls);
}

#[test]
fn an_observation_that_is_refused_is_told_and_leads_to_no_call() {
    let mut world = World::aged("region: eu-west-1");
    let calls = world.account.calls();
    for action in [
        "DescribeVpcs",
        "DescribeSubnets",
        "DescribeInternetGateways",
        "DescribeVpcAttribute",
        "DescribeNatGateways",
        "DescribeRouteTables",
        "DescribeSecurityGroups",
    ] {
        world.account.set(|account| account.refused_describes = [action.to_owned()].into());
        world.pass();
        let conditions = world.status().conditions;
        let unknown = conditions.iter().find(|condition| condition.status == "Unknown");
        assert_eq!(unknown.map(|condition| condition.reason.as_str()), Some("Unauthorized"), "{action}");
    }
    assert_eq!(world.account.calls(), calls);
}

#[test]
fn one_observation_without_a_young_resource_proves_nothing_after_rest() {
    let mut world = World::new("region: eu-west-1, controlPlaneLoadBalancer: {loadBalancerType: disabled}");
    world.rest();
    let calls = world.account.calls();
    world.advance(Duration::from_mins(10));
    world.account.set(|account| account.hidden = Duration::from_hours(1));
    world.pass();
    assert_eq!(world.condition(ConditionType::VpcReady), "False/Creating");
    assert_eq!(world.account.calls(), calls);
}
