//! Tests of the searches for `spec.discovery`: their calls, their results, and the messages of their problems.

use std::time::Duration;

use capa_api::common::MachineRole;
use capa_api::conditions::ConditionType;
use capa_api::meta::PREFLIGHT_REQUESTED_ANNOTATION;
use capa_api::network::NetworkSecurityGroups;
use capa_cloud::elb::{AddressFamily, TargetType};
use capa_runtime::reconcile::Next;

use super::{Pass, Scene, aws_cluster};
use crate::testing::{refused, unanswered};

const NETWORK_READY: ConditionType = ConditionType::NetworkReady;
const READY: ConditionType = ConditionType::Ready;
const ARN: &str = "arn:aws:elasticloadbalancing:eu-west-1:111122223333:targetgroup/api/0123456789abcdef";

const VPC: &str = "vpc: {filters: [{name: 'tag:cluster', values: [prod]}]}";
const SUBNETS: &str = "subnets: [{filters: [{name: 'tag:tier', values: [private]}]}]";
const GROUPS: &str = "securityGroups: {all: {filters: [{name: 'tag:role', values: [node]}]}}";
const TARGETS: &str = "controlPlaneTargets: {tags: {role: api}}";

/// Infrastructure with tags: the VPC of [`Scene::new`], and another one with the same tags on its subnet and group.
fn tagged() -> Scene {
    let scene = Scene::new();
    scene.aws.tag("vpc-00000001", "cluster", "prod");
    scene.aws.vpc("vpc-00000002");
    scene.aws.subnet("subnet-0000000c", "vpc-00000002", "eu-west-1c");
    scene.aws.security_group("sg-0000000c", "vpc-00000002");
    for id in ["subnet-0000000a", "subnet-0000000b", "subnet-0000000c"] {
        scene.aws.tag(id, "tier", "private");
    }
    for (id, role) in [("sg-0000000a", "node"), ("sg-0000000b", "control-plane"), ("sg-0000000c", "node")] {
        scene.aws.tag(id, "role", role);
    }
    scene.aws.tagged_target_group(
        ARN,
        "vpc-00000001",
        TargetType::Ip(AddressFamily::Ipv4),
        &[("role", "api"), ("a", "b")],
    );
    let elsewhere = ARN.replace("api", "elsewhere");
    scene.aws.tagged_target_group(&elsewhere, "vpc-00000002", TargetType::Ip(AddressFamily::Ipv4), &[("role", "api")]);
    scene
}

/// An unmanaged cluster with these parts of `spec.discovery`.
fn spec(parts: &[&str]) -> String {
    format!("region: eu-west-1, unmanaged: true, discovery: {{{}}}", parts.join(", "))
}

fn whole() -> String {
    spec(&[VPC, SUBNETS, GROUPS, TARGETS])
}

fn groups(pass: &Pass) -> NetworkSecurityGroups {
    pass.network().security_groups.clone().unwrap_or_default()
}

fn targets(pass: &Pass) -> Vec<&str> {
    let targets = pass.network().control_plane_targets.iter();
    targets.filter_map(|target| target.target_group_arn.as_deref()).collect()
}

/// The pass after the user has set the annotation to this value.
async fn requested(scene: &Scene, pass: &Pass, value: &str) -> Pass {
    let mut cluster = pass.cluster.clone();
    let annotation = (PREFLIGHT_REQUESTED_ANNOTATION.to_owned(), value.to_owned());
    cluster.metadata.annotations = Some([annotation].into());
    scene.pass(&cluster).await
}

fn describes(pass: &Pass) -> usize {
    pass.calls.iter().filter(|call| call.starts_with("Describe")).count()
}

#[tokio::test]
async fn everything_is_found_in_one_vpc_and_published() {
    let scene = tagged();
    let pass = scene.pass(&aws_cluster(&whole())).await;
    let expected = [
        "GetCallerIdentity",
        "DescribeVpcs",
        "DescribeSubnets",
        "DescribeSecurityGroups",
        "DescribeTargetGroups",
        "DescribeTags",
        "DescribeRouteTables",
    ];
    assert_eq!(pass.calls, expected);
    assert_eq!(pass.condition(NETWORK_READY), "True/Ready", "{}", pass.message(NETWORK_READY));
    assert_eq!(pass.condition(READY), "True/Ready");
    assert!(pass.status().provisioned());
    assert_eq!(pass.network().vpc.as_ref().unwrap().id, "vpc-00000001");
    assert_eq!(pass.subnet_ids(), ["subnet-0000000a", "subnet-0000000b"]);
    assert_eq!(pass.network().subnets[0].public, Some(false));
    assert_eq!(pass.zones(), ["eu-west-1a", "eu-west-1b"]);
    assert_eq!(groups(&pass).all, ["sg-0000000a"]);
    assert_eq!(targets(&pass), [ARN]);
    assert_eq!(pass.next, Next::AwaitChange);
    assert_eq!(pass.cluster.spec, aws_cluster(&whole()).spec, "the spec is the user's");
}

