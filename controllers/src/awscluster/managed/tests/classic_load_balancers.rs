//! Classic Load Balancers, which are the default type, and the endpoint.

use std::time::Duration;

use capa_api::cluster::load_balancer::{LoadBalancerScheme, LoadBalancerType};
use capa_api::common::Tags;
use capa_api::conditions::ConditionType;
use capa_api::meta;
use capa_cloud::elb::{ClassicAttributes, ClassicListener, ClassicLoadBalancer};

use super::world::World;

const READY: ConditionType = ConditionType::LoadBalancerReady;
const CLASSIC: &str = "region: eu-west-1";
const NLB: &str = "region: eu-west-1, controlPlaneLoadBalancer: {loadBalancerType: nlb}";
const NAME: &str = "dev-apiserver";

/// A spec with fields of the load balancer.
fn with(fields: &str) -> String {
    format!("region: eu-west-1, controlPlaneLoadBalancer: {{{fields}}}")
}

/// A spec with fields of the load balancer, and a network load balancer beside it.
fn with_secondary(fields: &str) -> String {
    let secondary = "secondaryControlPlaneLoadBalancer: {loadBalancerType: nlb, scheme: internal, name: inside}";
    format!("{}, {secondary}", with(fields))
}

fn balancer(world: &World) -> ClassicLoadBalancer {
    let all = world.account.classic_load_balancers();
    assert_eq!(all.len(), 1, "{all:?}");
    all[0].clone()
}

/// The only rule of a security group for this traffic.
fn admits(world: &World, group: &str, port: i32) -> bool {
    let groups = world.account.security_groups();
    let group = groups.iter().find(|shown| shown.name == group).unwrap();
    let mut rules = group.ingress.iter();
    rules.any(|rule| rule.traffic.ports == Some((port, port)))
}

fn change(world: &mut World, spec: &str) {
    world.set_spec(spec);
    world.rest_for(Duration::from_mins(15));
}

#[test]
fn a_cluster_without_a_type_has_the_load_balancer_of_capa() {
    let world = World::built(CLASSIC);
    let found = balancer(&world);
    assert_eq!((found.name.as_str(), found.scheme), (NAME, LoadBalancerScheme::InternetFacing));
    assert_eq!(found.zones, ["eu-west-1a", "eu-west-1b", "eu-west-1c"]);
    let subnets = world.account.subnets();
    let is_public = |id: &String| subnets.iter().any(|subnet| subnet.id == *id && subnet.assigns_public_ip);
    assert!(found.subnet_ids.iter().all(is_public), "{found:?}");
    assert_eq!(found.listeners.len(), 1);
    assert_eq!(found.listeners[0].to_string(), "TCP 6443 to TCP 6443");
    assert_eq!(
        found.health_check.to_string(),
        "TCP:6443 every 5 s with 4 s for an answer, healthy after 2 and unhealthy after 6"
    );
    assert_eq!(found.attributes.shown(), Some(&ClassicAttributes { is_cross_zone: false, idle_timeout_seconds: 600 }));
    let tag = |key: &str| found.tags.get(key).map(String::as_str);
    assert_eq!(tag("Name"), Some(NAME));
    assert_eq!(tag(&meta::cluster_tag("dev")), Some("owned"));
    assert_eq!(tag(meta::ROLE_TAG), Some("apiserver"));
    let groups = world.account.security_groups();
    let group = groups.iter().find(|group| group.id == found.security_group_ids[0]).unwrap();
    assert_eq!((found.security_group_ids.len(), group.name.as_str()), (1, "dev-apiserver-lb"));
}

