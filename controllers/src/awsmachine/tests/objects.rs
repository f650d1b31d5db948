//! Tests of bootstrap data that the cluster's S3 bucket keeps.

use std::time::Duration;

use capa_api::conditions::ConditionType;
use capa_api::machine::{BootstrapObject, InstanceState};
use capa_cloud::UserData;

use super::secrets::join;
use super::{FIRST, NETWORK, Pass, Scene};
use crate::testing::{read, refused, unanswered};

const BOOTSTRAP_DATA_READY: ConditionType = ConditionType::BootstrapDataReady;

/// A machine without `spec.ignition`, as the templates for Flatcar have it.
const SPEC: &str = "instanceType: t3.large, ami: {id: ami-00000001}";
const KEY: &str = "node/uid-m";

/// A machine whose bootstrap data is for Ignition, in a network with these settings of the bucket `boot`.
fn scene(settings: &str) -> Scene {
    let scene = Scene::with_spec(SPEC);
    let ignition = [("value", r#"{"join-token": 1}"#), ("format", "ignition")];
    scene.kubernetes.put_secret("team-a", "boot", &ignition);
    in_bucket(&scene, &format!("{{bucket: boot{settings}}}"));
    scene.aws.bucket("boot");
    scene
}

/// A machine whose bootstrap data is kept in the bucket `boot` with these settings, or else in Secrets Manager.
fn stored(bucket: Option<&str>) -> Scene {
    bucket.map_or_else(|| Scene::with_spec(SPEC), scene)
}

fn in_bucket(scene: &Scene, bucket: &str) {
    let network = NETWORK.trim_end_matches('}');
    scene.kubernetes.publish_network("dev", &format!("{network}, bootstrapStorage: {{s3: {bucket}}}}}"));
}

const PRESIGNED: &str = ", presignedURLDuration: 1h";

fn denied(scene: &Scene, action: &'static str) {
    scene.aws.fail_next(action, refused(action, "AccessDenied"));
}

fn keys(scene: &Scene) -> Vec<String> {
    let shown = scene.aws.secrets().into_iter();
    shown.map(|object| format!("{} in {}", object.name, object.store)).collect()
}

fn recorded(pass: &Pass) -> Option<&BootstrapObject> {
    pass.status().bootstrap_object.as_ref()
}

fn user_data(scene: &Scene, launch: usize) -> String {
    let launches = scene.aws.launches();
    String::from_utf8(launches[launch].user_data.expose().to_vec()).unwrap()
}

#[tokio::test]
async fn an_object_is_recorded_stored_and_then_launched_with() {
    let scene = scene("");
    let pass = scene.pass().await;
    pass.called_in_order(&["write_status", "PutObject", "RunInstances"]);
    assert_eq!(keys(&scene), ["node/uid-m in the S3 bucket boot"]);
    let user_data = user_data(&scene, 0);
    assert!(user_data.contains("s3://boot/node/uid-m"), "{user_data}");
    assert!(!user_data.contains("join-token"), "{user_data}");
    let object = recorded(&pass).unwrap();
    assert_eq!((object.bucket.as_str(), object.key.as_str()), ("boot", KEY));
    assert_eq!(object.region.as_deref(), Some("eu-west-1"));
    assert_eq!(pass.status().bootstrap_secrets, None);
}

#[tokio::test]
async fn a_machine_waits_for_a_bucket() {
    let scene = scene("");
    scene.kubernetes.publish_network("dev", NETWORK);
    let waiting = scene.pass().await;
    assert_eq!(waiting.condition(BOOTSTRAP_DATA_READY), "False/StorageNotSupported");
    for part in ["spec.s3Bucket", "bootstrapStorage.s3", "UnencryptedUserData"] {
        let message = waiting.message(BOOTSTRAP_DATA_READY);
        assert!(message.contains(part), "{part}: {message}");
    }
    in_bucket(&scene, "{bucket: boot, presignedURLDuration: soon}");
    assert_eq!(scene.pass().await.condition(BOOTSTRAP_DATA_READY), "False/InvalidSpec");
    in_bucket(&scene, "{bucket: boot}");
    scene.pass().await;
    assert_eq!(scene.aws.instance_ids(), [FIRST]);
}

#[tokio::test]
async fn stored_data_goes_when_the_node_has_joined() {
    let deleted = ["SuccessfulDeleteEncryptedBootstrapDataSecrets", "SuccessfulDeleteBootstrapObject"];
    for (bucket, event) in [None, Some("")].into_iter().zip(deleted) {
        let scene = stored(bucket).run().await;
        assert_eq!(keys(&scene).len(), 1, "{bucket:?}");
        join(&scene);
        let joined = scene.pass().await;
        assert_eq!(keys(&scene), [""; 0], "{bucket:?}");
        assert_eq!((&joined.status().bootstrap_secrets, recorded(&joined)), (&None, None), "{bucket:?}");
        assert_eq!(joined.reasons_of_events(), [event]);
        assert_eq!(scene.pass().await.calls, [""; 0], "and nothing is left to do");
    }
}

#[tokio::test]
async fn an_object_goes_after_half_an_hour_and_with_the_instance() {
    let late = scene("").run().await;
    late.after(Duration::from_secs(1801)).await;
    assert_eq!(keys(&late), [""; 0]);
    let ended = scene("").run().await;
    ended.aws.set_instance_state(FIRST, InstanceState::Terminated);
    ended.pass().await;
    assert_eq!(keys(&ended), [""; 0]);
}

#[tokio::test]
async fn an_object_that_cannot_be_stored_launches_nothing() {
    let scene = scene("");
    denied(&scene, "PutObject");
    let pass = scene.pass().await;
    assert_eq!(pass.condition(BOOTSTRAP_DATA_READY), "False/Unauthorized");
    let message = pass.message(BOOTSTRAP_DATA_READY);
    assert!(message.contains("node/uid-m in the S3 bucket boot"), "{message}");
    assert_eq!(scene.aws.instance_ids(), [""; 0]);
    assert!(recorded(&pass).is_some());
}

#[tokio::test]
async fn a_deletion_waits_for_an_object_or_lets_go_of_it() {
    for (at_launch, now, releases) in
        [("", "", false), (", bestEffortDeleteObjects: true", "", true), ("", ", bestEffortDeleteObjects: true", true)]
    {
        let scene = scene(at_launch);
        scene.refused_with("InsufficientInstanceCapacity").await;
        in_bucket(&scene, &format!("{{bucket: boot{now}}}"));
        scene.delete();
        denied(&scene, "DeleteObject");
        let pass = scene.pass().await;
        assert_eq!(pass.machine.is_none(), releases, "{at_launch} {now}");
        if releases {
            assert_eq!(pass.reasons_of_events(), ["BootstrapDataAbandoned"]);
            continue;
        }
        let message = pass.message(ConditionType::InstanceReady);
        assert!(message.contains("node/uid-m in the S3 bucket boot"), "{message}");
        assert!(scene.pass().await.machine.is_none());
        assert_eq!(keys(&scene), [""; 0]);
    }
}

#[tokio::test]
async fn an_object_in_a_bucket_that_is_gone_counts_as_deleted() {
    let scene = scene("");
    scene.refused_with("InsufficientInstanceCapacity").await;
    scene.delete();
    scene.aws.fail_next("DeleteObject", refused("DeleteObject", "NoSuchBucket"));
    assert!(scene.pass().await.machine.is_none());
}

#[tokio::test]
async fn a_corrected_bucket_gets_the_object_and_the_old_one_loses_it() {
    for denies in [false, true] {
        let scene = scene("");
        scene.aws.bucket("other");
        scene.refused_with("InsufficientInstanceCapacity").await;
        in_bucket(&scene, "{bucket: other}");
        if denies {
            denied(&scene, "DeleteObject");
        }
        let pass = scene.pass().await;
        assert_eq!(recorded(&pass).map(|object| object.bucket.as_str()), Some("other"));
        let left = if denies { vec!["node/uid-m in the S3 bucket boot"] } else { vec![] };
        let expected = [left, vec!["node/uid-m in the S3 bucket other"]].concat();
        assert_eq!(keys(&scene), expected, "{denies}");
        let tells = pass.reasons_of_events().contains(&"BootstrapDataAbandoned");
        assert_eq!(tells, denies);
    }
}

#[tokio::test]
async fn a_crash_at_any_call_leaves_no_stored_data_behind() {
    for bucket in [None, Some(""), Some(PRESIGNED)] {
        let stores = if bucket.is_some() { ["PutObject", "DeleteObject"] } else { ["CreateSecret", "DeleteSecret"] };
        for action in [stores[0], "RunInstances", stores[1]] {
            let mut scene = stored(bucket);
            scene.aws.lose_next_answer(action);
            scene.pass().await;
            scene.restart();
            for _ in 0..3 {
                scene.after(Duration::from_secs(5)).await;
            }
            assert_eq!((scene.aws.instance_ids().len(), keys(&scene).len()), (1, 1), "{action} {bucket:?}");
            scene.aws.set_instance_state(FIRST, InstanceState::Running);
            scene.pass().await;
            join(&scene);
            for _ in 0..2 {
                scene.after(Duration::from_secs(5)).await;
            }
            assert_eq!(keys(&scene), [""; 0], "{action} {bucket:?}");
        }
    }
}

#[tokio::test]
async fn a_repeated_launch_has_the_url_that_it_had_first() {
    let scene = scene(PRESIGNED);
    scene.aws.lose_next_answer("RunInstances");
    let first = scene.pass().await;
    let signed = recorded(&first).and_then(|object| object.presigned_at.clone());
    assert!(signed.is_some());
    let shown = serde_json::to_string(first.status()).unwrap();
    assert!(!shown.contains("X-Amz"), "{shown}");
    let again = scene.after(Duration::from_secs(20)).await;
    assert_eq!(scene.aws.instance_ids(), [FIRST]);
    assert_eq!(recorded(&again).and_then(|object| object.presigned_at.clone()), signed);
    let calls = scene.aws.launches().len();
    assert!(user_data(&scene, 0).contains("https://boot.s3.eu-west-1.amazonaws.com/node/uid-m?"));
    assert_eq!(user_data(&scene, 0), user_data(&scene, calls - 1));
}

#[tokio::test]
async fn another_attempt_has_another_url() {
    let scene = scene(PRESIGNED);
    let first = scene.refused_with("InsufficientInstanceCapacity").await;
    let second = scene.after(Duration::from_secs(60)).await;
    let signed = |pass: &Pass| recorded(pass).and_then(|object| object.presigned_at.clone());
    assert!(signed(&first) < signed(&second));
    assert_ne!(user_data(&scene, 0), user_data(&scene, 1));
    assert!(!second.calls.contains(&"PutObject".to_owned()), "the object is there");
}

#[tokio::test]
async fn a_url_that_is_over_is_not_sent_again() {
    let scene = scene(", presignedURLDuration: 1m");
    scene.unanswered_launch().await;
    let looking = scene.after(Duration::from_secs(90)).await;
    assert_eq!(looking.condition(ConditionType::InstanceReady), "False/LaunchUnconfirmed");
    for _ in 0..5 {
        scene.after(Duration::from_secs(150)).await;
    }
    assert_eq!(scene.aws.instance_ids().len(), 1, "another attempt follows");
}

/// The URL is longer than the `s3://` URL in its place.
#[tokio::test]
async fn user_data_that_its_url_makes_too_large_is_not_launched() {
    let scene = scene(PRESIGNED);
    let authority = |bytes| format!("[{{data:,{}}}]", "x".repeat(bytes)).replace(['{', '}'], "'");
    let launches_with = async |bytes: usize| {
        scene.edit(|machine| {
            let ignition = format!("{{version: '3.4', tls: {{certificateAuthorities: {}}}}}", authority(bytes));
            machine.spec.ignition = Some(read(&ignition));
        });
        scene.pass().await
    };
    let refused = launches_with(UserData::MAX_BYTES - 250).await;
    assert_eq!(refused.condition(BOOTSTRAP_DATA_READY), "False/TooLarge");
    assert_eq!(scene.aws.launches().len(), 0);
    assert_eq!(keys(&scene), [""; 0]);
    launches_with(UserData::MAX_BYTES - 500).await;
    assert_eq!(scene.aws.launches().len(), 1);
}

#[tokio::test]
async fn a_refused_launch_waits_although_its_url_changes() {
    let scene = scene(PRESIGNED);
    scene.refused_with("InvalidParameterValue").await;
    let calls = scene.aws.launches().len();
    let waiting = scene.after(Duration::from_secs(3)).await;
    assert!(!waiting.calls.contains(&"RunInstances".to_owned()), "{:?}", waiting.calls);
    assert_eq!(scene.aws.launches().len(), calls);
}

#[tokio::test]
async fn a_lost_status_leaves_no_stored_data_behind() {
    for (bucket, has_secret) in [(None, true), (Some(""), true), (Some(""), false)] {
        let scene = stored(bucket).run().await;
        scene.edit(|machine| machine.status = None);
        if !has_secret {
            scene.kubernetes.put_secret("team-a", "boot", &[]);
        }
        scene.pass().await;
        scene.delete();
        for _ in 0..3 {
            scene.aws.set_instance_state(FIRST, InstanceState::Terminated);
            if scene.machine("m").is_some() {
                scene.after(Duration::from_secs(600)).await;
            }
        }
        assert_eq!(keys(&scene), [""; 0], "{bucket:?} {has_secret}");
    }
}

#[tokio::test]
async fn a_status_lost_after_the_node_joined_leaves_no_stored_data() {
    for bucket in [None, Some("")] {
        let scene = stored(bucket).run().await;
        join(&scene);
        scene.edit(|machine| machine.status = None);
        scene.pass().await;
        scene.pass().await;
        assert_eq!(keys(&scene), [""; 0], "{bucket:?}");
    }
}

#[tokio::test]
async fn the_machine_role_is_part_of_the_key() {
    let scene = scene(", prefix: clusters/dev");
    let mut owner = crate::kubernetes_api::MachineKubernetes::machine(scene.kubernetes.as_ref(), "team-a", "m")
        .unwrap()
        .as_ref()
        .clone();
    let labels = owner.metadata.labels.get_or_insert_default();
    labels.insert(capa_api::meta::CONTROL_PLANE_LABEL.to_owned(), String::new());
    scene.kubernetes.put_machine(owner);
    scene.pass().await;
    assert_eq!(keys(&scene), ["clusters/dev/control-plane/uid-m in the S3 bucket boot"]);
}

#[tokio::test]
async fn an_earlier_object_that_is_not_deleted_yet_hides_no_later_one() {
    for call in ["PutObject", "DeleteObject"] {
        let scene = scene("");
        scene.aws.bucket("other");
        match call {
            "PutObject" => {
                scene.aws.fail_next(call, unanswered(call));
                scene.pass().await;
            }
            _ => {
                scene.refused_with("InsufficientInstanceCapacity").await;
            }
        }
        in_bucket(&scene, "{bucket: other}");
        if call == "DeleteObject" {
            scene.aws.fail_next(call, unanswered(call));
        }
        let waiting = scene.pass().await;
        assert_eq!(waiting.condition(BOOTSTRAP_DATA_READY), "False/Failed", "{call}");
        assert_eq!(recorded(&waiting).unwrap().bucket, "boot", "{call}");
        for _ in 0..4 {
            scene.after(Duration::from_secs(180)).await;
        }
        assert_eq!(keys(&scene), ["node/uid-m in the S3 bucket other"], "{call}");
        scene.aws.set_instance_state(FIRST, InstanceState::Running);
        join(&scene);
        for _ in 0..2 {
            scene.after(Duration::from_secs(60)).await;
        }
        assert_eq!(keys(&scene), [""; 0], "{call}");
    }
}
