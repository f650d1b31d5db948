//! Tests of the condition `Ready`: when it is False, and what its message says while it is True.

use std::time::Duration;

use capa_api::conditions::ConditionType;

use super::{NETWORK, Pass, Scene, aws_cluster};
use crate::testing::{read, refused, unanswered};

const READY: ConditionType = ConditionType::Ready;
const NETWORK_READY: ConditionType = ConditionType::NetworkReady;
const HOUR: Duration = Duration::from_secs(3600);
const ENDPOINT: &str = "controlPlaneEndpoint: {host: api.example.org, port: 6443}";

/// Stores an AWSMachine of the Cluster with this spec.
fn put_machine(scene: &Scene, spec: &str) {
    let machine = format!(
        "{{apiVersion: infrastructure.cluster.x-k8s.io/v1beta2, kind: AWSMachine, metadata: {{name: m, namespace: \
         team-a, labels: {{cluster.x-k8s.io/cluster-name: dev}}}}, spec: {{instanceType: t3.large, {spec}}}}}"
    );
    scene.kubernetes.put_aws_machine(read(&machine));
}

fn assert_ready(pass: &Pass, ready: &str, part: &str) {
    assert_eq!(pass.condition(READY), ready, "{}", pass.message(READY));
    assert!(pass.message(READY).contains(part), "{part}: {}", pass.message(READY));
}

#[tokio::test]
async fn a_cluster_is_not_ready_before_a_lookup_has_succeeded() {
    for (error, reason) in [
        (refused("DescribeSubnets", "UnauthorizedOperation"), "False/Unauthorized"),
        (refused("DescribeSubnets", "RequestLimitExceeded"), "False/Throttled"),
        (unanswered("DescribeSubnets"), "False/Failed"),
    ] {
        let scene = Scene::new();
        for _ in 0..5 {
            scene.aws.fail_next("DescribeSubnets", error.clone());
        }
        let mut pass = scene.pass(&aws_cluster(&format!("{NETWORK}, {ENDPOINT}"))).await;
        assert!(!pass.status().provisioned(), "the zones are not known");
        for _ in 0..4 {
            assert_ready(&pass, reason, "could not be looked up in eu-west-1");
            pass = scene.after(&pass, HOUR).await;
            assert!(pass.status().provisioned(), "a failing lookup only delays it");
        }
        assert_ready(&pass, reason, "could not be looked up in eu-west-1");
        let mended = scene.after(&pass, HOUR).await;
        assert_eq!((mended.condition(READY).as_str(), mended.message(READY)), ("True/Ready", ""));
        assert!(mended.status().provisioned());
    }
}

#[tokio::test]
async fn a_region_without_answer_keeps_ready_false() {
    let scene = Scene::new();
    for _ in 0..3 {
        let silence = unanswered("GetCallerIdentity");
        scene.aws.fail_next("GetCallerIdentity", silence);
    }
    let zones = "network: {subnets: [{id: subnet-0000000a, availabilityZone: eu-west-9a}], \
                 securityGroupOverrides: {node: sg-0000000a}}";
    let spec = |region: &str| format!("region: {region}, unmanaged: true, {zones}, {ENDPOINT}");
    let first = scene.pass(&aws_cluster(&spec("eu-west-9"))).await;
    assert!(!first.status().provisioned());
    let after_grace = scene.after(&first, Duration::from_secs(60)).await;
    assert!(after_grace.status().provisioned());
    let later = scene.after(&after_grace, HOUR).await;
    for pass in [&first, &after_grace, &later] {
        assert_ready(pass, "False/Failed", "correct spec.region if it is no region of AWS");
    }
    let corrected = spec("eu-west-1").replace("eu-west-9a", "eu-west-1a");
    let mended = scene.edited(&later, &corrected).await;
    assert_eq!(mended.condition(READY), "True/Ready");
}

#[tokio::test]
async fn a_cluster_without_region_is_neither_ready_nor_provisioned() {
    let scene = Scene::new();
    let pass = scene.pass(&aws_cluster("unmanaged: true")).await;
    assert_ready(&pass, "False/InvalidSpec", "spec.region is empty: set it");
    assert!(!pass.status().provisioned());
}

