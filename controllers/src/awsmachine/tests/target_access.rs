//! Tests of control plane machines that name targets of other clusters.

use capa_api::meta::{CONTROL_PLANE_LABEL, CONTROL_PLANE_TARGET_TAG};
use capa_cloud::elb::{AddressFamily, TargetType};
use capa_cloud::targets::TargetPolicy;

use super::targets::{GROUP, classic, group, launch, run, scene, target_group};
use super::*;

const TARGETS: ConditionType = ConditionType::ControlPlaneTargetsReady;
/// The neighbour's Cluster. It is older than `team-a/dev`, because a Cluster without a creation time is the youngest.
const NEIGHBOUR: &str = "{apiVersion: cluster.x-k8s.io/v1beta2, kind: Cluster, \
    metadata: {name: prod, namespace: team-b, creationTimestamp: '2026-01-01T00:00:00Z'}, \
    spec: {infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: AWSCluster, name: prod}}}";

impl Scene {
    /// A control plane machine of the Cluster `team-b/prod` with this stored state of the target group.
    fn neighbour(&self, targets: &str) {
        self.kubernetes.put_cluster(read(NEIGHBOUR));
        self.kubernetes.put_aws_machine(read(&format!(
            "{{apiVersion: infrastructure.cluster.x-k8s.io/v1beta2, kind: AWSMachine, \
              metadata: {{name: n, namespace: team-b, uid: uid-n, \
              labels: {{cluster.x-k8s.io/cluster-name: prod, {CONTROL_PLANE_LABEL}: ''}}}}, \
              spec: {{instanceType: t3.large}}, \
              status: {{network: {{accountID: '111122223333', region: eu-west-1, \
              controlPlaneTargets: [{{targetGroupARN: '{GROUP}'}}]}}, targets: [{targets}]}}}}"
        )));
    }

    /// A pass after the wait of a refused machine.
    async fn later(&self) -> Pass {
        self.after(Timing::default().resolve_retry_cap).await
    }
}

fn launched(pass: &Pass) -> bool {
    pass.calls.iter().any(|call| call == "RunInstances")
}

/// The condition of a refused machine.
fn refusal(pass: &Pass) -> &str {
    assert_eq!(pass.condition(TARGETS), "False/Conflict");
    assert_eq!(pass.condition(ConditionType::Ready), "False/Conflict");
    pass.message(TARGETS)
}

#[tokio::test]
async fn a_target_that_a_neighbours_control_plane_uses_is_refused() {
    let stored = format!("{{target: '{GROUP}', instanceID: i-0000000a, state: InService}}");
    let scene = scene(&target_group());
    scene.neighbour(&stored);
    let pass = launch(&scene).await;
    let told = refusal(&pass);
    assert!(told.contains("Cluster team-b/prod") && told.contains("no instance is launched"), "{told}");
    assert!(!launched(&pass), "{:?}", pass.calls);
    // The neighbour deregisters from the target group.
    scene.neighbour("");
    scene.kubernetes.put_aws_machine({
        let mut gone = scene.kubernetes.aws_machine("team-b", "n").expect("the neighbour");
        gone.status = None;
        gone
    });
    assert!(launched(&scene.later().await));
    scene.aws.set_instance_state(FIRST, InstanceState::Running);
    scene.pass().await;
    assert_eq!(scene.aws.registered_in(FIRST), [group()]);
}

#[tokio::test]
async fn a_target_that_another_cluster_names_is_refused() {
    let scene = scene(&target_group());
    scene.kubernetes.put_cluster_with_target_group(read(NEIGHBOUR), GROUP);
    let pass = launch(&scene).await;
    assert!(refusal(&pass).contains("Cluster team-b/prod"));
}

#[tokio::test]
async fn a_target_that_another_cluster_owns_is_refused() {
    for (targets, of_group) in [(target_group(), group()), ("[{classicLoadBalancerName: api}]".to_owned(), classic())] {
        for (key, value) in [
            ("sigs.k8s.io/cluster-api-provider-aws/cluster/prod", "owned"),
            ("kubernetes.io/cluster/prod", "owned"),
            ("elbv2.k8s.aws/cluster", "prod"),
        ] {
            let scene = scene(&targets);
            scene.aws.tag_group(&of_group, key, value);
            let pass = launch(&scene).await;
            let told = refusal(&pass);
            assert!(told.contains(&format!("{key}: {value}")), "{told}");
            assert!(!launched(&pass), "{key}: {:?}", pass.calls);
            scene.aws.untag_group(&of_group, key);
            assert!(launched(&scene.later().await), "{key}");
        }
    }
}

#[tokio::test]
async fn the_policy_tagged_requires_the_tag_of_the_cluster() {
    let mut scene = scene(&target_group());
    scene.context.target_policy = TargetPolicy::Tagged;
    let pass = launch(&scene).await;
    let told = refusal(&pass);
    let tag = "infrastructure.cluster.x-k8s.io/control-plane: team-a/dev";
    assert!(told.contains(tag) && told.contains("--control-plane-targets=Tagged"), "{told}");
    scene.aws.tag_group(&group(), CONTROL_PLANE_TARGET_TAG, "team-a/other");
    let pass = scene.later().await;
    assert!(refusal(&pass).contains("team-a/other"));
    scene.aws.tag_group(&group(), CONTROL_PLANE_TARGET_TAG, "team-a/dev");
    assert!(launched(&scene.later().await));
}

