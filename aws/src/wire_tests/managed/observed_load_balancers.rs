//! Lookups of load balancers of managed clusters, their target groups and their listeners.

use std::collections::BTreeMap;

use capa_api::cluster::load_balancer::LoadBalancerScheme;
use capa_api::common::Tags;
use capa_cloud::ErrorClass;
use capa_cloud::elb::{
    AddressFamily, IpAddressType, Listener, LoadBalancer, LoadBalancerKind, LoadBalancerState, Observed, Protocol,
    TargetType,
};
use capa_cloud::managed::{ManagedClouds, Scope, Seen};

use super::super::fake::{Answer, Call, Fake, REGION, answer, identity, sts_error};
use super::super::targets::elb;
use super::load_balancers::{health_check, list};
use super::{OWNED, scope, serve as serve_all, tag_set, tags};

fn balancer_xml(arn: &str, name: &str, vpc: &str, rest: &str) -> String {
    format!(
        "<LoadBalancerArn>{arn}</LoadBalancerArn><LoadBalancerName>{name}</LoadBalancerName><VpcId>{vpc}</VpcId>\
         <Type>network</Type><IpAddressType>ipv4</IpAddressType>{rest}"
    )
}

fn state_xml(code: &str, reason: &str) -> String {
    format!("<State><Code>{code}</Code><Reason>{reason}</Reason></State>")
}

fn group_xml(arn: &str, name: &str, vpc: &str) -> String {
    format!(
        "<TargetGroupArn>{arn}</TargetGroupArn><TargetGroupName>{name}</TargetGroupName><VpcId>{vpc}</VpcId>\
         <Protocol>TCP</Protocol><Port>6443</Port><HealthCheckProtocol>HTTPS</HealthCheckProtocol>\
         <HealthCheckPort>6443</HealthCheckPort><HealthCheckPath>/readyz</HealthCheckPath>\
         <HealthCheckIntervalSeconds>10</HealthCheckIntervalSeconds>\
         <HealthCheckTimeoutSeconds>4</HealthCheckTimeoutSeconds><HealthyThresholdCount>2</HealthyThresholdCount>\
         <UnhealthyThresholdCount>6</UnhealthyThresholdCount><TargetType>ip</TargetType>\
         <LoadBalancerArns><member>arn:lb/owned</member></LoadBalancerArns>"
    )
}

fn listener_xml(arn: &str, port: i32) -> String {
    format!(
        "<ListenerArn>{arn}</ListenerArn><LoadBalancerArn>arn:lb/owned</LoadBalancerArn><Protocol>TCP</Protocol>\
         <Port>{port}</Port><DefaultActions><member><Type>forward</Type>\
         <TargetGroupArn>arn:tg/owned</TargetGroupArn></member></DefaultActions>"
    )
}

/// The ARNs that a call of DescribeTags names.
fn tagged(call: &Call) -> Vec<&str> {
    let arns = call.form.iter().filter(|(name, _)| name.starts_with("ResourceArns"));
    arns.map(|(_, arn)| arn.as_str()).collect()
}

