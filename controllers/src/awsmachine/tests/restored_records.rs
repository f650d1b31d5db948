//! Tests of records from a backup that is older than the launch.

use capa_api::common::IdentityReference;
use capa_api::meta;

use super::deletion::{assert_released, never_launched, terminated};
use super::targets::{group, run, scene, target_group};
use super::*;
use crate::kubernetes_api::Kubernetes;

const INSTANCE_READY: ConditionType = ConditionType::InstanceReady;
/// The id of the second instance that is launched.
const SECOND: &str = "i-00000000000000002";

/// A deleted machine whose record says that EC2 was never asked, while its Machine names an instance. Its identity is
/// gone.
pub(super) async fn contradicted_record() -> Scene {
    let scene = never_launched().await;
    scene.kubernetes.remove_identity(&IdentityReference::controller_default());
    scene.kubernetes.put_machine(read(
        "{apiVersion: cluster.x-k8s.io/v1beta2, kind: Machine, metadata: {name: m, namespace: team-a, uid: o}, \
          spec: {clusterName: dev, providerID: 'aws:///eu-west-1a/i-0000000a', \
          infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: AWSMachine, name: m}}}",
    ));
    scene
}

#[tokio::test]
async fn the_planned_record_of_an_old_machine_stands_in_later() {
    let scene = never_launched().await;
    let identity = IdentityReference::controller_default();
    scene.kubernetes.remove_identity(&identity);
    // The record is an hour old, so it may come from a backup that is older than a launch.
    scene.edit(|machine| machine.metadata.creation_timestamp = Some(Time(Timestamp::UNIX_EPOCH)));
    scene.kubernetes.advance(Duration::from_hours(1));
    scene.edit(|machine| machine.metadata.deletion_timestamp = Some(Time(scene.kubernetes.now())));
    let pass = scene.pass().await;
    assert_eq!(pass.condition(INSTANCE_READY), "False/DeletionBlocked");
    assert!(pass.message(INSTANCE_READY).contains("EC2 was never asked"), "{}", pass.message(INSTANCE_READY));
    let minutes = Timing::default().launch_lookup_age.as_secs() / 60;
    for _ in 0..minutes {
        let pass = scene.after(Duration::from_secs(60)).await;
        assert_eq!(pass.condition(INSTANCE_READY), "False/DeletionBlocked");
        assert_ne!(pass.next, Next::AwaitChange, "the minutes count only while the lookup is tried");
    }
    let pass = scene.after(Duration::from_secs(60)).await;
    assert_released(&scene, &pass);
}

#[tokio::test]
async fn the_instance_behind_an_old_planned_record_is_terminated() {
    let scene = Scene::running().await;
    let identity = IdentityReference::controller_default();
    // A backup from before the launch is restored, and the identity is broken.
    scene.edit(|machine| {
        machine.status = Some(read("{launch: {phase: Planned, attempt: 0}}"));
        (machine.spec.provider_id, machine.spec.instance_id) = (None, None);
        machine.metadata.creation_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
    });
    scene.kubernetes.remove_identity(&identity);
    scene.kubernetes.advance(Duration::from_hours(1));
    scene.edit(|machine| machine.metadata.deletion_timestamp = Some(Time(scene.kubernetes.now())));
    assert!(scene.pass().await.machine.is_some(), "the instance would be lost");
    scene.kubernetes.identity_object("AWSClusterControllerIdentity", "default", "allowedNamespaces: {}");
    assert!(terminated(&scene.pass().await));
}

/// A deleted machine whose Planned record comes from a backup that is older than the launch of its instance. It was
/// deleted hours ago, while no manager ran.
async fn deleted_with_an_old_planned_record() -> Scene {
    let mut scene = Scene::running().await;
    scene.edit(|machine| {
        machine.status = Some(read("{launch: {phase: Planned, attempt: 0}}"));
        (machine.spec.provider_id, machine.spec.instance_id) = (None, None);
        machine.metadata.creation_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
    });
    scene.kubernetes.advance(Duration::from_hours(1));
    scene.edit(|machine| machine.metadata.deletion_timestamp = Some(Time(scene.kubernetes.now())));
    scene.kubernetes.advance(Duration::from_hours(4));
    scene.restart();
    scene
}

#[tokio::test]
async fn one_failed_lookup_hours_after_a_deletion_is_no_proof() {
    let scene = deleted_with_an_old_planned_record().await;
    scene.kubernetes.remove_identity(&IdentityReference::controller_default());
    let pass = scene.pass().await;
    assert_eq!(pass.condition(INSTANCE_READY), "False/DeletionBlocked");
    let said = pass.message(INSTANCE_READY);
    assert!(said.contains("in which AWS could not be asked"), "{said}");
}

