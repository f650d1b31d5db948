//! Tests of ages: of a young instance of an old attempt, and by a wall clock that is changed while the process runs.

use super::deletion::assert_released;
use super::*;

/// A day ahead of the first pass.
fn tomorrow() -> Timestamp {
    Timestamp::UNIX_EPOCH + Duration::from_hours(24)
}

#[tokio::test]
async fn a_clock_that_is_set_ahead_proves_no_absence() {
    let scene = Scene::recorded_by_another().await;
    // The attempt cannot be repeated unchanged, so its instance is looked up.
    scene.edit_attempt(|attempt| attempt.request.parameters_hash = Some("changed".into()));
    let looked = scene.pass().await;
    assert_eq!(looked.condition(ConditionType::InstanceReady), "False/LaunchUnconfirmed");
    scene.kubernetes.set_clock(tomorrow());
    let pass = scene.after(Timing::default().lookup_spacing).await;
    assert_eq!(pass.condition(ConditionType::InstanceReady), "False/LaunchUnconfirmed");
    assert_eq!(pass.launch().attempt_number(), 1, "no attempt follows one that may have launched");
    let pass = scene.after(Timing::default().launch_lookup_age).await;
    assert_eq!(pass.launch().attempt_number(), 2);
}

#[tokio::test]
async fn a_clock_that_is_set_ahead_proves_no_absence_to_a_deletion() {
    let scene = Scene::recorded_by_another().await;
    scene.delete();
    scene.pass().await;
    scene.kubernetes.set_clock(tomorrow());
    let pass = scene.after(Timing::default().lookup_spacing).await;
    assert_eq!(pass.condition(ConditionType::InstanceReady), "False/LaunchUnconfirmed");
    assert!(scene.after(Timing::default().launch_lookup_age).await.machine.is_none());
}

#[tokio::test]
async fn a_clock_that_is_set_back_makes_no_record_fresh() {
    let scene = Scene::new();
    scene.kubernetes.set_clock(tomorrow());
    scene.aws.lose_next_answer("RunInstances");
    scene.pass().await;
    scene.kubernetes.set_clock(Timestamp::UNIX_EPOCH);
    let pass = scene.after(Timing::default().confirmation_age * 2).await;
    assert!(pass.calls.contains(&"confirm".to_owned()), "{:?}", pass.calls);
}

#[tokio::test]
async fn a_clock_that_is_set_back_delays_no_refused_call() {
    let scene = Scene::running().await;
    scene.kubernetes.set_clock(tomorrow());
    scene.delete();
    let error = refused("TerminateInstances", "UnauthorizedOperation");
    scene.aws.fail_next("TerminateInstances", error);
    scene.pass().await;
    assert_eq!(scene.pass().await.condition(ConditionType::InstanceReady), "False/Unauthorized");
    scene.kubernetes.set_clock(Timestamp::UNIX_EPOCH);
    let pass = scene.after(RETRY).await;
    assert!(pass.calls.contains(&"TerminateInstances".to_owned()), "{:?}", pass.calls);
}

#[tokio::test]
async fn a_clock_that_is_set_ahead_hastens_no_refused_call() {
    let scene = Scene::running().await;
    scene.delete();
    let error = refused("TerminateInstances", "UnauthorizedOperation");
    scene.aws.fail_next("TerminateInstances", error);
    scene.pass().await;
    scene.pass().await;
    scene.kubernetes.set_clock(tomorrow());
    assert_eq!(scene.pass().await.calls, [""; 0]);
}

/// The launch record may be much older than the instance, because a call without an answer is repeated.
#[tokio::test]
async fn an_unrecorded_answer_to_an_old_attempt_is_young() {
    let scene = Scene::new();
    scene.unanswered_launch().await;
    scene.kubernetes.advance(Timing::default().visibility_age);
    scene.kubernetes.fail_after(0, "write_status");
    assert!(scene.pass_over("m").await.is_err());
    assert_eq!(scene.tokens(), ["uid-m-1", "uid-m-1"]);
    // AWS does not show it yet.
    scene.aws.remove_instance(FIRST);
    scene.delete();
    let young = scene.pass().await;
    assert_eq!(young.condition(ConditionType::InstanceReady), "False/Terminating");
    let message = young.message(ConditionType::InstanceReady);
    assert!(message.contains("this young"), "{message}");
    assert!(scene.after(Timing::default().visibility_age).await.machine.is_some());
    let pass = scene.after(Timing::default().listing_interval).await;
    assert_released(&scene, &pass);
}
