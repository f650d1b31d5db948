//! Tests of several processes that all believe they are the leader: a record that names the process precedes each call.

use std::time::Duration;

use capa_api::conditions::ConditionType;
use capa_cloud::Timing;
use capa_runtime::reconcile::Next;

use super::{FIRST, RETRY, Scene};
use crate::launch_memory::LaunchMemory;
use crate::testing::refused;

const INSTANCE_READY: ConditionType = ConditionType::InstanceReady;

#[tokio::test]
async fn a_record_names_the_process_that_wrote_it() {
    let scene = Scene::new();
    assert_eq!(scene.pass().await.launch().attempt().unwrap().holder, "one");
}

#[tokio::test]
async fn a_foreign_record_is_claimed_before_its_call() {
    let scene = Scene::recorded_by_another().await;
    let pass = scene.pass().await;
    assert_eq!(pass.calls, ["DescribeInstances", "write_status", "RunInstances", "write_status", "allow_move"]);
    assert_eq!(pass.launch().attempt().unwrap().holder, "another");
    assert_eq!(scene.tokens(), ["uid-m-1", "uid-m-1"]);
}

/// The answer to the write of its record was lost. A claim would write an equal status, so it would not reach the API
/// server.
#[tokio::test]
async fn a_record_of_this_process_is_confirmed_before_its_first_call() {
    let scene = Scene::recorded_by_another().await;
    scene.edit_attempt(|attempt| attempt.holder = "another".into());
    let calls = scene.pass().await.calls;
    assert_eq!(calls[..3], ["DescribeInstances", "confirm", "RunInstances"]);
}

#[tokio::test]
async fn our_refusal_does_not_count_for_a_claimed_record() {
    let scene = Scene::new();
    scene.aws.fail_next("RunInstances", refused("RunInstances", "InvalidAMIID.NotFound"));
    // The refusal could not be stored, and then the other process made its call.
    scene.kubernetes.fail_after(2, "write_status");
    assert!(scene.pass_over("m").await.is_err());
    scene.edit_attempt(|attempt| attempt.holder = "another".into());
    let pass = scene.after(RETRY).await;
    assert_eq!(pass.calls[0], "DescribeInstances", "looked up before anything");
    assert_eq!(scene.tokens(), ["uid-m-1", "uid-m-1"], "the attempt is claimed, and not taken as refused");
}

#[tokio::test]
async fn an_answer_is_recorded_for_its_own_attempt_only() {
    let scene = Scene::new();
    scene.kubernetes.fail_after(2, "write_status");
    assert!(scene.pass_over("m").await.is_err());
    scene.edit_attempt(|attempt| {
        attempt.number = attempt.number.saturating_add(1);
        attempt.holder = "another".into();
        attempt.request.client_token = "uid-m-2".into();
    });
    let pass = scene.pass().await;
    assert_eq!(pass.calls[0], "DescribeInstances", "found by its tags instead");
    assert_eq!(pass.launch().instance_id(), Some(FIRST));
    assert_eq!(pass.launch().attempt_number(), 1, "with the number of its own attempt");
}

#[tokio::test]
async fn a_record_that_cannot_be_claimed_is_not_called() {
    let scene = Scene::recorded_by_another().await;
    scene.kubernetes.fail_after(0, "write_status");
    assert!(scene.pass_over("m").await.is_err());
    assert_eq!(scene.tokens(), ["uid-m-1"]);
}

#[tokio::test]
async fn a_refusal_of_a_claimed_attempt_proves_nothing() {
    let scene = Scene::recorded_by_another().await;
    scene.refused_with("InsufficientInstanceCapacity").await;
    let unconfirmed = scene.pass().await;
    assert_eq!(unconfirmed.condition(INSTANCE_READY), "False/LaunchUnconfirmed");
    scene.after(Timing::default().launch_lookup_age).await;
    assert_eq!(scene.tokens(), ["uid-m-1", "uid-m-1", "uid-m-2"]);
}

#[tokio::test]
async fn a_claim_refuses_the_writes_of_the_former_leader() {
    let mut scene = Scene::new();
    scene.unanswered_launch().await;
    let former = (scene.machine("m").unwrap(), scene.context.clone());
    scene.restart();
    scene.refused_with("InsufficientInstanceCapacity").await;
    scene.aws.fail_next("RunInstances", refused("RunInstances", "VcpuLimitExceeded"));
    // The next launch has its turn a second later.
    scene.kubernetes.advance(Duration::from_secs(1));
    let woken = Box::pin(super::reconcile(former.0, &former.1)).await.unwrap();
    let status = woken.status.unwrap();
    let written = scene.context.kubernetes.write_status(&woken.object, &status).await;
    assert!(written.is_err(), "{written:?}");
}

#[tokio::test]
async fn a_frozen_leader_confirms_its_record_before_it_calls() {
    let scene = Scene::new();
    scene.unanswered_launch().await;
    let frozen = scene.machine("m").unwrap();
    scene.edit_attempt(|attempt| attempt.holder = "another".into());
    scene.kubernetes.advance(Duration::from_secs(31));
    assert!(Box::pin(super::reconcile(frozen, &scene.context)).await.is_err());
    assert_eq!(scene.tokens(), ["uid-m-1"], "another process holds the record");
}

#[tokio::test]
async fn a_leader_whose_record_stands_goes_on_with_it() {
    let scene = Scene::new();
    scene.unanswered_launch().await;
    scene.kubernetes.advance(Duration::from_secs(31));
    let pass = scene.pass().await;
    assert_eq!(pass.calls[..2], ["confirm", "RunInstances"]);
    assert_eq!(pass.launch().instance_id(), Some(FIRST));
}

#[tokio::test]
async fn a_pass_frozen_between_record_and_call_ends_without_it() {
    for call in ["write_status", "confirm"] {
        let scene = Scene::new();
        if call == "confirm" {
            scene.unanswered_launch().await;
            scene.kubernetes.advance(Duration::from_secs(31));
        }
        let calls = scene.tokens().len();
        // The first status records that nothing was launched, and the second records the attempt.
        let others = usize::from(call == "write_status");
        scene.kubernetes.delay_after(others, call, Duration::from_secs(31));
        let still = scene.pass().await;
        assert_eq!(scene.tokens().len(), calls, "{call}");
        assert_eq!((still.condition(INSTANCE_READY).as_str(), still.next), ("False/Launching", Next::Retry));
        let again = scene.pass().await;
        assert_eq!(again.calls[..2], ["confirm", "RunInstances"], "{call}");
    }
}

#[tokio::test]
async fn a_foreign_refusal_is_followed_after_a_lookup() {
    let mut scene = Scene::new();
    scene.refused_with("InvalidAMIID.NotFound").await;
    scene.context.memory = LaunchMemory::new("another");
    let next = scene.pass().await;
    assert!(next.calls.contains(&"DescribeInstances".to_owned()), "{:?}", next.calls);
    assert_eq!(scene.tokens(), ["uid-m-1", "uid-m-2"]);
}