#[tokio::test]
async fn a_record_is_no_proof_once_a_deletion_has_found_an_instance() {
    let scene = deleted_with_an_old_planned_record().await;
    assert!(terminated(&scene.pass().await));
    scene.kubernetes.remove_identity(&IdentityReference::controller_default());
    for _ in 0..3 {
        let pass = scene.after(Timing::default().launch_lookup_age).await;
        assert_eq!(pass.condition(INSTANCE_READY), "False/DeletionBlocked");
    }
}

#[tokio::test]
async fn a_planned_record_that_its_machine_contradicts_is_no_proof() {
    let scene = contradicted_record().await;
    for _ in 0..2 {
        let pass = scene.after(Timing::default().launch_lookup_age).await;
        assert_eq!(pass.condition(INSTANCE_READY), "False/DeletionBlocked");
    }
}

#[tokio::test]
async fn the_search_after_a_contradicted_record_says_so() {
    let scene = never_launched().await;
    scene.edit(|machine| machine.status.as_mut().unwrap().has_run = Some(true));
    let pass = scene.pass().await;
    assert_eq!(pass.condition(INSTANCE_READY), "False/LaunchUnconfirmed");
    let said = pass.message(INSTANCE_READY);
    assert!(said.contains("EC2 was never asked") && said.ends_with("before the AWSMachine is released"), "{said}");
}

#[tokio::test]
async fn an_absence_in_an_unrecorded_account_proves_nothing() {
    let scene = Scene::running().await;
    scene.edit(|machine| machine.status = None);
    scene.aws.set_account("999999999999");
    scene.aws.remove_instance(FIRST);
    // The pass with the other account forgets the instances of the first account.
    scene.after(Timing::default().visibility_age).await;
    let seen = scene.pass().await;
    assert_eq!(seen.condition(INSTANCE_READY), "Unknown/NotFound");
    scene.delete();
    let deleted = scene.pass().await;
    assert_eq!(deleted.condition(INSTANCE_READY), "False/DeletionBlocked");
    let said = deleted.message(INSTANCE_READY).to_owned();
    assert!(said.contains("999999999999"), "{said}");
    let way_out = format!("annotation {}: {FIRST}", meta::ABANDON_INSTANCE_ANNOTATION);
    assert!(said.contains(&way_out), "{said}");
    scene.annotate(meta::ABANDON_INSTANCE_ANNOTATION, FIRST);
    assert_released(&scene, &scene.pass().await);
}

#[tokio::test]
async fn an_annotated_instance_may_live_in_another_account() {
    let scene = Scene::new();
    let launched = scene.pass().await;
    assert!(launched.calls.contains(&"allow_move".to_owned()), "{:?}", launched.calls);
    scene.edit(|machine| machine.status = None);
    scene.aws.set_account("999999999999");
    scene.aws.remove_instance(FIRST);
    scene.delete();
    assert_eq!(scene.pass().await.condition(INSTANCE_READY), "False/LaunchUnconfirmed");
    let blocked = scene.after(Timing::default().launch_lookup_age).await;
    assert_eq!(blocked.condition(INSTANCE_READY), "False/DeletionBlocked");
    let said = blocked.message(INSTANCE_READY).to_owned();
    assert!(said.contains("999999999999") && said.contains(FIRST), "{said}");
    let uid = blocked.machine().metadata.uid.clone().unwrap();
    let way_out = format!("annotation {}: {uid}-0", meta::ABANDON_INSTANCE_ANNOTATION);
    assert!(said.contains(&way_out), "{said}");
    scene.annotate(meta::ABANDON_INSTANCE_ANNOTATION, &format!("{uid}-0"));
    assert_released(&scene, &scene.pass().await);
}

#[tokio::test]
async fn no_launch_follows_an_annotated_instance_that_may_live_in_another_account() {
    let scene = Scene::new();
    scene.pass().await;
    scene.edit(|machine| machine.status = None);
    scene.aws.set_account("999999999999");
    scene.aws.remove_instance(FIRST);
    for _ in 0..3 {
        let pass = scene.after(Timing::default().launch_lookup_age).await;
        assert_eq!(pass.condition(INSTANCE_READY), "False/Conflict");
        let said = pass.message(INSTANCE_READY);
        assert!(said.contains("999999999999") && said.contains(FIRST), "{said}");
    }
    assert_eq!(scene.tokens().len(), 1);
    scene.annotate(meta::ADOPT_INSTANCE_ANNOTATION, meta::ADOPT_NO_INSTANCE);
    scene.pass().await;
    assert_eq!(scene.tokens().len(), 2, "the user knows that it is gone");
}

