//! Tests of launches: each machine has at most one instance, even if answers and writes are lost.

use std::time::Duration;

use capa_api::conditions::ConditionType;
use capa_api::machine::{InstanceState, LaunchRecord};
use capa_api::meta;
use capa_cloud::Timing;
use capa_runtime::reconcile::Next;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;

use super::{FIRST, LAUNCH, NETWORK, RETRY, SPEC, Scene, reconcile};
use crate::testing::{refused, unanswered};

const INSTANCE_READY: ConditionType = ConditionType::InstanceReady;
/// How long a test waits for the turn of the next launch within the request rate.
const RATE_SECOND: Duration = Duration::from_secs(1);

#[tokio::test]
async fn a_launch_is_looked_up_recorded_called_and_stored_in_order() {
    let scene = Scene::new();
    let pass = scene.pass().await;
    assert_eq!(pass.calls, LAUNCH);
    let record = pass.launch();
    let request = record.request().unwrap();
    assert_eq!((record.attempt_number(), record.instance_id()), (1, Some(FIRST)));
    assert_eq!(request.client_token, "uid-m-1");
    assert_eq!(scene.tokens(), ["uid-m-1"]);
    assert_eq!(request.parameters_hash, Some(scene.aws.launches()[0].parameters_hash()));
    let in_use = pass.status().network.as_ref().unwrap();
    assert_eq!(in_use.account_id.as_deref(), Some("111122223333"));
    assert_eq!(in_use.subnet_id.as_deref(), Some("subnet-0000000a"));
    assert_eq!(in_use.availability_zone.as_deref(), Some("eu-west-1a"));
    assert_eq!(in_use.sources["region"], "AWSCluster/dev");
    assert_eq!(pass.events[0].reason, "SuccessfulCreate");
    assert_eq!(pass.condition(INSTANCE_READY), "False/Pending");
}

#[tokio::test]
async fn without_the_record_in_the_api_server_there_is_no_call() {
    let scene = Scene::new();
    scene.kubernetes.fail_after(1, "write_status");
    assert!(scene.pass_over("m").await.is_err());
    assert!(scene.aws.launches().is_empty());
}

#[tokio::test]
async fn an_unstored_answer_is_stored_by_the_next_pass() {
    let scene = Scene::new();
    scene.kubernetes.fail_after(2, "write_status");
    assert!(scene.pass_over("m").await.is_err());
    scene.kubernetes.put_secret("team-a", "boot", &[("value", "#cloud-config other")]);
    let again = scene.pass().await;
    assert_eq!(again.calls, ["write_status", "allow_move"]);
    assert_eq!(again.launch().instance_id(), Some(FIRST));
    assert_eq!(scene.tokens(), ["uid-m-1"]);
    assert_eq!(again.reasons_of_events(), ["SuccessfulCreate"], "the pass that failed could not tell");
    assert!(scene.pass().await.reasons_of_events().is_empty(), "told once");
}

#[tokio::test]
async fn the_next_process_finds_an_instance_of_a_lost_answer() {
    let mut scene = Scene::new();
    scene.kubernetes.fail_after(2, "write_status");
    assert!(scene.pass_over("m").await.is_err());
    scene.restart();
    let found = scene.pass().await;
    assert_eq!(found.calls[0], "DescribeInstances");
    assert_eq!(found.launch().instance_id(), Some(FIRST));
    assert_eq!(scene.tokens(), ["uid-m-1"]);
    assert_eq!(found.reasons_of_events(), ["SuccessfulCreate"]);
}

#[tokio::test]
async fn an_unanswered_call_is_repeated_with_the_same_token() {
    let scene = Scene::new();
    scene.aws.lose_next_answer("RunInstances");
    let lost = scene.pass().await;
    assert_eq!(lost.condition(INSTANCE_READY), "False/Launching");
    assert_eq!((lost.launch().is_open(), lost.next), (true, Next::Retry));
    let found = scene.pass().await;
    assert_eq!(found.calls, ["RunInstances", "write_status", "allow_move"]);
    assert_eq!(scene.tokens(), ["uid-m-1", "uid-m-1"]);
    assert_eq!(scene.aws.instance_ids(), [FIRST]);
}

