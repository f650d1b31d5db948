//! Tests of the requirements of a launch.

use capa_api::common::IdentityReference;
use capa_api::conditions::ConditionType;
use capa_api::machine::LaunchRecord;
use capa_api::meta;
use capa_cloud::Timing;
use capa_runtime::reconcile::Next;
use kube::ResourceExt;

use super::{CLUSTER, FIRST, LAUNCH, NETWORK, SPEC, Scene};
use crate::kubernetes_api::SourceOutcome;
use crate::testing::{FakeSource, read, refused, unreadable};

const INSTANCE_READY: ConditionType = ConditionType::InstanceReady;
const NETWORK_READY: ConditionType = ConditionType::NetworkReady;

/// Runs two passes. The second pass makes no calls, and no instance is launched.
async fn assert_waits(scene: &Scene, condition: ConditionType, expected: &str, next: Next) {
    let first = scene.pass().await;
    assert_eq!(first.condition(condition), expected);
    assert_eq!(first.condition(ConditionType::Ready), expected, "Ready repeats what is waited for");
    assert_eq!(first.next, next, "{expected}");
    let again = scene.pass().await;
    assert_eq!(again.calls, [""; 0], "{expected}");
    assert!(scene.aws.launches().is_empty());
}

#[tokio::test]
async fn waits_follow_each_other_until_the_machine_is_launched() {
    let scene = Scene::new();
    let ready: capa_api::contract::Cluster = read(CLUSTER);
    scene.kubernetes.remove_cluster("team-a", "dev");
    assert_waits(&scene, INSTANCE_READY, "False/WaitingForOwnerCluster", Next::AwaitChange).await;
    let mut unprovisioned = ready.clone();
    unprovisioned.status = None;
    scene.kubernetes.put_cluster(unprovisioned);
    let expected = "False/WaitingForClusterInfrastructure";
    assert_waits(&scene, INSTANCE_READY, expected, Next::AwaitChange).await;
    scene.kubernetes.put_cluster(ready);

    let mut machine: capa_api::contract::Machine =
        scene.context.kubernetes.machine("team-a", "m").unwrap().as_ref().clone();
    machine.spec.bootstrap.data_secret_name = None;
    scene.kubernetes.put_machine(machine.clone());
    let bootstrap = ConditionType::BootstrapDataReady;
    assert_waits(&scene, bootstrap, "False/WaitingForBootstrapData", Next::AwaitChange).await;
    machine.spec.bootstrap.data_secret_name = Some("late".into());
    scene.kubernetes.put_machine(machine);
    assert_waits(&scene, bootstrap, "False/WaitingForBootstrapData", Next::Retry).await;
    scene.kubernetes.put_secret("team-a", "late", &[("value", "#cloud-config")]);

    scene.kubernetes.put_source("dev", FakeSource::unpublished());
    assert_waits(&scene, NETWORK_READY, "False/NotReady", Next::Retry).await;
    scene.kubernetes.publish_network("dev", NETWORK);

    let default = IdentityReference::controller_default();
    scene.kubernetes.remove_identity(&default);
    assert_waits(&scene, ConditionType::IdentityReady, "False/NotFound", Next::Retry).await;
    let spec = "allowedNamespaces: {}";
    scene.kubernetes.identity_object("AWSClusterControllerIdentity", "default", spec);

    let launched = scene.pass().await;
    assert_eq!(launched.calls, LAUNCH[2..]);
    for condition in [bootstrap, NETWORK_READY, ConditionType::IdentityReady] {
        assert_eq!(launched.condition(condition), "True/Ready");
    }
}

#[tokio::test]
async fn the_status_does_not_change_during_a_slow_read() {
    let scene = Scene::new();
    scene.kubernetes.hold_source("dev");
    let first = scene.pass().await;
    assert_eq!(first.calls, ["write_status", "add_finalizer"], "what comes before the read");
    // The back-off of a call that fails goes on after the read.
    let put_off = Next::Deferred(Timing::default().source_retry_cap);
    assert_eq!((first.next, first.status().conditions.len()), (put_off, 0));
    assert_eq!(scene.pass().await.calls, [""; 0]);
    scene.kubernetes.publish_network("dev", NETWORK);
    assert_eq!(scene.pass().await.calls, LAUNCH[2..]);
}