#[tokio::test]
async fn each_field_of_discovery_decides_what_is_published() {
    let group = |part: &str, filter: &str| {
        let others = GROUPS.trim_end_matches('}');
        match part {
            "all" => format!("securityGroups: {{all: {{filters: [{filter}]}}}}"),
            _ => format!("{others}}}, {part}: {{filters: [{filter}]}}}}"),
        }
    };
    let published = tagged().pass(&aws_cluster(&whole())).await;
    let vpc =
        |filter: &str| vec![format!("vpc: {{filters: [{filter}]}}"), SUBNETS.into(), GROUPS.into(), TARGETS.into()];
    let subnets = |entry: &str| vec![VPC.into(), format!("subnets: [{entry}]"), GROUPS.into(), TARGETS.into()];
    let groups = |part: &str, filter: &str| vec![VPC.into(), SUBNETS.into(), group(part, filter), TARGETS.into()];
    let (by_name, by_value) =
        ("{name: group-id, values: [sg-0000000b]}", "{name: 'tag:role', values: [control-plane]}");
    let table: [(&str, Vec<String>); 12] = [
        ("discovery.vpc.filters[].name", vpc("{name: 'tag:other', values: [prod]}")),
        ("discovery.vpc.filters[].values[]", vpc("{name: 'tag:cluster', values: [other]}")),
        ("discovery.subnets[].filters[].name", subnets("{filters: [{name: subnet-id, values: [subnet-0000000a]}]}")),
        ("discovery.subnets[].filters[].values[]", subnets("{filters: [{name: 'tag:tier', values: [other]}]}")),
        ("discovery.subnets[].roles[]", subnets("{filters: [{name: 'tag:tier', values: [private]}], roles: [Worker]}")),
        ("discovery.securityGroups.all.filters[].name", groups("all", by_name)),
        ("discovery.securityGroups.all.filters[].values[]", groups("all", by_value)),
        ("discovery.securityGroups.controlPlane.filters[].name", groups("controlPlane", by_name)),
        ("discovery.securityGroups.controlPlane.filters[].values[]", groups("controlPlane", by_value)),
        ("discovery.securityGroups.worker.filters[].name", groups("worker", by_name)),
        ("discovery.securityGroups.worker.filters[].values[]", groups("worker", by_value)),
        (
            "discovery.controlPlaneTargets.tags{}",
            vec![VPC.into(), SUBNETS.into(), GROUPS.into(), "controlPlaneTargets: {tags: {role: other}}".into()],
        ),
    ];
    for (field, parts) in table {
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        let pass = tagged().pass(&aws_cluster(&spec(&parts))).await;
        assert_ne!(pass.network(), published.network(), "{field}");
    }
}

#[tokio::test]
async fn named_parts_win_and_are_not_searched_for() {
    let scene = tagged();
    let named = "network: {vpc: {id: vpc-00000001}, subnets: [{id: subnet-0000000b}], \
                 securityGroupOverrides: {node: sg-0000000b}}, \
                 controlPlaneTargets: [{targetGroupARN: 'arn:aws:elasticloadbalancing:eu-west-1:111122223333:\
                 targetgroup/mine/0123456789abcdef'}]";
    let mine = ARN.replace("api", "mine");
    scene.aws.tagged_target_group(&mine, "vpc-00000001", TargetType::Ip(AddressFamily::Ipv4), &[]);
    let pass = scene.pass(&aws_cluster(&format!("{}, {named}", whole()))).await;
    assert_eq!(pass.condition(NETWORK_READY), "True/Ready", "{}", pass.message(NETWORK_READY));
    assert_eq!(pass.subnet_ids(), ["subnet-0000000b"]);
    assert_eq!(groups(&pass).all, ["sg-0000000b"]);
    assert_eq!(targets(&pass), [mine.as_str()]);
    assert!(!pass.calls.contains(&"DescribeTags".to_owned()));
    assert_eq!(describes(&pass), 5, "{:?}", pass.calls);
}

