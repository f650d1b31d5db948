//! Tests of the observation of an instance, and of its absence.

use std::time::Duration;

use capa_api::common::{IdentityReference, MachineAddress};
use capa_api::conditions::ConditionType;
use capa_api::machine::InstanceState;
use capa_api::meta;
use capa_cloud::Timing;
use capa_runtime::reconcile::Next;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;
use serde_json::json;

use super::{FIRST, NETWORK, Pass, SPEC, Scene};
use crate::kubernetes_api::Kubernetes as _;
use crate::testing::{read, refused, unanswered};

const INSTANCE_READY: ConditionType = ConditionType::InstanceReady;
const READY: ConditionType = ConditionType::Ready;

#[tokio::test]
async fn the_ids_are_published_once_and_only_when_the_instance_runs() {
    let scene = Scene::new();
    let pending = scene.pass().await;
    assert_eq!(pending.machine().spec.provider_id, None);
    assert!(!pending.status().provisioned());
    assert_eq!(scene.pass().await.calls, [""; 0], "the informer wakes the machine, nothing is polled");

    scene.aws.set_instance_state(FIRST, InstanceState::Running);
    let running = scene.pass().await;
    assert_eq!(running.calls, ["publish_ids", "write_status"]);
    let spec = &running.machine().spec;
    assert_eq!(spec.provider_id.as_deref(), Some("aws:///eu-west-1a/i-00000000000000001"));
    assert_eq!(spec.instance_id.as_deref(), Some(FIRST));
    assert!(running.status().provisioned());
    assert_eq!(running.status().ready, Some(true));
    assert_eq!(running.condition(READY), "True/Ready");
}

#[tokio::test]
async fn a_machine_in_its_steady_state_causes_no_calls() {
    let mut scene = Scene::running().await;
    let steady = scene.after(Duration::from_secs(599)).await;
    assert_eq!(steady.calls, [""; 0]);
    assert_eq!((steady.next, steady.events), (Next::AwaitChange, vec![]));
    let later = scene.after(Duration::from_secs(3600)).await;
    assert_eq!(later.calls, ["GetCallerIdentity"], "whose credentials it has");
    assert_eq!((later.next, later.events), (Next::AwaitChange, vec![]));
    scene.restart();
    assert_eq!(scene.pass().await.calls, [""; 0], "nor after a restart");
}

#[tokio::test]
async fn zone_state_and_addresses_are_those_of_the_instance() {
    let scene = Scene::new();
    // The network says that its zone is eu-west-1a.
    scene.aws.subnet("subnet-0000000a", "vpc-00000001", "eu-west-1b");
    scene.pass().await;
    scene.aws.set_instance_state(FIRST, InstanceState::Running);
    let pass = scene.pass().await;
    let status = pass.status();
    let addresses: [MachineAddress; 2] = [
        read("{type: InternalDNS, address: ip-10-0-0-1.eu-west-1.compute.internal}"),
        read("{type: InternalIP, address: 10.0.0.1}"),
    ];
    assert_eq!(status.addresses, addresses);
    assert_eq!(status.failure_domain.as_deref(), Some("eu-west-1b"));
    assert_eq!(status.instance_state, Some(InstanceState::Running));
}

/// The fields that CAPA's status has too.
#[tokio::test]
async fn the_status_has_the_fields_of_capas_with_their_meaning() {
    let scene = Scene::with_spec(&format!("{SPEC}, marketType: Spot")).run().await;
    let (code, message) = ("Client.UserInitiatedShutdown", "User initiated shutdown");
    scene.aws.end_instance(FIRST, InstanceState::Terminated, code, message);
    let pass = scene.pass().await;
    let status = json!(pass.status());
    let conditions = status["conditions"].as_array().unwrap();
    let condition = conditions.iter().position(|condition| condition["type"] == "InstanceReady").unwrap();
    for (path, pointer, expected) in [
        ("status.addresses[].type", "/addresses/1/type".to_owned(), json!("InternalIP")),
        ("status.addresses[].address", "/addresses/1/address".to_owned(), json!("10.0.0.1")),
        ("status.instanceState", "/instanceState".to_owned(), json!("terminated")),
        ("status.interruptible", "/interruptible".to_owned(), json!(true)),
        ("status.ready", "/ready".to_owned(), json!(true)),
        ("status.conditions[].type", format!("/conditions/{condition}/type"), json!("InstanceReady")),
        ("status.conditions[].status", format!("/conditions/{condition}/status"), json!("False")),
        ("status.conditions[].reason", format!("/conditions/{condition}/reason"), json!("Terminated")),
        (
            "status.conditions[].message",
            format!("/conditions/{condition}/message"),
            json!(pass.message(INSTANCE_READY)),
        ),
        (
            "status.conditions[].lastTransitionTime",
            format!("/conditions/{condition}/lastTransitionTime"),
            json!(Time(scene.kubernetes.now())),
        ),
    ] {
        assert_eq!(status.pointer(&pointer), Some(&expected), "{path}");
    }
}

