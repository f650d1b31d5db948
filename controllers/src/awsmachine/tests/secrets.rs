//! Tests of bootstrap data that an AWS service keeps.

use std::time::Duration;

use capa_api::common::IdentityReference;
use capa_api::conditions::ConditionType;
use capa_api::contract::NodeReference;
use capa_api::machine::{BootstrapSecrets, InstanceState, SecretsBackend};
use capa_cloud::CloudError;
use capa_runtime::reconcile::Next;

use super::{FIRST, Pass, Scene};
use crate::kubernetes_api::MachineKubernetes as _;
use crate::testing::{read, refused};

const BOOTSTRAP_DATA_READY: ConditionType = ConditionType::BootstrapDataReady;

/// A machine whose bootstrap data is in Secrets Manager.
const SPEC: &str = "instanceType: t3.large, ami: {id: ami-00000001}";
const NAME: &str = "aws.cluster.x-k8s.io/uid-m-0";

fn names(scene: &Scene) -> Vec<String> {
    scene.aws.secrets().into_iter().map(|secret| secret.name).collect()
}

fn recorded(pass: &Pass) -> Option<&BootstrapSecrets> {
    pass.status().bootstrap_secrets.as_ref()
}

pub(super) fn join(scene: &Scene) {
    let mut machine = scene.kubernetes.machine("team-a", "m").unwrap().as_ref().clone();
    let status = machine.status.get_or_insert_default();
    status.node_ref = Some(NodeReference { name: "node".into() });
    scene.kubernetes.put_machine(machine);
}

#[tokio::test]
async fn bootstrap_data_is_recorded_stored_and_then_launched_with() {
    let scene = Scene::with_spec(SPEC);
    let pass = scene.pass().await;
    pass.called_in_order(&["CreateSecret", "RunInstances"]);
    assert_eq!(names(&scene), [NAME]);
    let launch = scene.aws.launches().remove(0);
    let user_data = String::from_utf8(launch.user_data.expose().to_vec()).unwrap();
    assert!(user_data.starts_with("MIME-Version"), "{user_data}");
    assert!(!user_data.contains("#cloud-config\n"), "{user_data}");
    let secrets = recorded(&pass).unwrap();
    assert_eq!((secrets.prefix.as_str(), secrets.count), ("aws.cluster.x-k8s.io/uid-m", 1));
    assert_eq!(secrets.region.as_deref(), Some("eu-west-1"));
}

#[tokio::test]
async fn the_record_is_stored_before_the_first_secret() {
    let scene = Scene::with_spec(SPEC);
    scene.aws.fail_next("CreateSecret", refused("CreateSecret", "AccessDeniedException"));
    let denied = scene.pass().await;
    assert_eq!(denied.condition(BOOTSTRAP_DATA_READY), "False/Unauthorized");
    let message = denied.message(BOOTSTRAP_DATA_READY);
    for part in [NAME, "Secrets Manager", "nothing is launched"] {
        assert!(message.contains(part), "{part}: {message}");
    }
    assert_eq!(scene.aws.instance_ids(), [""; 0]);
    let order = |call: &str| denied.calls.iter().position(|made| made == call).unwrap();
    let between = &denied.calls[order("block_move")..order("CreateSecret")];
    assert!(between.contains(&"write_status".to_owned()), "{:?}", denied.calls);
    scene.after(Duration::from_secs(600)).await;
    assert_eq!((names(&scene).len(), scene.aws.instance_ids().len()), (1, 1));
}

#[tokio::test]
async fn secrets_that_were_never_stored_hold_no_deletion_up() {
    for action in ["CreateSecret", "RunInstances"] {
        let scene = Scene::with_spec(SPEC);
        scene.aws.fail_next(action, refused(action, "AccessDeniedException"));
        scene.pass().await;
        scene.delete();
        scene.aws.fail_next("DeleteSecret", refused("DeleteSecret", "AccessDeniedException"));
        let deleted = scene.pass().await;
        let is_stored = action == "RunInstances";
        assert_eq!(deleted.machine.is_some(), is_stored, "{action}");
        let tells = deleted.reasons_of_events().contains(&"BootstrapDataAbandoned");
        assert_eq!(tells, !is_stored, "{action}");
    }
}

/// The first pass over a deleted machine whose identity is gone, and whose launch failed by this refusal.
async fn deleted_without_identity(action: &'static str, code: &str) -> Pass {
    let scene = Scene::with_spec(SPEC);
    scene.aws.fail_next(action, refused(action, code));
    scene.pass().await;
    scene.kubernetes.remove_identity(&IdentityReference::controller_default());
    scene.delete();
    scene.pass().await
}

