//! Tests of the annotation `abandon-instance`, with which a user can end any deletion.

use capa_api::common::IdentityReference;
use capa_api::conditions::ConditionType;
use capa_api::contract::Cluster;
use capa_api::machine::InstanceState;
use capa_api::meta;
use kube::ResourceExt;

use super::deletion::{assert_released, terminated};
use super::restored_records::contradicted_record;
use super::{CLUSTER, FIRST, SPEC, Scene};
use crate::kubernetes_api::SourceOutcome;
use crate::testing::{FakeSource, read};

const INSTANCE_READY: ConditionType = ConditionType::InstanceReady;

fn annotate(scene: &Scene, value: &str) {
    scene.annotate(meta::ABANDON_INSTANCE_ANNOTATION, value);
}

#[tokio::test]
async fn an_abandoned_instance_is_left_alone_with_a_warning() {
    let scene = Scene::running().await;
    scene.kubernetes.remove_identity(&IdentityReference::controller_default());
    scene.delete();
    scene.pass().await;
    annotate(&scene, FIRST);
    let pass = scene.pass().await;
    assert!(pass.machine.is_none());
    assert_eq!(pass.calls, ["remove_finalizer"], "AWS is not even asked");
    let [event] = pass.events.as_slice() else { panic!("{:?}", pass.events) };
    assert!(event.warning && event.reason == "InstanceAbandoned", "{event:?}");
    assert!(event.message.contains(FIRST), "{event:?}");
}

#[tokio::test]
async fn an_attempt_without_an_instance_is_abandoned_by_token() {
    let scene = Scene::new();
    scene.unanswered_launch().await;
    scene.delete();
    annotate(&scene, "uid-m-1");
    let pass = scene.pass().await;
    assert!(pass.machine.is_none());
    assert_eq!(pass.calls, ["remove_finalizer"]);
}

#[tokio::test]
async fn a_mismatched_value_is_named_and_the_deletion_goes_on() {
    let scene = Scene::running().await;
    scene.delete();
    annotate(&scene, "i-0000000000000000b");
    let pass = scene.pass().await;
    assert_eq!(pass.condition(INSTANCE_READY), "False/Terminating");
    let message = pass.message(INSTANCE_READY);
    assert!(message.contains("\"i-0000000000000000b\"") && message.contains(&format!("not {FIRST}")), "{message}");
    assert!(pass.calls.contains(&"TerminateInstances".to_owned()));
    assert_eq!(scene.pass().await.calls, [""; 0]);
    scene.aws.set_instance_state(FIRST, InstanceState::Terminated);
    let ending = scene.pass().await;
    let terminated = ending.events.iter().any(|event| event.reason == "SuccessfulTerminate");
    assert!(terminated, "the annotation does not hide what was done: {:?}", ending.events);
}

#[tokio::test]
async fn the_annotation_acts_only_on_a_deleted_machine() {
    let scene = Scene::running().await;
    annotate(&scene, FIRST);
    assert_eq!(scene.pass().await.calls, [""; 0]);
    let mut cluster: Cluster = read(CLUSTER);
    cluster.spec.paused = Some(true);
    scene.kubernetes.put_cluster(cluster);
    scene.delete();
    assert!(scene.pass().await.machine.is_some());
}

/// Asserts that the deletion is blocked, names the annotation with the search token, and ends by it.
async fn assert_ended_by_search_token(scene: &Scene) {
    let blocked = scene.pass().await;
    assert_eq!(blocked.condition(INSTANCE_READY), "False/DeletionBlocked");
    let said = blocked.message(INSTANCE_READY);
    let way_out = format!("annotation {}: uid-m-0", meta::ABANDON_INSTANCE_ANNOTATION);
    assert!(said.contains(&way_out), "{said}");
    annotate(scene, "uid-m-1");
    assert!(scene.pass().await.machine.is_some(), "it is the token of an attempt");
    annotate(scene, "uid-m-0");
    let pass = scene.pass().await;
    assert_eq!(pass.calls, ["remove_finalizer"]);
    assert_eq!(pass.reasons_of_events(), ["InstanceAbandoned"]);
    assert_released(scene, &pass);
}

#[tokio::test]
async fn a_restored_copy_is_given_up_by_its_search_token() {
    let scene = Scene::new();
    scene.edit(|machine| machine.finalizers_mut().push(meta::MACHINE_FINALIZER.into()));
    let spec = "allowedNamespaces: {list: [team-b]}";
    scene.kubernetes.identity_object("AWSClusterControllerIdentity", "default", spec);
    scene.delete();
    assert_ended_by_search_token(&scene).await;
}

#[tokio::test]
async fn a_contradicted_record_is_given_up_by_its_search_token() {
    let scene = contradicted_record().await;
    assert_ended_by_search_token(&scene).await;
}

#[tokio::test]
async fn a_deletion_without_its_source_goes_on_from_the_spec() {
    let identity = "identityRef: {kind: AWSClusterControllerIdentity, name: default}";
    let spec = format!("{SPEC}, region: eu-west-1, {identity}");
    for (spec, goes_on) in [(spec.as_str(), true), (SPEC, false)] {
        let scene = Scene::with_spec(spec).run().await;
        scene.edit(|machine| machine.status = None);
        scene.kubernetes.put_source("dev", SourceOutcome::NotFound);
        assert_eq!(
            scene.pass().await.condition(ConditionType::NetworkReady),
            "False/NotFound",
            "a living machine needs its sources"
        );
        scene.delete();
        assert_eq!(terminated(&scene.pass().await), goes_on, "{spec}");
    }
}

#[tokio::test]
async fn a_deletion_waits_for_a_source_that_exists() {
    let identity = "identityRef: {kind: AWSClusterControllerIdentity, name: default}";
    let scene = Scene::with_spec(&format!("{SPEC}, region: eu-west-1, {identity}")).run().await;
    scene.edit(|machine| machine.status = None);
    scene.kubernetes.put_source("dev", FakeSource::unpublished());
    scene.delete();
    let blocked = scene.pass().await;
    assert_eq!(blocked.condition(INSTANCE_READY), "False/DeletionBlocked", "it may publish the tag of the cluster");
}
