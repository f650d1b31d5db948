//! Tests of user input: an invalid id, name or Secret causes no call.

use capa_api::conditions::ConditionType;
use capa_api::contract::{Cluster, Machine};
use capa_api::meta;
use capa_cloud::CloudError;
use capa_runtime::reconcile::Next;
use kube::ResourceExt;

use super::{CLUSTER, NETWORK, Pass, SPEC, Scene};
use crate::testing::fields::laid_over;
use crate::testing::read;

const INSTANCE_READY: ConditionType = ConditionType::InstanceReady;
const BOOTSTRAP: ConditionType = ConditionType::BootstrapDataReady;

/// Runs a pass over a new machine, which must make no call to AWS.
async fn unasked(scene: &Scene) -> Pass {
    let pass = scene.pass().await;
    assert_eq!(pass.calls, ["write_status", "add_finalizer", "write_status"]);
    assert!(scene.aws.regions().is_empty(), "no client is made: {:?}", scene.aws.regions());
    pass
}

/// Sets the bootstrap Secret of the Machine.
fn boot_from(scene: &Scene, secret: &str, more: &str) {
    let bootstrap = format!("{{dataSecretName: '{secret}'{more}}}");
    let machine = scene.context.kubernetes.machine("team-a", "m").unwrap();
    let mut machine = Machine::clone(&machine);
    machine.spec.bootstrap = read(&bootstrap);
    scene.kubernetes.put_machine(machine);
}

#[tokio::test]
async fn an_id_that_is_a_pattern_causes_no_call() {
    for (field, message) in [
        ("ami: {id: 'ami-*'}, rootVolume: {size: 40}", "ami.id is \"ami-*\""),
        ("instanceType: '*'", "instanceType is \"*\""),
        ("subnet: {id: 'subnet-*'}", "subnet.id is \"subnet-*\""),
        ("additionalSecurityGroups: [{id: 'sg-?'}]", "additionalSecurityGroups[0].id is \"sg-?\""),
        ("securityGroupOverrides: {node: 'sg-*'}", "securityGroupOverrides.node is \"sg-*\""),
    ] {
        let scene = Scene::with_spec(&laid_over(SPEC, field));
        let pass = unasked(&scene).await;
        assert_eq!(pass.condition(INSTANCE_READY), "False/InvalidSpec", "{field}");
        assert!(pass.message(INSTANCE_READY).starts_with(message), "{}", pass.message(INSTANCE_READY));
        assert_eq!(pass.next, Next::AwaitChange);
    }
}

#[tokio::test]
async fn ids_of_a_foreign_network_are_checked_as_well() {
    for network in [NETWORK.replace("subnet-0000000b", "'subnet-*'"), NETWORK.replace("sg-0000000a", "'sg-*'")] {
        let scene = Scene::new();
        scene.kubernetes.publish_network("dev", &network);
        let pass = unasked(&scene).await;
        assert_eq!(pass.condition(ConditionType::NetworkReady), "False/InvalidSpec", "{network}");
        assert!(!pass.message(ConditionType::NetworkReady).contains('*'), "a value of somebody else's");
    }
}

#[tokio::test]
async fn an_invalid_region_creates_no_client() {
    for region in ["../x", "US EAST", "eu-west-1/x", "r"] {
        let scene = Scene::with_spec(&laid_over(SPEC, &format!("region: '{region}'")));
        assert_eq!(unasked(&scene).await.condition(INSTANCE_READY), "False/InvalidSpec", "{region}");

        let scene = Scene::new();
        let network = NETWORK.replace("region: eu-west-1", &format!("region: '{region}'"));
        scene.kubernetes.publish_network("dev", &network);
        let pass = unasked(&scene).await;
        assert_eq!(pass.condition(ConditionType::NetworkReady), "False/InvalidSpec", "{region}");
        scene.delete();
        assert!(scene.pass().await.machine.is_none(), "its deletion ends: nothing was launched");
        assert!(scene.aws.regions().is_empty(), "{region}");
    }
}