#[tokio::test]
async fn an_ended_instance_makes_ready_fall_for_good() {
    let scene = Scene::running().await;
    let (code, message) = ("Client.UserInitiatedShutdown", "User initiated shutdown");
    scene.aws.end_instance(FIRST, InstanceState::Terminated, code, message);
    let gone = scene.pass().await;
    assert_eq!(gone.condition(INSTANCE_READY), "False/Terminated");
    assert_eq!(gone.condition(READY), "False/Terminated");
    assert!(gone.message(INSTANCE_READY).contains("User initiated shutdown"));
    assert!(gone.status().provisioned(), "what was reached is not taken back");
    assert_eq!(gone.events.len(), 1);
    scene.aws.remove_instance(FIRST);
    scene.after(Timing::default().visibility_age).await;
    scene.pass().await;
    assert_eq!(scene.tokens().len(), 1);
}

#[tokio::test]
async fn states_that_are_not_running_have_a_reason_of_their_own() {
    let table = [
        (InstanceState::Pending, "False/Pending"),
        (InstanceState::Stopping, "False/Stopped"),
        (InstanceState::Stopped, "False/Stopped"),
        (InstanceState::ShuttingDown, "False/Terminated"),
        (InstanceState::Terminated, "False/Terminated"),
    ];
    for (state, expected) in table {
        let scene = Scene::running().await;
        scene.aws.set_instance_state(FIRST, state);
        assert_eq!(scene.pass().await.condition(INSTANCE_READY), expected);
    }
}

#[tokio::test]
async fn an_instance_that_ended_before_it_ran_failed() {
    let scene = Scene::new();
    scene.pass().await;
    scene.aws.set_instance_state(FIRST, InstanceState::Terminated);
    let failed = scene.pass().await;
    assert_eq!(failed.condition(INSTANCE_READY), "False/Failed");
    assert_eq!(failed.machine().spec.provider_id, None);
}

#[tokio::test]
async fn an_instance_first_seen_stopped_counts_as_having_run() {
    let scene = Scene::new();
    scene.pass().await;
    for state in [InstanceState::Stopped, InstanceState::ShuttingDown, InstanceState::Terminated] {
        scene.aws.set_instance_state(FIRST, state);
        let expected = if state == InstanceState::Stopped { "False/Stopped" } else { "False/Terminated" };
        let pass = scene.pass().await;
        assert_eq!(pass.condition(INSTANCE_READY), expected, "{state}");
        assert_eq!(pass.status().has_run, Some(true));
    }
    assert_eq!(scene.tokens().len(), 1);
}

/// The process may still hold credentials of the identity.
#[tokio::test]
async fn an_instance_of_a_forbidden_identity_is_not_followed() {
    let scene = Scene::running().await;
    let kubernetes = &scene.kubernetes;
    kubernetes.remove_identity(&IdentityReference::controller_default());
    let gone = scene.pass().await;
    assert_eq!(gone.condition(ConditionType::IdentityReady), "False/NotFound");
    assert_eq!(scene.aws.forgotten().len(), 1);
    let elsewhere = "allowedNamespaces: {list: [team-b]}";
    kubernetes.identity_object("AWSClusterControllerIdentity", "default", elsewhere);
    let refused = scene.pass().await;
    assert_eq!(refused.condition(ConditionType::IdentityReady), "False/NotAllowed");
    assert_eq!(scene.aws.forgotten().len(), 2);
    kubernetes.identity_object("AWSClusterControllerIdentity", "default", "allowedNamespaces: {}");
    scene.pass().await;
    let followed = scene.pass().await;
    assert_eq!(followed.condition(READY), "True/Ready");
    assert_eq!(scene.aws.forgotten().len(), 2);
}

