//! Tests of events about completed actions, which the log repeats: each event is published once, even if passes fail.

use std::time::Duration;

use capa_api::machine::InstanceState;
use capa_api::meta;
use kube::ResourceExt;

use super::deletion::assert_released;
use super::{FIRST, Scene};

#[tokio::test]
async fn a_launch_is_told_once_though_its_pass_fails_afterwards() {
    let scene = Scene::new();
    scene.kubernetes.fail_after(0, "allow_move");
    let mut failure = scene.pass_over("m").await.err().expect("the pass fails");
    let told: Vec<_> = failure.take_events().into_iter().map(|event| event.message).collect();
    assert_eq!(told, [format!("launched instance {FIRST}")]);
    let repeated = scene.pass().await;
    assert_eq!(repeated.launch().instance_id(), Some(FIRST));
    assert_eq!(repeated.reasons_of_events(), [""; 0]);
}

#[tokio::test]
async fn a_launch_whose_answer_is_not_stored_is_told_by_the_next_pass() {
    let scene = Scene::new();
    scene.kubernetes.fail_after(2, "write_status");
    let mut failure = scene.pass_over("m").await.err().expect("the pass fails");
    assert_eq!(failure.take_events(), []);
    assert_eq!(scene.pass().await.reasons_of_events(), ["SuccessfulCreate"]);
    assert_eq!(scene.tokens().len(), 1);
}

#[tokio::test]
async fn an_adoption_is_told_once_though_its_pass_fails_afterwards() {
    let scene = Scene::new();
    scene.aws.launched_instance(FIRST, InstanceState::Stopped, "team-a/m", "uid-m-1");
    scene.edit(|machine| {
        let annotations = machine.annotations_mut();
        annotations.insert(meta::BLOCK_MOVE_ANNOTATION.to_owned(), String::new());
    });
    scene.kubernetes.fail_after(0, "allow_move");
    let mut failure = scene.pass_over("m").await.err().expect("the pass fails");
    let told: Vec<_> = failure.take_events().into_iter().map(|event| event.reason).collect();
    assert_eq!(told, ["InstanceAdopted"]);
    assert_eq!(scene.pass().await.reasons_of_events(), ["Stopped"]);
}

#[tokio::test]
async fn a_termination_is_told_though_aws_shows_no_more_of_it() {
    let scene = Scene::running().await;
    scene.aws.remove_instance(FIRST);
    scene.delete();
    // The manager was down since it submitted the termination.
    scene.edit(|machine| {
        let status = machine.status.as_mut().expect("a status");
        status.submitted_terminations.push(FIRST.to_owned());
    });
    let mut told = Vec::new();
    for later in [100, 200] {
        told.extend(scene.after(Duration::from_secs(later)).await.events);
    }
    assert_eq!(told, [], "its absence proves nothing yet");
    let last = scene.pass().await;
    assert_released(&scene, &last);
    assert_eq!(last.reasons_of_events(), ["SuccessfulTerminate"]);
}
