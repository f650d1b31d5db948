//! Control plane machines and their load balancer targets.

use capa_api::common::MachineRole;
use capa_api::contract::Machine;
use capa_api::machine::MachineTargetState;
use capa_api::meta::CONTROL_PLANE_LABEL;
use capa_cloud::elb::{AddressFamily, TargetType};
use capa_cloud::targets::Group;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::*;
use crate::awsmachine::ownership::OwnerProblem;
use crate::awsmachine::scope::Owners;

/// The time before the first health check of a new target.
const CHECKED_AFTER: Duration = Duration::from_secs(20);

pub(super) const GROUP: &str = "arn:aws:elasticloadbalancing:eu-west-1:111122223333:targetgroup/api/0123456789abcdef";

/// The Machine of a control plane.
fn control_plane_machine() -> Machine {
    read(&format!(
        "{{apiVersion: cluster.x-k8s.io/v1beta2, kind: Machine, \
          metadata: {{name: m, namespace: team-a, uid: o, labels: {{{CONTROL_PLANE_LABEL}: ''}}}}, \
          spec: {{clusterName: dev, bootstrap: {{dataSecretName: boot}}, infrastructureRef: \
          {{apiGroup: infrastructure.cluster.x-k8s.io, kind: AWSMachine, name: m}}}}}}"
    ))
}

/// A control plane machine whose own spec names these targets. Its AWSMachine has no control plane label. AWS has a
/// target group of type instance and a classic load balancer.
pub(super) fn scene(targets: &str) -> Scene {
    let scene = Scene::with_spec(&format!("{SPEC}, controlPlaneTargets: {targets}"));
    scene.kubernetes.put_machine(control_plane_machine());
    for group in [group(), classic()] {
        scene.aws.group(&group, TargetType::Instance);
    }
    scene
}

pub(super) fn group() -> Group {
    Group::TargetGroup(GROUP.to_owned())
}

pub(super) fn classic() -> Group {
    Group::Classic("api".to_owned())
}

