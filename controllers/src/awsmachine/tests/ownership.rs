//! Tests of ownership: tags prove nothing, so copies, forged owners and other management clusters get no instance.

use std::time::Duration;

use capa_api::conditions::ConditionType;
use capa_api::contract::Machine;
use capa_api::machine::{AWSMachine, InstanceState};
use capa_api::meta;
use capa_cloud::Timing;
use capa_runtime::reconcile::Next;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;

use super::{FIRST, Pass, SPEC, Scene};
use crate::testing::read;

const INSTANCE_READY: ConditionType = ConditionType::InstanceReady;
const OTHER: &str = "i-0000000000000000a";
/// The id of an instance that is launched as the second one.
const SECOND: &str = "i-00000000000000002";

fn annotate(scene: &Scene, value: &str) {
    scene.annotate(meta::ADOPT_INSTANCE_ANNOTATION, value);
}

fn adoption_annotation(machine: &AWSMachine) -> Option<&str> {
    meta::annotation(&machine.metadata, meta::ADOPT_INSTANCE_ANNOTATION)
}

fn calls_to_ec2(pass: &Pass, action: &str) -> usize {
    pass.calls.iter().filter(|call| *call == action).count()
}

/// Runs passes over a deleted object until it is released without a termination. Returns the messages of events about
/// instances that were left alone.
async fn released(scene: &Scene, name: &str) -> Vec<String> {
    let mut said = Vec::new();
    for _ in 0..4 {
        scene.kubernetes.advance(Duration::from_secs(300));
        let pass = scene.pass_over(name).await.unwrap();
        assert_eq!(calls_to_ec2(&pass, "TerminateInstances"), 0, "{:?}", pass.calls);
        let left_alone = pass.events.into_iter().filter(|event| event.reason == "NotOwned");
        said.extend(left_alone.map(|event| event.message));
        if pass.machine.is_none() {
            return said;
        }
    }
    panic!("{name} is still there: {:?}", scene.machine(name));
}

/// A deleted copy of the running machine. A user made it from the output of `kubectl get --output yaml`, without the
/// status.
fn copy(scene: &Scene, change: impl FnOnce(&mut AWSMachine)) {
    let mut copy = scene.machine("m").unwrap();
    copy.metadata.name = Some("copy".into());
    copy.metadata.uid = Some("uid-copy".into());
    copy.metadata.deletion_timestamp = Some(Time(jiff::Timestamp::UNIX_EPOCH));
    copy.status = None;
    change(&mut copy);
    scene.kubernetes.put_aws_machine(copy);
}

#[tokio::test]
async fn a_deleted_copy_leaves_the_original_its_instance() {
    for with_ids in [true, false] {
        let scene = Scene::running().await;
        copy(&scene, |copy| {
            if !with_ids {
                copy.spec.provider_id = None;
                copy.spec.instance_id = None;
            }
        });
        let said = released(&scene, "copy").await;
        let [event] = said.as_slice() else { panic!("{said:?}") };
        assert!(event.contains(FIRST), "{event}");
        assert_eq!(scene.pass().await.condition(INSTANCE_READY), "True/Ready", "with ids: {with_ids}");
    }
}

#[tokio::test]
async fn an_ended_instance_is_not_reported_as_left_alone() {
    let scene = Scene::running().await;
    copy(&scene, |_| {});
    scene.aws.set_instance_state(FIRST, InstanceState::Terminated);
    assert_eq!(released(&scene, "copy").await, [""; 0]);
}

#[tokio::test]
async fn a_living_copy_neither_follows_nor_launches() {
    let scene = Scene::running().await;
    copy(&scene, |copy| copy.metadata.deletion_timestamp = None);
    scene.pass_over("copy").await.unwrap();
    let pass = scene.pass_over("copy").await.unwrap();
    assert_eq!(pass.condition(INSTANCE_READY), "False/NotOwned");
    let message = pass.message(INSTANCE_READY);
    assert!(message.contains(FIRST) && message.contains("infrastructureRef"), "{message}");
    assert!(message.contains(meta::ABANDON_INSTANCE_ANNOTATION), "{message}");
    assert_eq!(pass.status().launch, None);
    assert_eq!(pass.next, Next::Retry);
    assert_eq!(scene.tokens().len(), 1);
}

