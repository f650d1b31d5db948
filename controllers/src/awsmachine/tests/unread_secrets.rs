//! Tests of Secrets that the API server refuses to return: a condition names them.

use capa_api::conditions::ConditionType;
use capa_runtime::reconcile::Next;

use super::deletion::{assert_released, deleted_before_launch, terminated};
use super::{FIRST, Pass, Scene};

const INSTANCE_READY: ConditionType = ConditionType::InstanceReady;
const IDENTITY_READY: ConditionType = ConditionType::IdentityReady;
/// An answer of the API server, and the message of the condition about it.
const ANSWERS: [(Option<(u16, &str)>, &str); 3] = [
    (Some((403, "Forbidden")), "cannot be read: 403 Forbidden"),
    (Some((500, "InternalError")), "cannot be read: 500 InternalError"),
    (None, "cannot be read: the API server gave no usable answer"),
];

/// Asserts that a condition says why the Secret could not be read, and nothing else.
fn assert_said(pass: &Pass, condition: ConditionType, secret: &str, why: &str) {
    let said = pass.message(condition);
    assert!(said.contains(&format!("Secret {secret} {why}")), "{said}");
    assert!(!said.contains("the-manager") && !said.contains("refused"), "{said}");
}

#[tokio::test]
async fn a_deletion_names_an_unread_secret_of_its_identity() {
    for (answer, why) in ANSWERS {
        let scene = Scene::with_static_identity().run().await;
        scene.kubernetes.refuse_secret("capa-rs-system", "keys", answer);
        scene.delete();
        let blocked = scene.pass().await;
        assert_eq!(blocked.condition(INSTANCE_READY), "False/DeletionBlocked");
        assert_eq!(blocked.condition(IDENTITY_READY), "False/Failed");
        for condition in [INSTANCE_READY, IDENTITY_READY] {
            assert_said(&blocked, condition, "capa-rs-system/keys", why);
        }
        assert_eq!(blocked.next, Next::Retry);
        assert!(blocked.reasons_of_events().contains(&"DeletionBlocked"));
        scene.put_keys();
        scene.pass().await;
        assert!(terminated(&scene.pass().await), "the new session has looked");
    }
}

#[tokio::test]
async fn the_planned_record_stands_in_for_an_unread_secret() {
    for (answer, _) in ANSWERS {
        let scene = deleted_before_launch(Scene::with_static_identity()).await;
        scene.kubernetes.refuse_secret("capa-rs-system", "keys", answer);
        let pass = scene.pass().await;
        assert_released(&scene, &pass);
    }
}

#[tokio::test]
async fn a_launch_names_an_unread_secret_of_its_identity() {
    let scene = Scene::with_static_identity();
    scene.kubernetes.refuse_secret("capa-rs-system", "keys", Some((403, "Forbidden")));
    let waiting = scene.pass().await;
    assert_eq!(waiting.condition(IDENTITY_READY), "False/Failed");
    assert_said(&waiting, IDENTITY_READY, "capa-rs-system/keys", ANSWERS[0].1);
    assert_eq!(waiting.next, Next::Retry);
    scene.put_keys();
    assert_eq!(scene.pass().await.launch().instance_id(), Some(FIRST));
}

#[tokio::test]
async fn a_launch_names_an_unread_bootstrap_secret() {
    for (answer, why) in ANSWERS {
        let scene = Scene::new();
        scene.kubernetes.refuse_secret("team-a", "boot", answer);
        let waiting = scene.pass().await;
        assert_eq!(waiting.condition(ConditionType::BootstrapDataReady), "False/Failed");
        assert_said(&waiting, ConditionType::BootstrapDataReady, "team-a/boot", why);
        assert_eq!(waiting.next, Next::Retry);
        scene.kubernetes.put_secret("team-a", "boot", &[("value", "#cloud-config")]);
        assert_eq!(scene.pass().await.launch().instance_id(), Some(FIRST));
    }
}

#[tokio::test]
async fn a_running_machine_with_an_unread_secret_stays_watched() {
    let scene = Scene::with_static_identity().run().await;
    let before = scene.aws.forgotten();
    scene.kubernetes.refuse_secret("capa-rs-system", "keys", None);
    let pass = scene.pass().await;
    assert_eq!(pass.condition(IDENTITY_READY), "False/Failed");
    assert_eq!(pass.condition(INSTANCE_READY), "True/Ready");
    assert_eq!(scene.aws.forgotten(), before, "the failure may be temporary");
}