#[tokio::test]
async fn a_throttled_call_is_repeated_with_the_same_token() {
    let scene = Scene::new();
    scene.aws.fail_next("RunInstances", refused("RunInstances", "RequestLimitExceeded"));
    let throttled = scene.pass().await;
    assert_eq!(throttled.condition(INSTANCE_READY), "False/Launching");
    scene.after(Duration::from_secs(10)).await;
    assert_eq!(scene.tokens(), ["uid-m-1", "uid-m-1"]);
}

#[tokio::test]
async fn a_refusal_is_followed_by_an_attempt_with_its_own_token() {
    let scene = Scene::new();
    let refused = scene.refused_with("InvalidAMIID.NotFound").await;
    assert_eq!(refused.condition(INSTANCE_READY), "False/NotFound");
    assert_eq!(refused.next, Next::Requeue(RETRY), "each time later");
    let next = scene.after(RETRY).await;
    assert_eq!(next.calls, LAUNCH[4..]);
    assert_eq!(next.launch().attempt_number(), 2);
    assert_eq!(scene.tokens(), ["uid-m-1", "uid-m-2"]);
}

#[tokio::test]
async fn an_attempt_at_a_refused_launch_is_one_call_and_four_writes() {
    let scene = Scene::new();
    scene.refused_with("InvalidAMIID.NotFound").await;
    for (wait, next) in [(15, 45), (45, 60), (300, 60)] {
        scene.kubernetes.advance(Duration::from_secs(wait));
        let again = scene.refused_with("InvalidAMIID.NotFound").await;
        let expected = ["block_move", "write_status", "RunInstances", "write_status", "allow_move"];
        assert_eq!(again.calls, expected);
        let next = Next::Requeue(Duration::from_secs(next));
        assert_eq!((again.next, again.events), (next, vec![]));
    }
}

#[tokio::test]
async fn a_refusal_after_an_unanswered_call_is_looked_up() {
    let scene = Scene::new();
    scene.aws.fail_next("RunInstances", unanswered("RunInstances"));
    scene.aws.fail_next("RunInstances", refused("RunInstances", "VcpuLimitExceeded"));
    scene.pass().await;
    assert_eq!(scene.pass().await.condition(INSTANCE_READY), "False/QuotaExceeded");
    let unconfirmed = scene.after(RETRY).await;
    assert_eq!(unconfirmed.calls, ["DescribeInstances", "DescribeInstances", "write_status"], "by tags and by token");
    assert_eq!(unconfirmed.condition(INSTANCE_READY), "False/LaunchUnconfirmed");
    let later = scene.after(Timing::default().launch_lookup_age).await;
    assert_eq!(later.calls[..2], ["GetCallerIdentity", "DescribeInstances"], "an account is believed as long");
    assert_eq!(scene.tokens(), ["uid-m-1", "uid-m-1", "uid-m-2"]);
}

#[tokio::test]
async fn an_instance_of_another_process_is_adopted_without_a_call() {
    let mut scene = Scene::new();
    scene.aws.lose_next_answer("RunInstances");
    scene.pass().await;
    scene.restart();
    let pass = scene.pass().await;
    assert_eq!(pass.calls[0], "DescribeInstances");
    assert_eq!(pass.launch().instance_id(), Some(FIRST));
    assert_eq!(scene.tokens(), ["uid-m-1"]);
}