#[tokio::test]
async fn absence_counts_only_once_the_instance_is_old_enough() {
    let scene = Scene::running().await;
    scene.aws.remove_instance(FIRST);
    let young = scene.after(Duration::from_secs(100)).await;
    assert_eq!(young.condition(READY), "True/Ready");
    assert_eq!(young.next, Next::Requeue(Duration::from_secs(200)));
    assert_eq!(scene.aws.forgotten().len(), 1, "what was seen of it while it was young is no proof later");
    let unseen = scene.after(Duration::from_secs(200)).await;
    assert_eq!(unseen.condition(READY), "True/Ready", "it is looked for anew");
    let old = scene.pass().await;
    assert_eq!(old.condition(INSTANCE_READY), "False/NotFound");
    assert_eq!(old.condition(READY), "False/NotFound");
    assert_eq!(scene.tokens().len(), 1);
}

#[tokio::test]
async fn an_instance_missed_when_young_is_looked_for_again() {
    let scene = Scene::running().await;
    scene.aws.remove_instance(FIRST);
    scene.kubernetes.advance(Duration::from_secs(299));
    scene.aws.settle().await;
    scene.kubernetes.advance(Duration::from_secs(1000));
    let looked_long_ago = scene.pass_without_a_look("m").await.unwrap();
    assert_eq!(looked_long_ago.condition(READY), "True/Ready");
    assert_eq!(looked_long_ago.next, Next::Requeue(Duration::from_secs(1)));
    assert_eq!(scene.pass().await.condition(INSTANCE_READY), "False/NotFound");
}

#[tokio::test]
async fn an_instance_is_no_older_than_its_launch() {
    let scene = Scene::new();
    scene.aws.fail_next("RunInstances", refused("RunInstances", "RequestLimitExceeded"));
    scene.pass().await;
    scene.after(Duration::from_secs(290)).await;
    scene.aws.remove_instance(FIRST);
    let young = scene.after(Duration::from_secs(100)).await;
    assert_eq!(young.next, Next::Requeue(Duration::from_secs(200)));
    assert_eq!(young.condition(INSTANCE_READY), "False/Pending");
}

#[tokio::test]
async fn the_status_does_not_change_before_the_first_listing() {
    let scene = Scene::running().await;
    scene.aws.restart();
    scene.aws.slow_down_reading();
    let pass = scene.after(Duration::from_secs(3600)).await;
    assert_eq!(pass.calls, ["GetCallerIdentity"]);
    assert_eq!(pass.condition(READY), "True/Ready");
}

#[tokio::test]
async fn credentials_of_another_account_prove_no_absence() {
    let scene = Scene::running().await;
    scene.aws.set_account("999999999999");
    scene.aws.remove_instance(FIRST);
    let pass = scene.after(Duration::from_secs(3600)).await;
    assert_eq!(pass.condition(ConditionType::IdentityReady), "False/AccountMismatch");
    assert_eq!(pass.condition(INSTANCE_READY), "True/Ready");
    let message = pass.message(ConditionType::IdentityReady);
    assert!(message.contains("999999999999") && message.contains("111122223333"), "{message}");
}

#[tokio::test]
async fn an_instance_in_the_spec_needs_the_tags_of_its_machine() {
    for (owner, expected) in [("team-a/m", "True/Ready"), ("team-a/other", "False/NotOwned")] {
        let scene = Scene::new();
        scene.edit(|machine| machine.spec.provider_id = Some("aws:///eu-west-1a/i-0000000000000000a".into()));
        scene.aws.instance("i-0000000000000000a", InstanceState::Running, owner);
        scene.pass().await;
        let pass = scene.pass().await;
        assert_eq!(pass.condition(INSTANCE_READY), expected, "{owner}");
        assert_eq!(pass.status().provisioned(), expected == "True/Ready", "{owner}");
        assert!(scene.aws.launches().is_empty());
    }
}