#[tokio::test]
async fn a_changed_region_without_answer_makes_ready_false() {
    let scene = Scene::new();
    let before = scene.pass(&aws_cluster(NETWORK)).await;
    for _ in 0..2 {
        scene.aws.fail_next("DescribeSubnets", unanswered("DescribeSubnets"));
    }
    let elsewhere = scene.edited(&before, &NETWORK.replace("eu-west-1", "eu-west-9")).await;
    let later = scene.after(&elsewhere, HOUR).await;
    for pass in [&elsewhere, &later] {
        assert_ready(pass, "False/Failed", "correct spec.region if it is no region of AWS");
        assert!(pass.status().provisioned(), "never taken back");
        assert_eq!(pass.zones(), [""; 0], "they were those of the other region");
    }
    let mended = scene.edited(&later, NETWORK).await;
    assert_eq!(mended.condition(READY), "True/Ready");
}

#[tokio::test]
async fn a_lookup_that_fails_from_the_first_one_takes_no_ready_away() {
    let scene = Scene::new();
    let before = scene.pass(&aws_cluster(&format!("{NETWORK}, preflight: {{mode: Disabled}}"))).await;
    assert_eq!(before.condition(READY), "True/Ready");
    for _ in 0..2 {
        let error = refused("DescribeSubnets", "RequestLimitExceeded");
        scene.aws.fail_next("DescribeSubnets", error);
    }
    let looks = scene.edited(&before, NETWORK).await;
    assert_ready(&looks, "True/Throttled", "could not be looked up");
    assert_ready(&scene.after(&looks, HOUR).await, "True/Throttled", "could not be looked up");
}

#[tokio::test]
async fn subnets_in_edge_zones_alone_launch_no_machine() {
    let scene = Scene::new();
    let groups = "securityGroupOverrides: {node: sg-0000000a}";
    let edge = "subnets: [{id: subnet-0000000a, availabilityZone: eu-west-1-lax-1a, zoneType: local-zone}]";
    let spec =
        format!("region: eu-west-1, unmanaged: true, preflight: {{mode: Disabled}}, network: {{{edge}, {groups}}}");
    let pass = scene.pass(&aws_cluster(&spec)).await;
    assert_ready(&pass, "False/NothingDeclared", "outside of edge zones");
}

#[tokio::test]
async fn a_cluster_and_machines_without_network_are_not_ready() {
    let scene = Scene::new();
    let declares_nothing = aws_cluster("region: eu-west-1, unmanaged: true");
    let bare = scene.pass(&declares_nothing).await;
    assert_eq!(bare.condition(NETWORK_READY), "True/NothingDeclared");
    assert_eq!(bare.calls, ["GetCallerIdentity"]);
    assert_ready(&bare, "False/NothingDeclared", "declares no subnet for machines");
    assert_ready(&bare, "False/NothingDeclared", "declares no security group for machines");
    assert!(bare.status().provisioned(), "a first machine may bring what is missing");

    put_machine(&scene, "subnet: {id: subnet-0000000a}");
    let half = scene.pass(&bare.cluster).await;
    assert_ready(&half, "False/NothingDeclared", "declares no security group for machines");
    assert!(!half.message(READY).contains("subnet for machines"), "{}", half.message(READY));

    let groups = "additionalSecurityGroups: [{id: sg-0000000a}]";
    put_machine(&scene, &format!("subnet: {{id: subnet-0000000a}}, {groups}"));
    let whole = scene.pass(&half.cluster).await;
    assert_eq!(whole.condition(READY), "True/Ready");
    assert_eq!(whole.condition(NETWORK_READY), "True/NothingDeclared");

    put_machine(&scene, "networkInterfaces: [eni-0000000a]");
    assert_eq!(scene.pass(&half.cluster).await.condition(READY), "True/Ready", "both come from the interfaces");
}