#[tokio::test]
async fn a_lookup_that_fails_launches_nothing() {
    let scene = Scene::recorded_by_another().await;
    scene.aws.fail_next("DescribeInstances", refused("DescribeInstances", "UnauthorizedOperation"));
    let pass = scene.pass().await;
    assert_eq!(pass.condition(INSTANCE_READY), "False/Unauthorized");
    assert_eq!(pass.calls, ["DescribeInstances", "write_status"]);
    let waiting = scene.pass().await;
    assert_eq!(waiting.calls, [""; 0], "the session repeats the lookup, not the machine");
    assert_eq!(scene.tokens().len(), 1);
    let pass = scene.after(RETRY).await;
    assert_eq!(pass.launch().instance_id(), Some(FIRST));
}

#[tokio::test]
async fn a_call_that_would_differ_from_its_record_is_never_made() {
    let scene = Scene::recorded_by_another().await;
    scene.kubernetes.put_secret("team-a", "boot", &[("value", "#cloud-config other")]);
    let first = scene.pass().await;
    assert_eq!(first.condition(INSTANCE_READY), "False/LaunchUnconfirmed");
    assert!(matches!(first.next, Next::Requeue(_)));
    let again = scene.after(Duration::from_secs(599)).await;
    assert_eq!(again.calls, ["DescribeInstances", "DescribeInstances"]);
    assert_eq!(scene.tokens(), ["uid-m-1"]);
    scene.after(Duration::from_secs(1)).await;
    assert_eq!(scene.tokens(), ["uid-m-1", "uid-m-2"]);
}

#[tokio::test]
async fn an_old_token_is_looked_up_twice_and_not_used_again() {
    let scene = Scene::new();
    let timing = Timing::default();
    scene.unanswered_launch().await;
    let first = scene.after(timing.token_age).await;
    assert_eq!(first.condition(INSTANCE_READY), "False/LaunchUnconfirmed");
    let second = scene.after(timing.lookup_spacing).await;
    assert_eq!(second.calls[..2], ["DescribeInstances", "DescribeInstances"]);
    assert_eq!(scene.tokens(), ["uid-m-1", "uid-m-2"]);
}

#[tokio::test]
async fn a_new_process_restarts_the_proof_of_absence() {
    let mut scene = Scene::recorded_by_another().await;
    scene.kubernetes.put_secret("team-a", "boot", &[("value", "#cloud-config other")]);
    scene.pass().await;
    scene.kubernetes.advance(Duration::from_secs(599));
    scene.restart();
    scene.pass().await;
    scene.after(Duration::from_secs(1)).await;
    assert_eq!(scene.tokens(), ["uid-m-1"], "the new process has looked for a second");
    scene.after(Duration::from_secs(599)).await;
    assert_eq!(scene.tokens(), ["uid-m-1", "uid-m-2"]);
}

#[tokio::test]
async fn an_instance_that_lost_its_tags_is_found_by_its_token() {
    let scene = Scene::new();
    scene.aws.lose_next_answer("RunInstances");
    scene.pass().await;
    scene.aws.untag(FIRST);
    let found = scene.refused_with("IdempotentParameterMismatch").await;
    assert_eq!(found.condition(INSTANCE_READY), "False/LaunchUnconfirmed");
    assert_eq!(scene.pass().await.launch().instance_id(), Some(FIRST));
    assert_eq!(scene.aws.instance_ids(), [FIRST]);
}

#[tokio::test]
async fn an_ended_attempt_is_not_followed_by_another() {
    let mut scene = Scene::new();
    scene.aws.lose_next_answer("RunInstances");
    scene.pass().await;
    scene.aws.set_instance_state(FIRST, InstanceState::Terminated);
    scene.restart();
    let ended = scene.pass().await;
    assert_eq!(ended.launch().instance_id(), Some(FIRST));
    assert_eq!(ended.condition(INSTANCE_READY), "False/Failed");
    assert_eq!(scene.tokens(), ["uid-m-1"]);
}