#[tokio::test]
async fn a_machine_without_the_finalizer_may_have_launched() {
    let scene = Scene::recorded_by_another().await;
    scene.edit(|machine| {
        machine.metadata.finalizers = None;
        machine.status = None;
    });
    let pass = scene.pass().await;
    assert_eq!(pass.condition(INSTANCE_READY), "False/LaunchUnconfirmed");
    assert_eq!(pass.status().launch, None);
}

#[tokio::test]
async fn an_annotated_instance_without_its_tags_holds_a_deletion_up() {
    let scene = Scene::new();
    scene.pass().await;
    scene.edit(|machine| machine.status = None);
    scene.aws.untag(FIRST);
    scene.delete();
    for _ in 0..2 {
        let pass = scene.after(Timing::default().launch_lookup_age).await;
        assert_eq!(pass.condition(INSTANCE_READY), "False/NotOwned");
    }
    scene.aws.set_instance_state(FIRST, InstanceState::Terminated);
    scene.pass().await;
    assert_released(&scene, &scene.after(Timing::default().launch_lookup_age).await);
}

#[tokio::test]
async fn an_annotation_without_a_verified_owner_holds_no_deletion_up() {
    let scene = Scene::new();
    scene.pass().await;
    scene.edit(|machine| machine.status = None);
    scene.edit(|machine| machine.metadata.owner_references = None);
    scene.aws.remove_instance(FIRST);
    scene.delete();
    scene.pass().await;
    assert_released(&scene, &scene.after(Timing::default().launch_lookup_age).await);
}

#[tokio::test]
async fn an_annotated_instance_that_has_ended_releases_its_machine() {
    let scene = Scene::new();
    scene.pass().await;
    scene.edit(|machine| machine.status = None);
    scene.aws.set_instance_state(FIRST, InstanceState::Terminated);
    scene.delete();
    assert_eq!(scene.pass().await.condition(INSTANCE_READY), "False/LaunchUnconfirmed");
    assert_released(&scene, &scene.after(Timing::default().launch_lookup_age).await);
}

#[tokio::test]
async fn an_instance_that_ended_after_a_restore_leaves_its_targets() {
    let scene = run(scene(&target_group())).await;
    assert_eq!(scene.aws.registered_in(FIRST), [group()]);
    // The backup is from before the instance ran.
    scene.edit(|machine| {
        (machine.spec.provider_id, machine.spec.instance_id) = (None, None);
        let status = machine.status.as_mut().expect("a status");
        (status.has_run, status.initialization, status.ready) = (None, None, None);
        status.targets.clear();
    });
    scene.aws.restart();
    let (code, message) = ("Client.UserInitiatedShutdown", "User initiated shutdown");
    scene.aws.end_instance(FIRST, InstanceState::Terminated, code, message);
    for _ in 0..3 {
        scene.after(Duration::from_secs(60)).await;
    }
    let pass = scene.pass().await;
    assert_eq!(pass.condition(INSTANCE_READY), "False/Failed");
    assert_eq!(scene.aws.registered_in(FIRST), []);
}

/// A machine whose first instance died in `pending` and is forgotten by EC2, and whose second one runs, after the
/// restore of a backup from before the second launch.
async fn restored_before_the_second_launch() -> Scene {
    let mut scene = Scene::new();
    scene.pass().await;
    let backup = scene.machine("m").expect("the machine is there");
    let code = "Server.InternalError";
    scene.aws.end_instance(FIRST, InstanceState::Terminated, code, "as EC2 puts it");
    scene.pass().await;
    scene.after(Duration::from_secs(30)).await;
    scene.pass().await;
    assert_eq!(scene.tokens(), ["uid-m-1", "uid-m-2"]);
    scene.aws.set_instance_state(SECOND, InstanceState::Running);
    scene.pass().await;
    scene.aws.remove_instance(FIRST);
    scene.kubernetes.put_aws_machine(backup);
    scene.restart();
    scene.aws.restart();
    scene.kubernetes.advance(Timing::default().visibility_age * 2);
    scene
}