#[tokio::test]
async fn machines_may_replace_what_is_wrong_in_the_cluster() {
    let wrong = NETWORK.replace("sg-0000000a", "sg-0000000f");
    let scene = Scene::new();
    let pass = scene.pass(&aws_cluster(&wrong)).await;
    assert_ready(&pass, "False/NotFound", "security group sg-0000000f does not exist");
    put_machine(&scene, "additionalSecurityGroups: [{id: sg-0000000a}]");
    let replaced = scene.pass(&pass.cluster).await;
    assert_ready(&replaced, "True/NotFound", "NetworkReady is False (NotFound): security group sg-0000000f");
}

#[tokio::test]
async fn a_role_without_security_group_makes_ready_false() {
    let groups = |groups: &str| {
        let (network, _) = NETWORK.split_once("securityGroupOverrides").unwrap();
        format!("{network}securityGroupOverrides: {{{groups}}}}}")
    };
    for (declared, ready, part) in [
        ("node: sg-0000000f, controlplane: sg-0000000b", "False/NotFound", "sg-0000000f"),
        ("node: sg-0000000a, controlplane: sg-0000000f", "True/NotFound", "sg-0000000f"),
        ("controlPlane: sg-0000000b", "False/InvalidSpec", "controlPlane is no role"),
        ("node: sg-0000000a, controlPlane: sg-0000000b", "True/InvalidSpec", "controlPlane is no role"),
        ("controlplane: sg-0000000b", "True/Ready", ""),
    ] {
        let pass = Scene::new().pass(&aws_cluster(&groups(declared))).await;
        assert_ready(&pass, ready, part);
    }
}

#[tokio::test]
async fn a_missing_balancer_or_target_keeps_ready_false() {
    let arn = "arn:aws:elasticloadbalancing:eu-west-1:111122223333:targetgroup/api/0123456789abcdef";
    let groups = format!("controlPlaneTargets: [{{targetGroupARN: '{arn}'}}]");
    for (extra, part, call) in [
        (
            "controlPlaneLoadBalancer: {name: api, loadBalancerType: nlb}",
            "load balancer api does not exist",
            "DescribeLoadBalancers",
        ),
        (
            "controlPlaneTargets: [{classicLoadBalancerName: api}]",
            "classic load balancer api does not exist",
            "DescribeLoadBalancers",
        ),
        (
            groups.as_str(),
            "target group api/0123456789abcdef does not exist in eu-west-1 of account 111122223333",
            "DescribeTargetGroups",
        ),
    ] {
        let scene = Scene::new();
        let missing = scene.pass(&aws_cluster(&format!("{NETWORK}, {extra}"))).await;
        assert_ready(&missing, "False/NotFound", part);
        assert_eq!(missing.condition(NETWORK_READY), "False/NotFound", "{extra}");
        assert_eq!(missing.calls.last().map(String::as_str), Some(call), "{extra}");
        assert!(missing.status().provisioned(), "workers go on");
        let without = scene.edited(&missing, NETWORK).await;
        assert_eq!(without.condition(READY), "True/Ready");

        let unreadable = Scene::new();
        unreadable.aws.fail_next(call, refused(call, "AccessDenied"));
        let pass = unreadable.pass(&aws_cluster(&format!("{NETWORK}, {extra}"))).await;
        assert_ready(&pass, "False/Unauthorized", "could not be looked up");
    }
}

#[tokio::test]
async fn ready_stays_true_while_some_machines_can_be_launched() {
    let role = NETWORK.replace("sg-0000000b", "sg-0000000f");
    let balancer = format!("{NETWORK}, controlPlaneLoadBalancer: {{name: api, loadBalancerType: nlb}}");
    let target = format!("{NETWORK}, controlPlaneTargets: [{{classicLoadBalancerName: api}}]");
    let subnet = NETWORK.replace("subnet-0000000b", "subnet-0000000f");
    for (spec, part) in [
        (role, "NetworkReady is False (NotFound): security group sg-0000000f"),
        (balancer, "NetworkReady is False (NotFound): load balancer api"),
        (target, "NetworkReady is False (NotFound): classic load balancer api"),
        (subnet, "NetworkReady is False (NotFound): subnet subnet-0000000f"),
    ] {
        let scene = Scene::new();
        let before = scene.pass(&aws_cluster(NETWORK)).await;
        assert_eq!(before.condition(READY), "True/Ready");
        let edited = scene.edited(&before, &spec).await;
        let later = scene.after(&edited, HOUR).await;
        for pass in [&edited, &later] {
            assert_ready(pass, "True/NotFound", part);
        }
    }
}

