//! Tests of deletion: a deletion ends or names its problem, and terminates no foreign instance.

use std::time::Duration;

use capa_api::common::IdentityReference;
use capa_api::conditions::ConditionType;
use capa_api::machine::InstanceState;
use capa_api::meta;
use capa_cloud::{CloudError, Timing};
use capa_runtime::reconcile::Next;
use kube::ResourceExt;

use super::{FIRST, NETWORK, Pass, RETRY, Scene};
use crate::kubernetes_api::SourceOutcome;
use crate::testing::{FakeSource, refused, unanswered, unreadable};

const INSTANCE_READY: ConditionType = ConditionType::InstanceReady;

/// A machine that waits for its network: attempt 0 is recorded.
pub(super) async fn never_launched() -> Scene {
    deleted_before_launch(Scene::new()).await
}

/// Lets the machine of this scene wait for its network, publishes the network, and deletes the machine.
pub(super) async fn deleted_before_launch(scene: Scene) -> Scene {
    scene.kubernetes.put_source("dev", FakeSource::unpublished());
    scene.pass().await;
    scene.kubernetes.publish_network("dev", NETWORK);
    scene.delete();
    scene
}

/// A machine with an unanswered launch whose instance AWS does not show.
async fn unanswered_launch() -> Scene {
    let scene = Scene::new();
    scene.unanswered_launch().await;
    scene.delete();
    scene
}

pub(super) fn assert_released(scene: &Scene, pass: &Pass) {
    assert!(pass.machine.is_none(), "still there: {:?}", pass.machine);
    let forgotten = scene.aws.forgotten();
    assert_eq!(forgotten.last().map(|machine| machine.name.as_str()), Some("m"));
}

pub(super) fn terminated(pass: &Pass) -> bool {
    pass.calls.iter().any(|call| call == "TerminateInstances")
}

#[tokio::test]
async fn a_deleted_machine_without_the_finalizer_is_ignored() {
    let scene = Scene::new();
    scene.edit(|machine| machine.finalizers_mut().push("example.org/theirs".into()));
    scene.delete();
    assert_eq!(scene.pass().await.calls, [""; 0]);
}

#[tokio::test]
async fn a_machine_never_launched_is_looked_up_once_and_released() {
    let scene = never_launched().await;
    let pass = scene.pass().await;
    assert_eq!(pass.calls, ["GetCallerIdentity", "DescribeInstances", "remove_finalizer"]);
    assert_released(&scene, &pass);
}

#[tokio::test]
async fn the_planned_record_stands_in_for_an_impossible_lookup() {
    let no_identity = never_launched().await;
    no_identity.kubernetes.remove_identity(&IdentityReference::controller_default());
    let no_network = never_launched().await;
    no_network.kubernetes.put_source("dev", SourceOutcome::NotFound);
    let unreadable_network = never_launched().await;
    unreadable_network.kubernetes.put_source("dev", unreadable());
    let no_cluster = never_launched().await;
    no_cluster.kubernetes.remove_cluster("team-a", "dev");
    let refused_credentials = never_launched().await;
    let error = refused("GetCallerIdentity", "InvalidClientTokenId");
    refused_credentials.aws.fail_next("GetCallerIdentity", error);
    let unreachable = never_launched().await;
    unreachable.aws.fail_next("DescribeInstances", unanswered("DescribeInstances"));
    for scene in [no_identity, no_network, unreadable_network, no_cluster, refused_credentials, unreachable] {
        let pass = scene.pass().await;
        assert_released(&scene, &pass);
    }
}

#[tokio::test]
async fn a_deletion_waits_for_the_turn_of_its_lookup() {
    let scene = never_launched().await;
    let turn = Duration::from_millis(1234);
    scene.aws.fail_next("DescribeInstances", CloudError::deferred("DescribeInstances", turn));
    let deferred = scene.pass().await;
    assert_eq!(deferred.condition(INSTANCE_READY), "False/DeletionBlocked");
    assert_eq!(deferred.next, Next::Deferred(turn));
    let pass = scene.after(turn).await;
    assert_released(&scene, &pass);
}

#[tokio::test]
async fn a_throttled_lookup_of_a_deletion_is_repeated() {
    for call in ["GetCallerIdentity", "DescribeInstances"] {
        let scene = never_launched().await;
        scene.aws.fail_next(call, refused(call, "RequestLimitExceeded"));
        let throttled = scene.pass().await;
        assert_eq!(throttled.condition(INSTANCE_READY), "False/DeletionBlocked", "{call}");
        let pass = scene.after(Timing::default().resolve_retry).await;
        assert_released(&scene, &pass);
    }
}