/// Pages of load balancers, target groups and listeners. Those with `owned` in their ARNs belong to the cluster.
pub(in crate::wire_tests) fn world(call: &Call) -> Answer {
    let page = |members: &str, first: &[String], second: &[String]| {
        if call.field("Marker").is_empty() {
            list(members, first) + "<NextMarker>page-2</NextMarker>"
        } else {
            list(members, second)
        }
    };
    let result = match call.action.as_str() {
        "DescribeVpcs" => {
            let vpc = format!("<item><vpcId>vpc-1</vpcId>{}</item>", tag_set(OWNED, "owned"));
            return answer(&call.action, &format!("<vpcSet>{vpc}</vpcSet>"), None);
        }
        _ if call.service() == "ec2" => return answer(&call.action, "", None),
        "DescribeLoadBalancers" => {
            let zones = ["a", "b"].map(|zone| format!("<ZoneName>{zone}</ZoneName><SubnetId>subnet-{zone}</SubnetId>"));
            let rest = "<DNSName>dev.example</DNSName><Scheme>internal</Scheme>".to_owned()
                + &list("AvailabilityZones", &zones)
                + &list("SecurityGroups", &["sg-1".to_owned()])
                + &state_xml("active", "");
            let first = [
                balancer_xml("arn:lb/owned", "dev-apiserver", "vpc-1", &rest),
                balancer_xml("arn:lb/elsewhere", "taken", "vpc-2", ""),
                balancer_xml("arn:lb/other", "other", "vpc-2", ""),
            ];
            let failed = "<Scheme>new</Scheme>".to_owned() + &state_xml("failed", "no addresses");
            let second = [
                balancer_xml("arn:lb/impaired", "one", "vpc-1", &state_xml("active_impaired", "")),
                balancer_xml("arn:lb/new", "two", "vpc-1", &state_xml("new", "")),
                balancer_xml("arn:lb/failed", "three", "vpc-1", &failed),
            ];
            page("LoadBalancers", &first, &second)
        }
        "DescribeTargetGroups" => {
            let named =
                (1..=20).map(|at| group_xml(&format!("arn:tg/{at}"), &format!("apiserver-target-{at}"), "vpc-1"));
            let first: Vec<String> = named.collect();
            let second = [
                group_xml("arn:tg/owned", "additional-listener-1", "vpc-1"),
                group_xml("arn:tg/web-owned", "web", "vpc-1"),
                group_xml("arn:tg/far-owned", "apiserver-target-far", "vpc-2"),
                group_xml("arn:tg/taken-owned", "apiserver-target-taken", "vpc-2"),
            ];
            page("TargetGroups", &first, &second)
        }
        "DescribeListeners" => {
            page("Listeners", &[listener_xml("arn:listener/owned", 6443)], &[listener_xml("arn:listener/2", 22)])
        }
        "DescribeTags" => {
            let described = tagged(call).into_iter().map(|arn| {
                let value = if arn.ends_with("owned") { "owned" } else { "shared" };
                let tag = format!("<member><Key>{OWNED}</Key><Value>{value}</Value></member>");
                format!("<ResourceArn>{arn}</ResourceArn><Tags>{tag}</Tags>")
            });
            list("TagDescriptions", &described.collect::<Vec<_>>())
        }
        attributes if attributes.ends_with("Attributes") => {
            list("Attributes", &["<Key>a.b</Key><Value>true</Value>".to_owned()])
        }
        _ => String::new(),
    };
    elb(&call.action, &result)
}

pub(in crate::wire_tests) fn named(vpc: Option<&str>) -> Scope {
    Scope {
        load_balancers: ["dev-apiserver", "taken"].map(str::to_owned).into(),
        target_groups: vec!["apiserver-target-taken".to_owned()],
        ..scope(vpc)
    }
}

pub(super) async fn observe(
    scope: &Scope,
    serve: impl Fn(&Call) -> Answer + Clone + Send + Sync + 'static,
) -> (Fake, Observed) {
    let fake = Fake::start(serve).await;
    let cloud = fake.pool().await.managed(&identity("A"), REGION);
    let seen = cloud.observe(scope).await.unwrap();
    (fake, seen.elb)
}

pub(super) fn shared() -> Tags {
    [(OWNED.to_owned(), "shared".to_owned())].into()
}

fn balancer(arn: &str, name: &str, state: LoadBalancerState) -> LoadBalancer {
    LoadBalancer {
        arn: arn.to_owned(),
        name: name.to_owned(),
        kind: LoadBalancerKind::Network,
        vpc_id: "vpc-1".to_owned(),
        dns_name: String::new(),
        scheme: LoadBalancerScheme::InternetFacing,
        state,
        ip_address_type: IpAddressType::Ipv4,
        subnets: BTreeMap::new(),
        security_group_ids: Vec::new(),
        attributes: Seen::NotAsked,
        tags: shared(),
    }
}

fn listener(arn: &str, port: i32, tags: Tags) -> Listener {
    Listener {
        arn: arn.to_owned(),
        load_balancer_arn: "arn:lb/owned".to_owned(),
        protocol: Protocol::Tcp,
        port,
        target_group_arns: vec!["arn:tg/owned".to_owned()],
        tags,
    }
}

