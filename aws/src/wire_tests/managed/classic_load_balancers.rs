//! Classic Load Balancers of managed clusters.

use capa_api::cluster::load_balancer::{HealthCheckTiming, LoadBalancerScheme};
use capa_api::common::Tags;
use capa_cloud::ErrorClass;
use capa_cloud::elb::classic_load_balancer::Call as ClassicCall;
use capa_cloud::elb::{
    ClassicAttributes, ClassicHealthCheck, ClassicListener, ClassicLoadBalancer, Observed, Protocol,
};
use capa_cloud::managed::{self, Scope, Seen};
use strum::VariantNames;

use super::super::fake::{Answer, Call, Fake, answer, sts_error};
use super::super::targets::elb;
use super::load_balancers::{fields, list};
use super::observed_load_balancers::{failure, observe, shared};
use super::{OWNED, scope, sent_of, tags};

/// The versions of the APIs of the two generations.
const CLASSIC: &str = "2012-06-01";
const SECOND: &str = "2015-12-01";

const ATTRIBUTES: ClassicAttributes = ClassicAttributes { is_cross_zone: true, idle_timeout_seconds: 600 };

fn tcp(port: i32) -> ClassicListener {
    ClassicListener { port, protocol: Protocol::Tcp, instance_port: 6443, instance_protocol: "SSL".into() }
}

fn health_check() -> ClassicHealthCheck {
    ClassicHealthCheck {
        target: "HTTPS:6443/readyz".to_owned(),
        timing: HealthCheckTiming {
            interval_seconds: 10,
            timeout_seconds: 4,
            threshold_count: 2,
            unhealthy_threshold_count: 6,
        },
    }
}

fn create(scheme: LoadBalancerScheme, security_groups: Vec<String>) -> ClassicCall<String> {
    ClassicCall::CreateLoadBalancer {
        name: "dev-apiserver".to_owned(),
        scheme,
        subnets: ["subnet-1", "subnet-2"].map(str::to_owned).to_vec(),
        security_groups,
        listener: tcp(443),
        tags: tags(),
    }
}

/// A call of each kind.
pub(super) fn calls() -> [managed::Call<String>; 9] {
    let load_balancer = || "dev-apiserver".to_owned();
    let calls = [
        create(LoadBalancerScheme::InternetFacing, vec!["sg-1".to_owned()]),
        ClassicCall::CreateLoadBalancerListeners { load_balancer: load_balancer(), listener: tcp(8443) },
        ClassicCall::ConfigureHealthCheck { load_balancer: load_balancer(), health_check: health_check() },
        ClassicCall::ModifyLoadBalancerAttributes { load_balancer: load_balancer(), attributes: ATTRIBUTES },
        ClassicCall::AttachLoadBalancerToSubnets {
            load_balancer: load_balancer(),
            subnets: ["subnet-3", "subnet-4"].map(str::to_owned).to_vec(),
        },
        ClassicCall::ApplySecurityGroupsToLoadBalancer {
            load_balancer: load_balancer(),
            security_groups: ["sg-2", "sg-3"].map(str::to_owned).to_vec(),
        },
        ClassicCall::AddTags { load_balancer: load_balancer(), tags: tags() },
        ClassicCall::RemoveTags { load_balancer: load_balancer(), keys: ["stage", "team"].map(str::to_owned).into() },
        ClassicCall::DeleteLoadBalancer { load_balancer: load_balancer() },
    ];
    calls.map(managed::Call::from)
}

/// The fields of the listener of a port.
fn listener_fields(port: &'static str) -> [(&'static str, &'static str); 4] {
    [
        ("Listeners.member.1.InstancePort", "6443"),
        ("Listeners.member.1.InstanceProtocol", "SSL"),
        ("Listeners.member.1.LoadBalancerPort", port),
        ("Listeners.member.1.Protocol", "TCP"),
    ]
}