#[tokio::test]
async fn ready_falls_when_no_machine_can_be_launched() {
    let groups = NETWORK.replace("sg-0000000a", "sg-0000000e").replace("sg-0000000b", "sg-0000000f");
    let subnets = NETWORK.replace("subnet-0000000a", "subnet-0000000e").replace("subnet-0000000b", "subnet-0000000f");
    let tags = format!("{NETWORK}, additionalTags: {{'aws:a': b}}");
    for (spec, ready, part) in [
        (groups.as_str(), "False/NotFound", "security group sg-0000000e"),
        (subnets.as_str(), "False/NotFound", "subnet subnet-0000000e"),
        (tags.as_str(), "False/Conflict", "aws:a"),
        ("unmanaged: true", "False/InvalidSpec", "spec.region is empty"),
        ("region: eu-west-1, unmanaged: true", "False/NothingDeclared", "declares no subnet"),
    ] {
        let scene = Scene::new();
        let before = scene.pass(&aws_cluster(NETWORK)).await;
        assert_eq!(before.condition(READY), "True/Ready");
        let edited = scene.edited(&before, spec).await;
        assert_ready(&edited, ready, part);
        assert!(edited.status().provisioned(), "never taken back");
        let mended = scene.edited(&edited, NETWORK).await;
        assert_eq!(mended.condition(READY), "True/Ready");
    }
}

#[tokio::test]
async fn a_target_group_that_appears_makes_the_cluster_ready() {
    use capa_cloud::elb::TargetType;
    use capa_cloud::targets::Group;

    let arn = "arn:aws:elasticloadbalancing:eu-west-1:111122223333:targetgroup/api/0123456789abcdef";
    let spec = format!("{NETWORK}, controlPlaneTargets: [{{targetGroupARN: '{arn}'}}]");
    let scene = Scene::new();
    let missing = scene.pass(&aws_cluster(&spec)).await;
    assert_eq!(missing.condition(READY), "False/NotFound");
    scene.aws.group(&Group::TargetGroup(arn.to_owned()), TargetType::Instance);
    let found = scene.after(&missing, Duration::from_secs(5)).await;
    assert_eq!(found.condition(READY), "True/Ready");
    assert_eq!(found.condition(NETWORK_READY), "True/Ready");
}

#[tokio::test]
async fn the_message_of_ready_names_the_worst_other_condition() {
    let scene = Scene::new();
    let whole = format!("{NETWORK}, {ENDPOINT}");
    let fine = scene.pass(&aws_cluster(&whole)).await;
    assert_eq!((fine.condition(READY).as_str(), fine.message(READY)), ("True/Ready", ""));
    let half = NETWORK.to_owned() + ", controlPlaneEndpoint: {host: api}";
    let half = scene.pass(&aws_cluster(&half)).await;
    assert_ready(
        &half,
        "True/MissingField",
        "ControlPlaneEndpointReady is False (MissingField): spec.controlPlaneEndpoint has the host api and no port",
    );

    scene.aws.fail_next("DescribeSubnets", refused("DescribeSubnets", "RequestLimitExceeded"));
    let throttled = scene.edited(&fine, &format!("{whole}, additionalTags: {{team: a}}")).await;
    assert_ready(
        &throttled,
        "True/Throttled",
        "NetworkReady is False (Throttled): the declared network could not be looked up",
    );
    scene.aws.fail_next("GetCallerIdentity", refused("GetCallerIdentity", "ExpiredToken"));
    let refused = scene.after(&fine, HOUR).await;
    assert_ready(
        &refused,
        "True/CredentialsFailed",
        "IdentityReady is False (CredentialsFailed): AWS refuses the credentials",
    );
    let mended = scene.after(&refused, HOUR).await;
    assert_eq!((mended.condition(READY).as_str(), mended.message(READY)), ("True/Ready", ""));
}
