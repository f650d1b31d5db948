//! Tests of the load balancers that a spec asks for.

use capa_api::cluster::AWSCluster;

use super::super::balancers::{Place, Places, WantedListener, WantedLoadBalancer, wanted};
use super::super::names::Names;
use super::super::reference::Id;
use crate::testing::read;

/// The load balancers of a spec in text.
fn shown(spec: &str) -> Vec<String> {
    let cluster: AWSCluster = read(&format!(
        "{{apiVersion: infrastructure.cluster.x-k8s.io/v1beta2, kind: AWSCluster, metadata: {{name: dev, namespace: \
         team-a}}, spec: {{region: eu-west-1, {spec}}}}}"
    ));
    let place = |subnet: &str| Place { zone: Some("a".to_owned()), subnet: Id::Known(subnet.to_owned()) };
    let places = Places { internet_facing: vec![place("outside-a")], internal: vec![place("inside-a")] };
    let (wanted, problems) = wanted(&cluster.spec, &Names::of("dev", &cluster), 6443, &places);
    assert!(problems.is_empty(), "{problems:?}");
    wanted.iter().map(summary).collect()
}

fn summary(balancer: &WantedLoadBalancer) -> String {
    let scheme = balancer.scheme;
    let places = balancer.places.iter().map(|place| match &place.subnet {
        Id::Known(id) => id.clone(),
        Id::Of(target) => target.to_string(),
    });
    let places: Vec<String> = places.collect();
    let groups = balancer.additional_security_groups.join(", ");
    let cross_zone = if balancer.is_cross_zone { "cross zone" } else { "one zone" };
    let listeners: Vec<String> = balancer.listeners.iter().map(of_listener).collect();
    let name = &balancer.target.name;
    let places = places.join(", ");
    format!("{name} {scheme} in {places} with {groups}; {cross_zone}; {}", listeners.join("; "))
}

fn of_listener(listener: &WantedListener) -> String {
    let check = &listener.group.health_check;
    let timing = check.timing;
    let path = check.path.as_deref().unwrap_or_default();
    let sources = if listener.group.preserves_client_ip { "clients" } else { "the load balancer" };
    format!(
        "{} {}:{}{path} every {} s at most {} s {} up {} down from {sources}",
        listener.port,
        check.protocol,
        check.port,
        timing.interval_seconds,
        timing.timeout_seconds,
        timing.threshold_count,
        timing.unhealthy_threshold_count,
    )
}

#[test]
fn the_default_load_balancer_is_that_of_capa() {
    assert_eq!(
        shown("controlPlaneLoadBalancer: {loadBalancerType: nlb}"),
        ["team-a-dev-apiserver internet-facing in outside-a with ; one zone; 6443 TCP:6443 every 5 s at most 4 s 2 \
          up 6 down from the load balancer"]
    );
    for other in ["{}", "{loadBalancerType: disabled}", "{loadBalancerType: alb}"] {
        assert_eq!(shown(&format!("controlPlaneLoadBalancer: {other}")), [""; 0]);
    }
}

#[test]
fn each_field_of_a_load_balancer_has_its_effect() {
    for (field, expected) in [
        ("scheme: internal", "internal in inside-a"),
        ("crossZoneLoadBalancing: true", "cross zone"),
        ("subnets: [subnet-1]", "in subnet-1"),
        ("healthCheckProtocol: HTTPS", "6443 HTTPS:6443/readyz"),
        ("healthCheck: {intervalSeconds: 9}", "every 9 s"),
        ("healthCheck: {timeoutSeconds: 3}", "at most 3 s"),
        ("healthCheck: {thresholdCount: 7}", "7 up"),
        ("healthCheck: {unhealthyThresholdCount: 8}", "8 down"),
        ("additionalSecurityGroups: [sg-1]", "with sg-1"),
        ("additionalListeners: [{port: 8132}]", "8132 TCP:8132"),
        ("additionalListeners: [{port: 8132, protocol: TCP}]", "8132 TCP:8132"),
        ("additionalListeners: [{port: 8132, healthCheck: {protocol: HTTP}}]", "8132 HTTP:8132/"),
        ("additionalListeners: [{port: 8132, healthCheck: {port: '9'}}]", "8132 TCP:9 "),
        ("additionalListeners: [{port: 8132, healthCheck: {protocol: HTTPS, path: /up}}]", "8132 HTTPS:8132/up"),
        ("additionalListeners: [{port: 8132, healthCheck: {intervalSeconds: 30}}]", "every 30 s"),
        ("additionalListeners: [{port: 8132, healthCheck: {timeoutSeconds: 3}}]", "at most 3 s"),
        ("additionalListeners: [{port: 8132, healthCheck: {thresholdCount: 7}}]", "7 up"),
        ("additionalListeners: [{port: 8132, healthCheck: {unhealthyThresholdCount: 8}}]", "8 down"),
        ("preserveClientIP: true", "from clients"),
    ] {
        let found = shown(&format!("controlPlaneLoadBalancer: {{loadBalancerType: nlb, {field}}}"));
        assert!(found.len() == 1 && found[0].contains(expected), "{field}: {found:?}");
        let found = shown(&format!(
            "controlPlaneLoadBalancer: {{loadBalancerType: disabled}}, secondaryControlPlaneLoadBalancer: \
             {{loadBalancerType: nlb, name: second, {field}}}"
        ));
        assert!(found.len() == 1 && found[0].contains(expected), "{field}: {found:?}");
        assert!(found[0].starts_with("second "), "{found:?}");
    }
}
