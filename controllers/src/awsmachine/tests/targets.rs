//! Control plane machines and their load balancer targets.

use capa_api::common::MachineRole;
use capa_api::core::Machine;
use capa_api::machine::MachineTargetState;
use capa_api::meta::CONTROL_PLANE_LABEL;
use capa_cloud::CloudError;
use capa_cloud::targets::{Desired, Group, Health, RegistrationState, TargetState};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::*;
use crate::awsmachine::scope::Owners;

const GROUP: &str = "arn:aws:elasticloadbalancing:eu-west-1:111122223333:targetgroup/api/0123456789abcdef";

/// The Machine of a control plane.
fn control_plane_machine() -> Machine {
    read(&format!(
        "{{apiVersion: cluster.x-k8s.io/v1beta2, kind: Machine, \
          metadata: {{name: m, namespace: team-a, labels: {{{CONTROL_PLANE_LABEL}: ''}}}}, \
          spec: {{clusterName: dev, bootstrap: {{dataSecretName: boot}}}}}}"
    ))
}

/// A control plane machine whose own spec names these targets. Its AWSMachine is not marked.
fn scene(targets: &str) -> Scene {
    let scene = Scene::with_spec(&format!("{SPEC}, controlPlaneTargets: {targets}"));
    scene.kubernetes.put_machine(control_plane_machine());
    scene
}

#[test]
fn the_role_is_that_of_the_machine_while_it_exists() {
    let mut marked = Scene::new().machine("m").expect("an AWSMachine");
    let labels = marked.metadata.labels.get_or_insert_default();
    labels.insert(CONTROL_PLANE_LABEL.to_owned(), String::new());
    let unmarked = Scene::new().machine("m").expect("an AWSMachine");
    let owned_by = |machine: Option<Machine>| Owners {
        machine: machine.map(Arc::new),
        cluster: None,
    };
    let worker = Machine {
        metadata: ObjectMeta::default(),
        ..control_plane_machine()
    };
    for (owner, machine, role) in [
        (Some(control_plane_machine()), &unmarked, MachineRole::ControlPlane),
        (Some(worker), &marked, MachineRole::Worker),
        (None, &marked, MachineRole::ControlPlane),
        (None, &unmarked, MachineRole::Worker),
    ] {
        let owner_is_there = owner.is_some();
        assert_eq!(owned_by(owner).role(machine), role, "{owner_is_there}");
    }
}

async fn running(targets: &str) -> Scene {
    let scene = scene(targets);
    scene.pass().await;
    scene.aws.set_instance_state(FIRST, InstanceState::Running);
    scene.pass().await;
    scene
}

fn target_group() -> String {
    format!("[{{targetGroupARN: '{GROUP}', port: 6443}}]")
}

/// The last desired state, and the groups that it is about.
fn last_request(scene: &Scene) -> Option<(Desired, Vec<Group>)> {
    let requests = scene.aws.take_target_requests();
    requests
        .into_iter()
        .last()
        .map(|(_, _, groups, desired)| (desired, groups))
}

#[tokio::test]
async fn an_instance_is_registered_once_it_runs_and_not_before() {
    let scene = scene(&target_group());
    scene.pass().await;
    let pass = scene.pass().await;
    let targets = ConditionType::ControlPlaneTargetsReady;
    assert_eq!(pass.says(targets), "False/WaitingForRunning");
    assert_eq!(last_request(&scene), None);
    scene.aws.set_instance_state(FIRST, InstanceState::Running);
    scene.aws.set_registration_state(Some(RegistrationState::Registering));
    let pass = scene.pass().await;
    let group = Group::TargetGroup(GROUP.to_owned());
    assert_eq!(last_request(&scene), Some((Desired::Registered, vec![group])));
    assert_eq!(pass.says(targets), "False/Registering");
    assert_eq!(pass.says(ConditionType::Ready), "False/Registering");
    assert!(
        pass.status().provisioned(),
        "nobody waits for a target to become healthy"
    );
    assert!(pass.machine().spec.provider_id.is_some());
    scene.aws.set_registration_state(None);
    let pass = scene.pass().await;
    assert_eq!(pass.says(targets), "True/Ready");
    assert_eq!(pass.says(ConditionType::Ready), "True/Ready");
    assert_eq!(pass.reasons_of_events(), ["SuccessfulAttachControlPlaneELB"]);
}