#[tokio::test]
async fn a_subnet_in_another_vpc_than_the_found_one_is_refused() {
    let scene = tagged();
    let named = "network: {subnets: [{id: subnet-0000000c}]}";
    let pass = scene.pass(&aws_cluster(&format!("{}, {named}", spec(&[VPC])))).await;
    assert_eq!(pass.condition(NETWORK_READY), "False/Conflict");
    let said = pass.message(NETWORK_READY);
    let expected = "subnet subnet-0000000c lies in vpc-00000002, but spec.discovery.vpc matches vpc-00000001";
    assert!(said.starts_with(expected), "{said}");
    assert_eq!(pass.subnet_ids(), [""; 0]);
}

#[tokio::test]
async fn each_problem_names_its_part_and_the_candidates() {
    let place = "in eu-west-1 of account 111122223333";
    let table = [
        (
            vec!["vpc: {filters: [{name: 'tag:cluster', values: [none]}]}", SUBNETS],
            "False/NotFound",
            format!("no VPC {place} matches spec.discovery.vpc: tag one, or correct the filters"),
        ),
        (
            vec!["vpc: {filters: [{name: vpc-id, values: ['vpc-*']}]}", SUBNETS, TARGETS],
            "False/Conflict",
            format!(
                "spec.discovery.vpc matches several VPCs {place}: vpc-00000001, vpc-00000002: narrow the filters, or \
                 set spec.network.vpc.id"
            ),
        ),
        (
            vec![VPC, "subnets: [{filters: [{name: 'tag:tier', values: [none]}]}]"],
            "False/NotFound",
            "no subnet in vpc-00000001 matches spec.discovery.subnets[0]: tag one, or correct subnets[0]".to_owned(),
        ),
        (
            vec![VPC, "subnets: [{filters: [{name: vpc-id, values: [vpc-00000002]}]}]"],
            "False/NotFound",
            "no subnet in vpc-00000001 matches spec.discovery.subnets[0]: tag one, or correct subnets[0]".to_owned(),
        ),
        (
            vec![
                VPC,
                "securityGroups: {all: {filters: [{name: 'tag:role', values: [node]}]}, \
                 worker: {filters: [{name: 'tag:role', values: [none]}]}}",
            ],
            "False/NotFound",
            "no security group in vpc-00000001 matches spec.discovery.securityGroups.worker: tag one, or correct \
             securityGroups.worker"
                .to_owned(),
        ),
        (
            vec![VPC, "controlPlaneTargets: {tags: {role: api, a: none}}"],
            "False/NotFound",
            "no target group of type instance or ip in vpc-00000001 matches spec.discovery.controlPlaneTargets: tag \
             one, or correct controlPlaneTargets"
                .to_owned(),
        ),
        (
            vec![SUBNETS],
            "False/InvalidSpec",
            "spec.discovery searches in one VPC: set spec.discovery.vpc or spec.network.vpc.id".to_owned(),
        ),
    ];
    for (parts, condition, message) in table {
        let pass = tagged().pass(&aws_cluster(&spec(&parts))).await;
        assert_eq!(pass.condition(NETWORK_READY), condition, "{parts:?}");
        assert_eq!(pass.message(NETWORK_READY), message, "{parts:?}");
        assert!(pass.status().provisioned(), "the search was answered");
        assert_eq!(pass.condition(READY), condition, "{parts:?}");
        assert_eq!(pass.next, Next::Requeue(Duration::from_secs(5)), "{parts:?}");
        assert_eq!(targets(&pass), [""; 0]);
        let pending = pass.network().pending_control_plane_targets.as_deref();
        let searched = parts.iter().any(|part| part.starts_with("controlPlaneTargets"));
        let expected = searched.then_some("target groups of spec.discovery.controlPlaneTargets");
        assert_eq!(pending, expected, "{parts:?}");
    }
}

