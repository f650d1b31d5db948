//! Network load balancers, their target groups and listeners, and the endpoint.

use std::time::Duration;

use capa_api::cluster::load_balancer::LoadBalancerScheme;
use capa_api::common::Tags;
use capa_api::conditions::ConditionType;
use capa_api::network::NetworkSubnet;
use capa_cloud::elb::{LoadBalancer, Protocol, TargetGroup};

use super::world::World;

pub(super) const READY: ConditionType = ConditionType::LoadBalancerReady;
const ENDPOINT: ConditionType = ConditionType::ControlPlaneEndpointReady;
pub(super) const NLB: &str = "region: eu-west-1, controlPlaneLoadBalancer: {loadBalancerType: nlb}";
pub(super) const NAME: &str = "team-a-dev-apiserver";

/// A spec with more fields of the load balancer.
pub(super) fn with(fields: &str) -> String {
    format!("region: eu-west-1, controlPlaneLoadBalancer: {{loadBalancerType: nlb, {fields}}}")
}

/// A spec with a second load balancer, which is internal.
pub(super) fn with_secondary(fields: &str) -> String {
    format!(
        "{NLB}, secondaryControlPlaneLoadBalancer: {{loadBalancerType: nlb, scheme: internal, name: inside, {fields}}}"
    )
}

pub(super) fn balancer(world: &World, name: &str) -> LoadBalancer {
    let all = world.account.load_balancers();
    let found = all.iter().find(|balancer| balancer.name == name);
    found.unwrap_or_else(|| panic!("no {name}: {all:?}")).clone()
}

pub(super) fn group(world: &World, port: i32) -> TargetGroup {
    let all = world.account.target_groups();
    let found = all.iter().find(|group| group.port == port);
    found.unwrap_or_else(|| panic!("no group with {port}: {all:?}")).clone()
}

fn attribute(seen: &capa_cloud::managed::Seen<std::collections::BTreeMap<String, String>>, name: &str) -> String {
    seen.shown().and_then(|all| all.get(name)).cloned().unwrap_or_default()
}

/// Runs passes until nothing is left to do, after a change by a user.
pub(super) fn observe_again(world: &mut World) {
    world.advance(Duration::from_hours(1));
    world.rest();
}

#[test]
fn a_cluster_with_a_network_load_balancer_is_provisioned() {
    let mut world = World::new(NLB);
    let mut waited = false;
    world.rest_watched(|world, _| waited |= world.condition(READY) == "False/Creating");
    assert!(waited, "the load balancer is waited for");
    let found = balancer(&world, NAME);
    assert_eq!(found.scheme, LoadBalancerScheme::InternetFacing);
    assert_eq!(found.subnets.keys().collect::<Vec<_>>(), ["eu-west-1a", "eu-west-1b", "eu-west-1c"]);
    let public = world.account.subnets().into_iter().filter(|subnet| subnet.assigns_public_ip);
    let mut public: Vec<String> = public.map(|subnet| subnet.id).collect();
    public.sort_unstable();
    let mut used: Vec<String> = found.subnets.values().cloned().collect();
    used.sort_unstable();
    assert_eq!(used, public);
    let tag = |tags: &Tags, key: &str| tags.get(&format!("sigs.k8s.io/cluster-api-provider-aws/{key}")).cloned();
    let group = group(&world, 6443);
    let listener = &world.account.listeners()[0];
    for tags in [&found.tags, &group.tags, &listener.tags] {
        assert_eq!(tags.get("Name").map(String::as_str), Some(NAME));
        assert_eq!(tag(tags, "cluster/dev").as_deref(), Some("owned"));
        assert_eq!(tag(tags, "role").as_deref(), Some("apiserver"));
    }
    assert!(group.name.starts_with("apiserver-target-") && group.name.len() == 22, "{}", group.name);
    assert_eq!((listener.port, &listener.target_group_arns), (6443, &vec![group.arn.clone()]));
    assert_eq!(attribute(&group.attributes, "preserve_client_ip.enabled"), "false");
    let draining = "target_health_state.unhealthy.draining_interval_seconds";
    assert_eq!(attribute(&group.attributes, draining), "300");
    assert_eq!((&group.health_check.protocol, group.health_check.port.as_str()), (&Protocol::Tcp, "6443"));

    for condition in [READY, ENDPOINT, ConditionType::Ready] {
        assert_eq!(world.condition(condition), "True/Ready", "{condition}: {}", world.message(condition));
    }
    let status = world.status();
    assert!(status.provisioned() && status.ready == Some(true));
    let spec = world.cluster().unwrap().spec;
    assert_eq!(spec.endpoint(), Some((found.dns_name.as_str(), 6443)));
    let endpoint = status.control_plane_endpoint.unwrap();
    assert_eq!((endpoint.host, endpoint.port), (found.dns_name, 6443));
}

