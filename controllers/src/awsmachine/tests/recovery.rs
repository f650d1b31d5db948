//! Tests of recovery: an object without its status recovers its own instance, and no other.

use std::time::Duration;

use capa_api::conditions::ConditionType;
use capa_api::machine::InstanceState;
use capa_cloud::Timing;

use super::{FIRST, NETWORK, Scene};
use crate::kubernetes_api::SourceOutcome;

const INSTANCE_READY: ConditionType = ConditionType::InstanceReady;
const READY: ConditionType = ConditionType::Ready;

#[tokio::test]
async fn a_lost_status_is_recovered_from_the_ids_in_the_spec() {
    let scene = Scene::running().await;
    let before = scene.machine("m").unwrap().status.unwrap();
    scene.edit(|machine| machine.status = None);
    let recovered = scene.pass().await;
    assert_eq!(recovered.calls, ["write_status"]);
    assert_eq!(recovered.reasons_of_events(), ["InstanceAdopted"]);
    assert_eq!(recovered.condition(READY), "True/Ready");
    let (record, known) = (recovered.launch(), before.launch.unwrap());
    assert_eq!((record.attempt_number(), record.instance_id()), (known.attempt_number(), known.instance_id()));
    let (request, known) = (record.request().unwrap(), known.request().unwrap());
    assert_eq!(request.client_token, known.client_token);
    assert_eq!(request.subnet_id, known.subnet_id);
    assert_eq!(request.security_group_ids, known.security_group_ids);
    let in_use = recovered.status().network.as_ref().unwrap();
    assert_eq!(in_use.account_id.as_deref(), Some("111122223333"));
    assert_eq!(in_use.subnet_id.as_deref(), Some("subnet-0000000a"));
    let steady = scene.pass().await;
    assert_eq!((steady.calls, steady.events), (vec![], vec![]));
    assert_eq!(scene.tokens().len(), 1);
}

#[tokio::test]
async fn a_recovered_record_has_the_groups_of_the_instance() {
    let scene = Scene::running().await;
    scene.edit(|machine| machine.status = None);
    let without_groups = NETWORK.replace("securityGroups: {all: [sg-0000000a]}, ", "");
    scene.kubernetes.publish_network("dev", &without_groups);
    let recovered = scene.pass().await;
    let request = recovered.launch().request().unwrap();
    assert_eq!(request.security_group_ids, ["sg-0000000a"]);
    assert_eq!(recovered.condition(READY), "True/Ready");
}

#[tokio::test]
async fn a_recovered_record_proves_ownership() {
    let scene = Scene::running().await;
    scene.edit(|machine| machine.status = None);
    scene.pass().await;
    scene.aws.untag(FIRST);
    assert_eq!(scene.pass().await.condition(INSTANCE_READY), "True/Ready");
}

#[tokio::test]
async fn a_recovered_machine_is_deleted_by_its_recovered_record() {
    let scene = Scene::running().await;
    scene.edit(|machine| machine.status = None);
    scene.pass().await;
    scene.kubernetes.remove_cluster("team-a", "dev");
    scene.kubernetes.put_source("dev", SourceOutcome::NotFound);
    scene.delete();
    assert!(scene.pass().await.calls.contains(&"TerminateInstances".to_owned()));
    scene.aws.set_instance_state(FIRST, InstanceState::Terminated);
    assert!(scene.pass().await.machine.is_none());
}

#[tokio::test]
async fn a_recovered_instance_has_its_launch_time_from_aws() {
    let scene = Scene::running().await;
    scene.kubernetes.advance(Timing::default().visibility_age);
    scene.edit(|machine| machine.status = None);
    scene.pass().await;
    scene.aws.remove_instance(FIRST);
    assert_eq!(scene.pass().await.condition(INSTANCE_READY), "False/NotFound");
}

#[tokio::test]
async fn a_foreign_instance_is_neither_recovered_nor_terminated() {
    let scene = Scene::running().await;
    scene.edit(|machine| machine.status = None);
    scene.aws.tag_machine_name(FIRST, "team-b/m");
    for deleted in [false, true] {
        if deleted {
            scene.delete();
        }
        let pass = scene.after(Duration::from_secs(3600)).await;
        assert_eq!(pass.condition(INSTANCE_READY), "False/NotOwned");
        assert_eq!(pass.status().launch, None);
        assert!(!pass.calls.contains(&"TerminateInstances".to_owned()));
    }
}

#[tokio::test]
async fn lookups_before_a_record_prove_nothing_once_it_is_lost() {
    let scene = Scene::new();
    scene.pass().await;
    let launched = scene.machine("m").unwrap().status;
    scene.aws.remove_instance(FIRST);
    let lose = |scene: &Scene| {
        scene.edit(|machine| {
            machine.status = None;
            machine.metadata.annotations = None;
        });
    };
    lose(&scene);
    let almost = Timing::default().launch_lookup_age.saturating_sub(Duration::from_secs(1));
    assert_eq!(scene.pass().await.condition(INSTANCE_READY), "False/LaunchUnconfirmed");
    assert_eq!(scene.after(almost).await.condition(INSTANCE_READY), "False/LaunchUnconfirmed");
    // Another process has launched the instance.
    scene.edit(|machine| machine.status.clone_from(&launched));
    scene.pass().await;
    lose(&scene);
    let pass = scene.after(Duration::from_mins(1)).await;
    assert_eq!(pass.condition(INSTANCE_READY), "False/LaunchUnconfirmed");
    assert_eq!(scene.tokens().len(), 1);
}