#[tokio::test]
async fn the_instance_of_a_forgotten_attempt_is_terminated() {
    let scene = restored_before_the_second_launch().await;
    scene.delete();
    scene.pass().await;
    let found = scene.after(Timing::default().visibility_age).await;
    assert_eq!(found.launch().instance_id(), Some(SECOND));
    assert_eq!(found.condition(INSTANCE_READY), "False/Terminating");
    scene.pass().await;
    let pass = scene.pass().await;
    assert!(terminated(&pass), "{:?}", pass.calls);
    scene.aws.remove_instance(SECOND);
    let mut pass = scene.after(Timing::default().listing_interval).await;
    for _ in 0..5 {
        if pass.machine.is_some() {
            pass = scene.after(Timing::default().visibility_age).await;
        }
    }
    assert_released(&scene, &pass);
}

#[tokio::test]
async fn a_refusal_to_terminate_a_later_instance_is_told_and_backs_off() {
    let scene = restored_before_the_second_launch().await;
    scene.delete();
    for _ in 0..50 {
        let error = refused("TerminateInstances", "OperationNotPermitted");
        scene.aws.fail_next("TerminateInstances", error);
    }
    let mut calls = Vec::new();
    let mut pass = scene.pass().await;
    for _ in 0..120 {
        pass = scene.after(Duration::from_secs(10)).await;
        calls.append(&mut pass.calls);
    }
    assert_eq!(pass.condition(INSTANCE_READY), "False/InvalidSpec");
    let tries = calls.iter().filter(|call| *call == "TerminateInstances").count();
    assert!((1..=12).contains(&tries), "{tries} terminations in 20 minutes");
}

#[tokio::test]
async fn a_failed_lookup_of_later_instances_holds_a_deletion_up() {
    let scene = restored_before_the_second_launch().await;
    scene.delete();
    scene.pass().await;
    let error = refused("DescribeInstances", "UnauthorizedOperation");
    scene.aws.fail_next("DescribeInstances", error);
    let pass = scene.after(Timing::default().visibility_age).await;
    assert_eq!(pass.condition(INSTANCE_READY), "False/DeletionBlocked");
    let said = pass.message(INSTANCE_READY);
    assert!(said.contains("leaves such an instance running"), "{said}");
}

/// A machine whose only instance died in `pending` and is forgotten by EC2.
async fn forgotten() -> Scene {
    let scene = Scene::new();
    scene.pass().await;
    let (code, message) = ("Client.VolumeLimitExceeded", "as EC2 puts it");
    scene.aws.end_instance(FIRST, InstanceState::Terminated, code, message);
    scene.pass().await;
    scene.aws.remove_instance(FIRST);
    scene.aws.restart();
    scene
}

#[tokio::test]
async fn a_later_instance_is_looked_for_once() {
    let scene = forgotten().await;
    let mut lookups = 0;
    for _ in 0..10 {
        let pass = scene.after(Timing::default().visibility_age).await;
        lookups += pass.calls.iter().filter(|call| *call == "DescribeInstances").count();
    }
    assert_eq!(scene.pass().await.condition(INSTANCE_READY), "False/NotFound");
    assert_eq!(lookups, 1);
}

#[tokio::test]
async fn the_instance_of_a_forgotten_attempt_is_adopted() {
    let scene = restored_before_the_second_launch().await;
    let mut told = Vec::new();
    for _ in 0..3 {
        told.extend(scene.after(Timing::default().visibility_age).await.events);
    }
    told.retain(|event| event.reason == "InstanceAdopted");
    assert_eq!(told, [EventDraft::normal("InstanceAdopted", format!("adopted instance {SECOND}"))]);
    let pass = scene.pass().await;
    assert_eq!(pass.condition(INSTANCE_READY), "True/Ready");
    assert_eq!((pass.launch().instance_id(), pass.launch().attempt_number()), (Some(SECOND), 2));
    assert_eq!(scene.tokens().len(), 2);
}

/// EC2 shows only the ended instance of an attempt that a restored backup has forgotten. The token of the open attempt
/// is the same, and its call went to another zone.
#[tokio::test]
async fn the_end_of_a_forgotten_attempt_proves_no_absence() {
    let scene = Scene::recorded_by_another().await;
    scene.aws.launched_instance("i-000000000000000f", InstanceState::Terminated, "team-a/m", "uid-m-1");
    scene.kubernetes.advance(Duration::from_mins(10));
    scene.edit_attempt(|attempt| attempt.request.requested_at = Time(scene.kubernetes.now()));
    scene.delete();
    assert_eq!(scene.pass().await.condition(INSTANCE_READY), "False/LaunchUnconfirmed");
    assert_released(&scene, &scene.after(Timing::default().launch_lookup_age).await);
}