#[tokio::test]
async fn the_tag_that_names_the_cluster_ends_a_conflict() {
    let scene = scene(&target_group());
    scene.neighbour(&format!("{{target: '{GROUP}', instanceID: i-0000000a, state: InService}}"));
    scene.aws.tag_group(&group(), CONTROL_PLANE_TARGET_TAG, "team-a/dev");
    // The machine asks about the target while its instances are looked up.
    assert!(launched(&scene.pass().await));
}

#[tokio::test]
async fn a_registered_target_stays_and_drains_despite_a_refusal() {
    let mut scene = run(scene(&target_group())).await;
    scene.aws.tag_group(&group(), "kubernetes.io/cluster/prod", "owned");
    scene.context.target_policy = TargetPolicy::Tagged;
    scene.neighbour(&format!("{{target: '{GROUP}', instanceID: i-0000000a, state: InService}}"));
    scene.aws.restart();
    for _ in 0..3 {
        let pass = scene.later().await;
        assert_eq!(pass.condition(TARGETS), "True/Ready");
        assert_eq!(scene.aws.registered_in(FIRST), [group()]);
    }
    scene.delete();
    scene.pass().await;
    assert_eq!(scene.aws.registered_in(FIRST), [], "it leaves");
    let pass = scene.after(DRAINS_FOR).await;
    assert!(pass.calls.contains(&"TerminateInstances".to_owned()), "{:?}", pass.calls);
}

#[tokio::test]
async fn an_instance_with_refused_targets_is_not_registered() {
    let scene = scene(&target_group());
    launch(&scene).await;
    scene.aws.tag_group(&group(), "elbv2.k8s.aws/cluster", "prod");
    scene.kubernetes.advance(Timing::default().resolve_retry_cap * 2);
    scene.aws.set_instance_state(FIRST, InstanceState::Running);
    scene.pass().await;
    let pass = scene.pass().await;
    assert!(refusal(&pass).contains("elbv2.k8s.aws/cluster: prod"));
    assert!(pass.status().provisioned(), "nobody waits for a target");
    assert_eq!(pass.status().targets, []);
    assert_eq!(scene.aws.registered_in(FIRST), []);
    scene.delete();
    let passes = [scene.pass().await, scene.pass().await];
    let terminates = |pass: &Pass| pass.calls.contains(&"TerminateInstances".to_owned());
    assert!(passes.iter().any(terminates));
}

#[tokio::test]
async fn a_neighbours_instance_of_the_same_address_keeps_its_target() {
    let scene = scene(&target_group());
    scene.aws.group(&group(), TargetType::Ip(AddressFamily::Ipv4));
    launch(&scene).await;
    // The neighbour's instance is in another VPC with the same address range.
    scene.aws.register("10.0.0.1", &group());
    scene.aws.tag_group(&group(), "kubernetes.io/cluster/prod", "owned");
    scene.kubernetes.advance(Timing::default().resolve_retry_cap * 2);
    scene.delete();
    for _ in 0..4 {
        if scene.machine("m").is_some() {
            scene.pass().await;
        }
    }
    assert_eq!(scene.aws.targets_of(&group()), ["10.0.0.1"]);
    assert_eq!(scene.aws.registered_in(FIRST), [group()], "it was not taken out");
}

#[tokio::test]
async fn tags_that_cannot_be_read_hold_the_launch_back() {
    let scene = scene(&target_group());
    scene.aws.fail_next("DescribeTags", refused("DescribeTags", "AccessDenied"));
    let pass = launch(&scene).await;
    assert_eq!(pass.condition(TARGETS), "False/Unauthorized");
    assert!(pass.message(TARGETS).contains("DescribeTags"), "{}", pass.message(TARGETS));
    assert!(!launched(&pass));
    assert!(launched(&scene.after(Timing::default().resolve_retry).await));
}

#[tokio::test]
async fn an_instance_that_is_there_is_adopted_in_spite_of_a_refusal() {
    let scene = run(scene(&target_group())).await;
    scene.edit(|machine| {
        machine.status = Some(read("{launch: {phase: Planned, attempt: 0}}"));
        (machine.spec.provider_id, machine.spec.instance_id) = (None, None);
    });
    scene.aws.tag_group(&group(), "kubernetes.io/cluster/prod", "owned");
    scene.aws.restart();
    launch(&scene).await;
    let pass = scene.pass().await;
    assert_eq!(pass.launch().instance_id(), Some(FIRST));
    assert_eq!(scene.aws.registered_in(FIRST), [group()], "what is registered stays");
}

#[tokio::test]
async fn an_open_attempt_continues_despite_refused_targets() {
    let scene = scene(&target_group());
    scene.aws.lose_next_answer("RunInstances");
    launch(&scene).await;
    scene.neighbour(&format!("{{target: '{GROUP}', instanceID: i-0000000a, state: InService}}"));
    let pass = scene.pass().await;
    assert!(pass.launch().instance_id().is_some(), "{:?}", pass.launch());
}

#[tokio::test]
async fn a_worker_requests_no_target() {
    let scene = Scene::with_spec(&format!("{SPEC}, controlPlaneTargets: {}", target_group()));
    scene.neighbour(&format!("{{target: '{GROUP}', instanceID: i-0000000a, state: InService}}"));
    let pass = scene.pass().await;
    assert!(launched(&pass), "{:?}", pass.calls);
    assert_eq!(pass.condition(TARGETS), "absent");
}