#[tokio::test]
async fn every_field_of_a_classic_call_is_sent_alone() {
    let create = [
        ("SecurityGroups.member.1", "sg-1"),
        ("Subnets.member.1", "subnet-1"),
        ("Subnets.member.2", "subnet-2"),
        ("Tags.member.1.Key", OWNED),
        ("Tags.member.1.Value", "owned"),
    ];
    let check = vec![
        ("HealthCheck.HealthyThreshold", "2"),
        ("HealthCheck.Interval", "10"),
        ("HealthCheck.Target", "HTTPS:6443/readyz"),
        ("HealthCheck.Timeout", "4"),
        ("HealthCheck.UnhealthyThreshold", "6"),
    ];
    let attributes = vec![
        ("LoadBalancerAttributes.ConnectionSettings.IdleTimeout", "600"),
        ("LoadBalancerAttributes.CrossZoneLoadBalancing.Enabled", "true"),
    ];
    let expected = [
        ("CreateLoadBalancer", [&create[..], &listener_fields("443")].concat()),
        ("CreateLoadBalancerListeners", listener_fields("8443").to_vec()),
        ("ConfigureHealthCheck", check),
        ("ModifyLoadBalancerAttributes", attributes),
        ("AttachLoadBalancerToSubnets", vec![("Subnets.member.1", "subnet-3"), ("Subnets.member.2", "subnet-4")]),
        (
            "ApplySecurityGroupsToLoadBalancer",
            vec![("SecurityGroups.member.1", "sg-2"), ("SecurityGroups.member.2", "sg-3")],
        ),
        ("AddTags", vec![("Tags.member.1.Key", OWNED), ("Tags.member.1.Value", "owned")]),
        ("RemoveTags", vec![("Tags.member.1.Key", "stage"), ("Tags.member.2.Key", "team")]),
        ("DeleteLoadBalancer", vec![]),
    ];
    let sent = sent_of(&calls()).await;
    let actions: Vec<&str> = sent.iter().map(|call| call.action.as_str()).collect();
    assert_eq!(actions, ClassicCall::<String>::VARIANTS);
    for (call, (action, mut expected)) in sent.iter().zip(expected) {
        let name = if action.ends_with("Tags") { "LoadBalancerNames.member.1" } else { "LoadBalancerName" };
        expected.push((name, "dev-apiserver"));
        expected.sort_unstable();
        assert_eq!((call.action.as_str(), fields(call)), (action, expected));
        assert_eq!(call.field("Version"), CLASSIC, "{action}");
    }
}

#[tokio::test]
async fn an_internal_classic_load_balancer_without_groups_names_none() {
    let sent = sent_of(&[create(LoadBalancerScheme::Internal, Vec::new()).into()]).await;
    assert_eq!(sent[0].field("Scheme"), "internal");
    assert!(!sent[0].form.keys().any(|name| name.starts_with("SecurityGroups")));
}

fn balancer_xml(name: &str, vpc: &str, rest: &str) -> String {
    format!("<LoadBalancerName>{name}</LoadBalancerName><VPCId>{vpc}</VPCId>{rest}")
}

/// The fields of the cluster's load balancer in a describe, besides its name and VPC.
fn owned_xml() -> String {
    let listener = |port: i32, to_instances: &str| {
        format!(
            "<Listener><LoadBalancerPort>{port}</LoadBalancerPort><Protocol>TCP</Protocol>\
             <InstancePort>6443</InstancePort>{to_instances}</Listener><PolicyNames/>"
        )
    };
    let listeners = [listener(443, "<InstanceProtocol>SSL</InstanceProtocol>"), listener(8443, "")];
    "<DNSName>dev.example</DNSName><Scheme>internal</Scheme>\
     <HealthCheck><Target>HTTPS:6443/readyz</Target><Interval>10</Interval><Timeout>4</Timeout>\
     <HealthyThreshold>2</HealthyThreshold><UnhealthyThreshold>6</UnhealthyThreshold></HealthCheck>"
        .to_owned()
        + &list("ListenerDescriptions", &listeners)
        + &list("Subnets", &["subnet-a", "subnet-b"].map(str::to_owned))
        + &list("AvailabilityZones", &["a", "b"].map(str::to_owned))
        + &list("SecurityGroups", &["sg-1".to_owned()])
}

/// The names that a call of DescribeTags names.
fn tagged(call: &Call) -> Vec<&str> {
    let names = call.form.iter().filter(|(name, _)| name.starts_with("LoadBalancerNames"));
    names.map(|(_, name)| name.as_str()).collect()
}