#[test]
fn the_role_is_that_of_the_machine_while_it_exists() {
    let mut marked = Scene::new().machine("m").expect("an AWSMachine");
    let labels = marked.metadata.labels.get_or_insert_default();
    labels.insert(CONTROL_PLANE_LABEL.to_owned(), String::new());
    let unmarked = Scene::new().machine("m").expect("an AWSMachine");
    let owned_by = |machine: Option<Machine>| Owners {
        machine: machine.map(Arc::new).ok_or(OwnerProblem::Missing),
        cluster: None,
    };
    let worker = Machine { metadata: ObjectMeta::default(), ..control_plane_machine() };
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

/// Runs two passes. The tags of the targets are read between them.
pub(super) async fn launch(scene: &Scene) -> Pass {
    scene.pass().await;
    scene.pass().await
}

pub(super) async fn running(targets: &str) -> Scene {
    run(scene(targets)).await
}

/// A running machine with a target group of type ip.
async fn running_by_address() -> Scene {
    let scene = scene(&target_group());
    scene.aws.group(&group(), TargetType::Ip(AddressFamily::Ipv4));
    run(scene).await
}

pub(super) async fn run(scene: Scene) -> Scene {
    launch(&scene).await;
    scene.aws.set_instance_state(FIRST, InstanceState::Running);
    scene.pass().await;
    scene.after(CHECKED_AFTER).await;
    scene
}

pub(super) fn target_group() -> String {
    format!("[{{targetGroupARN: '{GROUP}', port: 6443}}]")
}

pub(super) fn terminated(pass: &Pass) -> bool {
    pass.calls.iter().any(|call| call == "TerminateInstances")
}

#[tokio::test]
async fn an_instance_is_registered_once_it_runs_and_not_before() {
    let scene = scene(&target_group());
    launch(&scene).await;
    let pass = scene.pass().await;
    let targets = ConditionType::ControlPlaneTargetsReady;
    assert_eq!(pass.condition(targets), "False/WaitingForRunning");
    assert_eq!(scene.aws.targets_of(&group()), [""; 0]);
    scene.aws.set_instance_state(FIRST, InstanceState::Running);
    let pass = scene.pass().await;
    assert_eq!(scene.aws.registered_in(FIRST), [group()]);
    assert_eq!(pass.condition(targets), "False/Registering");
    assert_eq!(pass.condition(ConditionType::Ready), "False/Registering");
    assert!(pass.status().provisioned(), "nobody waits for a target to become healthy");
    assert!(pass.machine().spec.provider_id.is_some());
    let pass = scene.after(CHECKED_AFTER).await;
    assert_eq!(pass.condition(targets), "True/Ready");
    assert_eq!(pass.condition(ConditionType::Ready), "True/Ready");
    assert_eq!(pass.reasons_of_events(), ["SuccessfulAttachControlPlaneELB"]);
}

/// Begins the deletion of the Machine of the scene, whose AWSMachine stays until the node is drained.
fn begin_drain(scene: &Scene) {
    let mut machine = control_plane_machine();
    machine.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
    scene.kubernetes.put_machine(machine);
}

#[tokio::test]
async fn an_instance_leaves_its_targets_before_its_node_is_drained() {
    let scene = running(&target_group()).await;
    scene.add("other", "bootstrap: {dataSecretName: boot}", SPEC);
    launch_other(&scene).await;
    begin_drain(&scene);
    scene.pass().await;
    let pass = scene.pass().await;
    assert_eq!(pass.condition(ConditionType::ControlPlaneTargetsReady), "False/Deregistering");
    let pass = scene.pass().await;
    assert_eq!(scene.aws.registered_in(FIRST), []);
    assert!(!terminated(&pass));
    assert_eq!(pass.machine().metadata.deletion_timestamp, None);
}

/// Launches the instance of another machine, which somebody registers in the group, and lets it become healthy.
async fn launch_other(scene: &Scene) {
    let mut launched = scene.pass_over("other").await.expect("a pass");
    for _ in 0..2 {
        launched = scene.pass_over("other").await.expect("a pass");
    }
    let launch = launched.status().launch.clone().expect("a launch");
    let id = launch.instance_id().expect("an instance").to_owned();
    scene.aws.set_instance_state(&id, InstanceState::Running);
    scene.aws.register(&id, &group());
    scene.after(CHECKED_AFTER).await;
}

#[tokio::test]
async fn the_last_healthy_target_stays_while_its_node_is_drained() {
    let scene = running(&target_group()).await;
    begin_drain(&scene);
    scene.pass().await;
    let pass = scene.pass().await;
    assert_eq!(scene.aws.registered_in(FIRST), [group()]);
    assert_eq!(pass.condition(ConditionType::ControlPlaneTargetsReady), "True/Ready");
}

#[tokio::test]
async fn an_unhealthy_target_leaves_before_its_node_is_drained() {
    let scene = running(&target_group()).await;
    scene.aws.fail_health_checks(FIRST);
    begin_drain(&scene);
    scene.pass().await;
    scene.pass().await;
    assert_eq!(scene.aws.registered_in(FIRST), []);
}

#[tokio::test]
async fn the_name_of_a_load_balancer_is_resolved_before_the_launch() {
    let scene = scene("[{loadBalancerName: api}]");
    let pass = scene.pass().await;
    assert_eq!(pass.condition(ConditionType::NetworkReady), "False/NotFound");
    let message = pass.message(ConditionType::NetworkReady);
    assert!(message.starts_with("load balancer api does not exist"), "{message}");
    assert_eq!(scene.aws.launches().len(), 0);
    scene.aws.load_balancer("api", 6443, GROUP);
    scene.pass().await;
    scene.after(CHECKED_AFTER).await;
    let scene = run(scene).await;
    assert_eq!(scene.aws.registered_in(FIRST), [group()]);
    scene.aws.load_balancer("api", 6443, "arn:another");
    let pass = scene.pass().await;
    let network = pass.status().network.clone().expect("a network in use");
    let named: Vec<_> = network.control_plane_targets.iter().filter_map(Group::of).collect();
    assert_eq!(named, [group()], "a machine keeps its targets");
    assert_eq!(pass.condition(ConditionType::NetworkUpToDate), "True/Ready");
}

#[tokio::test]
async fn a_load_balancer_with_more_target_groups_than_a_machine_can_have_stops_the_launch() {
    let scene = scene("[{loadBalancerName: api}]");
    let groups: Vec<String> = (0..9).map(|number| GROUP.replace("/api/", &format!("/api-{number}/"))).collect();
    let groups: Vec<&str> = groups.iter().map(String::as_str).collect();
    scene.aws.load_balancer_with("api", &[(6443, &groups)]);
    let pass = scene.pass().await;
    assert_eq!(pass.condition(ConditionType::NetworkReady), "False/InvalidSpec");
    let message = pass.message(ConditionType::NetworkReady);
    assert!(message.contains("forward to 9 target groups"), "{message}");
    assert_eq!(scene.aws.launches().len(), 0);
}

#[tokio::test]
async fn nothing_is_registered_before_its_address_is_on_record() {
    let scene = scene(&target_group());
    launch(&scene).await;
    scene.aws.set_instance_state(FIRST, InstanceState::Running);
    scene.edit(|machine| machine.status.get_or_insert_default().addresses.clear());
    let pass = scene.pass().await;
    let targets = ConditionType::ControlPlaneTargetsReady;
    let registered = scene.aws.registered_in(FIRST);
    assert_eq!(registered, [], "once it has ended nobody could take it out");
    assert_eq!(pass.condition(targets), "False/Registering");
    assert_eq!(pass.status().addresses[1].address, "10.0.0.1");
    scene.pass().await;
    assert_eq!(scene.aws.registered_in(FIRST), [group()]);
}

#[tokio::test]
async fn workers_and_machines_without_targets_are_not_registered() {
    let worker = Scene::with_spec(&format!("{SPEC}, controlPlaneTargets: {}", target_group()));
    worker.aws.group(&group(), TargetType::Instance);
    for scene in [worker, scene("[]")] {
        scene.pass().await;
        scene.aws.set_instance_state(FIRST, InstanceState::Running);
        let pass = scene.pass().await;
        assert_eq!(pass.condition(ConditionType::ControlPlaneTargetsReady), "absent");
        assert_eq!(pass.condition(ConditionType::Ready), "True/Ready");
        assert_eq!(scene.aws.registered_in(FIRST), []);
        scene.delete();
        assert!(terminated(&scene.pass().await));
    }
}

#[tokio::test]
async fn a_foreign_target_group_is_named_and_not_called() {
    for (arn, told) in [
        (GROUP.replace("eu-west-1", "us-east-1"), "another region"),
        (GROUP.replace("111122223333", "444455556666"), "another account"),
        ("arn:aws:s3:::bucket".to_owned(), "no ARN of a target group"),
    ] {
        let scene = scene(&format!("[{{targetGroupARN: '{arn}'}}]"));
        let named = Group::TargetGroup(arn);
        scene.aws.group(&named, TargetType::Instance);
        let scene = run(scene).await;
        let pass = scene.pass().await;
        let targets = ConditionType::ControlPlaneTargetsReady;
        assert_eq!(pass.condition(targets), "False/InvalidSpec");
        assert!(pass.message(targets).contains(told), "{}", pass.message(targets));
        assert_eq!(scene.aws.targets_of(&named), [""; 0]);
        scene.delete();
        assert!(terminated(&scene.pass().await));
    }
}

#[tokio::test]
async fn an_instance_is_terminated_once_its_targets_have_drained() {
    let scene = running("[{classicLoadBalancerName: api}]").await;
    assert_eq!(scene.aws.registered_in(FIRST), [classic()]);
    scene.delete();
    let pass = scene.pass().await;
    assert!(!terminated(&pass), "{:?}", pass.calls);
    assert_eq!(scene.aws.registered_in(FIRST), []);
    assert_eq!(pass.condition(ConditionType::InstanceReady), "False/Draining");
    assert_eq!(pass.condition(ConditionType::ControlPlaneTargetsReady), "False/Deregistering");
    assert_eq!(pass.reasons_of_events(), Vec::<&str>::new());
    let draining = scene.after(DRAINS_FOR.saturating_sub(Duration::from_secs(1))).await;
    assert!(!terminated(&draining), "{:?}", draining.calls);
    let pass = scene.after(Duration::from_secs(1)).await;
    assert!(terminated(&pass), "{:?}", pass.calls);
    assert_eq!(pass.reasons_of_events(), ["SuccessfulDetachControlPlaneELB"]);
}

#[tokio::test]
async fn an_overdue_target_does_not_hold_up_termination() {
    let scene = running("[{classicLoadBalancerName: api}]").await;
    let action = "DeregisterInstancesFromLoadBalancer";
    for _ in 0..10 {
        scene.aws.fail_next(action, unanswered(action));
    }
    scene.delete();
    scene.pass().await;
    let limit = Timing::default().drain_limit;
    let in_time = scene.after(limit.saturating_sub(Duration::from_secs(1))).await;
    assert!(!terminated(&in_time), "{:?}", in_time.calls);
    assert_eq!(in_time.reasons_of_events(), ["Failed"]);
    let pass = scene.after(Duration::from_secs(1)).await;
    assert!(terminated(&pass), "{:?}", pass.calls);
    let targets = ConditionType::ControlPlaneTargetsReady;
    assert_eq!(pass.condition(targets), "False/Failed");
    assert!(pass.message(targets).contains("in time"), "{}", pass.message(targets));
    assert_eq!(pass.reasons_of_events(), Vec::<&str>::new(), "told once");
}

#[tokio::test]
async fn a_submitted_termination_goes_on_although_the_target_begins_to_leave() {
    let scene = running("[{classicLoadBalancerName: api}]").await;
    scene.edit(|machine| {
        let status = machine.status.as_mut().expect("a status");
        status.submitted_terminations.push(FIRST.to_owned());
    });
    scene.delete();
    let pass = scene.pass().await;
    assert!(terminated(&pass), "{:?}", pass.calls);
    assert_eq!(pass.condition(ConditionType::InstanceReady), "False/Terminating");
}

#[tokio::test]
async fn the_address_of_a_terminated_instance_is_deregistered() {
    let scene = running_by_address().await;
    assert_eq!(scene.aws.targets_of(&group()), ["10.0.0.1"]);
    scene.aws.set_instance_state(FIRST, InstanceState::Terminated);
    let pass = scene.pass().await;
    assert_eq!(pass.condition(ConditionType::ControlPlaneTargetsReady), "False/Deregistering");
    assert_eq!(scene.aws.registered_in(FIRST), []);
    // A registration of an earlier process can take effect for a while, so the group is read until then.
    let timing = Timing::default();
    let mut events = Vec::new();
    for _ in 0..timing.late_registration.as_secs() / timing.target_poll.as_secs() {
        let pass = scene.after(timing.target_poll).await;
        events.extend(pass.reasons_of_events().into_iter().map(str::to_owned));
    }
    assert_eq!(events, ["SuccessfulDetachControlPlaneELB"]);
    // Another instance with the same address stays registered.
    scene.kubernetes.advance(DRAINS_FOR);
    scene.aws.register("10.0.0.1", &group());
    scene.pass().await;
    scene.delete();
    assert!(scene.pass().await.machine.is_none());
    assert_eq!(scene.aws.registered_in(FIRST), [group()]);
}

/// The state that a pass stored of the only target.
fn stored_state(pass: &Pass) -> MachineTargetState {
    let [target] = pass.status().targets.as_slice() else {
        panic!("{:?}", pass.status().targets);
    };
    assert_eq!((target.target.as_str(), target.instance_id.as_str()), ("api", FIRST));
    target.state
}

#[tokio::test]
async fn the_status_shows_the_state_of_each_target() {
    let scene = scene("[{classicLoadBalancerName: api}]");
    launch(&scene).await;
    scene.aws.set_instance_state(FIRST, InstanceState::Running);
    assert_eq!(stored_state(&scene.pass().await), MachineTargetState::Registering);
    assert_eq!(stored_state(&scene.pass().await), MachineTargetState::Registered);
    let healthy = scene.after(CHECKED_AFTER).await;
    assert_eq!(stored_state(&healthy), MachineTargetState::InService);
    scene.aws.fail_health_checks(FIRST);
    let unhealthy = scene.after(Timing::default().target_interval).await;
    assert_eq!(unhealthy.condition(ConditionType::ControlPlaneTargetsReady), "False/Failed");
    assert_eq!(stored_state(&unhealthy), MachineTargetState::InService);
    scene.aws.restart();
    // The process has listed the instance, but has not read the targets.
    scene.pass().await;
    assert_eq!(stored_state(&scene.pass().await), MachineTargetState::InService);
    scene.pass().await;
    assert_eq!(scene.pass().await.calls, [""; 0], "nothing is written once nothing changes");
    scene.aws.set_instance_state(FIRST, InstanceState::Stopped);
    assert_eq!(scene.pass().await.status().targets, []);
}

#[tokio::test]
async fn the_address_of_a_vanished_instance_is_deregistered() {
    let scene = running_by_address().await;
    assert_eq!(scene.aws.registered_in(FIRST), [group()]);
    scene.aws.remove_instance(FIRST);
    let pass = scene.after(Timing::default().visibility_age * 2).await;
    assert_eq!(pass.condition(ConditionType::InstanceReady), "False/NotFound");
    assert_eq!(scene.aws.registered_in(FIRST), []);
}

#[tokio::test]
async fn a_registration_by_somebody_else_is_no_event() {
    let scene = scene(&target_group());
    launch(&scene).await;
    scene.pass().await;
    scene.aws.set_instance_state(FIRST, InstanceState::Running);
    scene.aws.register(FIRST, &group());
    let pass = scene.pass().await;
    let targets = ConditionType::ControlPlaneTargetsReady;
    assert_eq!(pass.condition(targets), "False/Registering");
    let pass = scene.after(CHECKED_AFTER).await;
    assert_eq!(pass.condition(targets), "True/Ready");
    assert_eq!(pass.reasons_of_events(), Vec::<&str>::new());
}

#[tokio::test]
async fn a_registered_address_leaves_its_group_without_a_verified_machine() {
    let scene = running_by_address().await;
    assert_eq!(scene.aws.targets_of(&group()).len(), 1);
    let mut restored = control_plane_machine();
    restored.metadata.uid = Some("restored".to_owned());
    scene.kubernetes.put_machine(restored);
    let kept = scene.pass().await;
    assert_eq!(kept.status().targets.len(), 1);
    scene.delete();
    let first = scene.pass().await;
    assert!(!terminated(&first), "{:?}", first.calls);
    scene.after(DRAINS_FOR).await;
    scene.aws.set_instance_state(FIRST, InstanceState::Terminated);
    scene.after(CHECKED_AFTER).await;
    assert!(scene.aws.targets_of(&group()).is_empty());
}