#[tokio::test]
async fn a_stored_refusal_counts_only_together_with_a_lookup() {
    let mut scene = Scene::new();
    scene.refused_with("InvalidAMIID.NotFound").await;
    scene.restart();
    scene.delete();
    // The refusal may come from a backup, and an instance may have been launched after the backup.
    scene.aws.fail_next("DescribeInstances", unanswered("DescribeInstances"));
    let blocked = scene.pass().await;
    assert_eq!(blocked.condition(INSTANCE_READY), "False/DeletionBlocked");
    let pass = scene.pass().await;
    assert_released(&scene, &pass);
}

#[tokio::test]
async fn an_unreadable_termination_shows_the_error() {
    let scene = Scene::running().await;
    scene.aws.set_instance_state(FIRST, InstanceState::ShuttingDown);
    scene.delete();
    let awaited = scene.pass().await;
    assert_eq!(awaited.condition(INSTANCE_READY), "False/Terminating");
    scene.aws.fail_reading(refused("DescribeInstances", "UnauthorizedOperation"));
    let blocked = scene.pass().await;
    assert_eq!(blocked.condition(INSTANCE_READY), "False/DeletionBlocked");
    let message = blocked.message(INSTANCE_READY);
    assert!(message.contains(FIRST) && message.contains("UnauthorizedOperation"), "{message}");
}

#[tokio::test]
async fn an_unrecorded_instance_of_our_own_is_terminated() {
    let scene = never_launched().await;
    scene.aws.launched_instance("i-0000000000000000a", InstanceState::Running, "team-a/m", "uid-m-1");
    scene.aws.instance("i-0000000000000000b", InstanceState::Running, "team-a/other");
    let pass = scene.pass().await;
    assert_eq!(pass.calls, ["GetCallerIdentity", "DescribeInstances", "confirm", "write_status", "TerminateInstances"]);
    assert_eq!(pass.next, Next::Requeue(Timing::default().listing_interval));
    let waiting = scene.pass().await;
    assert_eq!(waiting.calls, ["DescribeInstances", "confirm"], "shutting down is not terminated");
    scene.aws.set_instance_state("i-0000000000000000a", InstanceState::Terminated);
    let pass = scene.pass().await;
    assert_released(&scene, &pass);
}

#[tokio::test]
async fn a_restored_machine_is_released_once_its_absence_is_proven() {
    let scene = Scene::new();
    scene.edit(|machine| machine.finalizers_mut().push(meta::MACHINE_FINALIZER.into()));
    scene.delete();
    scene.aws.fail_next("DescribeInstances", refused("DescribeInstances", "UnauthorizedOperation"));
    let blocked = scene.pass().await;
    assert_eq!(blocked.condition(INSTANCE_READY), "False/DeletionBlocked");
    assert_eq!(blocked.condition(ConditionType::Ready), "False/DeletionBlocked");
    assert_eq!(blocked.next, Next::Requeue(RETRY));
    let empty = scene.after(RETRY).await;
    assert_eq!(empty.condition(INSTANCE_READY), "False/LaunchUnconfirmed");
    let said = empty.message(INSTANCE_READY);
    assert!(
        said.contains("without a readable launch record") && said.ends_with("before the AWSMachine is released"),
        "{said}"
    );
    assert!(scene.after(Duration::from_secs(599)).await.machine.is_some());
    let old = scene.after(Duration::from_secs(1)).await;
    assert_released(&scene, &old);
}

#[tokio::test]
async fn an_unanswered_launch_is_looked_up_until_absence_is_proven() {
    let scene = unanswered_launch().await;
    let young = scene.pass().await;
    assert_eq!(young.condition(INSTANCE_READY), "False/LaunchUnconfirmed");
    assert!(matches!(young.next, Next::Requeue(_)));
    let said = young.message(INSTANCE_READY);
    assert!(
        said.starts_with("EC2 was asked for an instance") && said.ends_with("before the AWSMachine is released"),
        "{said}"
    );
    let still = scene.after(Duration::from_secs(599)).await;
    assert_eq!(still.next, Next::Requeue(Duration::from_secs(1)));
    let old = scene.after(Duration::from_secs(1)).await;
    assert_released(&scene, &old);
    assert_eq!(scene.tokens().len(), 1, "a deleted machine is not launched");
}

#[tokio::test]
async fn the_instance_of_an_unanswered_launch_is_terminated() {
    let scene = Scene::new();
    scene.aws.lose_next_answer("RunInstances");
    scene.pass().await;
    scene.delete();
    assert!(terminated(&scene.pass().await));
    assert_eq!(scene.aws.instance_ids(), [FIRST]);
    scene.aws.set_instance_state(FIRST, InstanceState::Terminated);
    let pass = scene.pass().await;
    assert_released(&scene, &pass);
}