#[tokio::test]
async fn an_adopted_instance_keeps_the_number_of_its_attempt() {
    let mut scene = Scene::new();
    let recorded_first = scene.refused_with("InternalError").await.machine().status.clone();
    scene.edit(|machine| {
        let status = machine.status.as_mut().unwrap();
        let attempt = status.launch.as_ref().and_then(LaunchRecord::attempt).unwrap();
        status.launch = Some(LaunchRecord::Refused(attempt.clone()));
        status.network = None;
    });
    scene.restart();
    assert_eq!(scene.pass().await.launch().attempt_number(), 2);
    // A backup from the time of the first attempt is restored.
    scene.edit(|machine| machine.status = recorded_first);
    scene.restart();
    scene.kubernetes.advance(RATE_SECOND);
    let adopted = scene.pass().await;
    assert_eq!(adopted.launch().instance_id(), Some(FIRST));
    assert_eq!(adopted.launch().attempt_number(), 2);
}

#[tokio::test]
async fn an_instance_of_our_own_is_adopted_before_any_attempt() {
    let scene = Scene::new();
    scene.aws.launched_instance("i-0000000000000000a", InstanceState::Stopped, "team-a/m", "uid-m-1");
    for (id, state, owner) in [
        ("i-0000000000000000b", InstanceState::Terminated, "team-a/m"),
        ("i-0000000000000000c", InstanceState::Running, "team-b/m"),
    ] {
        scene.aws.instance(id, state, owner);
    }
    let pass = scene.pass().await;
    assert!(scene.aws.launches().is_empty());
    assert_eq!(pass.launch().instance_id(), Some("i-0000000000000000a"));
    assert_eq!(pass.condition(INSTANCE_READY), "False/Stopped");
    assert_eq!(pass.reasons_of_events(), ["InstanceAdopted", "Stopped"]);
}

#[tokio::test]
async fn a_restored_object_without_a_record_is_looked_up_as_well() {
    let scene = Scene::new();
    scene.edit(|machine| machine.finalizers_mut().push(meta::MACHINE_FINALIZER.into()));
    scene.aws.launched_instance("i-0000000000000000a", InstanceState::Running, "team-a/m", "uid-m-1");
    let pass = scene.pass().await;
    assert_eq!(pass.launch().instance_id(), Some("i-0000000000000000a"));
    assert!(scene.aws.launches().is_empty());
}

#[tokio::test]
async fn a_restored_machine_waits_until_aws_shows_its_instance() {
    let scene = Scene::new();
    scene.edit(|machine| machine.finalizers_mut().push(meta::MACHINE_FINALIZER.into()));
    let pass = scene.pass().await;
    assert_eq!(pass.condition(INSTANCE_READY), "False/LaunchUnconfirmed");
    assert!(pass.message(INSTANCE_READY).contains("without a readable launch record"));
    scene.after(Duration::from_secs(599)).await;
    assert!(scene.aws.launches().is_empty());
    scene.aws.launched_instance("i-0000000000000000a", InstanceState::Running, "team-a/m", "uid-m-1");
    let adopted = scene.after(Duration::from_secs(1)).await;
    assert_eq!(adopted.launch().instance_id(), Some("i-0000000000000000a"));
    assert!(scene.aws.launches().is_empty(), "adopted");
}

#[tokio::test]
async fn a_machine_without_its_record_never_reuses_a_token() {
    let scene = Scene::new();
    scene.edit(|machine| {
        machine.finalizers_mut().push(meta::MACHINE_FINALIZER.into());
        machine.metadata.creation_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
    });
    scene.pass().await;
    scene.after(Duration::from_secs(600)).await;
    assert_eq!(scene.tokens(), ["uid-m-600"]);
}

#[tokio::test]
async fn several_instances_of_our_own_stop_the_launch() {
    let scene = Scene::new();
    for id in ["i-0000000000000000a", "i-0000000000000000b"] {
        scene.aws.launched_instance(id, InstanceState::Running, "team-a/m", "uid-m-1");
    }
    let pass = scene.pass().await;
    assert_eq!(pass.condition(INSTANCE_READY), "False/Conflict");
    let message = pass.message(INSTANCE_READY);
    assert!(message.contains("i-0000000000000000a, i-0000000000000000b"), "{message}");
    assert!(scene.aws.launches().is_empty());
    assert!(!pass.calls.iter().any(|call| call == "TerminateInstances"));
}

