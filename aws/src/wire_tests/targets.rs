//! Load balancer targets.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use capa_cloud::elb::{AddressFamily, LoadBalancerKind, TargetGroup, TargetType};
use capa_cloud::targets::{
    Desired, Refusal, RegistrationState, TargetAccess, TargetInstance, TargetPolicy, TargetRequest, TargetUser,
};
use capa_cloud::{ClusterClouds, ControlPlaneTarget, ErrorClass, InstanceState, MachineClouds};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;

use super::fake::{
    Answer, CLUSTER, Call, Fake, REGION, at_its_turn, eventually, identity, instances, machine, sts_error,
};

const ARN: &str = "arn:aws:elasticloadbalancing:us-test-1:123456789012:targetgroup/api/0123456789abcdef";

pub(super) fn elb(action: &str, result: &str) -> Answer {
    (200, format!("<{action}Response><{action}Result>{result}</{action}Result></{action}Response>"))
}

/// A request for the control plane of the Cluster `default/dev`.
fn request(target: ControlPlaneTarget) -> TargetRequest {
    TargetRequest {
        target,
        user: TargetUser {
            cluster: "default/dev".into(),
            cluster_tag: "dev".into(),
            policy: TargetPolicy::Any,
            used_by: None,
        },
        on_record: false,
    }
}

pub(super) fn target() -> TargetRequest {
    request(ControlPlaneTarget { target_group_arn: Some(ARN.into()), port: Some(443), ..ControlPlaneTarget::default() })
}

pub(super) fn classic() -> TargetRequest {
    request(ControlPlaneTarget { classic_load_balancer_name: Some("api".into()), ..ControlPlaneTarget::default() })
}

pub(super) fn instance() -> TargetInstance {
    TargetInstance { id: "i-1".into(), addresses: vec!["10.0.0.7".into()] }
}

/// A target group of addresses and a classic load balancer, which show the registered target as healthy.
pub(super) fn serve(registered: &AtomicBool, call: &Call) -> Answer {
    let member = |content: &str| {
        if registered.load(Ordering::SeqCst) { format!("<member>{content}</member>") } else { String::new() }
    };
    let answer = match call.action.as_str() {
        "DescribeTargetGroups" => {
            let group = format!("<TargetGroupArn>{ARN}</TargetGroupArn><TargetType>ip</TargetType><Port>6443</Port>");
            let other = "<TargetGroupArn>arn:other</TargetGroupArn><TargetType>lambda</TargetType>";
            format!("<TargetGroups><member>{other}</member><member>{group}</member></TargetGroups>")
        }
        "DescribeTags" => described_tags(call, "team", "b"),
        "DescribeTargetHealth" => {
            let target = "<Target><Id>10.0.0.7</Id><Port>443</Port></Target>\
                          <TargetHealth><State>healthy</State></TargetHealth>";
            let descriptions = member(target);
            format!("<TargetHealthDescriptions>{descriptions}</TargetHealthDescriptions>")
        }
        "DescribeInstanceHealth" => {
            let state = "<InstanceId>i-1</InstanceId><State>InService</State><ReasonCode>N/A</ReasonCode>";
            format!("<InstanceStates>{}</InstanceStates>", member(state))
        }
        "DescribeTargetGroupAttributes" => "<Attributes><member><Key>deregistration_delay.timeout_seconds</Key>\
                                            <Value>7</Value></member></Attributes>"
            .to_owned(),
        action if action.starts_with("Register") => {
            registered.store(true, Ordering::SeqCst);
            String::new()
        }
        action if action.starts_with("Deregister") => {
            registered.store(false, Ordering::SeqCst);
            String::new()
        }
        _ => "<LoadBalancerAttributes><ConnectionDraining><Enabled>false</Enabled></ConnectionDraining>\
              </LoadBalancerAttributes>"
            .to_owned(),
    };
    elb(&call.action, &answer)
}

/// The answer of DescribeTags for a group with one tag.
fn described_tags(call: &Call, key: &str, value: &str) -> String {
    let (arn, name) = (call.field("ResourceArns.member.1"), call.field("LoadBalancerNames.member.1"));
    let of = if arn.is_empty() {
        format!("<LoadBalancerName>{name}</LoadBalancerName>")
    } else {
        format!("<ResourceArn>{arn}</ResourceArn>")
    };
    let tags = format!("<Tags><member><Key>{key}</Key><Value>{value}</Value></member></Tags>");
    format!("<TagDescriptions><member>{of}{tags}</member></TagDescriptions>")
}