#[tokio::test]
async fn a_machine_without_an_effective_call_needs_one_lookup() {
    let scene = Scene::new();
    scene.refused_with("RequestLimitExceeded").await;
    scene.delete();
    let pass = scene.pass().await;
    assert_eq!(pass.calls, ["DescribeInstances", "remove_finalizer"]);
    assert_released(&scene, &pass);
}

#[tokio::test]
async fn the_instance_of_a_namesake_is_not_terminated() {
    let scene = never_launched().await;
    let former = scene.machine("m").unwrap();
    scene.edit(|machine| {
        machine.metadata.uid = Some("uid-of-another".into());
        machine.metadata.deletion_timestamp = None;
    });
    scene.aws.launched_instance("i-0000000000000000a", InstanceState::Running, "team-a/m", "uid-m-1");
    // The cache of a suspended process still contains the former object.
    assert!(Box::pin(super::reconcile(former, &scene.context)).await.is_err());
    assert!(!scene.journal.take().contains(&"TerminateInstances".to_owned()));
}

#[tokio::test]
async fn a_later_call_restarts_the_wait_of_a_deletion() {
    let scene = Scene::new();
    scene.unanswered_launch().await;
    scene.aws.fail_next("RunInstances", unanswered("RunInstances"));
    scene.after(Duration::from_secs(500)).await;
    scene.delete();
    scene.pass().await;
    let early = scene.after(Duration::from_secs(599)).await;
    assert_eq!(early.condition(INSTANCE_READY), "False/LaunchUnconfirmed");
    assert_released(&scene, &scene.after(Duration::from_secs(1)).await);
}

#[tokio::test]
async fn a_new_process_looks_for_an_open_attempt_for_its_full_time() {
    let mut scene = unanswered_launch().await;
    scene.kubernetes.advance(Duration::from_secs(3600));
    scene.restart();
    let first = scene.pass().await;
    assert_eq!(first.condition(INSTANCE_READY), "False/LaunchUnconfirmed");
    assert!(scene.after(Duration::from_secs(599)).await.machine.is_some());
    assert_released(&scene, &scene.after(Duration::from_secs(1)).await);
}

#[tokio::test]
async fn a_known_instance_is_terminated_in_every_living_state() {
    for state in [InstanceState::Pending, InstanceState::Running, InstanceState::Stopping, InstanceState::Stopped] {
        let scene = Scene::running().await;
        scene.aws.set_instance_state(FIRST, state);
        scene.delete();
        let pass = scene.pass().await;
        assert_eq!(pass.calls, ["write_status", "TerminateInstances"], "{state}");
        assert_eq!(pass.condition(INSTANCE_READY), "False/Terminating", "{state}");
        assert_eq!(pass.next, Next::Requeue(Timing::default().listing_interval));
        assert_eq!(pass.events, [], "{state}: nothing has happened yet");
        let waiting = scene.pass().await;
        assert_eq!((waiting.calls.len(), waiting.events.len()), (0, 0), "{state}");
        assert_eq!(waiting.next, Next::AwaitChange, "{state}: the informer wakes it");
        scene.aws.set_instance_state(FIRST, InstanceState::Terminated);
        let pass = scene.pass().await;
        assert_released(&scene, &pass);
        assert_eq!(pass.reasons_of_events(), ["SuccessfulTerminate"]);
    }
}

#[tokio::test]
async fn a_refused_termination_is_a_condition_and_is_tried_again() {
    let scene = Scene::running().await;
    scene.delete();
    let error = refused("TerminateInstances", "UnauthorizedOperation");
    scene.aws.fail_next("TerminateInstances", error);
    assert!(terminated(&scene.pass().await));
    let refused = scene.pass().await;
    assert_eq!(refused.condition(INSTANCE_READY), "False/Unauthorized");
    assert_eq!(refused.next, Next::Requeue(RETRY));
    assert!(terminated(&scene.after(RETRY).await));
}

#[tokio::test]
async fn an_absent_instance_releases_its_machine_once_old_enough() {
    let scene = Scene::running().await;
    scene.aws.remove_instance(FIRST);
    scene.delete();
    let young = scene.after(Duration::from_secs(100)).await;
    assert_eq!(young.condition(INSTANCE_READY), "False/Terminating");
    assert_eq!(young.next, Next::Requeue(Duration::from_secs(200)));
    assert_eq!(scene.aws.forgotten().len(), 1, "what was seen of it while it was young is no proof later");
    let unseen = scene.after(Duration::from_secs(200)).await;
    assert!(unseen.machine.is_some(), "it is looked for anew");
    let old = scene.pass().await;
    assert_released(&scene, &old);
}