#[tokio::test]
async fn machines_fill_subnets_evenly_within_their_failure_domain() {
    let scene = Scene::new();
    scene.pass().await;
    for name in ["n", "o", "p"] {
        scene.kubernetes.advance(RATE_SECOND);
        scene.add(name, "bootstrap: {dataSecretName: boot}", SPEC);
        scene.pass_over(name).await.unwrap();
    }
    scene.kubernetes.advance(RATE_SECOND);
    scene.add("q", "bootstrap: {dataSecretName: boot}, failureDomain: eu-west-1b", SPEC);
    scene.pass_over("q").await.unwrap();
    let subnets: Vec<_> = scene.aws.launches().into_iter().map(|launch| launch.subnet_id).collect();
    assert_eq!(
        subnets,
        ["subnet-0000000a", "subnet-0000000b", "subnet-0000000a", "subnet-0000000b", "subnet-0000000b"]
    );
}

#[tokio::test]
async fn user_data_and_tags_go_with_the_call_and_not_into_the_status() {
    let scene = Scene::with_spec(&format!("{SPEC}, additionalTags: {{team: a}}"));
    scene.kubernetes.put_secret("team-a", "boot", &[("value", "hunter2")]);
    let pass = scene.pass().await;
    let request = &scene.aws.launches()[0];
    assert_eq!(request.user_data.expose(), b"hunter2");
    assert_eq!(request.tags["MachineName"], "team-a/m");
    assert_eq!(request.tags["team"], "a");
    assert!(!format!("{:?} {:?}", pass.machine, pass.events).contains("hunter2"));
}

#[tokio::test]
async fn an_open_attempt_is_repeated_in_the_region_where_it_was_made() {
    let mut scene = Scene::new();
    scene.aws.lose_next_answer("RunInstances");
    scene.pass().await;
    scene.restart();
    let moved = NETWORK.replace("eu-west-1,", "us-east-1,").replace("clusterTag: dev", "clusterTag: other");
    scene.kubernetes.publish_network("dev", &moved);
    let regions = scene.aws.regions().len();
    let found = scene.pass().await;
    assert_eq!(found.launch().instance_id(), Some(FIRST));
    assert!(scene.aws.regions()[regions..].iter().all(|region| region == "eu-west-1"), "{:?}", scene.aws.regions());
    assert_eq!(scene.aws.instance_ids(), [FIRST]);
}

#[tokio::test]
async fn a_refused_attempt_allows_credentials_of_another_account() {
    let scene = Scene::new();
    scene.aws.fail_next("RunInstances", refused("RunInstances", "UnauthorizedOperation"));
    let refused = scene.pass().await;
    assert_eq!(refused.condition(ConditionType::InstanceReady), "False/Unauthorized");
    scene.aws.set_account("222222222222");
    scene.set_up_network();
    let corrected = scene.pass().await;
    assert_eq!(corrected.launch().instance_id(), Some("i-00010000000000001"), "the first of another account");
    let network = corrected.status().network.as_ref().unwrap();
    assert_eq!(network.account_id.as_deref(), Some("222222222222"));
}

#[tokio::test]
async fn a_lookup_is_answered_although_time_passes_meanwhile() {
    let scene = Scene::new();
    scene.edit(|machine| machine.metadata.creation_timestamp = Some(Time(Timestamp::UNIX_EPOCH)));
    scene.kubernetes.advance(Duration::from_hours(1));
    for _ in 0..3 {
        let machine = scene.machine("m").unwrap();
        Box::pin(reconcile(machine, &scene.context)).await.unwrap();
        scene.aws.settle().await;
        scene.kubernetes.advance(Duration::from_secs(1));
    }
    assert_eq!(scene.aws.instance_ids(), [FIRST]);
}
