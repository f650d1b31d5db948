//! Tests of instances that end in `pending`: such an instance is a failed attempt.

use std::time::Duration;

use capa_api::conditions::ConditionType;
use capa_api::machine::InstanceState;
use capa_runtime::reconcile::Next;

use super::{FIRST, Pass, Scene};

const INSTANCE_READY: ConditionType = ConditionType::InstanceReady;
const SHORT: &str = "Server.InsufficientInstanceCapacity";

/// Ends an instance for this reason.
fn end(scene: &Scene, id: &str, state: InstanceState, code: &str) {
    scene.aws.end_instance(id, state, code, "as EC2 puts it");
}

fn die(scene: &Scene, id: &str, code: &str) {
    end(scene, id, InstanceState::Terminated, code);
}

/// A launched machine whose instance died in `pending`.
async fn dead_in_pending(code: &str) -> (Scene, Pass) {
    let scene = Scene::new();
    scene.pass().await;
    die(&scene, FIRST, code);
    let pass = scene.pass().await;
    (scene, pass)
}

#[tokio::test]
async fn a_failure_of_the_request_fails_the_machine() {
    let (scene, dead) = dead_in_pending("Client.VolumeLimitExceeded").await;
    assert_eq!(dead.condition(INSTANCE_READY), "False/Failed");
    let message = dead.message(INSTANCE_READY);
    assert!(
        message.contains("Client.VolumeLimitExceeded: as EC2 puts it") && message.contains("delete the Machine"),
        "{message}"
    );
    assert_eq!(dead.next, Next::AwaitChange);
    assert_eq!(
        scene.after(Duration::from_secs(3600)).await.calls,
        ["GetCallerIdentity"],
        "an account is believed for some minutes"
    );
    assert_eq!(scene.tokens().len(), 1);
}

#[tokio::test]
async fn a_failure_of_ec2_is_followed_by_a_later_attempt() {
    let (scene, dead) = dead_in_pending("Server.InternalError").await;
    assert_eq!(dead.condition(INSTANCE_READY), "False/Failed");
    assert_eq!(dead.next, Next::Requeue(Duration::from_secs(30)));
    assert_eq!(scene.after(Duration::from_secs(29)).await.next, Next::Requeue(Duration::from_secs(1)));
    let given_up = scene.after(Duration::from_secs(1)).await;
    assert_eq!(given_up.next, Next::Requeue(Duration::ZERO));
    assert_eq!(given_up.launch().instance_id(), None);
    let next = scene.pass().await;
    assert_eq!(scene.tokens(), ["uid-m-1", "uid-m-2"]);
    assert_eq!(next.condition(INSTANCE_READY), "False/Pending");
    assert_ne!(next.launch().instance_id(), Some(FIRST));
}

#[tokio::test]
async fn the_fifth_attempt_is_the_last() {
    let scene = Scene::new();
    for attempt in 1..=6 {
        let launched = scene.pass().await;
        let launched = match launched.launch().instance_id() {
            Some(id) => id.to_owned(),
            None => scene.pass().await.launch().instance_id().unwrap().to_owned(),
        };
        die(&scene, &launched, "Server.InternalError");
        scene.pass().await;
        scene.after(Duration::from_secs(3600)).await;
        assert_eq!(scene.tokens().len(), attempt.min(5), "attempt {attempt}");
    }
    assert_eq!(scene.pass().await.next, Next::AwaitChange);
}

#[tokio::test]
async fn the_next_attempt_avoids_the_zone_without_capacity() {
    let (scene, _) = dead_in_pending(SHORT).await;
    scene.after(Duration::from_secs(30)).await;
    scene.pass().await;
    let zones: Vec<_> = scene.aws.launches().into_iter().map(|launch| launch.subnet_id).collect();
    assert_eq!(zones, ["subnet-0000000a", "subnet-0000000b"]);
}

#[tokio::test]
async fn another_attempt_waits_until_the_first_instance_is_terminated() {
    let scene = Scene::new();
    scene.pass().await;
    end(&scene, FIRST, InstanceState::ShuttingDown, SHORT);
    let pass = scene.after(Duration::from_secs(3600)).await;
    assert_eq!((pass.condition(INSTANCE_READY).as_str(), pass.next), ("False/Failed", Next::AwaitChange));
    die(&scene, FIRST, SHORT);
    scene.pass().await;
    scene.pass().await;
    assert_eq!(scene.tokens().len(), 2);
}

#[tokio::test]
async fn an_instance_that_has_run_is_never_followed_by_another() {
    for last in [InstanceState::Running, InstanceState::Stopped] {
        let scene = Scene::new();
        scene.pass().await;
        scene.aws.set_instance_state(FIRST, last);
        scene.pass().await;
        for state in [InstanceState::ShuttingDown, InstanceState::Terminated] {
            end(&scene, FIRST, state, "Server.InternalError");
            // EC2 shows a terminated instance for about an hour, and a pass sees it during this time.
            for wait in [Duration::ZERO, Duration::from_secs(3600)] {
                let gone = scene.after(wait).await;
                assert_eq!(gone.condition(INSTANCE_READY), "False/Terminated", "{last}");
            }
        }
        scene.after(Duration::from_secs(3600)).await;
        assert_eq!(scene.tokens().len(), 1, "{last}");
    }
}

#[tokio::test]
async fn a_machine_that_is_deleted_between_two_attempts_is_released() {
    let (scene, _) = dead_in_pending("Server.InternalError").await;
    scene.after(Duration::from_secs(30)).await;
    scene.delete();
    assert!(scene.pass().await.machine.is_none());
    assert_eq!(scene.tokens().len(), 1);
}