#[tokio::test]
async fn a_secret_without_bootstrap_data_is_not_delivered() {
    for (secret, more) in [
        ("dev-kubeconfig", ""),
        ("dev-ca", ""),
        ("dev-kubeconfig", ", configRef: {apiGroup: bootstrap.example.org, kind: Config, name: dev-kubeconfig}"),
    ] {
        let scene = Scene::new();
        scene.kubernetes.put_secret("team-a", secret, &[("value", "hunter2")]);
        boot_from(&scene, secret, more);
        let pass = unasked(&scene).await;
        assert_eq!(pass.condition(BOOTSTRAP), "False/NotAllowed", "{secret}");
        assert!(pass.message(BOOTSTRAP).contains(secret), "{}", pass.message(BOOTSTRAP));
        assert!(!format!("{:?}", scene.machine("m")).contains("hunter2"));
        assert_eq!(pass.next, Next::Retry, "the Secret is not watched");
    }
}

#[tokio::test]
async fn a_secret_name_that_is_a_path_is_refused() {
    let scene = Scene::new();
    let path = "../../kube-system/secrets/x";
    scene.kubernetes.put_secret("team-a", path, &[("value", "hunter2")]);
    boot_from(&scene, path, "");
    let pass = unasked(&scene).await;
    assert_eq!(pass.condition(BOOTSTRAP), "False/InvalidSpec");
    assert!(pass.message(BOOTSTRAP).contains(path), "{}", pass.message(BOOTSTRAP));
}

#[tokio::test]
async fn a_refusal_names_the_identity_and_not_the_managers_role() {
    let scene = Scene::new();
    let words = "User: arn:aws:sts::111122223333:assumed-role/capa-manager/i-0 is not authorized to perform: \
                 ec2:RunInstances";
    let refusal = CloudError::answered("RunInstances", "UnauthorizedOperation", words);
    scene.aws.fail_next("RunInstances", refusal);
    let pass = scene.pass().await;
    assert_eq!(pass.condition(INSTANCE_READY), "False/Unauthorized");
    let message = pass.message(INSTANCE_READY);
    let expected = "AWSClusterControllerIdentity/default lacks the permission ec2:RunInstances in eu-west-1";
    assert!(message.starts_with(expected), "{message}");
    assert!(message.contains("RunInstances: UnauthorizedOperation"), "{message}");
    let told = format!("{:?} {:?}", pass.machine(), pass.events);
    assert!(!told.contains("arn:aws:sts"), "{told}");
}

/// Adds the annotation of `clusterctl move` to the machine.
fn mark_for_move(scene: &Scene) {
    scene.annotate(meta::DELETE_FOR_MOVE_ANNOTATION, "");
}

#[tokio::test]
async fn a_left_over_move_annotation_freezes_no_machine() {
    let scene = Scene::new();
    mark_for_move(&scene);
    let pass = scene.pass().await;
    assert_eq!(scene.aws.launches().len(), 1, "it is launched as any other");
    assert_eq!(pass.condition(ConditionType::Paused), "False/MoveInterrupted");
    let message = pass.message(ConditionType::Paused);
    assert!(message.contains(meta::DELETE_FOR_MOVE_ANNOTATION), "{message}");
    assert!(pass.reasons_of_events().contains(&"MoveInterrupted"), "{:?}", pass.events);
    scene.edit(|machine| machine.annotations_mut().clear());
    assert_eq!(scene.pass().await.condition(ConditionType::Paused), "False/NotPaused");
}

#[tokio::test]
async fn a_machine_marked_for_a_move_is_paused_with_its_cluster() {
    let scene = Scene::running().await;
    mark_for_move(&scene);
    let mut cluster: Cluster = read(CLUSTER);
    cluster.spec.paused = Some(true);
    scene.kubernetes.put_cluster(cluster);
    let pass = scene.pass().await;
    assert_eq!(pass.calls, ["write_status"]);
    assert_eq!(pass.condition(ConditionType::Paused), "True/Paused");
}

#[tokio::test]
async fn a_machine_marked_for_a_move_stays_ready() {
    let scene = Scene::running().await;
    mark_for_move(&scene);
    assert_eq!(scene.pass().await.condition(ConditionType::Ready), "True/Ready", "a MachineHealthCheck looks at it");
}