#[tokio::test]
async fn a_deletion_that_cannot_reach_the_data_names_it_and_its_end() {
    let waiting = deleted_without_identity("RunInstances", "InvalidAMIID.NotFound").await;
    assert_eq!(waiting.condition(ConditionType::InstanceReady), "False/DeletionBlocked");
    let message = waiting.message(ConditionType::InstanceReady);
    assert!(message.contains("bootstrap data") && message.contains("abandon-instance"), "{message}");
    assert!(waiting.condition(ConditionType::IdentityReady).starts_with("False/"));
}

#[tokio::test]
async fn a_deletion_does_not_wait_for_data_that_was_never_stored() {
    let deleted = deleted_without_identity("CreateSecret", "AccessDeniedException").await;
    assert!(deleted.machine.is_none(), "{:?}", deleted.calls);
    assert!(deleted.reasons_of_events().contains(&"BootstrapDataAbandoned"));
}

#[tokio::test]
async fn a_denial_proves_nothing_about_another_process() {
    let mut scene = Scene::with_spec(SPEC);
    scene.aws.lose_next_answer("CreateSecret");
    scene.pass().await;
    assert_eq!(names(&scene), [NAME]);
    scene.restart();
    scene.aws.fail_next("CreateSecret", refused("CreateSecret", "AccessDeniedException"));
    scene.after(Duration::from_secs(600)).await;
    scene.delete();
    scene.aws.fail_next("DeleteSecret", refused("DeleteSecret", "AccessDeniedException"));
    let deleted = scene.pass().await;
    assert!(deleted.machine.is_some(), "{:?}", deleted.calls);
}

#[tokio::test]
async fn a_corrected_backend_waits_for_no_denied_deletion() {
    let mut scene = Scene::with_spec(SPEC);
    scene.refused_with("InsufficientInstanceCapacity").await;
    assert_eq!(names(&scene), [NAME]);
    scene.edit(|machine| {
        machine.spec.cloud_init = Some(read("{secureSecretsBackend: ssm-parameter-store}"));
    });
    scene.restart();
    scene.aws.fail_next("DeleteSecret", refused("DeleteSecret", "AccessDeniedException"));
    let corrected = scene.after(Duration::from_secs(600)).await;
    assert!(corrected.reasons_of_events().contains(&"BootstrapDataAbandoned"));
    assert_eq!(scene.aws.instance_ids().len(), 1);
}

#[tokio::test]
async fn a_restored_record_leaves_no_secrets_behind() {
    let scene = Scene::with_spec(SPEC).run().await;
    scene.edit(|machine| {
        machine.status = Some(read("{launch: {phase: Planned, attempt: 0}}"));
        (machine.spec.provider_id, machine.spec.instance_id) = (None, None);
    });
    assert!(scene.delete_with_instance().await.machine.is_none());
    assert_eq!(names(&scene), [""; 0]);
}

#[tokio::test]
async fn secrets_of_an_instance_that_never_joins_go_after_half_an_hour() {
    let scene = Scene::with_spec(SPEC).run().await;
    let waiting = scene.pass().await;
    let Next::Requeue(wait) = waiting.next else { panic!("{:?}", waiting.next) };
    assert!(wait <= Duration::from_secs(1800) && wait > Duration::from_secs(1700), "{wait:?}");
    scene.after(Duration::from_secs(1801)).await;
    assert_eq!(names(&scene), [""; 0]);
}

#[tokio::test]
async fn secrets_go_with_the_instance() {
    for ending in [InstanceState::ShuttingDown, InstanceState::Terminated] {
        let scene = Scene::with_spec(SPEC).run().await;
        scene.aws.set_instance_state(FIRST, ending);
        scene.pass().await;
        assert_eq!(names(&scene), [""; 0], "{ending}");
    }
}

#[tokio::test]
async fn secrets_go_with_a_machine_that_was_never_launched() {
    let scene = Scene::with_spec(SPEC);
    scene.refused_with("InsufficientInstanceCapacity").await;
    assert_eq!(names(&scene), [NAME]);
    scene.delete();
    let released = scene.pass().await;
    assert_eq!(names(&scene), [""; 0]);
    assert!(released.machine.is_none());
}