#[tokio::test]
async fn nothing_is_registered_before_its_address_is_on_record() {
    let scene = scene(&target_group());
    scene.pass().await;
    scene.aws.set_instance_state(FIRST, InstanceState::Running);
    scene.aws.set_address(FIRST, "10.0.0.7");
    scene.aws.set_registration_state(Some(RegistrationState::Registering));
    let pass = scene.pass().await;
    let targets = ConditionType::ControlPlaneTargetsReady;
    assert_eq!(last_request(&scene), None, "once it has ended nobody could take it out");
    assert_eq!(pass.says(targets), "False/Registering");
    assert_eq!(pass.status().addresses[0].address, "10.0.0.7");
    scene.pass().await;
    let group = Group::TargetGroup(GROUP.to_owned());
    assert_eq!(last_request(&scene), Some((Desired::Registered, vec![group])));
}

#[tokio::test]
async fn workers_and_machines_without_targets_are_not_registered() {
    let worker = Scene::with_spec(&format!("{SPEC}, controlPlaneTargets: {}", target_group()));
    for scene in [worker, scene("[]")] {
        scene.pass().await;
        scene.aws.set_instance_state(FIRST, InstanceState::Running);
        let pass = scene.pass().await;
        assert_eq!(pass.says(ConditionType::ControlPlaneTargetsReady), "absent");
        assert_eq!(pass.says(ConditionType::Ready), "True/Ready");
        scene.delete();
        assert_eq!(scene.pass().await.calls[0], "TerminateInstances");
        assert_eq!(last_request(&scene), None);
    }
}

#[tokio::test]
async fn a_foreign_target_group_is_named_and_not_called() {
    for (arn, told) in [
        (GROUP.replace("eu-west-1", "us-east-1"), "another region"),
        (GROUP.replace("111122223333", "444455556666"), "another account"),
        ("arn:aws:s3:::bucket".to_owned(), "no ARN of a target group"),
    ] {
        let scene = running(&format!("[{{targetGroupARN: '{arn}'}}]")).await;
        let pass = scene.pass().await;
        let targets = ConditionType::ControlPlaneTargetsReady;
        assert_eq!(pass.says(targets), "False/InvalidSpec");
        assert!(pass.message(targets).contains(told), "{}", pass.message(targets));
        assert!(
            scene
                .aws
                .take_target_requests()
                .iter()
                .all(|(_, _, groups, _)| groups.is_empty())
        );
        scene.delete();
        assert_eq!(scene.pass().await.calls[0], "TerminateInstances");
    }
}

#[tokio::test]
async fn an_instance_is_terminated_once_its_targets_have_drained() {
    let scene = running("[{classicLoadBalancerName: api}]").await;
    scene.delete();
    scene.aws.set_registration_state(Some(RegistrationState::Leaving));
    let pass = scene.pass().await;
    assert!(
        !pass.calls.contains(&"TerminateInstances".to_owned()),
        "{:?}",
        pass.calls
    );
    assert_eq!(
        last_request(&scene),
        Some((Desired::Deregistered, vec![Group::Classic("api".into())]))
    );
    assert_eq!(pass.says(ConditionType::InstanceReady), "False/Draining");
    assert_eq!(
        pass.says(ConditionType::ControlPlaneTargetsReady),
        "False/Deregistering"
    );
    assert_eq!(pass.reasons_of_events(), Vec::<&str>::new());
    scene.aws.set_registration_state(None);
    let pass = scene.pass().await;
    assert!(
        pass.calls.contains(&"TerminateInstances".to_owned()),
        "{:?}",
        pass.calls
    );
    assert_eq!(pass.reasons_of_events(), ["SuccessfulDetachControlPlaneELB"]);
}