#[tokio::test]
async fn a_running_machine_is_followed_during_a_slow_read() {
    let scene = Scene::running().await;
    scene.kubernetes.hold_source("dev");
    assert_eq!(scene.pass().await.condition(ConditionType::Ready), "True/Ready");
    scene.aws.set_instance_state(FIRST, capa_api::machine::InstanceState::Stopped);
    assert_eq!(scene.pass().await.condition(INSTANCE_READY), "False/Stopped");
}

#[tokio::test]
async fn the_planned_record_is_stored_before_the_finalizer() {
    let scene = Scene::new();
    scene.kubernetes.put_source("dev", FakeSource::unpublished());
    let first = scene.pass().await;
    assert_eq!(first.calls, ["write_status", "add_finalizer", "write_status"]);
    assert_eq!(first.machine().finalizers(), [meta::MACHINE_FINALIZER]);
    assert_eq!(first.launch(), &LaunchRecord::Planned);
}

#[tokio::test]
async fn a_new_machine_is_launched_after_a_broken_first_pass() {
    for (broken_off_at, writes) in [("add_finalizer", 0), ("write_status", 1)] {
        let scene = Scene::new();
        scene.kubernetes.fail_after(writes, broken_off_at);
        assert!(scene.pass_over("m").await.is_err());
        scene.pass().await;
        assert_eq!(scene.tokens(), ["uid-m-1"], "broken off at {broken_off_at}");
    }
}

#[tokio::test]
async fn a_machine_with_finalizer_and_no_record_gets_no_planned_one() {
    let scene = Scene::new();
    scene.edit(|machine| machine.finalizers_mut().push(meta::MACHINE_FINALIZER.into()));
    scene.kubernetes.put_source("dev", FakeSource::unpublished());
    assert_eq!(scene.pass().await.status().launch, None);
}

#[tokio::test]
async fn an_unusable_infrastructure_object_shows_the_reason() {
    let wrong_type = FakeSource::published(&read("{region: [hunter2]}"));
    let table = [
        (SourceOutcome::NotFound.into(), "False/NotFound"),
        (SourceOutcome::NoKindMatch.into(), "False/NoKindMatch"),
        (SourceOutcome::Forbidden.into(), "False/Forbidden"),
        (wrong_type, "False/WrongType"),
        (unreadable().into(), "False/Failed"),
        (SourceOutcome::Undescribed.into(), "False/MissingField"),
    ];
    for (infrastructure, expected) in table {
        let scene = Scene::new();
        scene.kubernetes.put_source("dev", infrastructure);
        assert_waits(&scene, NETWORK_READY, expected, Next::Retry).await;
        assert!(!format!("{:?}", scene.machine("m")).contains("hunter2"), "{expected}");
    }
}

#[tokio::test]
async fn a_network_without_a_usable_subnet_shows_the_reason() {
    let table = [
        (
            "{region: eu-west-1, subnets: [{id: subnet-0000000a, availabilityZone: eu-west-1a}]}",
            "False/NoSecurityGroup",
        ),
        ("{region: eu-west-1, securityGroups: {all: [sg-0000000a]}}", "False/MissingField"),
        (
            "{region: eu-west-1, securityGroups: {all: [sg-0000000a]}, \
              subnets: [{id: subnet-0000000a, availabilityZone: eu-west-1a, roles: [ControlPlane]}]}",
            "False/NoSubnetInFailureDomain",
        ),
        ("{region: eu-west-1, additionalTags: {MachineName: other/machine}}", "False/Conflict"),
    ];
    for (network, expected) in table {
        let scene = Scene::new();
        scene.kubernetes.publish_network("dev", network);
        let pass = scene.pass().await;
        assert_eq!(pass.condition(NETWORK_READY), expected, "{network}");
        assert!(scene.aws.launches().is_empty(), "{network}");
    }
}

#[tokio::test]
async fn an_unknown_kind_supplies_placement_and_no_authority() {
    let scene = Scene::new();
    let made_up = CLUSTER.replace("kind: AWSCluster", "kind: Landscape").replace(meta::GROUP, "example.org");
    scene.kubernetes.put_cluster(read(&made_up));
    let identity = "identityRef: {kind: AWSClusterControllerIdentity, name: default}";
    let with_authority = NETWORK.replacen('{', &format!("{{{identity}, "), 1);
    scene.kubernetes.publish_network("dev", &with_authority);
    assert_waits(&scene, NETWORK_READY, "False/AuthorityNotAllowed", Next::Retry).await;
    scene.kubernetes.publish_network("dev", NETWORK);
    let launched = scene.pass().await;
    let in_use = launched.status().network.as_ref().unwrap();
    assert_eq!(in_use.sources["subnets"], "Landscape/dev");
}