#[tokio::test]
async fn a_deletion_waits_for_secrets_that_cannot_be_deleted() {
    let scene = Scene::with_spec(SPEC);
    scene.refused_with("InsufficientInstanceCapacity").await;
    scene.delete();
    scene.aws.fail_next("DeleteSecret", refused("DeleteSecret", "AccessDeniedException"));
    let blocked = scene.pass().await;
    let message = blocked.message(ConditionType::InstanceReady);
    for part in ["aws.cluster.x-k8s.io/uid-m", "abandon-instance"] {
        assert!(message.contains(part), "{message}");
    }
    assert!(scene.pass().await.machine.is_none());
    assert_eq!(names(&scene), [""; 0]);
}

#[tokio::test]
async fn a_deletion_waits_until_no_call_can_store_secrets_any_longer() {
    let scene = Scene::with_spec(SPEC);
    scene.aws.lose_next_answer("CreateSecret");
    scene.pass().await;
    scene.delete();
    let waiting = scene.pass().await;
    assert_eq!(waiting.condition(ConditionType::InstanceReady), "False/DeletionBlocked");
    let message = waiting.message(ConditionType::InstanceReady);
    assert!(message.contains("got no answer"), "{message}");
    assert_eq!(names(&scene), [NAME]);
    let released = scene.after(Duration::from_secs(300)).await;
    assert!(released.machine.is_none());
    assert_eq!(names(&scene), [""; 0]);
}

#[tokio::test]
async fn data_of_a_node_is_deleted_once_no_call_can_store_it_any_longer() {
    let scene = Scene::with_spec(SPEC);
    scene.aws.lose_next_answer("CreateSecret");
    scene.pass().await;
    let scene = scene.run().await;
    join(&scene);
    scene.pass().await;
    assert_eq!(names(&scene), [NAME]);
    scene.after(Duration::from_secs(300)).await;
    assert_eq!(names(&scene), [""; 0]);
}

#[tokio::test]
async fn secrets_that_cannot_be_deleted_do_not_make_a_node_unready() {
    let scene = Scene::with_spec(SPEC).run().await;
    join(&scene);
    scene.aws.fail_next("DeleteSecret", refused("DeleteSecret", "AccessDeniedException"));
    let kept = scene.pass().await;
    assert_eq!(kept.condition(ConditionType::Ready), "True/Ready");
    assert!(kept.message(BOOTSTRAP_DATA_READY).contains("cannot be deleted"));
    assert_eq!(kept.next, Next::Retry);
    let deleted = scene.pass().await;
    assert_eq!((names(&scene).len(), deleted.message(BOOTSTRAP_DATA_READY)), (0, ""));
}

#[tokio::test]
async fn secrets_whose_deletion_waits_for_its_turn_are_not_reported() {
    let scene = Scene::with_spec(SPEC).run().await;
    join(&scene);
    let turn = Duration::from_millis(800);
    scene.aws.fail_next("DeleteSecret", CloudError::deferred("DeleteSecret", turn));
    let waits = scene.pass().await;
    assert_eq!((names(&scene).len(), waits.message(BOOTSTRAP_DATA_READY)), (1, ""));
    assert_eq!(waits.next, Next::Deferred(turn));
    scene.after(turn).await;
    assert_eq!(names(&scene), [""; 0]);
}

#[tokio::test]
async fn a_refused_launch_uses_the_stored_data_again() {
    let scene = Scene::with_spec(SPEC);
    scene.refused_with("InsufficientInstanceCapacity").await;
    let again = scene.pass().await;
    assert!(!again.calls.contains(&"CreateSecret".to_owned()), "{:?}", again.calls);
    assert_eq!(names(&scene), [NAME]);
}

#[tokio::test]
async fn changed_bootstrap_data_replaces_what_is_stored() {
    let scene = Scene::with_spec(SPEC);
    scene.refused_with("InsufficientInstanceCapacity").await;
    let before = scene.aws.secrets();
    scene.kubernetes.put_secret("team-a", "boot", &[("value", "#cloud-config with another token")]);
    scene.pass().await;
    let after = scene.aws.secrets();
    assert_eq!(after.len(), 1);
    assert_ne!(before, after);
}