#[tokio::test]
async fn ids_of_no_instance_or_of_two_stop_the_launch() {
    let id = "i-0000000000000000a";
    let table = [
        (Some("aws:///eu-west-1a/my-vm"), None),
        (None, Some("my-vm")),
        (None, Some("i-*")),
        (Some("aws:///eu-west-1a/i-0000000000000000b"), Some(id)),
    ];
    for (provider_id, instance_id) in table {
        let scene = Scene::new();
        scene.edit(|machine| {
            machine.spec.provider_id = provider_id.map(str::to_owned);
            machine.spec.instance_id = instance_id.map(str::to_owned);
        });
        scene.aws.instance(id, InstanceState::Running, "team-a/other");
        let pass = scene.pass().await;
        assert_eq!(pass.condition(INSTANCE_READY), "False/InvalidSpec", "{provider_id:?} {instance_id:?}");
        assert!(scene.aws.launches().is_empty());
        assert!(!pass.status().provisioned());
    }
}

#[tokio::test]
async fn a_foreign_id_written_after_the_launch_is_named() {
    for by_provider_id in [true, false] {
        let scene = Scene::new();
        scene.pass().await;
        scene.edit(|machine| {
            let another = "i-0000000000000000b".to_owned();
            if by_provider_id {
                machine.spec.provider_id = Some(format!("aws:///eu-west-1a/{another}"));
            } else {
                machine.spec.instance_id = Some(another);
            }
        });
        scene.aws.set_instance_state(FIRST, InstanceState::Running);
        let pass = scene.pass().await;
        assert_eq!(pass.condition(INSTANCE_READY), "False/InvalidSpec");
        let message = pass.message(INSTANCE_READY);
        assert!(message.contains(FIRST) && message.contains("i-0000000000000000b"), "{message}");
        assert!(!pass.status().provisioned());
    }
}

#[tokio::test]
async fn a_failing_listing_is_shown_until_the_instance_has_run() {
    let scene = Scene::new();
    scene.pass().await;
    scene.aws.fail_reading(refused("DescribeInstances", "UnauthorizedOperation"));
    let pending = scene.pass().await;
    assert_eq!(pending.condition(INSTANCE_READY), "False/Pending");
    assert!(pending.message(INSTANCE_READY).contains("UnauthorizedOperation"));
}

#[tokio::test]
async fn an_instance_that_is_taken_over_is_held_by_our_finalizer() {
    let scene = Scene::new();
    scene.edit(|machine| machine.spec.instance_id = Some("i-0000000000000000a".into()));
    scene.aws.instance("i-0000000000000000a", InstanceState::Running, "team-a/m");
    scene.pass().await;
    let pass = scene.pass().await;
    assert_eq!(pass.machine().finalizers(), [meta::MACHINE_FINALIZER]);
    assert_eq!(scene.pass().await.calls, [""; 0]);
}

#[tokio::test]
async fn a_changed_network_is_reported_and_touches_nothing() {
    let scene = Scene::running().await;
    let moved = NETWORK.replace("subnet-0000000a", "subnet-0000000c");
    scene.kubernetes.publish_network("dev", &moved);
    let drifted = scene.pass().await;
    assert_eq!(drifted.condition(ConditionType::NetworkUpToDate), "False/Drifted");
    assert_eq!(drifted.condition(READY), "True/Drifted");
    let told = drifted.message(READY);
    let drift = drifted.message(ConditionType::NetworkUpToDate);
    assert_eq!(told, format!("NetworkUpToDate is False (Drifted): {drift}"), "kubectl get shows the drift");
    assert_eq!(drifted.calls, ["write_status"]);
}