#[tokio::test]
async fn an_observation_shows_load_balancers_in_the_vpc_or_with_a_name() {
    for vpc in [Some("vpc-1"), None] {
        let (fake, seen) = observe(&named(vpc), world).await;
        let attributes: BTreeMap<String, String> = [("a.b".to_owned(), "true".to_owned())].into();
        let zone = |zone: &str| (zone.to_owned(), format!("subnet-{zone}"));
        let owned = LoadBalancer {
            dns_name: "dev.example".to_owned(),
            scheme: LoadBalancerScheme::Internal,
            subnets: ["a", "b"].map(zone).into(),
            security_group_ids: vec!["sg-1".to_owned()],
            attributes: Seen::Shown(attributes.clone()),
            tags: tags(),
            ..balancer("arn:lb/owned", "dev-apiserver", LoadBalancerState::Active)
        };
        let elsewhere = LoadBalancer {
            vpc_id: "vpc-2".to_owned(),
            tags: Tags::new(),
            ..balancer("arn:lb/elsewhere", "taken", LoadBalancerState::Provisioning)
        };
        let failed = LoadBalancerState::Failed("no addresses".to_owned());
        let expected = vec![
            owned,
            elsewhere,
            balancer("arn:lb/impaired", "one", LoadBalancerState::ActiveImpaired),
            balancer("arn:lb/new", "two", LoadBalancerState::Provisioning),
            balancer("arn:lb/failed", "three", failed),
        ];
        assert_eq!(seen.load_balancers, Seen::Shown(expected));
        let listeners = vec![listener("arn:listener/owned", 6443, tags()), listener("arn:listener/2", 22, shared())];
        assert_eq!(seen.listeners, Seen::Shown(listeners));
        let groups = seen.target_groups.shown().unwrap();
        assert_eq!(groups.len(), 23);
        for group in groups {
            let is_owned = group.arn == "arn:tg/owned";
            let expected = if is_owned { Seen::Shown(attributes.clone()) } else { Seen::NotAsked };
            assert_eq!(group.attributes, expected, "{}", group.arn);
            let is_elsewhere = group.arn == "arn:tg/taken-owned";
            assert_eq!(group.tags.is_empty(), group.name == "web" || is_elsewhere);
            let vpc = if is_elsewhere { "vpc-2" } else { "vpc-1" };
            assert_eq!((group.vpc_id.as_str(), &group.protocol, group.port), (vpc, &Protocol::Tcp, 6443));
            assert_eq!(
                (&group.target_type, group.load_balancer_arns.as_slice()),
                (&TargetType::Ip(AddressFamily::Ipv4), &["arn:lb/owned".to_owned()][..])
            );
            assert_eq!(group.health_check, health_check(Protocol::Https, Some("/readyz")));
        }
        assert_requests(&fake);
    }
}