#[tokio::test]
async fn parameter_store_keeps_the_data_where_the_spec_says_so() {
    let spec = format!("{SPEC}, cloudInit: {{secureSecretsBackend: ssm-parameter-store}}");
    let scene = Scene::with_spec(&spec).run().await;
    let stored = scene.aws.secrets();
    assert_eq!(stored[0].name, "/cluster.x-k8s.io/uid-m/0");
    assert_eq!(stored[0].store, SecretsBackend::SsmParameterStore.into());
    join(&scene);
    let joined = scene.pass().await;
    assert!(joined.calls.contains(&"DeleteParameters".to_owned()), "{:?}", joined.calls);
    assert_eq!(names(&scene), [""; 0]);
}

/// The calls of PutParameter in passes of some seconds, until the machine is launched.
async fn puts_until_launched(scene: &Scene) -> usize {
    let mut puts = 0;
    for _ in 0..20 {
        let pass = scene.after(Duration::from_secs(1)).await;
        puts += pass.calls.iter().filter(|call| *call == "PutParameter").count();
        if pass.calls.iter().any(|call| call == "RunInstances") {
            return puts;
        }
    }
    panic!("not launched after {puts} calls of PutParameter");
}

#[tokio::test]
async fn parts_that_wait_for_their_turns_are_stored_once() {
    let cloud_init = "{secureSecretsBackend: ssm-parameter-store, secretCount: 4}";
    let mut scene = Scene::with_spec(&format!("{SPEC}, cloudInit: {cloud_init}"));
    scene.aws.fail_next("RunInstances", refused("RunInstances", "InsufficientInstanceCapacity"));
    assert_eq!(puts_until_launched(&scene).await, 4);
    // A process that does not know which parts are stored looks up each name, and replaces existing values.
    scene.restart();
    assert_eq!(puts_until_launched(&scene).await, 8);
    assert_eq!(names(&scene).len(), 4);
}

#[tokio::test]
async fn a_move_waits_for_the_secrets() {
    let scene = Scene::with_spec(SPEC).run().await;
    let annotation = capa_api::meta::BLOCK_MOVE_ANNOTATION;
    let blocks = |pass: &Pass| capa_api::meta::has_annotation(&pass.machine().metadata, annotation);
    assert!(blocks(&scene.pass().await));
    join(&scene);
    assert!(!blocks(&scene.pass().await));
}

#[tokio::test]
async fn credentials_of_another_account_store_the_data_there_too() {
    let scene = Scene::with_spec(SPEC);
    scene.refused_with("InsufficientInstanceCapacity").await;
    scene.aws.set_account("222222222222");
    scene.set_up_network();
    assert_eq!(names(&scene), [""; 0], "the other account has no secrets yet");
    scene.refused_with("InsufficientInstanceCapacity").await;
    assert_eq!(names(&scene), [NAME]);
}

#[tokio::test]
async fn an_event_names_secrets_left_in_another_account() {
    let scene = Scene::with_spec(SPEC);
    scene.refused_with("InsufficientInstanceCapacity").await;
    scene.aws.set_account("222222222222");
    scene.delete();
    let released = scene.pass().await;
    assert!(released.machine.is_none());
    assert_eq!(released.reasons_of_events(), ["BootstrapDataAbandoned"]);
    let message = &released.events[0].message;
    assert!(message.contains(NAME.trim_end_matches("-0")), "{message}");
    assert!(message.contains("of account 111122223333"), "{message}");
}

#[tokio::test]
async fn secrets_of_an_instance_without_its_tags_go_when_the_node_has_joined() {
    let scene = Scene::with_spec(SPEC).run().await;
    scene.aws.untag(FIRST);
    join(&scene);
    for _ in 0..2 {
        scene.after(Duration::from_secs(60)).await;
    }
    assert_eq!(names(&scene), [""; 0]);
}

#[tokio::test]
async fn each_pass_resolves_the_identity_once() {
    let scene = Scene::with_spec(&format!("{SPEC}, tenancy: host, hostAffinity: host, dynamicHostAllocation: {{}}"));
    let in_pass = async || {
        let before = scene.aws.regions().len();
        let pass = scene.pass().await;
        (scene.aws.regions().len() - before, pass)
    };
    scene.pass().await;
    scene.aws.set_instance_state(FIRST, InstanceState::Running);
    assert_eq!(in_pass().await.0, 1, "a running machine");
    scene.delete();
    in_pass().await;
    scene.aws.set_instance_state(FIRST, InstanceState::Terminated);
    let (sessions, released) = in_pass().await;
    for call in ["ReleaseHosts", "DeleteSecret"] {
        assert!(released.called(call), "{call}: {:?}", released.calls);
    }
    assert_eq!(sessions, 1, "the end of the instance, the host and the data");
    assert!(released.machine.is_none());
}