/// Registers an instance and deregisters it again.
pub(super) async fn in_and_out(target: TargetRequest) -> Fake {
    let registered = Arc::new(AtomicBool::new(false));
    let fake = Fake::start(move |call| serve(&registered, call)).await;
    let pool = fake.pool().await;
    let machines = pool.machines(&identity("A"), REGION, CLUSTER);
    let stands = |desired| {
        let states = machines.reconcile_targets(&machine("one"), &instance(), std::slice::from_ref(&target), desired);
        states.into_iter().next().unwrap()
    };
    let is_healthy = |state: RegistrationState| state.is_healthy();
    eventually("the target is healthy", || is_healthy(stands(Desired::Registered))).await;
    eventually("the target is out", || stands(Desired::Deregistered) == RegistrationState::Out).await;
    fake
}

#[tokio::test]
async fn a_target_goes_in_and_out_of_its_target_group() {
    let fake = in_and_out(target()).await;
    for action in ["RegisterTargets", "DeregisterTargets"] {
        let calls = fake.calls_of(action);
        assert!(!calls.is_empty(), "{action}");
        for call in calls {
            let told = ["TargetGroupArn", "Targets.member.1.Id", "Targets.member.1.Port"].map(|name| call.field(name));
            assert_eq!(told, [ARN, "10.0.0.7", "443"], "{action}");
            assert!(call.header("authorization").contains("/us-test-1/elasticloadbalancing/"));
            assert_eq!(call.access_key(), "AKIAA");
        }
    }
    let lookups = fake.calls_of("DescribeTargetGroups");
    assert!(!lookups.is_empty());
    assert!(lookups.iter().all(|call| call.field("TargetGroupArns.member.1") == ARN));
}

#[tokio::test]
async fn an_instance_goes_in_and_out_of_its_classic_load_balancer() {
    let fake = in_and_out(classic()).await;
    for action in ["RegisterInstancesWithLoadBalancer", "DeregisterInstancesFromLoadBalancer"] {
        let calls = fake.calls_of(action);
        assert!(!calls.is_empty(), "{action}");
        for call in calls {
            let told = ["LoadBalancerName", "Instances.member.1.InstanceId"].map(|name| call.field(name));
            assert_eq!(told, ["api", "i-1"], "{action}");
        }
    }
    assert!(fake.calls_of("DescribeTargetGroups").is_empty());
}

#[tokio::test]
async fn a_former_leader_begins_no_submitted_write() {
    let until = watch::Sender::new(Some(Instant::now()));
    let (registered, leads) = (Arc::new(AtomicBool::new(true)), until.subscribe());
    let early: Arc<Mutex<Vec<String>>> = Arc::default();
    let (served, written) = (registered.clone(), early.clone());
    let fake = Fake::start(move |call| {
        let writes = !call.action.starts_with("Describe");
        if writes && leads.borrow().is_none_or(|until| until <= Instant::now()) {
            written.lock().push(call.action.clone());
        }
        match call.action.as_str() {
            "DescribeInstances" => instances(&[("i-1", InstanceState::Running)], None),
            _ => serve(&served, call),
        }
    })
    .await;
    let pool = fake.pool_leading(until.subscribe()).await;
    let machines = pool.machines(&identity("A"), REGION, CLUSTER);
    let stands = |desired| machines.reconcile_targets(&machine("one"), &instance(), &[target()], desired).remove(0);
    machines.terminate(&machine("one"), "i-1").await.unwrap();
    eventually("the target is to be taken out", || stands(Desired::Deregistered) == RegistrationState::Leaving).await;
    eventually("time passes", || fake.calls_of("DescribeInstances").len() > 2).await;
    until.send_replace(Some(Instant::now() + Duration::from_mins(1)));
    eventually("the target is out", || stands(Desired::Deregistered) == RegistrationState::Out).await;
    let terminated = || !fake.calls_of("TerminateInstances").is_empty();
    eventually("the termination is made", terminated).await;
    assert_eq!(*early.lock(), Vec::<String>::new());
}

