//! Control plane machines whose load balancer targets are not known: before they are resolved, and after the loss of a
//! status.

use super::targets::{GROUP, group, run, running, scene, target_group, terminated};
use super::*;

#[tokio::test]
async fn lost_targets_are_recovered_from_the_sources() {
    let scene = running(&target_group()).await;
    scene.edit(|machine| machine.status = None);
    let pass = scene.pass().await;
    let network = pass.status().network.as_ref().unwrap();
    assert_eq!(network.control_plane_targets[0].target_group_arn.as_deref(), Some(GROUP));
    let pass = scene.pass().await;
    assert_eq!(pass.condition(ConditionType::ControlPlaneTargetsReady), "True/Ready");
    scene.edit(|machine| {
        machine.status = None;
        machine.spec.provider_id = None;
        machine.spec.instance_id = None;
    });
    scene.delete();
    let pass = scene.pass().await;
    assert!(!terminated(&pass), "found by its tags: {:?}", pass.calls);
    assert_eq!(pass.condition(ConditionType::InstanceReady), "False/Draining");
}

#[tokio::test]
async fn the_condition_of_targets_stays_until_they_are_read() {
    let scene = running(&target_group()).await;
    let targets = ConditionType::ControlPlaneTargetsReady;
    scene.aws.restart();
    // The process lists the instance, and then reads the targets.
    scene.pass().await;
    let action = "DescribeTargetGroups";
    scene.aws.fail_next(action, refused(action, "Throttling"));
    for unread in ["not looked at", "refused"] {
        let pass = scene.pass().await;
        assert_eq!(pass.condition(targets), "True/Ready", "{unread}");
        assert_eq!(pass.condition(ConditionType::Ready), "True/Ready", "{unread}");
    }
    let pass = scene.after(Timing::default().resolve_retry).await;
    assert_eq!(pass.condition(targets), "True/Ready");
    assert_eq!(pass.reasons_of_events(), Vec::<&str>::new());
}

/// The network of the source, with another field.
fn network_with(field: &str) -> String {
    NETWORK.replacen('{', &format!("{{{field}, "), 1)
}

#[tokio::test]
async fn only_control_planes_wait_for_pending_targets() {
    let pending = network_with("pendingControlPlaneTargets: load balancer api");
    let worker = Scene::new();
    worker.kubernetes.publish_network("dev", &pending);
    worker.pass().await;
    assert_eq!(worker.aws.registered_in(FIRST), []);
    assert!(worker.pass().await.status().launch.as_ref().unwrap().instance_id().is_some());

    let scene = scene("[]");
    scene.kubernetes.publish_network("dev", &pending);
    let pass = scene.pass().await;
    assert!(!pass.calls.contains(&"RunInstances".to_owned()), "{:?}", pass.calls);
    let network = ConditionType::NetworkReady;
    assert_eq!(pass.condition(network), "False/NotReady");
    assert!(pass.message(network).contains("load balancer api"), "{}", pass.message(network));
    scene.kubernetes.publish_network("dev", NETWORK);
    assert!(scene.pass().await.calls.contains(&"RunInstances".to_owned()));

    scene.aws.set_instance_state(FIRST, InstanceState::Running);
    scene.pass().await;
    scene.kubernetes.publish_network("dev", &pending);
    scene.edit(|machine| machine.status = None);
    let pass = scene.pass().await;
    assert_eq!(pass.condition(network), "False/NotReady");
    assert_eq!(pass.status().network, None, "what is recovered is for life");
}

/// A control plane machine in a target group that its infrastructure object does not publish any more. It has lost its
/// status, and is being deleted.
async fn lost_and_deleted() -> Scene {
    let scene = scene("[]");
    scene.kubernetes.publish_network("dev", &network_with(&format!("controlPlaneTargets: {}", target_group())));
    let scene = run(scene).await;
    assert_eq!(scene.aws.registered_in(FIRST), [group()]);
    scene.kubernetes.publish_network("dev", &network_with("pendingControlPlaneTargets: load balancer api"));
    scene.edit(|machine| machine.status = None);
    scene.delete();
    scene
}

#[tokio::test]
async fn an_instance_has_time_to_leave_targets_that_are_not_known() {
    let scene = lost_and_deleted().await;
    let pass = scene.pass().await;
    assert!(!terminated(&pass), "{:?}", pass.calls);
    assert_eq!(pass.condition(ConditionType::InstanceReady), "False/Draining");
    let targets = ConditionType::ControlPlaneTargetsReady;
    assert_eq!(pass.condition(targets), "False/NotReady");
    let message = pass.message(targets);
    let limit = Timing::default().drain_limit;
    let wait = format!("{} s after the deletion of the AWSMachine at the earliest: ", limit.as_secs());
    assert!(message.contains(&wait), "{message}");
    assert!(message.contains("does not know the targets of load balancer api yet"), "{message}");
    let pass = scene.after(limit).await;
    assert!(terminated(&pass), "{:?}", pass.calls);
}

#[tokio::test]
async fn an_instance_leaves_its_targets_once_they_are_known_again() {
    let scene = lost_and_deleted().await;
    scene.pass().await;
    scene.kubernetes.publish_network("dev", &network_with(&format!("controlPlaneTargets: {}", target_group())));
    let pass = scene.pass().await;
    assert!(!terminated(&pass), "{:?}", pass.calls);
    assert_eq!(scene.aws.registered_in(FIRST), []);
    assert!(terminated(&scene.after(DRAINS_FOR).await));
}
