//! Tests of the annotation `abandon-instance`, with which a user can end any deletion.

use capa_api::common::IdentityReference;
use capa_api::conditions::ConditionType;
use capa_api::contract::Cluster;
use capa_api::meta;
use kube::ResourceExt;

use super::{CLUSTER, FIRST, Scene};
use crate::testing::{read, unanswered};

const INSTANCE_READY: ConditionType = ConditionType::InstanceReady;

fn annotate(scene: &Scene, value: &str) {
    scene.edit(|machine| {
        let annotations = machine.annotations_mut();
        annotations.insert(meta::ABANDON_INSTANCE_ANNOTATION.into(), value.into());
    });
}

#[tokio::test]
async fn an_abandoned_instance_is_left_alone_with_a_warning() {
    let scene = Scene::running().await;
    scene
        .kubernetes
        .remove_identity(&IdentityReference::controller_default());
    scene.delete();
    scene.pass().await;
    annotate(&scene, FIRST);
    let pass = scene.pass().await;
    assert!(pass.machine.is_none());
    assert_eq!(pass.calls, ["remove_finalizer"], "AWS is not even asked");
    let [event] = pass.events.as_slice() else {
        panic!("{:?}", pass.events)
    };
    assert!(event.warning && event.reason == "InstanceAbandoned", "{event:?}");
    assert!(event.message.contains(FIRST), "{event:?}");
}

#[tokio::test]
async fn an_attempt_without_an_instance_is_abandoned_by_token() {
    let scene = Scene::new();
    scene.aws.fail_next("RunInstances", unanswered("RunInstances"));
    scene.pass().await;
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
    assert_eq!(pass.says(INSTANCE_READY), "False/Terminating");
    let message = pass.message(INSTANCE_READY);
    assert!(
        message.contains("\"i-0000000000000000b\"") && message.contains(&format!("not {FIRST}")),
        "{message}"
    );
    assert!(pass.calls.contains(&"TerminateInstances".to_owned()));
    let ending = scene.pass().await;
    let terminated = ending.events.iter().any(|event| event.reason == "SuccessfulTerminate");
    assert!(
        terminated,
        "the annotation does not hide what was done: {:?}",
        ending.events
    );
    assert_eq!(scene.pass().await.calls, [""; 0]);
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