#[tokio::test]
async fn tags_of_both_kinds_give_the_owner_of_a_group() {
    for (target, asked) in
        [(target(), ("ResourceArns.member.1", ARN)), (classic(), ("LoadBalancerNames.member.1", "api"))]
    {
        let fake =
            Fake::start(|call| elb("DescribeTags", &described_tags(call, "elbv2.k8s.aws/cluster", "prod"))).await;
        let pool = fake.pool().await;
        let machines = pool.machines(&identity("A"), REGION, "dev");
        let refused = TargetAccess::Refused(Refusal::OwnedBy("elbv2.k8s.aws/cluster: prod".into()));
        eventually("the tags are read", || {
            machines.ask_for_targets(&machine("one"), std::slice::from_ref(&target)) == [refused.clone()]
        })
        .await;
        for call in fake.calls() {
            let told = (call.action.as_str(), call.field(asked.0));
            assert_eq!(told, ("DescribeTags", asked.1), "nothing else is asked for");
        }
    }
}

#[tokio::test]
async fn a_refusal_has_its_code() {
    let fake = Fake::start(|_| sts_error(400, "TargetGroupNotFound", "One or more target groups not found")).await;
    let pool = fake.pool().await;
    let machines = pool.machines(&identity("A"), REGION, CLUSTER);
    let told: Mutex<Option<RegistrationState>> = Mutex::default();
    eventually("it is told", || {
        let states = machines.reconcile_targets(&machine("one"), &instance(), &[target()], Desired::Registered);
        *told.lock() = states.into_iter().next();
        matches!(*told.lock(), Some(RegistrationState::Failed(_)))
    })
    .await;
    let Some(RegistrationState::Failed(error)) = told.lock().clone() else { panic!("it has failed") };
    assert_eq!(error.class, ErrorClass::NotFound);
    assert_eq!(error.to_string(), "DescribeTargetGroups: TargetGroupNotFound: One or more target groups not found");
}

#[tokio::test]
async fn a_load_balancer_is_found_by_name_with_its_target_groups() {
    let fake = Fake::start(|call| match (call.action.as_str(), call.field("Names.member.1")) {
        ("DescribeLoadBalancers", "api") => elb(
            "DescribeLoadBalancers",
            "<LoadBalancers><member><LoadBalancerName>api-2</LoadBalancerName></member>\
             <member><LoadBalancerName>api</LoadBalancerName><LoadBalancerArn>arn:lb</LoadBalancerArn>\
             <Type>network</Type></member></LoadBalancers>",
        ),
        ("DescribeListeners", _) if call.field("Marker").is_empty() => elb(
            "DescribeListeners",
            "<Listeners><member><Port>443</Port></member></Listeners><NextMarker>more</NextMarker>",
        ),
        ("DescribeListeners", _) => elb(
            "DescribeListeners",
            "<Listeners><member><Port>6443</Port><DefaultActions><member><Type>forward</Type>\
             <TargetGroupArn>arn:a</TargetGroupArn><ForwardConfig><TargetGroups>\
             <member><TargetGroupArn>arn:a</TargetGroupArn></member>\
             <member><TargetGroupArn>arn:b</TargetGroupArn></member>\
             </TargetGroups></ForwardConfig></member></DefaultActions></member></Listeners>",
        ),
        _ => sts_error(400, "LoadBalancerNotFound", "Load balancers '[x]' not found"),
    })
    .await;
    let pool = fake.pool().await;
    let cluster = pool.cluster(&identity("A"), REGION);
    let found = cluster.load_balancer("api").await.unwrap().unwrap();
    assert_eq!((found.arn.as_str(), found.kind), ("arn:lb", LoadBalancerKind::Network));
    let listeners = cluster.listeners("arn:lb").await.unwrap().into_iter();
    let listeners: BTreeMap<_, _> = listeners.map(|shown| (shown.port, shown.target_group_arns)).collect();
    assert_eq!(listeners, [(443, vec![]), (6443, vec!["arn:a".to_owned(), "arn:b".to_owned()])].into());
    assert_eq!(fake.calls_of("DescribeListeners")[0].field("LoadBalancerArn"), "arn:lb");
    let other = at_its_turn(async || cluster.load_balancer("other").await).await;
    assert_eq!(other.unwrap(), None);
    let classic = at_its_turn(async || cluster.classic_load_balancers(&["other".into()]).await).await;
    assert!(!classic.unwrap());
}

