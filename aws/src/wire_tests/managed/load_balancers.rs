//! The calls that change load balancers of managed clusters, their target groups and their listeners.

use capa_api::cluster::load_balancer::{HealthCheckTiming, LoadBalancerScheme};
use capa_cloud::elb::{HealthCheck, Protocol, listener, load_balancer, target_group};
use capa_cloud::managed;

use super::super::fake::{Answer, Call};
use super::super::targets::elb;
use super::{OWNED, sent_of, tags};

/// The health check of a target group in these tests.
pub(super) fn health_check(protocol: Protocol, path: Option<&str>) -> HealthCheck {
    HealthCheck {
        protocol,
        port: "6443".to_owned(),
        path: path.map(str::to_owned),
        timing: HealthCheckTiming {
            interval_seconds: 10,
            timeout_seconds: 4,
            threshold_count: 2,
            unhealthy_threshold_count: 6,
        },
    }
}

/// A call of each kind.
pub(super) fn calls() -> [managed::Call<String>; 12] {
    let balancer = || "arn:lb/1".to_owned();
    let group = || "arn:tg/1".to_owned();
    let listener = || "arn:listener/1".to_owned();
    let subnets = || ["subnet-1", "subnet-2"].map(str::to_owned).to_vec();
    let create = load_balancer::Call::CreateLoadBalancer {
        name: "dev-apiserver".to_owned(),
        scheme: LoadBalancerScheme::InternetFacing,
        subnets: subnets(),
        addresses: Vec::new(),
        security_groups: vec!["sg-1".to_owned()],
        tags: tags(),
    };
    let modify = load_balancer::Call::ModifyLoadBalancerAttributes {
        load_balancer: balancer(),
        attributes: [("load_balancing.cross_zone.enabled", "true".to_owned())].into(),
    };
    let set_subnets = load_balancer::Call::SetSubnets { load_balancer: balancer(), subnets: subnets() };
    let set_groups =
        load_balancer::Call::SetSecurityGroups { load_balancer: balancer(), security_groups: vec!["sg-2".to_owned()] };
    let create_group = target_group::Call::CreateTargetGroup {
        vpc: "vpc-1".to_owned(),
        name: "apiserver-target-1".to_owned(),
        port: 6443,
        health_check: health_check(Protocol::Https, Some("/readyz")),
        tags: tags(),
    };
    let modify_group =
        target_group::Call::ModifyTargetGroup { group: group(), health_check: health_check(Protocol::Tcp, None) };
    let modify_attributes = target_group::Call::ModifyTargetGroupAttributes {
        group: group(),
        attributes: [("preserve_client_ip.enabled", "false".to_owned())].into(),
    };
    let create_listener =
        listener::Call::CreateListener { load_balancer: balancer(), group: group(), port: 6443, tags: tags() };
    let modify_listener = listener::Call::ModifyListener { listener: listener(), group: group() };
    let delete = load_balancer::Call::DeleteLoadBalancer { load_balancer: balancer() };
    [
        create.into(),
        modify.into(),
        set_subnets.into(),
        set_groups.into(),
        create_group.into(),
        modify_group.into(),
        modify_attributes.into(),
        create_listener.into(),
        modify_listener.into(),
        listener::Call::DeleteListener { listener: listener() }.into(),
        delete.into(),
        target_group::Call::DeleteTargetGroup { group: group() }.into(),
    ]
}

/// The answers to the calls.
pub(super) fn serve(call: &Call) -> Answer {
    let result = match call.action.as_str() {
        "CreateLoadBalancer" => list("LoadBalancers", &["<LoadBalancerArn>arn:lb/1</LoadBalancerArn>".to_owned()]),
        "CreateTargetGroup" => list("TargetGroups", &["<TargetGroupArn>arn:tg/1</TargetGroupArn>".to_owned()]),
        _ => String::new(),
    };
    elb(&call.action, &result)
}

pub(super) fn list(name: &str, members: &[String]) -> String {
    let members: Vec<String> = members.iter().map(|of| format!("<member>{of}</member>")).collect();
    format!("<{name}>{}</{name}>", members.concat())
}

/// The fields of a call that is sent, without the action and the version of the API.
pub(super) fn fields(call: &Call) -> Vec<(&str, &str)> {
    let fields = call.form.iter();
    let fields = fields.filter(|(name, _)| !["Action", "Version"].contains(&name.as_str()));
    fields.map(|(name, value)| (name.as_str(), value.as_str())).collect()
}

const TAG_KEY: (&str, &str) = ("Tags.member.1.Key", OWNED);
const TAG_VALUE: (&str, &str) = ("Tags.member.1.Value", "owned");
const OF_BALANCER: (&str, &str) = ("LoadBalancerArn", "arn:lb/1");
const OF_GROUP: (&str, &str) = ("TargetGroupArn", "arn:tg/1");
const OF_LISTENER: (&str, &str) = ("ListenerArn", "arn:listener/1");
const FORWARD: [(&str, &str); 2] =
    [("DefaultActions.member.1.TargetGroupArn", "arn:tg/1"), ("DefaultActions.member.1.Type", "forward")];