#[tokio::test]
async fn an_overdue_target_does_not_hold_up_termination() {
    let scene = running("[{classicLoadBalancerName: api}]").await;
    scene.delete();
    scene.aws.set_registration_state(Some(RegistrationState::Overdue));
    let pass = scene.pass().await;
    assert!(
        pass.calls.contains(&"TerminateInstances".to_owned()),
        "{:?}",
        pass.calls
    );
    assert_eq!(pass.says(ConditionType::ControlPlaneTargetsReady), "False/Failed");
    assert_eq!(pass.reasons_of_events(), ["Failed"]);
}

#[tokio::test]
async fn of_an_instance_that_was_terminated_its_address_is_taken_out() {
    let scene = running("[{classicLoadBalancerName: api}]").await;
    scene.edit(|machine| {
        let status = machine.status.get_or_insert_default();
        status.addresses = vec![read("{type: InternalIP, address: 10.0.0.7}")];
    });
    scene.aws.set_instance_state(FIRST, InstanceState::Terminated);
    scene.aws.take_target_requests();
    scene.aws.set_registration_state(Some(RegistrationState::Leaving));
    let pass = scene.pass().await;
    assert_eq!(
        pass.says(ConditionType::ControlPlaneTargetsReady),
        "False/Deregistering"
    );
    let (id, address, _, desired) = scene.aws.take_target_requests().remove(0);
    assert_eq!(
        (id.as_str(), address.as_deref(), desired),
        (FIRST, Some("10.0.0.7"), Desired::Forgotten)
    );
    scene.aws.set_registration_state(None);
    let pass = scene.pass().await;
    assert!(pass.reasons_of_events().contains(&"SuccessfulDetachControlPlaneELB"));
    scene.aws.take_target_requests();
    // Whoever has the address by now keeps it.
    scene.aws.set_registration_state(Some(RegistrationState::Leaving));
    scene.pass().await;
    scene.delete();
    assert!(scene.pass().await.machine.is_none());
    assert_eq!(last_request(&scene), None);
}

#[tokio::test]
async fn the_status_says_where_the_instance_stands_with_each_target() {
    let scene = running("[{classicLoadBalancerName: api}]").await;
    let health = |state| RegistrationState::Registered {
        health: Health { state, reason: None },
        by_us: true,
    };
    for (shown, expected) in [
        (RegistrationState::Registering, MachineTargetState::Registering),
        (health(TargetState::Initial), MachineTargetState::Registered),
        (health(TargetState::Healthy), MachineTargetState::InService),
        (health(TargetState::Unhealthy), MachineTargetState::InService),
        (RegistrationState::Unknown, MachineTargetState::InService),
    ] {
        scene.aws.set_registration_state(Some(shown.clone()));
        let pass = scene.pass().await;
        let [target] = pass.status().targets.as_slice() else {
            panic!("{:?}", pass.status().targets);
        };
        assert_eq!((target.target.as_str(), target.instance_id.as_str()), ("api", FIRST));
        assert_eq!(target.state, expected, "{shown:?}");
    }
    assert_eq!(
        scene.pass().await.calls,
        [""; 0],
        "nothing is written once nothing changes"
    );
    scene.aws.set_instance_state(FIRST, InstanceState::Stopped);
    assert_eq!(scene.pass().await.status().targets, []);
}

#[tokio::test]
async fn the_address_of_a_vanished_instance_is_deregistered() {
    let scene = running("[{classicLoadBalancerName: api}]").await;
    scene.aws.remove_instance(FIRST);
    scene.kubernetes.advance(Timing::default().visibility_age * 2);
    scene.aws.take_target_requests();
    let pass = scene.pass().await;
    assert_eq!(pass.says(ConditionType::InstanceReady), "False/NotFound");
    let desired = scene
        .aws
        .take_target_requests()
        .into_iter()
        .next_back()
        .map(|(_, _, _, desired)| desired);
    assert_eq!(desired, Some(Desired::Forgotten));
}