#[tokio::test]
async fn another_instance_with_the_recorded_token_is_adopted() {
    let scene = forgotten().await;
    let other = "i-000000000000000f";
    scene.aws.launched_instance(other, InstanceState::Running, "team-a/m", "uid-m-1");
    for _ in 0..3 {
        scene.after(Timing::default().visibility_age).await;
    }
    let pass = scene.pass().await;
    assert_eq!(pass.launch().instance_id(), Some(other));
    assert_eq!(pass.condition(INSTANCE_READY), "True/Ready");
}

/// A backup from before the launch was restored, and credentials of another account recorded an attempt there, whose
/// call was never made.
#[tokio::test]
async fn an_attempt_without_a_call_in_another_account_hides_no_instance() {
    let scene = Scene::running().await;
    scene.edit(|machine| {
        (machine.spec.provider_id, machine.spec.instance_id) = (None, None);
        let status = machine.status.as_mut().expect("a status");
        let launched = status.launch.as_ref().and_then(LaunchRecord::attempt);
        let launch = launched.cloned().map(LaunchRecord::Requested);
        let mut network = status.network.clone().expect("a network");
        network.account_id = Some("999999999999".into());
        *status = AWSMachineStatus { launch, network: Some(network), ..AWSMachineStatus::default() };
    });
    let now = scene.context.now();
    scene.context.memory.launches().recorded("uid-m", "uid-m-1", "999999999999", now);
    scene.delete();
    assert!(terminated(&scene.pass().await));
}

/// The recorded instance is young and does not show yet.
#[tokio::test]
async fn a_hidden_instance_is_not_replaced_by_another_with_its_token() {
    let scene = Scene::new();
    scene.pass().await;
    let other = "i-000000000000000f";
    scene.aws.launched_instance(other, InstanceState::Running, "team-a/m", "uid-m-1");
    scene.aws.remove_instance(FIRST);
    scene.aws.restart();
    scene.delete();
    for _ in 0..2 {
        let pass = scene.after(Timing::default().listing_interval).await;
        assert_eq!(pass.launch().instance_id(), Some(FIRST));
    }
}

/// A machine whose status is lost while EC2 has not answered to its launch, and whose credentials are replaced by those
/// of another account.
async fn unanswered_and_lost() -> Scene {
    let mut scene = Scene::recorded_by_another().await;
    let blocked = scene.machine("m").unwrap();
    let account = meta::annotation(&blocked.metadata, meta::BLOCK_MOVE_ANNOTATION);
    assert_eq!(account, Some("111122223333"));
    scene.edit(|machine| machine.status = None);
    scene.aws.set_account("999999999999");
    scene.restart();
    scene
}

#[tokio::test]
async fn a_lost_attempt_in_another_account_is_not_repeated() {
    let scene = unanswered_and_lost().await;
    let launches = scene.tokens().len();
    for _ in 0..3 {
        let pass = scene.after(Timing::default().launch_lookup_age).await;
        assert_eq!(pass.condition(ConditionType::IdentityReady), "False/AccountMismatch");
        let said = pass.message(ConditionType::IdentityReady);
        assert!(said.contains("111122223333") && said.contains("or remove the annotation"), "{said}");
    }
    assert_eq!(scene.tokens().len(), launches);
    scene.aws.set_account("111122223333");
    scene.pass().await;
    let pass = scene.after(Timing::default().launch_lookup_age).await;
    assert_eq!(pass.condition(ConditionType::IdentityReady), "True/Ready");
    assert_eq!(scene.tokens().len(), launches + 1, "the absence is proven");
}

#[tokio::test]
async fn a_lost_attempt_in_another_account_is_not_released() {
    let scene = unanswered_and_lost().await;
    scene.delete();
    scene.pass().await;
    let blocked = scene.after(Timing::default().launch_lookup_age).await;
    assert_eq!(blocked.condition(INSTANCE_READY), "False/DeletionBlocked");
    assert_eq!(blocked.condition(ConditionType::IdentityReady), "False/AccountMismatch");
    let said = blocked.message(INSTANCE_READY);
    assert!(said.contains("111122223333") && said.contains("uid-m-0"), "{said}");
}

#[tokio::test]
async fn a_young_instance_without_its_status_may_be_hidden() {
    let scene = Scene::running().await;
    scene.edit(|machine| machine.status = None);
    scene.annotate(meta::BLOCK_MOVE_ANNOTATION, "111122223333");
    scene.aws.remove_instance(FIRST);
    scene.delete();
    for _ in 0..2 {
        let pass = scene.after(Timing::default().listing_interval).await;
        assert_eq!(pass.condition(INSTANCE_READY), "False/DeletionBlocked");
    }
}