/// Two pages of Classic Load Balancers: the cluster's, 20 others in its VPC and two elsewhere.
fn world(call: &Call) -> Answer {
    let result = match call.action.as_str() {
        _ if call.service() == "ec2" => return answer(&call.action, "", None),
        _ if call.field("Version") != CLASSIC => String::new(),
        "DescribeLoadBalancers" if call.field("Marker").is_empty() => {
            let shown = [
                balancer_xml("taken", "vpc-2", "<Scheme>internet-facing</Scheme>"),
                balancer_xml("dev-apiserver", "vpc-1", &owned_xml()),
                balancer_xml("other", "vpc-2", ""),
            ];
            list("LoadBalancerDescriptions", &shown) + "<NextMarker>page-2</NextMarker>"
        }
        "DescribeLoadBalancers" => {
            let shown = (1..=20).map(|at| balancer_xml(&format!("web-{at}"), "vpc-1", ""));
            list("LoadBalancerDescriptions", &shown.collect::<Vec<_>>())
        }
        "DescribeTags" => {
            let described = tagged(call).into_iter().map(|name| {
                let value = if name == "dev-apiserver" { "owned" } else { "shared" };
                let tag = format!("<member><Key>{OWNED}</Key><Value>{value}</Value></member>");
                format!("<LoadBalancerName>{name}</LoadBalancerName><Tags>{tag}</Tags>")
            });
            list("TagDescriptions", &described.collect::<Vec<_>>())
        }
        "DescribeLoadBalancerAttributes" => "<LoadBalancerAttributes>\
             <CrossZoneLoadBalancing><Enabled>true</Enabled></CrossZoneLoadBalancing>\
             <ConnectionSettings><IdleTimeout>600</IdleTimeout></ConnectionSettings></LoadBalancerAttributes>"
            .to_owned(),
        _ => String::new(),
    };
    elb(&call.action, &result)
}

fn named() -> Scope {
    Scope { classic_load_balancers: ["dev-apiserver", "taken"].map(str::to_owned).into(), ..scope(Some("vpc-1")) }
}

/// A load balancer for which a describe shows only name and VPC.
fn bare(name: &str, vpc: &str, tags: Tags) -> ClassicLoadBalancer {
    ClassicLoadBalancer {
        name: name.to_owned(),
        vpc_id: vpc.to_owned(),
        dns_name: String::new(),
        scheme: LoadBalancerScheme::InternetFacing,
        subnet_ids: Vec::new(),
        zones: Vec::new(),
        security_group_ids: Vec::new(),
        listeners: Vec::new(),
        health_check: ClassicHealthCheck {
            target: String::new(),
            timing: HealthCheckTiming {
                interval_seconds: 0,
                timeout_seconds: 0,
                threshold_count: 0,
                unhealthy_threshold_count: 0,
            },
        },
        attributes: Seen::NotAsked,
        tags,
    }
}

fn owned(attributes: Seen<ClassicAttributes>) -> ClassicLoadBalancer {
    let same_protocol = ClassicListener { instance_protocol: Protocol::Tcp, ..tcp(8443) };
    ClassicLoadBalancer {
        dns_name: "dev.example".to_owned(),
        scheme: LoadBalancerScheme::Internal,
        subnet_ids: ["subnet-a", "subnet-b"].map(str::to_owned).into(),
        zones: ["a", "b"].map(str::to_owned).into(),
        security_group_ids: vec!["sg-1".to_owned()],
        listeners: vec![tcp(443), same_protocol],
        health_check: health_check(),
        attributes,
        ..bare("dev-apiserver", "vpc-1", tags())
    }
}

/// What an observation of [`world`] shows, with these attributes of the cluster's load balancer.
fn expected(attributes: Seen<ClassicAttributes>) -> Vec<ClassicLoadBalancer> {
    let others = (1..=20).map(|at| bare(&format!("web-{at}"), "vpc-1", shared()));
    let first = [bare("taken", "vpc-2", Tags::new()), owned(attributes)];
    first.into_iter().chain(others).collect()
}