#[test]
fn the_classic_load_balancer_is_endpoint_and_target() {
    let world = World::built(CLASSIC);
    let found = balancer(&world);
    for condition in [READY, ConditionType::ControlPlaneEndpointReady, ConditionType::Ready] {
        assert_eq!(world.condition(condition), "True/Ready", "{}", world.message(condition));
    }
    assert!(world.status().provisioned());
    let spec = world.cluster().unwrap().spec;
    assert_eq!(spec.endpoint(), Some((found.dns_name.as_str(), 6443)));
    let network = world.status().network.unwrap();
    let targets: Vec<_> = network
        .control_plane_targets
        .iter()
        .map(|target| (target.classic_load_balancer_name.as_deref(), target.target_group_arn.as_deref()))
        .collect();
    assert_eq!(targets, [(Some(NAME), None)]);
    assert_eq!(network.pending_control_plane_targets, None);
    let describes = world.account.describes();
    assert!(!describes.contains_key("DescribeLoadBalancers"), "{describes:?}");
}

#[test]
fn settings_reach_the_classic_load_balancer_and_follow_the_spec() {
    let mut world = World::aged(&with("crossZoneLoadBalancing: true, healthCheckProtocol: HTTPS"));
    let vpc = world.account.vpcs()[0].id.clone();
    let found = balancer(&world);
    assert!(found.attributes.shown().unwrap().is_cross_zone);
    assert_eq!(found.health_check.target, "HTTPS:6443/readyz");
    let own = found.security_group_ids[0].clone();
    let theirs = world.account.add_security_group(&vpc, "theirs", Tags::new());
    change(
        &mut world,
        &with(&format!(
            "healthCheckProtocol: SSL, healthCheck: {{intervalSeconds: 30, timeoutSeconds: 20, thresholdCount: 3, \
             unhealthyThresholdCount: 4}}, additionalSecurityGroups: [{theirs}]"
        )),
    );
    let found = balancer(&world);
    assert!(!found.attributes.shown().unwrap().is_cross_zone);
    assert_eq!(
        found.health_check.to_string(),
        "SSL:6443 every 30 s with 20 s for an answer, healthy after 3 and unhealthy after 4"
    );
    let mut groups = found.security_group_ids;
    groups.sort_unstable();
    let mut wanted = [own, theirs];
    wanted.sort_unstable();
    assert_eq!(groups, wanted);
    assert_eq!(world.condition(READY), "True/Ready", "{}", world.message(READY));
}

#[test]
fn a_classic_load_balancer_has_the_listed_subnets_and_keeps_them() {
    let mut world = World::built("region: eu-west-1, controlPlaneLoadBalancer: {loadBalancerType: disabled}");
    let subnets = world.account.subnets();
    let public: Vec<&str> =
        subnets.iter().filter(|subnet| subnet.assigns_public_ip).map(|subnet| subnet.id.as_str()).collect();
    world.set_spec(&with(&format!("name: api, subnets: [{}]", public[0])));
    world.rest();
    assert_eq!(
        (balancer(&world).name.as_str(), &balancer(&world).subnet_ids[..]),
        ("api", &[public[0].to_owned()][..])
    );
    change(&mut world, &with(&format!("name: api, subnets: [{}]", public[1])));
    let mut found = balancer(&world).subnet_ids;
    found.sort_unstable();
    let mut wanted = [public[0], public[1]];
    wanted.sort_unstable();
    assert_eq!(found, wanted);
}

#[test]
fn an_internal_classic_load_balancer_is_in_private_subnets() {
    let mut world = World::built(&with("scheme: internal"));
    let found = balancer(&world);
    assert_eq!(found.scheme, LoadBalancerScheme::Internal);
    let subnets = world.account.subnets();
    let is_private = |id: &String| subnets.iter().any(|subnet| subnet.id == *id && !subnet.assigns_public_ip);
    assert!(found.subnet_ids.len() == 3 && found.subnet_ids.iter().all(is_private), "{found:?}");
    assert!(found.dns_name.starts_with("internal-"), "{}", found.dns_name);
    change(&mut world, &with("scheme: internet-facing"));
    assert_eq!(world.condition(READY), "False/InvalidSpec");
    assert_eq!(balancer(&world), found);
}