fn types_by_arn(groups: Vec<TargetGroup>) -> Vec<(String, TargetType)> {
    groups.into_iter().map(|group| (group.arn, group.target_type)).collect()
}

#[tokio::test]
async fn target_groups_are_looked_up_by_arn_with_one_call() {
    let fake = Fake::start(|call| match call.field("TargetGroupArns.member.2") {
        "arn:b" => elb(
            "DescribeTargetGroups",
            "<TargetGroups><member><TargetGroupArn>arn:b</TargetGroupArn><TargetType>lambda</TargetType></member>\
             <member><TargetGroupArn>arn:a</TargetGroupArn><TargetType>ip</TargetType></member></TargetGroups>",
        ),
        _ => sts_error(400, "TargetGroupNotFound", "One or more target groups not found"),
    })
    .await;
    let pool = fake.pool().await;
    let cluster = pool.cluster(&identity("A"), REGION);
    let arns = ["arn:a".to_owned(), "arn:b".to_owned()];
    let found = cluster.target_groups(&arns).await.unwrap().unwrap();
    let types = [TargetType::Ip(AddressFamily::Ipv4), TargetType::Other("lambda".to_owned())];
    assert_eq!(types_by_arn(found), arns.into_iter().zip(types).collect::<Vec<_>>());
    let missing = at_its_turn(async || cluster.target_groups(&["arn:c".into()]).await).await;
    assert_eq!(missing.unwrap(), None);
    assert_eq!(fake.calls_of("DescribeTargetGroups").len(), 2);
}

#[tokio::test]
async fn all_target_groups_of_a_vpc_are_listed() {
    let group = |arn: &str, vpc: &str, family: &str| {
        format!(
            "<member><TargetGroupArn>{arn}</TargetGroupArn><TargetType>ip</TargetType>\
             <IpAddressType>{family}</IpAddressType><VpcId>{vpc}</VpcId></member>"
        )
    };
    let fake = Fake::start(move |call| {
        let page = match call.field("Marker") {
            "" => format!(
                "<TargetGroups>{}{}</TargetGroups><NextMarker>more</NextMarker>",
                group("arn:a", "vpc-1", "ipv4"),
                group("arn:b", "vpc-2", "ipv4")
            ),
            _ => format!("<TargetGroups>{}</TargetGroups>", group("arn:c", "vpc-1", "ipv6")),
        };
        elb("DescribeTargetGroups", &page)
    })
    .await;
    let cluster = fake.pool().await.cluster(&identity("A"), REGION);
    let found = cluster.target_groups_in("vpc-1").await.unwrap();
    let expected = [("arn:a", AddressFamily::Ipv4), ("arn:c", AddressFamily::Ipv6)];
    let expected = expected.map(|(arn, family)| (arn.to_owned(), TargetType::Ip(family)));
    assert_eq!(types_by_arn(found), expected);
    assert!(fake.calls().iter().all(|call| call.field("PageSize") == "400"));
}

#[tokio::test]
async fn tags_are_asked_for_in_the_batches_that_aws_allows() {
    let fake = Fake::start(|call| {
        let arns = call.form.iter().filter(|(name, _)| name.starts_with("ResourceArns.member."));
        let described = arns.map(|(_, arn)| {
            let tag = "<member><Key>cluster</Key><Value>prod</Value></member>";
            format!("<member><ResourceArn>{arn}</ResourceArn><Tags>{tag}</Tags></member>")
        });
        let described: String = described.collect();
        elb("DescribeTags", &format!("<TagDescriptions>{described}</TagDescriptions>"))
    })
    .await;
    let cluster = fake.pool().await.cluster(&identity("A"), REGION);
    let arns: Vec<String> = (0..41).map(|number| format!("arn:{number}")).collect();
    let found: BTreeMap<_, _> = cluster.target_group_tags(&arns).await.unwrap().into_iter().collect();
    assert_eq!(found.len(), arns.len());
    assert_eq!(found["arn:40"]["cluster"], "prod");
    let calls = fake.calls_of("DescribeTags");
    assert_eq!(calls.len(), 3);
    assert_eq!(calls[2].field("ResourceArns.member.1"), "arn:40");
    assert!(cluster.target_group_tags(&[]).await.unwrap().is_empty());
    assert_eq!(fake.calls().len(), 3);
}