/// The published zones, each with whether control plane machines may use it.
pub(super) fn failure_domains(world: &World) -> Vec<(String, bool)> {
    let zones = world.status().failure_domains.into_iter();
    zones.map(|zone| (zone.name, zone.control_plane.unwrap_or_default())).collect()
}

#[test]
fn the_network_for_machines_is_published() {
    let world = World::built(NLB);
    let status = world.status();
    let network = status.network.unwrap();
    let vpc = network.vpc.as_ref().unwrap();
    assert_eq!((&vpc.id, &vpc.cidr_blocks[..]), (&world.account.vpcs()[0].id, &["10.0.0.0/16".to_owned()][..]));
    let is_private = |subnet: &&NetworkSubnet| subnet.public == Some(false);
    assert_eq!(network.subnets.len(), 6);
    assert_eq!(network.subnets.iter().filter(is_private).count(), 3);
    let groups = network.security_groups.as_ref().unwrap();
    let named = |ids: &[String]| {
        let groups = world.account.security_groups();
        let name = |id: &String| groups.iter().find(|group| group.id == *id).unwrap().name.clone();
        ids.iter().map(name).collect::<Vec<_>>()
    };
    assert_eq!(named(&groups.all), ["dev-node", "dev-lb"]);
    assert_eq!(named(&groups.control_plane), ["dev-controlplane"]);
    let targets: Vec<_> = network.control_plane_targets.iter().map(|target| target.target_group_arn.clone()).collect();
    assert_eq!(targets, [Some(group(&world, 6443).arn)]);
    assert_eq!(network.pending_control_plane_targets, None);
    assert_eq!(network.cluster_tag.as_deref(), Some("dev"));
    assert!(network.identity_ref.is_some());
    assert_eq!(failure_domains(&world), ["eu-west-1a", "eu-west-1b", "eu-west-1c"].map(|zone| (zone.to_owned(), true)));
}

#[test]
fn zones_without_a_private_subnet_are_no_failure_domains() {
    let subnet = |id: &str, zone: &str, number: u8, is_public: bool| {
        format!("{{id: {id}, cidrBlock: 10.0.{number}.0/24, availabilityZone: {zone}, isPublic: {is_public}}}")
    };
    let [a, b] = ["eu-west-1a", "eu-west-1b"];
    let public = [subnet("public-a", a, 0, true), subnet("public-b", b, 1, true)].join(", ");
    let private = subnet("private-a", a, 2, false);
    let only_public = World::built(&format!("{NLB}, network: {{subnets: [{public}]}}"));
    assert_eq!(failure_domains(&only_public), [(a.to_owned(), true), (b.to_owned(), true)]);
    let with_private = World::built(&format!("{NLB}, network: {{subnets: [{public}, {private}]}}"));
    assert_eq!(failure_domains(&with_private), [(a.to_owned(), true)]);
}

#[test]
fn settings_of_the_spec_reach_aws_and_follow_it() {
    let listeners = "additionalListeners: [{port: 9345, healthCheck: {protocol: HTTP, port: '9000', path: /up}}]";
    let mut world = World::built(&with(&format!("crossZoneLoadBalancing: true, preserveClientIP: true, {listeners}")));
    let cross_zone = |world: &World| attribute(&balancer(world, NAME).attributes, "load_balancing.cross_zone.enabled");
    let preserved = |world: &World| attribute(&group(world, 9345).attributes, "preserve_client_ip.enabled");
    assert_eq!((cross_zone(&world), preserved(&world)), ("true".to_owned(), "true".to_owned()));
    let check = group(&world, 9345).health_check;
    assert_eq!((&check.protocol, check.port.as_str(), check.path.as_deref()), (&Protocol::Http, "9000", Some("/up")));
    assert!(group(&world, 9345).name.starts_with("additional-listener-"));
    world.set_spec(&with("additionalListeners: [{port: 9345}], healthCheck: {intervalSeconds: 30}"));
    world.rest();
    assert_eq!((cross_zone(&world), preserved(&world)), ("false".to_owned(), "false".to_owned()));
    let checks = [6443, 9345].map(|port| group(&world, port).health_check);
    assert_eq!(checks.each_ref().map(|check| check.timing.interval_seconds), [30, 5]);
    assert_eq!((&checks[1].protocol, checks[1].path.as_deref()), (&Protocol::Tcp, None));
}

