//! `clusterctl move` waits exactly as long as an attempt to launch is open.

use capa_api::conditions::ConditionType;
use capa_api::contract::Cluster;
use capa_api::machine::{AWSMachine, LaunchRecord};
use capa_api::meta;
use kube::ResourceExt;

use super::{CLUSTER, FIRST, Scene};
use crate::testing::{read, refused, unanswered};

fn is_blocked(machine: &AWSMachine) -> bool {
    meta::has_annotation(&machine.metadata, meta::BLOCK_MOVE_ANNOTATION)
}

fn block(scene: &Scene) {
    scene.annotate(meta::BLOCK_MOVE_ANNOTATION, "");
}

#[tokio::test]
async fn an_open_attempt_blocks_a_move_until_an_id_or_a_refusal() {
    let scene = Scene::new();
    scene.aws.fail_next("RunInstances", unanswered("RunInstances"));
    assert!(is_blocked(scene.pass().await.machine()));
    assert!(!is_blocked(scene.pass().await.machine()), "launched");
    let scene = Scene::new();
    let refused = scene.refused_with("VcpuLimitExceeded").await;
    assert!(!is_blocked(refused.machine()));
    assert!(matches!(refused.launch(), LaunchRecord::Refused(_)), "the refusal is stored");
    assert!(refused.status().network.is_none(), "no network is in use");
}

#[tokio::test]
async fn the_block_is_lifted_only_once_the_refusal_is_stored() {
    let scene = Scene::new();
    scene.aws.fail_next("RunInstances", refused("RunInstances", "VcpuLimitExceeded"));
    scene.kubernetes.fail_after(2, "write_status");
    assert!(scene.pass_over("m").await.is_err());
    assert!(is_blocked(&scene.machine("m").unwrap()));
}

#[tokio::test]
async fn without_the_block_there_is_no_record_and_no_call() {
    let scene = Scene::new();
    scene.kubernetes.fail_after(0, "block_move");
    assert!(scene.pass_over("m").await.is_err());
    let record = scene.machine("m").unwrap().status.and_then(|status| status.launch);
    assert_eq!(record, Some(LaunchRecord::Planned));
    assert!(scene.aws.launches().is_empty());
}

#[tokio::test]
async fn a_block_that_a_crash_left_behind_is_lifted() {
    let scene = Scene::running().await;
    block(&scene);
    let healed = scene.pass().await;
    assert_eq!(healed.calls, ["allow_move"]);
    assert_eq!(scene.pass().await.calls, [""; 0]);
}

#[tokio::test]
async fn a_block_beside_a_known_instance_is_lifted_without_a_record() {
    let scene = Scene::running().await;
    scene.aws.regroup(FIRST, &[]);
    scene.edit(|machine| machine.status = None);
    scene.annotate(meta::BLOCK_MOVE_ANNOTATION, "111122223333");
    let mut pass = scene.pass().await;
    for _ in 0..2 {
        pass = scene.pass().await;
    }
    assert_eq!(pass.status().launch, None, "no group is known");
    assert_eq!(pass.condition(ConditionType::Ready), "True/Ready");
    assert!(!is_blocked(pass.machine()));
}

#[tokio::test]
async fn a_paused_machine_keeps_the_block_only_for_an_open_attempt() {
    let pause = |scene: &Scene| {
        let mut cluster: Cluster = read(CLUSTER);
        cluster.spec.paused = Some(true);
        scene.kubernetes.put_cluster(cluster);
    };
    let scene = Scene::running().await;
    pause(&scene);
    block(&scene);
    assert_eq!(scene.pass().await.calls, ["allow_move", "write_status"]);
    let open = Scene::new();
    open.aws.fail_next("RunInstances", unanswered("RunInstances"));
    open.pass().await;
    pause(&open);
    let paused = open.pass().await;
    assert_eq!(paused.calls, ["write_status"], "AWS is left alone");
    assert!(is_blocked(paused.machine()));
}

#[tokio::test]
async fn an_open_attempt_gets_the_block_before_its_next_call() {
    let scene = Scene::new();
    scene.unanswered_launch().await;
    scene.edit(|machine| {
        machine.annotations_mut().remove(meta::BLOCK_MOVE_ANNOTATION);
    });
    assert_eq!(scene.pass().await.calls[..2], ["block_move", "RunInstances"]);
}