#[tokio::test]
async fn an_overdue_listing_makes_an_instance_not_up_to_date() {
    let scene = Scene::running().await;
    let minute = Duration::from_secs(60);
    scene.aws.restart_listing_every(minute);
    let says = |pass: &Pass| {
        let conditions = [ConditionType::InstanceUpToDate, ConditionType::InstanceReady, ConditionType::Ready];
        conditions.map(|condition| pass.condition(condition))
    };
    let fine = ["True/Ready", "True/Ready"];
    scene.pass().await;
    assert_eq!(says(&scene.pass().await), ["absent", fine[0], fine[1]]);
    let error = refused("DescribeInstances", "UnauthorizedOperation");
    scene.aws.fail_reading(error);
    for _ in 0..4 {
        assert_eq!(says(&scene.after(minute).await), ["absent", fine[0], fine[1]]);
    }
    let old = scene.after(minute).await;
    assert_eq!(
        says(&old),
        ["False/Unauthorized", fine[0], "True/Unauthorized"],
        "nothing is known to be wrong with the instance"
    );
    assert_eq!(old.reasons_of_events(), ["Unauthorized"]);
    assert_eq!(scene.after(minute).await.calls, [""; 0]);
    scene.aws.answer_reading();
    let next_listing = Timing::default().refusal_retry_cap;
    assert_eq!(says(&scene.after(next_listing).await), ["True/Ready", fine[0], fine[1]]);
}

#[tokio::test]
async fn an_instance_whose_listings_wait_is_said_to_be_old() {
    let scene = Scene::running().await;
    let minute = Duration::from_secs(60);
    scene.aws.restart_listing_every(minute);
    scene.pass().await;
    scene.aws.slow_down_reading();
    for _ in 0..4 {
        assert_eq!(scene.after(minute).await.condition(ConditionType::InstanceUpToDate), "absent");
    }
    let old = scene.after(minute).await;
    assert_eq!(old.condition(ConditionType::InstanceUpToDate), "False/Throttled");
    let told = old.message(ConditionType::InstanceUpToDate);
    assert!(told.contains("wait for their turns"), "{told}");
    assert_eq!(old.condition(READY), "True/Throttled");
}

#[tokio::test]
async fn a_termination_that_waits_for_an_overdue_listing_says_so() {
    let scene = Scene::running().await;
    let minute = Duration::from_secs(60);
    scene.aws.restart_listing_every(minute);
    scene.pass().await;
    scene.aws.set_instance_state(FIRST, InstanceState::ShuttingDown);
    scene.delete();
    let known = scene.after(minute).await;
    assert_eq!(known.condition(INSTANCE_READY), "False/Terminating");
    assert!(!known.message(INSTANCE_READY).contains("not listed"));
    // The listings wait for their turns.
    scene.aws.slow_down_reading();
    for _ in 0..5 {
        scene.after(minute).await;
    }
    let waiting = scene.after(minute).await;
    assert_eq!(waiting.condition(INSTANCE_READY), "False/Terminating");
    let said = waiting.message(INSTANCE_READY);
    assert!(said.contains(FIRST) && said.contains("not listed for five intervals"), "{said}");
}

/// The account from AWS's answer ten minutes ago is looked up again.
async fn without_an_answer_about_the_account(scene: &Scene) -> Pass {
    scene.aws.fail_next("GetCallerIdentity", unanswered("GetCallerIdentity"));
    let pass = scene.after(Timing::default().launch_lookup_age).await;
    assert!(pass.calls.contains(&"GetCallerIdentity".to_owned()), "{:?}", pass.calls);
    pass
}

#[tokio::test]
async fn an_outage_takes_ready_from_no_running_machine() {
    let scene = Scene::running().await;
    let pass = without_an_answer_about_the_account(&scene).await;
    assert_eq!(pass.condition(ConditionType::IdentityReady), "True/Ready");
    assert_eq!(pass.condition(ConditionType::Ready), "True/Ready");
}

#[tokio::test]
async fn an_outage_after_a_refusal_makes_no_machine_ready() {
    let scene = Scene::running().await;
    let error = refused("GetCallerIdentity", "InvalidClientTokenId");
    scene.aws.fail_next("GetCallerIdentity", error);
    let refused = scene.after(Timing::default().launch_lookup_age).await;
    assert_eq!(refused.condition(ConditionType::IdentityReady), "False/CredentialsFailed");
    let pass = without_an_answer_about_the_account(&scene).await;
    assert_eq!(pass.condition(ConditionType::IdentityReady), "False/Failed");
}

#[tokio::test]
async fn a_deletion_waits_for_the_account_of_the_credentials() {
    let scene = Scene::running().await;
    scene.delete();
    let pass = without_an_answer_about_the_account(&scene).await;
    assert_eq!(pass.condition(ConditionType::IdentityReady), "False/Failed");
}
