//! Tests of the turns to launch: a machine waits for its turn within the request rate of RunInstances.

use std::time::Duration;

use capa_api::conditions::ConditionType;
use capa_cloud::MachineKey;
use capa_runtime::reconcile::Next;

use super::{Pass, SPEC, Scene, reconcile};

const INSTANCE_READY: ConditionType = ConditionType::InstanceReady;
/// Number of immediate launches of a new session: one second of the rate of RunInstances.
const BURST: usize = 2;
/// The machines that wait before another one, so that its turn comes in more than a second.
const QUEUED: usize = 4;

/// Launches this number of other machines at once.
async fn launch_others(scene: &Scene, machines: usize) {
    for number in 0..machines {
        let name = format!("other-{number}");
        scene.add(&name, "bootstrap: {dataSecretName: boot}", SPEC);
        scene.pass_over(&name).await.unwrap();
    }
}

/// How long a pass waits for its turn within the request rate.
fn turn(pass: &Pass) -> Duration {
    match pass.next {
        Next::Deferred(turn) => turn,
        next => panic!("not limited: {next:?}"),
    }
}

#[tokio::test]
async fn a_call_deferred_by_our_limits_is_made_at_its_turn() {
    let scene = Scene::new();
    scene.unanswered_launch().await;
    launch_others(&scene, BURST - 1 + QUEUED).await;
    let first = scene.pass().await;
    assert_eq!(first.condition(INSTANCE_READY), "False/Launching");
    let second = scene.pass().await;
    assert_eq!(turn(&second), turn(&first));
    assert_eq!(second.message(INSTANCE_READY), first.message(INSTANCE_READY));
    let launched = scene.after(turn(&first)).await;
    assert_eq!(launched.launch().instance_id(), Some("i-00000000000000002"));
    let ours = scene.tokens().into_iter().filter(|token| token.starts_with("uid-m-"));
    assert_eq!(ours.collect::<Vec<_>>(), ["uid-m-1", "uid-m-1"]);
}

#[tokio::test]
async fn a_machine_records_nothing_before_its_turn_to_launch() {
    let scene = Scene::new();
    launch_others(&scene, BURST + QUEUED).await;
    let waiting = scene.pass().await;
    assert_eq!(waiting.condition(INSTANCE_READY), "False/Launching");
    assert_eq!(waiting.launch().attempt_number(), 0);
    let still = scene.pass().await;
    assert_eq!(still.calls, [""; 0]);
    let launched = scene.after(turn(&waiting)).await;
    assert_eq!(launched.launch().instance_id(), Some("i-00000000000000003"));
}

#[tokio::test]
async fn a_turn_that_comes_within_a_second_is_not_shown() {
    let scene = Scene::new();
    launch_others(&scene, BURST).await;
    let first = scene.pass().await;
    let waiting = scene.pass().await;
    assert!(turn(&waiting) <= Duration::from_secs(1));
    assert_eq!(waiting.condition(INSTANCE_READY), first.condition(INSTANCE_READY), "no status is written");
    let launched = scene.after(turn(&waiting)).await;
    assert_eq!(launched.launch().instance_id(), Some("i-00000000000000003"));
}

#[tokio::test]
async fn a_machine_that_waits_long_asks_again_earlier() {
    let scene = Scene::new();
    let others = BURST + 300;
    launch_others(&scene, others).await;
    let waiting = scene.pass().await;
    assert_eq!(turn(&waiting), Duration::from_mins(2), "its turn comes later");
    // The machines before it are deleted.
    for number in BURST..others {
        scene.context.clouds.forget(&MachineKey { namespace: "team-a".into(), name: format!("other-{number}") });
    }
    let launched = scene.after(turn(&waiting)).await;
    assert_eq!(launched.launch().instance_id(), Some("i-00000000000000003"));
}

#[tokio::test]
async fn machines_of_a_refused_template_do_not_hold_up_others() {
    let scene = Scene::new();
    launch_others(&scene, BURST).await;
    let refused: Vec<_> = (0..50).map(|number| format!("refused-{number}")).collect();
    for name in &refused {
        scene.add(name, "bootstrap: {dataSecretName: boot}", &SPEC.replace("ami-00000001", "ami-00000009"));
        scene.pass_over(name).await.unwrap();
    }
    assert!(turn(&scene.pass().await) > Duration::from_secs(20));
    scene.kubernetes.advance(Duration::from_secs(1));
    for name in &refused {
        assert_eq!(scene.pass_over(name).await.unwrap().condition(INSTANCE_READY), "False/NotFound", "{name}");
    }
    let launched = scene.after(Duration::from_secs(1)).await;
    assert_eq!(launched.launch().instance_id(), Some("i-00000000000000003"));
}

#[tokio::test]
async fn a_pass_that_comes_too_late_for_the_answer_to_its_lookup_looks_up_and_launches() {
    let scene = Scene::new();
    launch_others(&scene, BURST + QUEUED).await;
    let waiting = scene.pass().await;
    // The lookup is made for the turn, and the pass comes a minute later.
    scene.kubernetes.advance(turn(&waiting));
    scene.aws.settle().await;
    scene.kubernetes.advance(Duration::from_mins(1));
    scene.journal.take();
    let machine = scene.machine("m").unwrap();
    let outcome = Box::pin(reconcile(machine, &scene.context)).await.unwrap();
    assert_eq!(outcome.why, None);
    assert_eq!(scene.journal.take()[..2], ["DescribeInstances", "block_move"]);
    assert_eq!(scene.tokens().last().unwrap(), "uid-m-1");
}