/// The resources that the calls of an observation of [`world`] name.
fn assert_requests(fake: &Fake) {
    for action in ["DescribeLoadBalancers", "DescribeTargetGroups", "DescribeListeners"] {
        let calls = fake.calls_of(action);
        assert_eq!(calls.len(), 2, "{action}");
        assert!(calls.iter().all(|call| call.field("PageSize") == "400"), "{action}");
        let is_listing = calls.iter().all(|call| call.field("LoadBalancerArn").is_empty());
        assert_eq!(is_listing, action != "DescribeListeners");
        assert!(calls.iter().all(|call| !call.form.keys().any(|name| name.contains("Name"))));
    }
    let tags = fake.calls_of("DescribeTags");
    let mut counts: Vec<(&str, usize)> = tags
        .iter()
        .map(|call| {
            let arns = tagged(call);
            (arns[0].split('/').next().unwrap(), arns.len())
        })
        .collect();
    counts.sort_unstable();
    assert_eq!(counts, [("arn:lb", 4), ("arn:listener", 2), ("arn:tg", 1), ("arn:tg", 20)]);
    let of = |action: &str, field: &str| {
        let calls = fake.calls_of(action);
        calls.iter().map(|call| call.field(field).to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(of("DescribeLoadBalancerAttributes", "LoadBalancerArn"), ["arn:lb/owned"]);
    assert_eq!(of("DescribeTargetGroupAttributes", "TargetGroupArn"), ["arn:tg/owned"]);
}

#[tokio::test]
async fn without_names_or_a_vpc_no_load_balancer_is_asked_for() {
    let without_vpc = |call: &Call| match call.action.as_str() {
        "DescribeVpcs" => answer("DescribeVpcs", "", None),
        _ => world(call),
    };
    let unnamed = observe(&scope(Some("vpc-1")), world).await;
    for (fake, seen) in [unnamed, observe(&named(None), without_vpc).await] {
        assert_eq!(seen, Observed::default());
        assert!(fake.calls().iter().all(|call| call.service() == "ec2"));
    }
}

/// The class of the error if there is one instead of an answer.
pub(super) fn failure<T>(seen: &Seen<T>) -> Option<ErrorClass> {
    seen.answer().err().flatten().map(|error| error.class)
}

#[tokio::test]
async fn a_refused_describe_fails_what_depends_on_it_alone() {
    // Each case has the refused action, the beginning of the ARN that the action names, and flags for what fails then:
    // load balancers, target groups, listeners, and the attributes of the first two.
    let cases = [
        ("DescribeLoadBalancers", "", [true, false, false, false, false]),
        ("DescribeTargetGroups", "", [false, true, false, false, false]),
        ("DescribeTags", "arn:lb/", [true, false, false, false, false]),
        ("DescribeTags", "arn:tg/", [false, true, false, false, false]),
        ("DescribeTags", "arn:listener/", [false, false, true, false, false]),
        ("DescribeListeners", "", [false, false, true, false, false]),
        ("DescribeLoadBalancerAttributes", "", [false, false, false, true, false]),
        ("DescribeTargetGroupAttributes", "", [false, false, false, false, true]),
    ];
    for (action, arn, expected) in cases {
        let refusing = move |call: &Call| {
            let is_refused = call.action == action && call.field("ResourceArns.member.1").starts_with(arn);
            if is_refused { sts_error(403, "AccessDenied", "no") } else { world(call) }
        };
        let (_fake, seen) = observe(&named(Some("vpc-1")), refusing).await;
        let balancer = seen.load_balancers.shown().and_then(|shown| shown.first());
        let group = seen.target_groups.shown().and_then(|shown| shown.iter().find(|group| group.arn == "arn:tg/owned"));
        let failed = [
            failure(&seen.load_balancers),
            failure(&seen.target_groups),
            failure(&seen.listeners),
            balancer.and_then(|balancer| failure(&balancer.attributes)),
            group.and_then(|group| failure(&group.attributes)),
        ];
        let expected = expected.map(|failed| failed.then_some(ErrorClass::Unauthorized));
        assert_eq!(failed, expected, "{action} {arn}");
        assert_eq!(seen.listeners == Seen::NotAsked, expected[0].is_some(), "{action} {arn}");
    }
}

#[tokio::test]
async fn tags_that_are_not_answered_are_no_reason_to_guess() {
    let silent = |call: &Call| match call.action.as_str() {
        "DescribeTags" => elb("DescribeTags", ""),
        _ => world(call),
    };
    let (_fake, seen) = observe(&named(Some("vpc-1")), silent).await;
    assert_eq!(failure(&seen.load_balancers), Some(ErrorClass::NoAnswer));
    assert_eq!(failure(&seen.target_groups), Some(ErrorClass::NoAnswer));
}

#[tokio::test]
async fn a_load_balancer_that_is_gone_meanwhile_has_no_listeners() {
    let gone = |call: &Call| match call.action.as_str() {
        "DescribeListeners" => sts_error(400, "LoadBalancerNotFound", "gone"),
        _ => world(call),
    };
    let (_fake, seen) = observe(&named(Some("vpc-1")), gone).await;
    assert_eq!(seen.listeners, Seen::Shown(Vec::new()));
}

#[tokio::test]
async fn only_names_with_an_address_resolve() {
    let fake = Fake::start(serve_all).await;
    let cloud = fake.pool().await.managed(&identity("A"), REGION);
    assert!(cloud.resolves("localhost").await);
    assert!(!cloud.resolves("").await);
}