/// The fields of a health check, without its protocol and path.
const CHECK: [(&str, &str); 5] = [
    ("HealthCheckIntervalSeconds", "10"),
    ("HealthCheckPort", "6443"),
    ("HealthCheckTimeoutSeconds", "4"),
    ("HealthyThresholdCount", "2"),
    ("UnhealthyThresholdCount", "6"),
];

#[tokio::test]
async fn every_field_of_a_load_balancing_call_is_sent_alone() {
    let subnets = [("Subnets.member.1", "subnet-1"), ("Subnets.member.2", "subnet-2")];
    let create = [
        ("IpAddressType", "ipv4"),
        ("Name", "dev-apiserver"),
        ("Scheme", "internet-facing"),
        ("SecurityGroups.member.1", "sg-1"),
        ("Type", "network"),
        TAG_KEY,
        TAG_VALUE,
    ];
    let create_group = [
        ("HealthCheckPath", "/readyz"),
        ("HealthCheckProtocol", "HTTPS"),
        ("IpAddressType", "ipv4"),
        ("Name", "apiserver-target-1"),
        ("Port", "6443"),
        ("Protocol", "TCP"),
        ("TargetType", "instance"),
        ("VpcId", "vpc-1"),
        TAG_KEY,
        TAG_VALUE,
    ];
    let create_listener = [OF_BALANCER, ("Port", "6443"), ("Protocol", "TCP"), TAG_KEY, TAG_VALUE];
    let attribute = |key, value| [("Attributes.member.1.Key", key), ("Attributes.member.1.Value", value)];
    let expected = [
        ("CreateLoadBalancer", [&create[..], &subnets].concat()),
        (
            "ModifyLoadBalancerAttributes",
            [&[OF_BALANCER][..], &attribute("load_balancing.cross_zone.enabled", "true")].concat(),
        ),
        ("SetSubnets", [&[OF_BALANCER][..], &subnets].concat()),
        ("SetSecurityGroups", vec![OF_BALANCER, ("SecurityGroups.member.1", "sg-2")]),
        ("CreateTargetGroup", [&create_group[..], &CHECK].concat()),
        ("ModifyTargetGroup", [&[OF_GROUP, ("HealthCheckProtocol", "TCP")][..], &CHECK].concat()),
        ("ModifyTargetGroupAttributes", [&[OF_GROUP][..], &attribute("preserve_client_ip.enabled", "false")].concat()),
        ("CreateListener", [&create_listener[..], &FORWARD].concat()),
        ("ModifyListener", [&[OF_LISTENER][..], &FORWARD].concat()),
        ("DeleteListener", vec![OF_LISTENER]),
        ("DeleteLoadBalancer", vec![OF_BALANCER]),
        ("DeleteTargetGroup", vec![OF_GROUP]),
    ];
    let sent = sent_of(&calls()).await;
    assert_eq!(sent.len(), expected.len());
    for (call, (action, mut expected)) in sent.iter().zip(expected) {
        expected.sort_unstable();
        assert_eq!((call.action.as_str(), fields(call)), (action, expected));
    }
}

#[tokio::test]
async fn an_internal_load_balancer_without_groups_names_none() {
    let create = load_balancer::Call::CreateLoadBalancer {
        name: "dev-apiserver".to_owned(),
        scheme: LoadBalancerScheme::Internal,
        subnets: vec!["subnet-1".to_owned()],
        addresses: Vec::new(),
        security_groups: Vec::new(),
        tags: tags(),
    };
    let sent = sent_of(&[create.into()]).await;
    assert_eq!(sent[0].field("Scheme"), "internal");
    assert!(!sent[0].form.keys().any(|name| name.starts_with("SecurityGroups")));
}

#[tokio::test]
async fn a_load_balancer_with_addresses_maps_each_subnet_to_one() {
    let create = load_balancer::Call::CreateLoadBalancer {
        name: "dev-apiserver".to_owned(),
        scheme: LoadBalancerScheme::InternetFacing,
        subnets: ["subnet-1", "subnet-2"].map(str::to_owned).to_vec(),
        addresses: ["eipalloc-1", "eipalloc-2"].map(str::to_owned).to_vec(),
        security_groups: Vec::new(),
        tags: tags(),
    };
    let sent = sent_of(&[create.into()]).await;
    for number in ["1", "2"] {
        let field = |name: &str| sent[0].field(&format!("SubnetMappings.member.{number}.{name}")).to_owned();
        assert_eq!(field("SubnetId"), format!("subnet-{number}"));
        assert_eq!(field("AllocationId"), format!("eipalloc-{number}"));
    }
    assert!(!sent[0].form.keys().any(|name| name.starts_with("Subnets")));
}