#[tokio::test]
async fn a_machine_of_a_cluster_without_infrastructure_brings_its_own() {
    let spec = format!(
        "{SPEC}, region: us-east-1, subnet: {{id: subnet-0000000b}}, additionalSecurityGroups: [{{id: sg-0000000d}}]"
    );
    let scene = Scene::with_spec(&spec);
    let there = scene.aws.in_region("us-east-1");
    there.subnet("subnet-0000000b", "vpc-00000001", "us-east-1b");
    there.security_group("sg-0000000d", "vpc-00000001");
    there.image("ami-00000001", "/dev/sda1");
    let mut cluster: capa_api::contract::Cluster = read(CLUSTER);
    cluster.spec.infrastructure_ref = None;
    scene.kubernetes.put_cluster(cluster);
    let launched = scene.pass().await;
    assert_eq!(scene.aws.regions()[0], "us-east-1");
    let request = &scene.aws.launches()[0];
    assert_eq!(request.subnet_id, "subnet-0000000b");
    assert_eq!(request.security_group_ids, ["sg-0000000d"]);
    let in_use = launched.status().network.as_ref().unwrap();
    assert_eq!(in_use.sources["region"], "AWSMachine/m");
    assert_eq!(in_use.availability_zone.as_deref(), Some("us-east-1b"), "looked up");
}

#[tokio::test]
async fn filters_that_match_nothing_stop_the_launch() {
    for reference in [
        "subnet: {filters: [{name: vpc-id, values: [vpc-0000000f]}]}",
        "additionalSecurityGroups: [{filters: [{name: vpc-id, values: [vpc-0000000f]}]}]",
    ] {
        let scene = Scene::with_spec(&format!("{SPEC}, {reference}"));
        let pass = scene.pass().await;
        assert_eq!(pass.condition(NETWORK_READY), "False/NotFound", "{reference}");
        assert!(scene.aws.launches().is_empty());
    }
}

#[tokio::test]
async fn subnet_and_groups_are_found_by_filters() {
    let spec = format!(
        "{SPEC}, subnet: {{filters: [{{name: availability-zone, values: [eu-west-1b]}}]}}, \
         additionalSecurityGroups: [{{filters: [{{name: vpc-id, values: [vpc-00000001]}}]}}]"
    );
    let scene = Scene::with_spec(&spec);
    scene.aws.security_group("sg-0000000e", "vpc-00000001");
    scene.pass().await;
    let request = &scene.aws.launches()[0];
    assert_eq!(request.subnet_id, "subnet-0000000b");
    assert_eq!(request.security_group_ids, ["sg-0000000a", "sg-0000000e"]);
}

#[tokio::test]
async fn a_subnet_that_is_named_by_id_and_by_filters_must_match_both() {
    for (id, zone, expected) in [
        ("subnet-0000000b", "eu-west-1b", Some("subnet-0000000b")),
        ("subnet-0000000b", "eu-west-1a", None),
        ("subnet-0000000f", "eu-west-1b", None),
    ] {
        let spec = format!("{SPEC}, subnet: {{id: {id}, filters: [{{name: availability-zone, values: [{zone}]}}]}}");
        let scene = Scene::with_spec(&spec);
        let pass = scene.pass().await;
        let launches = scene.aws.launches();
        assert_eq!(launches.first().map(|launch| launch.subnet_id.as_str()), expected, "{id} in {zone}");
        if expected.is_none() {
            assert_eq!(pass.condition(NETWORK_READY), "False/NotFound");
            let said = pass.message(NETWORK_READY);
            assert!(said.contains(id) && said.contains("spec.subnet.filters"), "{said}");
        }
    }
}