#[test]
fn an_internal_load_balancer_is_in_private_subnets() {
    let world = World::built(&with("scheme: internal"));
    let found = balancer(&world, NAME);
    assert_eq!(found.scheme, LoadBalancerScheme::Internal);
    let subnets = world.account.subnets();
    let is_private = |id: &String| subnets.iter().any(|subnet| subnet.id == *id && !subnet.assigns_public_ip);
    assert!(found.subnets.len() == 3 && found.subnets.values().all(is_private), "{found:?}");
}

#[test]
fn subnets_and_security_groups_of_the_spec_are_used() {
    let mut world = World::built("region: eu-west-1, controlPlaneLoadBalancer: {loadBalancerType: disabled}");
    let vpc = world.account.vpcs()[0].id.clone();
    let public: Vec<String> =
        world.account.subnets().into_iter().filter(|subnet| subnet.assigns_public_ip).map(|subnet| subnet.id).collect();
    let groups = ["one", "two"].map(|name| world.account.add_security_group(&vpc, name, Tags::new()));
    world.set_spec(&with(&format!("name: api, subnets: [{}], additionalSecurityGroups: [{}]", public[0], groups[0])));
    world.rest();
    let found = balancer(&world, "api");
    assert_eq!(found.subnets.values().collect::<Vec<_>>(), [&public[0]]);
    assert!(found.security_group_ids.len() == 2 && found.security_group_ids.contains(&groups[0]));
    // More of both are added later, and removed groups go.
    world.set_spec(&with(&format!(
        "name: api, subnets: [{}, {}], additionalSecurityGroups: [{}]",
        public[0], public[1], groups[1]
    )));
    world.rest();
    let found = balancer(&world, "api");
    assert_eq!(found.subnets.len(), 2);
    assert!(found.security_group_ids.contains(&groups[1]) && !found.security_group_ids.contains(&groups[0]));
}

#[test]
fn without_a_load_balancer_the_endpoint_is_the_users() {
    let mut world = World::built("region: eu-west-1, controlPlaneLoadBalancer: {loadBalancerType: disabled}");
    assert_eq!(world.condition(READY), "absent");
    assert_eq!(world.condition(ENDPOINT), "False/WaitingForEndpoint");
    assert_eq!(world.condition(ConditionType::Ready), "False/WaitingForEndpoint");
    assert!(!world.status().provisioned());
    assert!(!world.account.describes().contains_key("DescribeLoadBalancers"));
    world.set_spec(
        "region: eu-west-1, controlPlaneLoadBalancer: {loadBalancerType: disabled}, controlPlaneEndpoint: {host: \
         api.example.org, port: 443}",
    );
    world.rest();
    assert!(world.status().provisioned());
    assert_eq!(world.condition(ConditionType::Ready), "True/Ready");
}

#[test]
fn the_endpoint_waits_until_its_name_resolves_unless_the_spec_says_otherwise() {
    let mut world = World::new(NLB);
    world.account.set(|account| account.unresolved = true);
    for _ in 0..60 {
        world.pass();
        world.advance(Duration::from_secs(5));
    }
    assert_eq!(world.condition(READY), "False/WaitingForDNSName");
    assert!(world.message(READY).contains("dnsResolutionCheck"), "{}", world.message(READY));
    assert!(world.cluster().unwrap().spec.endpoint().is_none());
    assert!(!world.status().provisioned());
    world.account.set(|account| account.unresolved = false);
    world.rest();
    assert!(world.status().provisioned());

    let mut unchecked = World::new(&with("dnsResolutionCheck: None"));
    unchecked.account.set(|account| account.unresolved = true);
    unchecked.rest();
    assert!(unchecked.status().provisioned(), "controlPlaneLoadBalancer.dnsResolutionCheck");
}

#[test]
fn a_load_balancer_that_aws_cannot_make_is_named() {
    let mut world = World::new(NLB);
    world.account.fail_load_balancers(1, "no free addresses");
    world.rest_for(Duration::from_mins(5));
    assert_eq!(world.condition(READY), "False/Failed");
    assert!(world.message(READY).contains("no free addresses"), "{}", world.message(READY));
    assert!(world.account.remove_load_balancer(&balancer(&world, NAME).arn));
    observe_again(&mut world);
    assert!(world.status().provisioned(), "{}", world.message(READY));
}