#[tokio::test]
async fn a_deletion_waits_for_the_first_listing() {
    let scene = Scene::running().await;
    scene.aws.restart();
    scene.aws.slow_down_reading();
    scene.delete();
    let pass = scene.after(Duration::from_secs(3600)).await;
    assert_eq!(pass.calls, ["GetCallerIdentity", "write_status"]);
    assert_eq!(pass.next, Next::Retry);
}

#[tokio::test]
async fn a_foreign_instance_in_the_spec_is_never_terminated() {
    let scene = never_launched().await;
    scene.edit(|machine| machine.spec.provider_id = Some("aws:///eu-west-1a/i-0000000000000000a".into()));
    scene.aws.instance("i-0000000000000000a", InstanceState::Running, "team-a/other");
    assert!(!terminated(&scene.pass().await));
    let pass = scene.pass().await;
    assert_eq!(pass.condition(INSTANCE_READY), "False/NotOwned");
    assert!(!terminated(&pass));
    assert!(pass.machine.is_some());
}

#[tokio::test]
async fn a_blocked_deletion_names_its_problem_until_solved() {
    let scene = Scene::running().await;
    scene.kubernetes.remove_identity(&IdentityReference::controller_default());
    scene.delete();
    let blocked = scene.pass().await;
    assert_eq!(blocked.condition(INSTANCE_READY), "False/DeletionBlocked");
    let message = blocked.message(INSTANCE_READY);
    assert!(message.contains("AWSClusterControllerIdentity/default"), "{message}");
    assert_eq!(blocked.next, Next::Retry);
    assert!(blocked.machine.is_some());
    let spec = "allowedNamespaces: {}";
    scene.kubernetes.identity_object("AWSClusterControllerIdentity", "default", spec);
    let mended = scene.pass().await;
    assert_eq!(mended.condition(ConditionType::IdentityReady), "True/Ready");
    assert!(terminated(&scene.pass().await), "the session of the new identity has looked");
}

#[tokio::test]
async fn credentials_of_another_account_terminate_and_release_nothing() {
    let scene = Scene::running().await;
    scene.aws.set_account("999999999999");
    scene.aws.remove_instance(FIRST);
    scene.delete();
    let pass = scene.after(Duration::from_secs(3600)).await;
    assert_eq!(pass.condition(INSTANCE_READY), "False/DeletionBlocked");
    assert_eq!(pass.condition(ConditionType::IdentityReady), "False/AccountMismatch");
    assert!(pass.machine.is_some());
}

#[tokio::test]
async fn a_deletion_uses_the_recorded_network() {
    let scene = Scene::running().await;
    scene.kubernetes.remove_cluster("team-a", "dev");
    scene.kubernetes.put_source("dev", SourceOutcome::NotFound);
    scene.delete();
    assert!(terminated(&scene.pass().await));
}

#[tokio::test]
async fn a_refused_machine_is_released_after_one_empty_lookup() {
    let scene = Scene::new();
    scene.aws.fail_next("RunInstances", refused("RunInstances", "InvalidAMIID.NotFound"));
    scene.pass().await;
    scene.delete();
    let deleted = scene.pass().await;
    assert!(deleted.calls.iter().any(|call| call == "DescribeInstances"), "{:?}", deleted.calls);
    assert_released(&scene, &deleted);
}

#[tokio::test]
async fn an_unreadable_source_is_named_by_a_deletion_without_status() {
    let scene = Scene::running().await;
    scene.edit(|machine| machine.status = None);
    scene.kubernetes.put_source("dev", unreadable());
    scene.delete();
    let blocked = scene.pass().await;
    assert_eq!(blocked.condition(INSTANCE_READY), "False/DeletionBlocked");
    assert_eq!(blocked.condition(ConditionType::NetworkReady), "False/Failed");
    let said = blocked.message(INSTANCE_READY);
    assert!(said.contains("AWSCluster/dev") && said.contains("no webhook"), "{said}");
    scene.kubernetes.publish_network("dev", NETWORK);
    assert!(terminated(&scene.pass().await));
}

#[tokio::test]
async fn a_refused_listing_is_named_by_the_deletion() {
    let scene = Scene::running().await;
    scene.aws.restart();
    scene.aws.fail_reading(refused("DescribeInstances", "UnauthorizedOperation"));
    scene.delete();
    scene.pass().await;
    let deleted = scene.pass().await;
    assert_eq!(deleted.condition(INSTANCE_READY), "False/DeletionBlocked");
    assert!(deleted.message(INSTANCE_READY).contains("DescribeInstances: UnauthorizedOperation"));
    assert!(!terminated(&deleted));
}