#[tokio::test]
async fn more_matches_than_a_machine_can_have_are_a_conflict() {
    let many = [
        (
            "securityGroups: {controlPlane: {filters: [{name: 'tag:role', values: [many]}]}}",
            "spec.discovery.securityGroups.controlPlane matches more than 16 security groups in vpc-00000001: \
             sg-00000010, sg-00000011, sg-00000012, sg-00000013, sg-00000014 and more: narrow it",
        ),
        (
            "controlPlaneTargets: {tags: {role: many}}",
            "spec.discovery.controlPlaneTargets matches more than 8 target groups in vpc-00000001: ",
        ),
    ];
    for (part, message) in many {
        let scene = tagged();
        for number in 10..27 {
            let id = format!("sg-000000{number}");
            scene.aws.security_group(&id, "vpc-00000001");
            scene.aws.tag(&id, "role", "many");
        }
        for number in 0..9 {
            let arn = ARN.replace("api", &format!("many-{number}"));
            scene.aws.tagged_target_group(&arn, "vpc-00000001", TargetType::Instance, &[("role", "many")]);
        }
        let pass = scene.pass(&aws_cluster(&spec(&[VPC, part]))).await;
        assert_eq!(pass.condition(NETWORK_READY), "False/Conflict");
        let said = pass.message(NETWORK_READY);
        assert!(said.starts_with(message) && said.ends_with(" and more: narrow it"), "{said}");
        assert_eq!(groups(&pass), NetworkSecurityGroups::default());
        assert_eq!(targets(&pass), [""; 0]);
    }
}

#[tokio::test]
async fn a_vpc_with_very_many_target_groups_is_not_searched() {
    let scene = tagged();
    for number in 0..400 {
        let arn = ARN.replace("api", &format!("other-{number}"));
        scene.aws.tagged_target_group(&arn, "vpc-00000001", TargetType::Instance, &[]);
    }
    let pass = scene.pass(&aws_cluster(&whole())).await;
    assert_eq!(pass.condition(NETWORK_READY), "False/InvalidSpec");
    let said = pass.message(NETWORK_READY);
    assert!(said.starts_with("vpc-00000001 has more than 400 target groups, too many to search"), "{said}");
    assert!(!pass.calls.contains(&"DescribeTags".to_owned()), "{:?}", pass.calls);
    assert_eq!(pass.subnet_ids().len(), 2, "workers go on");
}

#[tokio::test]
async fn a_target_group_of_functions_is_no_target() {
    let scene = tagged();
    let functions = TargetType::Other("lambda".to_owned());
    let arn = ARN.replace("api", "functions");
    scene.aws.tagged_target_group(&arn, "vpc-00000001", functions, &[("role", "api")]);
    let pass = scene.pass(&aws_cluster(&whole())).await;
    assert_eq!(targets(&pass), [ARN]);
}

#[tokio::test]
async fn a_subnet_is_for_the_roles_of_all_entries_it_matches() {
    let entry = |tier: &str, roles: &str| format!("{{filters: [{{name: 'tag:tier', values: [{tier}]}}]{roles}}}");
    let both = [MachineRole::ControlPlane, MachineRole::Worker];
    let (control_plane, worker) = (", roles: [ControlPlane]", ", roles: [Worker]");
    let table = [
        (vec![entry("private", control_plane)], vec![(&both[..1], true)]),
        (
            vec![entry("private", control_plane), entry("workers", worker)],
            vec![(&both[..1], true), (&both[1..], false)],
        ),
        (vec![entry("private", control_plane), entry("'*'", worker)], vec![(&both[..], true), (&both[1..], false)]),
        (vec![entry("workers", worker), entry("'*'", "")], vec![(&[][..], true), (&[][..], true)]),
    ];
    for (entries, expected) in table {
        let scene = tagged();
        scene.aws.tag("subnet-0000000b", "tier", "workers");
        let subnets = format!("subnets: [{}]", entries.join(", "));
        let pass = scene.pass(&aws_cluster(&spec(&[VPC, &subnets, GROUPS]))).await;
        assert_eq!(pass.condition(NETWORK_READY), "True/Ready", "{subnets}");
        let subnets = pass.network().subnets.iter().zip(&pass.status().failure_domains);
        let found: Vec<_> =
            subnets.map(|(subnet, zone)| (subnet.roles.as_slice(), zone.control_plane.unwrap())).collect();
        assert_eq!(found, expected, "{entries:?}");
    }
}

#[tokio::test]
async fn a_complete_search_is_repeated_on_request_only() {
    let scene = tagged();
    let first = scene.pass(&aws_cluster(&whole())).await;
    scene.aws.subnet("subnet-0000000d", "vpc-00000001", "eu-west-1c");
    scene.aws.tag("subnet-0000000d", "tier", "private");
    let later = scene.after(&first, Duration::from_secs(3600)).await;
    assert_eq!((describes(&later), later.wrote), (0, false));

    let asked = requested(&scene, &later, "now").await;
    assert!(describes(&asked) > 0);
    assert_eq!(asked.subnet_ids(), ["subnet-0000000a", "subnet-0000000b", "subnet-0000000d"]);
    let observed = asked.status().discovery.as_ref().unwrap();
    assert_eq!(observed.observed_request, "now");

    // Another process knows from the status that the request is answered.
    let restarted = Scene::new();
    let after = restarted.pass(&asked.cluster).await;
    assert_eq!((describes(&after), after.wrote), (0, false));
    assert_eq!(describes(&requested(&restarted, &after, "again").await), 1, "no VPC is tagged there");
}