#[tokio::test]
async fn an_incomplete_spec_is_refused_before_aws_is_asked() {
    for (set, said) in [
        ("subnet: {}", "subnet has neither id nor filters"),
        ("securityGroupOverrides: {controlPlane: sg-0000000b}", "controlPlane is no role"),
        ("securityGroupOverrides: {bastion: sg-0000000b}", "concerns no machine"),
        ("securityGroupOverrides: {lb: sg-0000000b}", "name node as well"),
    ] {
        let scene = Scene::with_spec(&format!("{SPEC}, {set}"));
        let pass = scene.pass().await;
        assert_eq!(pass.condition(INSTANCE_READY), "False/InvalidSpec", "{set}");
        let message = pass.message(INSTANCE_READY);
        assert!(message.contains(said), "{set}: {message}");
        assert!(scene.aws.regions().is_empty(), "AWS is not even reached for");
    }
}

#[tokio::test]
async fn a_configured_root_volume_needs_the_image_device() {
    let scene = Scene::with_spec(&format!("{SPEC}, rootVolume: {{size: 40}}"));
    scene.aws.remove("ami-00000001");
    let missing = scene.pass().await;
    assert_eq!(missing.condition(INSTANCE_READY), "False/NotFound");
    assert!(missing.message(INSTANCE_READY).contains("ami-00000001"));
    scene.aws.image("ami-00000001", "/dev/xvda");
    scene.pass().await;
    let root = scene.aws.launches()[0].root_volume.clone().unwrap();
    assert_eq!((root.device_name.as_deref(), root.size), (Some("/dev/xvda"), 40));
}

#[tokio::test]
async fn credentials_that_aws_refuses_are_a_condition() {
    let scene = Scene::new();
    scene.aws.fail_next("GetCallerIdentity", refused("GetCallerIdentity", "ExpiredToken"));
    let pass = scene.pass().await;
    assert_eq!(pass.condition(ConditionType::IdentityReady), "False/CredentialsFailed");
    assert_eq!(pass.next, Next::Retry);
}

#[tokio::test]
async fn a_pause_changes_the_paused_condition_and_nothing_else() {
    let scene = Scene::running().await;
    let before = scene.machine("m").unwrap().status.unwrap();
    let mut cluster: capa_api::contract::Cluster = read(CLUSTER);
    cluster.spec.paused = Some(true);
    scene.kubernetes.put_cluster(cluster);
    scene.aws.set_instance_state(super::FIRST, capa_api::machine::InstanceState::Stopped);
    for deleted in [false, true] {
        if deleted {
            scene.delete();
        }
        let paused = scene.pass().await;
        assert_eq!(paused.condition(ConditionType::Paused), "True/Paused");
        let mut status = paused.status().clone();
        status.conditions.clone_from(&before.conditions);
        assert_eq!(status, before);
        assert_eq!(paused.calls, ["write_status"; 1][usize::from(deleted)..], "AWS is left alone");
        assert!(!scene.aws.forgotten().is_empty(), "the informer stops following the instance");
    }
}

#[tokio::test]
async fn a_paused_machine_gets_no_finalizer() {
    for by_annotation in [true, false] {
        let scene = Scene::new();
        if by_annotation {
            scene.annotate(meta::PAUSED_ANNOTATION, "false");
        } else {
            let mut cluster: capa_api::contract::Cluster = read(CLUSTER);
            cluster.spec.paused = Some(true);
            scene.kubernetes.put_cluster(cluster);
        }
        let before = scene.machine("m").unwrap();
        let paused = scene.pass().await;
        assert_eq!(paused.condition(ConditionType::Paused), "True/Paused");
        let by_whom = if by_annotation {
            "AWSMachine has the cluster.x-k8s.io/paused annotation"
        } else {
            "Cluster spec.paused is set to true"
        };
        assert_eq!(paused.message(ConditionType::Paused), by_whom);
        assert_eq!(paused.calls, ["write_status"]);
        assert_eq!(paused.machine().finalizers(), [""; 0]);
        assert_eq!(paused.machine().spec, before.spec);
    }
}

#[tokio::test]
async fn a_machine_that_is_being_moved_is_left_alone() {
    let scene = Scene::running().await;
    scene.annotate(meta::DELETE_FOR_MOVE_ANNOTATION, "");
    scene.delete();
    let pass = scene.pass().await;
    assert_eq!(pass.calls, ["remove_finalizer"], "AWS is not even asked");
    assert!(pass.machine.is_none(), "nothing waits for ever");
    assert_eq!(pass.reasons_of_events(), ["InstanceAbandoned"]);
    assert!(pass.events[0].message.contains(FIRST), "{:?}", pass.events);
}