#[test]
fn a_refused_observation_is_no_absence() {
    for action in ["DescribeLoadBalancers", "DescribeTargetGroups", "DescribeListeners", "DescribeTags"] {
        let mut world = World::aged(NLB);
        let before = world.account.calls();
        world.account.set(|account| account.refused_describes.extend([action.to_owned()]));
        for _ in 0..30 {
            world.pass();
            world.advance(Duration::from_secs(30));
        }
        assert_eq!(world.condition(READY), "Unknown/Unauthorized", "{action}");
        assert_eq!(world.condition(ConditionType::Ready), "True/Ready", "{action}");
        assert_eq!(world.account.calls(), before, "{action}");
        assert!(world.status().network.unwrap().control_plane_targets.len() == 1, "{action}");
    }
    let with_refused = |action: &str| {
        let mut world = World::new(NLB);
        world.account.set(|account| account.refused_describes.extend([action.to_owned()]));
        world.rest_for(Duration::from_mins(10));
        world
    };
    assert!(with_refused("DescribeLoadBalancerAttributes").status().provisioned(), "optional");
    let world = with_refused("DescribeTargetGroupAttributes");
    assert_eq!(world.condition(READY), "False/Unauthorized", "what targets see of clients matters");
}

#[test]
fn wrong_settings_are_named_before_anything_is_made() {
    const LISTENER_TYPES: [&str; 2] = [
        "controlPlaneLoadBalancer.additionalListeners[].targetGroupIPType",
        "secondaryControlPlaneLoadBalancer.additionalListeners[].targetGroupIPType",
    ];
    let secondary = |fields: &str| format!("{NLB}, secondaryControlPlaneLoadBalancer: {{{fields}}}");
    for (spec, part) in [
        (with("healthCheckProtocol: SSL"), "healthCheckProtocol"),
        (with("additionalListeners: [{port: 6443}]"), "6443"),
        (with("healthCheck: {intervalSeconds: 5, timeoutSeconds: 5}"), "timeoutSeconds"),
        (with("targetGroupIPType: ipv6"), "targetGroupIPType"),
        (with("additionalListeners: [{port: 1, targetGroupIPType: ipv6}]"), LISTENER_TYPES[0]),
        (
            secondary(
                "loadBalancerType: nlb, scheme: internal, name: x, additionalListeners: [{port: 1, targetGroupIPType: \
                 ipv6}]",
            ),
            LISTENER_TYPES[1],
        ),
        (secondary("loadBalancerType: nlb, scheme: internal"), "name"),
        (secondary("loadBalancerType: nlb, scheme: internet-facing, name: x"), "scheme"),
        (secondary("loadBalancerType: nlb, scheme: internal, name: team-a-dev-apiserver"), "have the name"),
        (secondary("scheme: internal, name: x"), "nlb"),
        (
            with(
                "additionalListeners: [{port: 1}, {port: 2}, {port: 3}, {port: 4}, {port: 5}, {port: 6}, {port: 7}, \
                 {port: 8}]",
            ),
            "9 listeners",
        ),
    ] {
        let mut world = World::new(&spec);
        world.rest_for(Duration::from_mins(1));
        assert_eq!(world.condition(READY), "False/InvalidSpec", "{spec}");
        let part = part.rsplit('.').next().unwrap_or_default();
        assert!(world.message(READY).contains(part), "{spec}: {}", world.message(READY));
        assert_eq!(world.account.calls(), 0, "{spec}");
    }
}

#[test]
fn the_cluster_is_deleted_with_its_load_balancers() {
    let mut world = World::aged(&with_secondary("additionalListeners: [{port: 8132}]"));
    world.delete_completely();
}

#[test]
fn a_deletion_waits_for_an_observation_at_target_groups() {
    let mut world = World::aged(NLB);
    assert!(world.account.remove_load_balancer(&balancer(&world, NAME).arn));
    world.account.set(|account| account.refused_describes.extend(["DescribeTargetGroups".to_owned()]));
    world.delete();
    world.rest_for(Duration::from_mins(15));
    assert_eq!(world.account.vpcs().len(), 1, "the VPC stays until the observation succeeds");
    world.account.set(|account| account.refused_describes.clear());
    world.assert_gone();
}

#[test]
fn a_half_set_endpoint_is_the_users_to_complete() {
    let mut world = World::new(&format!("{NLB}, controlPlaneEndpoint: {{port: 443}}"));
    world.rest_for(Duration::from_mins(5));
    assert_eq!(world.condition(ENDPOINT), "False/MissingField");
    assert_eq!(world.condition(ConditionType::Ready), "False/MissingField");
    assert_eq!(world.condition(READY), "True/Ready");
}

#[test]
fn a_host_of_the_user_is_no_lost_load_balancer() {
    let spec = with("name: prod");
    let world = World::built(&format!("{spec}, controlPlaneEndpoint: {{host: prod-api.example.com, port: 6443}}"));
    assert!(world.status().provisioned());
    assert_eq!(world.account.load_balancers().len(), 1);
}