#[test]
fn clients_use_another_port_than_the_api_servers() {
    let mut world = World::new(CLASSIC);
    world.set_api_server_port(443);
    world.rest();
    assert_eq!(balancer(&world).listeners[0].to_string(), "TCP 443 to TCP 6443");
    assert!(admits(&world, "dev-apiserver-lb", 443) && !admits(&world, "dev-apiserver-lb", 6443));
    assert!(admits(&world, "dev-controlplane", 6443) && !admits(&world, "dev-controlplane", 443));
    assert_eq!(world.cluster().unwrap().spec.endpoint().map(|(_, port)| port), Some(443));
}

#[test]
fn a_second_load_balancer_leads_to_the_port_of_the_api_servers() {
    let mut world = World::new(&with_secondary(""));
    world.set_api_server_port(443);
    world.rest();
    let group = &world.account.target_groups()[0];
    assert_eq!((world.account.listeners()[0].port, group.port), (6443, 6443));
    for port in [443, 6443] {
        assert!(admits(&world, "dev-apiserver-lb", port), "{port}");
    }
    assert!(admits(&world, "dev-lb", 6443) && !admits(&world, "dev-lb", 443));
}

#[test]
fn the_published_port_stays_open_whatever_the_cluster_names() {
    let mut world = World::aged(CLASSIC);
    world.set_api_server_port(443);
    world.rest_for(Duration::from_mins(15));
    let mut listeners: Vec<String> = balancer(&world).listeners.iter().map(ToString::to_string).collect();
    listeners.sort_unstable();
    assert_eq!(listeners, ["TCP 443 to TCP 6443", "TCP 6443 to TCP 6443"]);
    for port in [443, 6443] {
        assert!(admits(&world, "dev-apiserver-lb", port), "{port}");
    }
    assert_eq!(world.condition(READY), "True/Ready", "{}", world.message(READY));
}

#[test]
fn drift_of_a_classic_load_balancer_is_repaired() {
    let mut world = World::aged(CLASSIC);
    let expected = world.account.contents();
    let check = |world: &mut World, what: &str| {
        assert_ne!(world.account.contents(), expected, "{what} is a change");
        world.advance(Duration::from_mins(10));
        world.rest();
        assert_eq!(world.account.contents(), expected, "{what}");
        assert_eq!(world.condition(ConditionType::Ready), "True/Ready", "{what}");
    };
    assert!(world.account.remove_classic_listener(NAME, 6443));
    check(&mut world, "the listener was deleted");
    let mut health_check = balancer(&world).health_check;
    health_check.timing.interval_seconds = 300;
    assert!(world.account.set_classic_health_check(NAME, health_check));
    check(&mut world, "the health check was changed");
    let attributes = ClassicAttributes { is_cross_zone: true, idle_timeout_seconds: 60 };
    assert!(world.account.set_classic_attributes(NAME, attributes));
    check(&mut world, "the attributes were changed");
    let vpc = world.account.vpcs()[0].id.clone();
    let groups = world.account.security_groups();
    let default = groups.iter().find(|group| group.vpc_id == vpc && group.name == "default");
    assert!(world.account.set_classic_security_groups(NAME, &[&default.unwrap().id]));
    check(&mut world, "the security groups were changed");
    assert!(world.events.iter().any(|event| event.message.contains("idle timeout 60 s")));
}

#[test]
fn a_listener_of_others_on_the_port_of_the_api_is_a_conflict() {
    let mut world = World::aged(CLASSIC);
    let theirs = ClassicListener { instance_port: 80, ..balancer(&world).listeners[0].clone() };
    assert!(world.account.set_classic_listener(NAME, theirs));
    world.rest_for(Duration::from_mins(15));
    assert_eq!(world.condition(READY), "False/Conflict");
    assert!(world.message(READY).contains("TCP 6443 to TCP 80"), "{}", world.message(READY));
    assert_eq!(world.condition(ConditionType::Ready), "True/Ready", "machines go on working");
    assert!(world.account.remove_classic_listener(NAME, 6443));
    world.rest_for(Duration::from_mins(15));
    assert_eq!(world.condition(READY), "True/Ready");
}