#[tokio::test]
async fn a_long_request_fits_into_the_status() {
    let scene = tagged();
    let first = scene.pass(&aws_cluster(&whole())).await;
    let asked = requested(&scene, &first, &"ü".repeat(1000)).await;
    let observed = &asked.status().discovery.as_ref().unwrap().observed_request;
    assert_eq!(*observed, "ü".repeat(256));
    let later = scene.after(&asked, Duration::from_secs(3600)).await;
    assert_eq!(describes(&later), 0);
}

#[tokio::test]
async fn a_request_that_fails_is_repeated_and_keeps_the_network() {
    let scene = tagged();
    let first = scene.pass(&aws_cluster(&whole())).await;
    scene.kubernetes.advance(Duration::from_secs(3600));
    scene.aws.fail_next("GetCallerIdentity", unanswered("GetCallerIdentity"));
    let mut pass = requested(&scene, &first, "now").await;
    for action in ["DescribeVpcs", "DescribeSubnets", "DescribeTargetGroups"] {
        assert_eq!(pass.condition(READY), "True/Failed");
        assert_eq!(pass.network(), first.network());
        assert_eq!(pass.zones(), first.zones());
        assert_eq!(pass.status().discovery, None);
        let Next::Requeue(delay) = pass.next else {
            panic!("the search is not repeated");
        };
        scene.aws.fail_next(action, unanswered(action));
        pass = scene.after(&pass, delay).await;
    }
    assert_eq!(targets(&pass), [ARN], "those of before");
    let mended = scene.after(&pass, Duration::from_secs(300)).await;
    assert_eq!(mended.condition(NETWORK_READY), "True/Ready");
    assert_eq!(mended.status().discovery.as_ref().unwrap().observed_request, "now");
}

#[tokio::test]
async fn ids_found_for_another_spec_are_not_kept_but_zones_are() {
    let scene = tagged();
    let fine = scene.pass(&aws_cluster(&whole())).await;
    let throttle = || {
        scene.aws.fail_next("DescribeVpcs", refused("DescribeVpcs", "RequestLimitExceeded"));
    };
    throttle();
    let mut pass = scene.edited(&fine, &format!("{}, additionalTags: {{team: a}}", whole())).await;
    for _ in 0..2 {
        assert_eq!(pass.condition(NETWORK_READY), "False/Throttled");
        assert_eq!(pass.subnet_ids(), [""; 0]);
        assert_eq!(pass.network().vpc, None);
        assert_eq!(groups(&pass), NetworkSecurityGroups::default());
        let pending = pass.network().pending_control_plane_targets.as_deref();
        assert_eq!(pending, Some("target groups of spec.discovery.controlPlaneTargets"));
        assert_eq!(pass.zones(), ["eu-west-1a", "eu-west-1b"]);
        assert_eq!(pass.condition(READY), "True/Throttled");
        throttle();
        pass = scene.after(&pass, Duration::from_secs(10)).await;
    }
    let recovered = scene.after(&pass, Duration::from_secs(60)).await;
    assert_eq!(recovered.network().subnets, fine.network().subnets);
    let moved = scene.edited(&recovered, &whole().replace("eu-west-1", "eu-west-9")).await;
    assert_eq!(moved.zones(), [""; 0], "nothing is known of another region");
}

#[tokio::test]
async fn a_failed_search_delays_provisioned_by_the_grace_period() {
    let scene = tagged();
    for _ in 0..20 {
        scene.aws.fail_next("DescribeVpcs", refused("DescribeVpcs", "UnauthorizedOperation"));
    }
    let mut pass = scene.pass(&aws_cluster(&whole())).await;
    let mut waited = Duration::ZERO;
    while !pass.status().provisioned() {
        assert_eq!(pass.condition(READY), "False/Unauthorized");
        let Next::Requeue(delay) = pass.next else {
            panic!("the search is not repeated");
        };
        waited += delay;
        pass = scene.after(&pass, delay).await;
    }
    assert_eq!(waited, scene.context.timing.resolve_grace);
}