#[tokio::test]
async fn lost_targets_are_recovered_from_the_sources() {
    let scene = running(&target_group()).await;
    scene.edit(|machine| machine.status = None);
    let pass = scene.pass().await;
    let network = pass.status().network.as_ref().unwrap();
    assert_eq!(
        network.control_plane_targets[0].target_group_arn.as_deref(),
        Some(GROUP)
    );
    assert_eq!(pass.says(ConditionType::ControlPlaneTargetsReady), "True/Ready");
    scene.edit(|machine| {
        machine.status = None;
        machine.spec.provider_id = None;
        machine.spec.instance_id = None;
    });
    scene.delete();
    scene.aws.set_registration_state(Some(RegistrationState::Leaving));
    let pass = scene.pass().await;
    assert!(
        !pass.calls.contains(&"TerminateInstances".to_owned()),
        "found by its tags: {:?}",
        pass.calls
    );
    assert_eq!(pass.says(ConditionType::InstanceReady), "False/Draining");
}

#[tokio::test]
async fn a_condition_of_targets_stands_until_they_are_read() {
    let scene = running(&target_group()).await;
    let targets = ConditionType::ControlPlaneTargetsReady;
    let throttled = CloudError::answered("DescribeTargetHealth", "Throttling", "Rate exceeded");
    for unread in [RegistrationState::Unknown, RegistrationState::Unreadable(throttled)] {
        scene.aws.set_registration_state(Some(unread));
        let pass = scene.pass().await;
        assert_eq!(pass.says(targets), "True/Ready");
        assert_eq!(pass.says(ConditionType::Ready), "True/Ready");
    }
    scene.aws.set_registration_state(None);
    let pass = scene.pass().await;
    assert_eq!(pass.says(targets), "True/Ready");
    assert_eq!(pass.reasons_of_events(), Vec::<&str>::new());
}

#[tokio::test]
async fn an_instance_that_somebody_else_has_registered_is_no_news() {
    let scene = scene(&target_group());
    scene.pass().await;
    scene.pass().await;
    scene.aws.set_instance_state(FIRST, InstanceState::Running);
    scene.aws.set_registration_state(Some(RegistrationState::Unknown));
    let pass = scene.pass().await;
    let targets = ConditionType::ControlPlaneTargetsReady;
    assert_eq!(pass.says(targets), "False/Registering");
    scene.aws.set_registration_state(Some(RegistrationState::Registered {
        health: Health {
            state: TargetState::Healthy,
            reason: None,
        },
        by_us: false,
    }));
    let pass = scene.pass().await;
    assert_eq!(pass.says(targets), "True/Ready");
    assert_eq!(pass.reasons_of_events(), Vec::<&str>::new());
}

#[tokio::test]
async fn only_control_planes_wait_for_pending_targets() {
    let pending = NETWORK.replacen('{', "{pendingControlPlaneTargets: load balancer api, ", 1);
    let worker = Scene::new();
    worker.kubernetes.publish_network("dev", &pending);
    worker.pass().await;
    assert_eq!(worker.aws.take_target_requests(), []);
    assert!(
        worker
            .pass()
            .await
            .status()
            .launch
            .as_ref()
            .unwrap()
            .instance_id()
            .is_some()
    );

    let scene = scene("[]");
    scene.kubernetes.publish_network("dev", &pending);
    let pass = scene.pass().await;
    assert!(!pass.calls.contains(&"RunInstances".to_owned()), "{:?}", pass.calls);
    let network = ConditionType::NetworkReady;
    assert_eq!(pass.says(network), "False/NotReady");
    assert!(
        pass.message(network).contains("load balancer api"),
        "{}",
        pass.message(network)
    );
    scene.kubernetes.publish_network("dev", NETWORK);
    assert!(scene.pass().await.calls.contains(&"RunInstances".to_owned()));

    scene.aws.set_instance_state(FIRST, InstanceState::Running);
    scene.pass().await;
    scene.kubernetes.publish_network("dev", &pending);
    scene.edit(|machine| machine.status = None);
    let pass = scene.pass().await;
    assert_eq!(pass.says(network), "False/NotReady");
    assert_eq!(pass.status().network, None, "what is recovered is for life");
    scene.delete();
    assert!(scene.pass().await.calls.contains(&"TerminateInstances".to_owned()));
}