#[tokio::test]
async fn a_forged_owner_terminates_nothing() {
    let neighbour = "{apiVersion: cluster.x-k8s.io/v1beta2, kind: Machine, name: m, uid: ";
    let forged = [
        ("{apiVersion: cluster.x-k8s.io/v1beta2, kind: Machine, name: '*', uid: u}".to_owned(), 0),
        ("{apiVersion: cluster.x-k8s.io/v1beta2, kind: Machine, name: 'm?', uid: u}".to_owned(), 0),
        ("{apiVersion: cluster.x-k8s.io/v1beta2, kind: Machine, name: none, uid: u}".to_owned(), 0),
        (format!("{neighbour}o}}"), 1),
        (format!("{neighbour}another}}"), 1),
    ];
    for (reference, events) in forged {
        let scene = Scene::running().await;
        let mut forgery: AWSMachine = read(&format!(
            "{{apiVersion: infrastructure.cluster.x-k8s.io/v1beta2, kind: AWSMachine, metadata: {{name: forged, \
              namespace: team-a, uid: uid-forged, labels: {{cluster.x-k8s.io/cluster-name: dev}}, \
              finalizers: [{}], ownerReferences: [{reference}]}}, spec: {{{SPEC}}}}}",
            meta::MACHINE_FINALIZER
        ));
        forgery.metadata.deletion_timestamp = Some(Time(jiff::Timestamp::UNIX_EPOCH));
        scene.kubernetes.put_aws_machine(forgery);
        let said = released(&scene, "forged").await;
        assert_eq!(said.len(), events, "{reference}: {said:?}");
        assert_eq!(scene.pass().await.condition(INSTANCE_READY), "True/Ready", "{reference}");
    }
}

#[tokio::test]
async fn a_pattern_in_an_owners_name_reaches_no_filter() {
    let scene = Scene::new();
    scene.edit(|machine| {
        machine.finalizers_mut().push(meta::MACHINE_FINALIZER.into());
        machine.owner_references_mut()[0].name = "*".into();
    });
    scene.aws.instance(OTHER, InstanceState::Running, "team-a/other");
    scene.delete();
    let pass = scene.pass().await;
    assert_eq!(pass.condition(INSTANCE_READY), "False/LaunchUnconfirmed");
    assert_eq!(calls_to_ec2(&pass, "DescribeInstances"), 0, "{:?}", pass.calls);
    assert_eq!(released(&scene, "m").await, [""; 0]);
}

#[tokio::test]
async fn a_machine_that_names_another_object_launches_nothing() {
    let scene = Scene::new();
    let mut machine = Machine::clone(&scene.context.kubernetes.machine("team-a", "m").unwrap());
    for (uid, named, expected) in [("o", "n", "infrastructureRef"), ("p", "m", "UIDs")] {
        machine.metadata.uid = Some(uid.into());
        machine.spec.infrastructure_ref.as_mut().unwrap().name = named.into();
        scene.kubernetes.put_machine(machine.clone());
        let pass = scene.pass().await;
        assert_eq!(pass.condition(INSTANCE_READY), "False/WaitingForOwnerCluster");
        let message = pass.message(INSTANCE_READY);
        assert!(message.contains(expected), "{message}");
        assert_eq!(pass.machine().finalizers(), [""; 0]);
    }
    assert!(scene.aws.launches().is_empty());
}

#[tokio::test]
async fn an_instance_of_another_management_cluster_stops_a_launch() {
    let scene = Scene::new();
    scene.aws.launched_instance(OTHER, InstanceState::Running, "team-a/m", "uid-of-another-1");
    let waiting = scene.pass().await;
    assert_eq!(waiting.condition(INSTANCE_READY), "False/Conflict");
    let message = waiting.message(INSTANCE_READY).to_owned();
    for expected in [OTHER, &format!("adopt-instance: {OTHER}"), "adopt-instance: none"] {
        assert!(message.contains(expected), "{expected}: {message}");
    }
    assert_eq!(waiting.next, Next::Retry);
    assert_eq!(waiting.launch().attempt_number(), 0, "nothing is recorded");
    assert!(scene.aws.launches().is_empty());
    let still = scene.pass().await;
    assert_eq!(still.calls, ["DescribeInstances"]);
    // Its own management cluster terminates it.
    scene.aws.set_instance_state(OTHER, InstanceState::Terminated);
    let launched = scene.pass().await;
    assert_eq!(launched.launch().instance_id(), Some(SECOND));
}

#[tokio::test]
async fn a_deletion_reports_instances_of_other_management_clusters() {
    let scene = Scene::new();
    scene.aws.launched_instance(OTHER, InstanceState::Running, "team-a/m", "uid-of-another-1");
    scene.pass().await;
    scene.delete();
    let pass = scene.pass().await;
    assert!(pass.machine.is_none());
    let [event] = pass.events.as_slice() else { panic!("{:?}", pass.events) };
    assert!(event.warning && event.reason == "NotOwned" && event.message.contains(OTHER), "{event:?}");
    assert_eq!(calls_to_ec2(&pass, "TerminateInstances"), 0);
}