#[test]
fn a_cluster_keeps_its_load_balancer_whatever_type_the_spec_asks_for() {
    let types = [(CLASSIC, LoadBalancerType::Nlb, "classic"), (NLB, LoadBalancerType::Classic, "nlb")];
    for (spec, other, back) in types {
        let mut world = World::aged(spec);
        let before = world.account.contents();
        let balancers = |world: &World| {
            let contents = world.account.contents().vpcs.remove(0);
            (contents.load_balancers, contents.classic_load_balancers, contents.target_groups)
        };
        let targets = world.status().network.unwrap().control_plane_targets;
        world.edit(|cluster| {
            let balancer = cluster.spec.control_plane_load_balancer.get_or_insert_default();
            balancer.load_balancer_type = other;
        });
        for loses_status in [false, true] {
            if loses_status {
                world.lose_status();
            }
            world.rest_for(Duration::from_mins(15));
            assert_eq!(world.condition(READY), "False/InvalidSpec", "{spec}, {loses_status}");
            assert!(world.message(READY).contains(back), "{}", world.message(READY));
            let vpc = before.vpcs[0].clone();
            let was = (vpc.load_balancers, vpc.classic_load_balancers, vpc.target_groups);
            assert_eq!(balancers(&world), was, "{spec}, {loses_status}");
            if !loses_status {
                assert_eq!(world.status().network.unwrap().control_plane_targets, targets, "{spec}");
                assert_eq!(world.condition(ConditionType::Ready), "True/Ready", "machines go on working");
            }
        }
        world.delete_completely();
    }
}

#[test]
fn a_cluster_keeps_its_load_balancer_whatever_name_the_spec_asks_for() {
    for (spec, renamed) in
        [(CLASSIC.to_owned(), with("name: other")), (NLB.to_owned(), with("loadBalancerType: nlb, name: other"))]
    {
        let mut world = World::aged(&spec);
        let before = world.account.contents().vpcs.remove(0);
        change(&mut world, &renamed);
        let now = world.account.contents().vpcs.remove(0);
        assert_eq!(
            (now.load_balancers, now.classic_load_balancers, now.target_groups),
            (before.load_balancers, before.classic_load_balancers, before.target_groups),
            "{spec}"
        );
        assert_eq!(world.condition(READY), "False/InvalidSpec", "{spec}");
        assert!(world.message(READY).contains("set name"), "{}", world.message(READY));
        assert_eq!(world.condition(ConditionType::Ready), "True/Ready", "{spec}");
    }
}

#[test]
fn without_its_tag_a_classic_load_balancer_is_not_touched() {
    let mut world = World::aged(CLASSIC);
    let tags = balancer(&world).tags;
    assert!(world.account.set_tags(NAME, Tags::new()));
    let calls = world.account.calls();
    world.rest_for(Duration::from_mins(15));
    assert_eq!(world.condition(READY), "False/NotOwned");
    assert_eq!(world.account.calls(), calls);
    world.delete();
    world.rest_for(Duration::from_mins(15));
    assert_eq!(world.account.classic_load_balancers().len(), 1);
    assert_eq!(world.account.vpcs().len(), 1);
    assert!(world.account.set_tags(NAME, tags));
    world.assert_gone();
}

#[test]
fn the_classic_load_balancer_of_capa_is_taken_over_without_a_write() {
    let mut world = World::aged(CLASSIC);
    world.lose_status();
    let calls = world.account.calls();
    world.rest();
    assert_eq!(world.account.calls(), calls, "{:?}", world.account.journal());
    assert!(world.status().provisioned());
}

#[test]
fn a_type_is_kept_before_there_is_an_endpoint() {
    let mut world = World::new(CLASSIC);
    world.account.set(|account| account.unresolved = true);
    world.rest_for(Duration::from_mins(10));
    assert_eq!(world.condition(READY), "False/WaitingForDNSName");
    world.set_spec(NLB);
    world.rest_for(Duration::from_mins(10));
    assert_eq!(world.condition(READY), "False/InvalidSpec");
    assert!(world.account.load_balancers().is_empty() && world.account.target_groups().is_empty());
    world.account.set(|account| account.unresolved = false);
    world.set_spec(CLASSIC);
    world.rest();
    assert!(world.status().provisioned());
}

