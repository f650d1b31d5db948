//! Tests of the load balancers that an unmanaged cluster names, and of the targets behind them.

use std::time::Duration;

use capa_api::common::ControlPlaneTarget;
use capa_api::conditions::ConditionType;
use capa_runtime::reconcile::Next;

use super::{NETWORK, Pass, Scene, aws_cluster, owner};
use crate::testing::refused;

const NETWORK_READY: ConditionType = ConditionType::NetworkReady;

#[tokio::test]
async fn a_lookup_that_the_rates_interrupt_is_continued() {
    let scene = Scene::new();
    let arn = "arn:aws:elasticloadbalancing:eu-west-1:111122223333:targetgroup/api/0123456789abcdef";
    let names = ["one", "two", "three"];
    for name in names {
        scene.aws.load_balancer(name, 6443, arn);
    }
    let targets = names.map(|name| format!("{{loadBalancerName: {name}}}")).join(", ");
    let spec = format!("{NETWORK}, controlPlaneTargets: [{targets}]");
    let mut pass = scene.pass(&aws_cluster(&spec)).await;
    let mut calls = pass.calls.clone();
    for _ in 0..10 {
        let Next::Requeue(turn) = pass.next else { break };
        assert_eq!(pass.condition(NETWORK_READY), "False/Throttled");
        pass = scene.after(&pass, turn).await;
        calls.append(&mut pass.calls);
    }
    assert_eq!(pass.condition(NETWORK_READY), "True/Ready");
    let [subnets, balancers] =
        ["DescribeSubnets", "DescribeLoadBalancers"].map(|action| calls.iter().filter(|call| *call == action).count());
    assert_eq!((subnets, balancers), (1, names.len()), "what AWS has answered is not asked again");
}

#[tokio::test]
async fn targets_follow_the_port_of_an_endpoint_that_is_set_later() {
    let scene = Scene::new();
    let groups = ["a", "b"]
        .map(|name| format!("arn:aws:elasticloadbalancing:eu-west-1:111122223333:targetgroup/{name}/0123456789abcdef"));
    scene.aws.load_balancer_with("api", &[(6443, &[groups[0].as_str()]), (443, &[groups[1].as_str()])]);
    let spec = aws_cluster(&format!("{NETWORK}, controlPlaneLoadBalancer: {{name: api, loadBalancerType: nlb}}"));
    let before = scene.pass(&spec).await;
    let target = |pass: &Pass| pass.network().control_plane_targets[0].clone();
    assert_eq!(target(&before), ControlPlaneTarget::target_group(&groups[0]));
    scene.kubernetes.put_cluster(owner("{controlPlaneEndpoint: {host: api, port: 443}}"));
    let after = scene.after(&before, Duration::from_secs(10)).await;
    assert_eq!(target(&after), ControlPlaneTarget::target_group(&groups[1]));
    let at_rest = scene.after(&after, Duration::from_secs(10)).await;
    assert!(at_rest.calls.iter().all(|call| call == "GetCallerIdentity"), "{:?}", at_rest.calls);
}

#[tokio::test]
async fn an_unreadable_load_balancer_delays_control_planes_only() {
    let arn = "arn:aws:elasticloadbalancing:eu-west-1:111122223333:targetgroup/api/0123456789abcdef";
    let scene = Scene::new();
    scene.aws.load_balancer("api", 6443, arn);
    scene.aws.fail_next("DescribeLoadBalancers", refused("DescribeLoadBalancers", "AccessDenied"));
    let spec = |name: &str| format!("{NETWORK}, controlPlaneLoadBalancer: {{name: {name}, loadBalancerType: nlb}}");
    let pass = scene.pass(&aws_cluster(&spec("api"))).await;
    assert!(pass.status().provisioned(), "workers go on");
    assert_eq!(pass.zones(), ["eu-west-1a", "eu-west-1b"]);
    assert_eq!(pass.condition(NETWORK_READY), "False/Unauthorized");
    assert!(pass.message(NETWORK_READY).contains("load balancer api could not be"));
    let pending = Some("load balancer api".to_owned());
    assert_eq!(pass.network().pending_control_plane_targets, pending);

    let found = scene.after(&pass, Duration::from_secs(pass.delay())).await;
    assert_eq!(found.condition(NETWORK_READY), "True/Ready");
    assert_eq!(found.network().pending_control_plane_targets, None);
    assert_eq!(found.network().control_plane_targets[0].target_group_arn.as_deref(), Some(arn));

    scene.aws.fail_next("DescribeLoadBalancers", refused("DescribeLoadBalancers", "AccessDenied"));
    let renamed = scene.edited(&found, &spec("other")).await;
    assert_eq!(renamed.network().control_plane_targets, [], "they are those of another load balancer");
    let pending = Some("load balancer other".to_owned());
    assert_eq!(renamed.network().pending_control_plane_targets, pending);
}