#[tokio::test]
async fn the_annotation_none_launches_beside_foreign_instances() {
    let scene = Scene::new();
    scene.aws.launched_instance(OTHER, InstanceState::Running, "team-a/m", "uid-of-another-1");
    scene.pass().await;
    annotate(&scene, meta::ADOPT_NO_INSTANCE);
    let launched = scene.pass().await;
    assert_eq!(launched.launch().instance_id(), Some(SECOND));
    scene.aws.set_instance_state(SECOND, InstanceState::Running);
    let running = scene.pass().await;
    assert_eq!(running.condition(INSTANCE_READY), "True/Ready");
    assert_eq!(adoption_annotation(running.machine()), None, "it has done its work");
    scene.delete();
    assert_eq!(calls_to_ec2(&scene.pass().await, "TerminateInstances"), 1);
    scene.aws.set_instance_state(SECOND, InstanceState::Terminated);
    assert!(scene.pass().await.machine.is_none());
}

#[tokio::test]
async fn the_annotation_adopts_the_instance_that_it_names() {
    let scene = Scene::new();
    for id in [OTHER, "i-0000000000000000b"] {
        scene.aws.launched_instance(id, InstanceState::Running, "team-a/m", "uid-of-another-1");
    }
    scene.pass().await;
    annotate(&scene, OTHER);
    let adopted = scene.pass().await;
    assert_eq!(adopted.launch().instance_id(), Some(OTHER));
    assert_eq!(adopted.reasons_of_events(), ["InstanceAdopted"]);
    let running = scene.pass().await;
    assert_eq!(running.reasons_of_events(), [""; 0], "told once");
    assert_eq!(running.condition(INSTANCE_READY), "True/Ready");
    assert_eq!(running.machine().spec.instance_id.as_deref(), Some(OTHER));
    assert_eq!(adoption_annotation(running.machine()), None);
    assert!(scene.aws.launches().is_empty());
    scene.delete();
    assert_eq!(calls_to_ec2(&scene.pass().await, "TerminateInstances"), 1, "it is ours from here on");
}

#[tokio::test]
async fn the_annotation_adopts_no_claimed_instance() {
    let scene = Scene::running().await;
    scene.add("n", "bootstrap: {dataSecretName: boot}", SPEC);
    scene.aws.tag_machine_name(FIRST, "team-a/n");
    let mut thief = scene.machine("n").unwrap();
    thief.annotations_mut().insert(meta::ADOPT_INSTANCE_ANNOTATION.into(), FIRST.into());
    scene.kubernetes.put_aws_machine(thief);
    let pass = scene.pass_over("n").await.unwrap();
    assert_eq!(pass.condition(INSTANCE_READY), "False/Conflict");
    let message = pass.message(INSTANCE_READY);
    assert!(message.contains(&format!("{FIRST} is not adopted: AWSMachine team-a/m names or")), "{message}");
}

#[tokio::test]
async fn an_unusable_adopt_annotation_stops_the_launch() {
    let table = [
        ("i-*", "is \"i-*\""),
        ("everything", "is \"everything\""),
        (OTHER, "does not carry the tags of this machine"),
    ];
    for (value, expected) in table {
        let scene = Scene::new();
        scene.aws.instance(OTHER, InstanceState::Running, "team-a/other");
        annotate(&scene, value);
        let pass = scene.pass().await;
        assert_eq!(pass.condition(INSTANCE_READY), "False/Conflict", "{value}");
        let message = pass.message(INSTANCE_READY);
        assert!(message.contains(expected), "{message}");
        assert!(scene.aws.launches().is_empty());
    }
}

#[tokio::test]
async fn a_launch_follows_an_annotated_instance_that_has_ended() {
    let scene = Scene::new();
    scene.aws.instance(OTHER, InstanceState::Terminated, "team-a/m");
    annotate(&scene, OTHER);
    // The provider sets the annotation too, so this AWSMachine may have lost its status.
    assert_eq!(scene.pass().await.condition(INSTANCE_READY), "False/LaunchUnconfirmed");
    let pass = scene.after(Timing::default().launch_lookup_age).await;
    assert_eq!(pass.launch().instance_id(), Some(SECOND));
}

#[tokio::test]
async fn a_restored_machine_adopts_the_instance_in_its_spec() {
    let scene = Scene::running().await;
    // The object and its owner were created anew from a backup.
    scene.edit(|machine| {
        machine.metadata.uid = Some("uid-restored".into());
        machine.status = None;
    });
    let restored = scene.pass().await;
    assert_eq!(restored.condition(INSTANCE_READY), "True/Ready");
    assert_eq!(restored.launch().instance_id(), Some(FIRST));
    assert_eq!(restored.launch().request().unwrap().client_token, "uid-m-1");
    scene.delete();
    assert_eq!(calls_to_ec2(&scene.pass().await, "TerminateInstances"), 1);
    assert_eq!(scene.tokens().len(), 1);
}