#[test]
fn both_generations_stand_beside_each_other() {
    let mut world = World::aged(&with_secondary("crossZoneLoadBalancing: true"));
    assert_eq!(world.condition(READY), "True/Ready", "{}", world.message(READY));
    let inside = world.account.load_balancers();
    assert_eq!((balancer(&world).name.as_str(), inside[0].name.as_str()), (NAME, "inside"));
    let targets = world.status().network.unwrap().control_plane_targets;
    assert_eq!(targets.len(), 2);
    assert_eq!(world.cluster().unwrap().spec.endpoint().unwrap().0, balancer(&world).dns_name);
    // The condition says what is wrong with either of them.
    for action in ["DescribeClassicLoadBalancers", "DescribeListeners"] {
        world.account.set(|account| account.refused_describes = [action.to_owned()].into());
        world.rest_for(Duration::from_mins(2));
        assert_eq!(world.condition(READY), "Unknown/Unauthorized", "{action}");
    }
    world.account.set(|account| account.refused_describes.clear());
    world.delete_completely();
}

#[test]
fn a_refused_observation_at_classic_load_balancers_is_no_absence() {
    for action in ["DescribeClassicLoadBalancers", "DescribeClassicTags"] {
        let mut world = World::aged(CLASSIC);
        let before = world.account.calls();
        world.account.set(|account| account.refused_describes.extend([action.to_owned()]));
        world.rest_for(Duration::from_mins(15));
        assert_eq!(world.condition(READY), "Unknown/Unauthorized", "{action}");
        assert_eq!(world.condition(ConditionType::Ready), "True/Ready", "{action}");
        assert_eq!(world.account.calls(), before, "{action}");
        assert_eq!(world.status().network.unwrap().control_plane_targets.len(), 1, "{action}");
        world.delete();
        world.rest_for(Duration::from_mins(15));
        assert_eq!((world.account.classic_load_balancers().len(), world.account.vpcs().len()), (1, 1), "{action}");
        world.account.set(|account| account.refused_describes.clear());
        world.assert_gone();
    }
    let mut world = World::new(CLASSIC);
    let attributes = "DescribeClassicLoadBalancerAttributes".to_owned();
    world.account.set(|account| account.refused_describes.extend([attributes]));
    world.rest_for(Duration::from_mins(10));
    assert!(world.status().provisioned(), "attributes are optional");
}

#[test]
fn wrong_settings_of_a_classic_load_balancer_are_named_first() {
    let secondary =
        |fields: &str| format!("{CLASSIC}, secondaryControlPlaneLoadBalancer: {{loadBalancerType: nlb, {fields}}}");
    for (spec, part) in [
        (with("healthCheckProtocol: UDP"), "healthCheckProtocol"),
        (with("healthCheck: {intervalSeconds: 5, timeoutSeconds: 5}"), "intervalSeconds"),
        (with("healthCheck: {intervalSeconds: 200, timeoutSeconds: 90}"), "60 s"),
        (with("additionalListeners: [{port: 8132}]"), "additionalListeners"),
        (with("preserveClientIP: true"), "preserveClientIP"),
        (secondary("scheme: internet-facing, name: x"), "scheme"),
        (secondary("scheme: internal, name: dev-apiserver"), "have the name"),
        (secondary("scheme: internal, name: team-a-dev-apiserver"), "have the name"),
    ] {
        let mut world = World::new(&spec);
        world.rest_for(Duration::from_mins(1));
        assert_eq!(world.condition(READY), "False/InvalidSpec", "{spec}");
        assert!(world.message(READY).contains(part), "{spec}: {}", world.message(READY));
        assert_eq!(world.account.calls(), 0, "{spec}");
    }
}

#[test]
fn a_quota_of_classic_load_balancers_is_named() {
    let mut world = World::new(CLASSIC);
    world.account.set(|account| account.classic_load_balancer_quota = 0);
    world.rest_for(Duration::from_mins(5));
    assert_eq!(world.condition(READY), "False/QuotaExceeded");
    assert!(world.message(READY).contains("L-E9E9831D"), "{}", world.message(READY));
}