#[tokio::test]
async fn an_observation_shows_classic_ones_in_the_vpc_or_with_a_name() {
    let (fake, seen) = observe(&named(), world).await;
    let expected =
        Observed { classic_load_balancers: Seen::Shown(expected(Seen::Shown(ATTRIBUTES))), ..Observed::default() };
    assert_eq!(seen, expected);
    let calls = fake.calls().into_iter();
    let calls: Vec<Call> = calls.filter(|call| call.service() == "elasticloadbalancing").collect();
    assert!(calls.iter().all(|call| call.field("Version") == CLASSIC));
    let pages: Vec<_> = fake.calls_of("DescribeLoadBalancers");
    let pages: Vec<_> = pages.iter().map(fields).collect();
    let first = vec![("PageSize", "400")];
    assert_eq!(pages, [first.clone(), [vec![("Marker", "page-2")], first].concat()]);
    let tags = fake.calls_of("DescribeTags");
    let batches: Vec<usize> = tags.iter().map(|call| tagged(call).len()).collect();
    assert_eq!(batches, [20, 1]);
    let attributes = fake.calls_of("DescribeLoadBalancerAttributes");
    let attributes: Vec<_> = attributes.iter().map(fields).collect();
    assert_eq!(attributes, [[("LoadBalancerName", "dev-apiserver")]]);
    assert_eq!(calls.len(), 5);
}

/// The versions of the APIs of Elastic Load Balancing that were called.
fn versions(fake: &Fake) -> Vec<String> {
    let calls = fake.calls().into_iter();
    let calls = calls.filter(|call| call.service() == "elasticloadbalancing");
    let mut versions: Vec<String> = calls.map(|call| call.field("Version").to_owned()).collect();
    versions.sort_unstable();
    versions.dedup();
    versions
}

#[tokio::test]
async fn a_generation_without_names_is_not_asked_for() {
    let load_balancers = vec!["api".to_owned()];
    let second_alone = Scope { load_balancers: load_balancers.clone(), ..scope(Some("vpc-1")) };
    let both = Scope { load_balancers, ..named() };
    let cases: [(Scope, &[&str]); 4] =
        [(scope(Some("vpc-1")), &[]), (named(), &[CLASSIC]), (second_alone, &[SECOND]), (both, &[CLASSIC, SECOND])];
    for (scope, expected) in cases {
        let (fake, seen) = observe(&scope, world).await;
        assert_eq!(versions(&fake), expected);
        let is_asked = |version| expected.contains(&version);
        assert_eq!(seen.classic_load_balancers != Seen::NotAsked, is_asked(CLASSIC));
        assert_eq!(seen.load_balancers != Seen::NotAsked, is_asked(SECOND));
    }
}

#[tokio::test]
async fn refused_attributes_stay_in_their_load_balancer() {
    let refusing = |call: &Call| match call.action.as_str() {
        "DescribeLoadBalancerAttributes" => sts_error(403, "AccessDenied", "no"),
        _ => world(call),
    };
    let silent = |call: &Call| match call.action.as_str() {
        "DescribeLoadBalancerAttributes" => elb(&call.action, ""),
        _ => world(call),
    };
    let refused = (observe(&named(), refusing).await, ErrorClass::Unauthorized);
    for ((_fake, seen), class) in [refused, (observe(&named(), silent).await, ErrorClass::NoAnswer)] {
        let shown = seen.classic_load_balancers.shown().unwrap();
        let attributes = &shown[1].attributes;
        assert_eq!(failure(attributes), Some(class));
        assert_eq!(shown, &expected(attributes.clone()));
    }
}

#[tokio::test]
async fn a_refused_classic_describe_fails_all_classic_ones() {
    for action in ["DescribeLoadBalancers", "DescribeTags"] {
        let refusing = move |call: &Call| {
            if call.action == action && call.field("Version") == CLASSIC {
                sts_error(403, "AccessDenied", "no")
            } else {
                world(call)
            }
        };
        let both = Scope { load_balancers: vec!["api".to_owned()], ..named() };
        let (_fake, seen) = observe(&both, refusing).await;
        let failed = failure(&seen.classic_load_balancers);
        assert_eq!(failed, Some(ErrorClass::Unauthorized), "{action}");
        assert_eq!(seen.load_balancers, Seen::Shown(Vec::new()), "{action}");
    }
}

#[tokio::test]
async fn classic_tags_that_are_not_answered_are_an_error() {
    let silent = |call: &Call| match call.action.as_str() {
        "DescribeTags" => elb("DescribeTags", ""),
        _ => world(call),
    };
    let (_fake, seen) = observe(&named(), silent).await;
    assert_eq!(failure(&seen.classic_load_balancers), Some(ErrorClass::NoAnswer));
}