#[tokio::test]
async fn a_copy_does_not_keep_the_instance_of_a_restored_machine() {
    let scene = Scene::running().await;
    copy(&scene, |copy| copy.metadata.deletion_timestamp = None);
    scene.edit(|machine| {
        machine.metadata.uid = Some("uid-restored".into());
        machine.status = None;
    });
    scene.delete();
    assert_eq!(calls_to_ec2(&scene.pass().await, "TerminateInstances"), 1);
}

#[tokio::test]
async fn a_restored_machine_whose_instance_is_not_named_waits() {
    let scene = Scene::running().await;
    scene.edit(|machine| {
        machine.metadata.uid = Some("uid-restored".into());
        machine.status = None;
        machine.spec.provider_id = None;
        machine.spec.instance_id = None;
    });
    let waiting = scene.pass().await;
    assert_eq!(waiting.condition(INSTANCE_READY), "False/Conflict");
    assert_eq!(scene.after(Timing::default().launch_lookup_age).await.condition(INSTANCE_READY), "False/Conflict");
    annotate(&scene, FIRST);
    assert_eq!(scene.pass().await.launch().instance_id(), Some(FIRST));
    assert_eq!(scene.tokens().len(), 1);
}

#[tokio::test]
async fn a_machine_moved_before_its_instance_ran_finds_it() {
    let scene = Scene::new();
    let pending = scene.pass().await;
    assert_eq!(adoption_annotation(pending.machine()), Some(FIRST));
    scene.edit(|machine| {
        machine.metadata.uid = Some("uid-moved".into());
        machine.status = None;
    });
    let moved = scene.pass().await;
    assert_eq!(moved.launch().instance_id(), Some(FIRST));
    assert_eq!(scene.tokens().len(), 1);
    scene.aws.set_instance_state(FIRST, InstanceState::Running);
    let running = scene.pass().await;
    assert_eq!(running.machine().spec.instance_id.as_deref(), Some(FIRST));
    assert_eq!(adoption_annotation(running.machine()), None);
}

#[tokio::test]
async fn a_recorded_machine_is_deleted_without_any_owner() {
    let scene = Scene::running().await;
    scene.edit(|machine| machine.metadata.owner_references = None);
    scene.delete();
    // The tags contain the name of the AWSMachine, which equals the name of its Machine.
    assert_eq!(calls_to_ec2(&scene.pass().await, "TerminateInstances"), 1);
}

#[tokio::test]
async fn a_recorded_instance_without_its_tags_holds_the_deletion() {
    let scene = Scene::running().await;
    scene.aws.untag(FIRST);
    assert_eq!(scene.pass().await.condition(INSTANCE_READY), "True/Ready", "it is followed all the same");
    scene.delete();
    let held = scene.pass().await;
    assert_eq!(held.condition(INSTANCE_READY), "False/NotOwned");
    let message = held.message(INSTANCE_READY);
    let way_out = format!("{}: {FIRST}", meta::ABANDON_INSTANCE_ANNOTATION);
    assert!(message.contains("MachineName: team-a/m") && message.contains(&way_out), "{message}");
    assert_eq!(calls_to_ec2(&held, "TerminateInstances"), 0);
    scene.aws.set_instance_state(FIRST, InstanceState::Terminated);
    assert!(scene.pass().await.machine.is_none(), "what has ended loses its tags by itself");
}

#[tokio::test]
async fn a_renamed_owner_does_not_ask_to_retag_the_instance() {
    let scene = Scene::running().await;
    scene.edit(|machine| machine.owner_references_mut()[0].name = "forged".into());
    scene.delete();
    let held = scene.pass().await;
    assert_eq!(held.condition(INSTANCE_READY), "False/NotOwned");
    let message = held.message(INSTANCE_READY);
    let named = "the ownerReferences name Machine \"forged\", and the instance belongs to \"team-a/m\"";
    let way_out = format!("{}: {FIRST}", meta::ABANDON_INSTANCE_ANNOTATION);
    assert!(message.contains(named) && message.contains(&way_out), "{message}");
    assert!(!message.contains("restore") && !message.contains("team-a/forged"), "{message}");
    assert_eq!(calls_to_ec2(&held, "TerminateInstances"), 0);
    scene.edit(|machine| machine.owner_references_mut()[0].name = "m".into());
    assert_eq!(calls_to_ec2(&scene.pass().await, "TerminateInstances"), 1);
}

#[tokio::test]
async fn a_retagged_instance_of_a_verified_owner_needs_its_tags() {
    let scene = Scene::running().await;
    scene.aws.tag_machine_name(FIRST, "team-a/other");
    scene.delete();
    let held = scene.pass().await;
    assert_eq!(held.condition(INSTANCE_READY), "False/NotOwned");
    let message = held.message(INSTANCE_READY);
    assert!(message.contains("restore them") && message.contains("team-a/m"), "{message}");
    assert_eq!(calls_to_ec2(&held, "TerminateInstances"), 0);
}
