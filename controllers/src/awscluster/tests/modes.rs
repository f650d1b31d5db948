//! Tests of ownership, modes and pausing.

use capa_api::conditions::ConditionType;
use capa_api::meta;
use capa_runtime::reconcile::Next;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;

use super::{LOOKUP, NETWORK, Scene, aws_cluster, owner};
use crate::testing::fields::laid_over;
use crate::testing::read;

#[tokio::test]
async fn a_cluster_without_owner_waits_and_makes_no_aws_call() {
    let scene = Scene::new();
    let mut orphan = aws_cluster(NETWORK);
    orphan.metadata.owner_references = None;
    let gone = {
        let mut cluster = aws_cluster(NETWORK);
        cluster.owner_references_mut()[0].name = "deleted".into();
        cluster
    };
    for cluster in [orphan, gone] {
        let pass = scene.pass(&cluster).await;
        assert_eq!(pass.condition(ConditionType::Ready), "False/WaitingForOwnerCluster");
        assert_eq!(pass.calls, [""; 0]);
        assert!(!pass.status().provisioned());
    }
}

#[tokio::test]
async fn a_pause_changes_the_paused_condition_and_nothing_else() {
    let scene = Scene::new();
    let before = scene.pass(&aws_cluster(NETWORK)).await;
    let mut annotated = before.cluster.clone();
    let annotations = annotated.annotations_mut();
    annotations.insert(meta::PAUSED_ANNOTATION.into(), String::new());
    let by_annotation = scene.pass(&annotated).await;
    scene.kubernetes.put_cluster(owner("{paused: true}"));
    let by_cluster = scene.pass(&before.cluster).await;
    let by_whom = ["AWSCluster has the cluster.x-k8s.io/paused annotation", "Cluster spec.paused is set to true"];
    for (paused, by_whom) in [by_annotation, by_cluster].into_iter().zip(by_whom) {
        assert_eq!(paused.condition(ConditionType::Paused), "True/Paused");
        assert_eq!(paused.message(ConditionType::Paused), by_whom);
        assert_eq!(paused.calls, [""; 0]);
        let mut status = paused.status().clone();
        let unpaused = before.status().conditions.iter();
        status.conditions.retain(|condition| condition.type_ != "Paused");
        let unpaused: Vec<_> = unpaused.filter(|condition| condition.type_ != "Paused").collect();
        assert_eq!(status.conditions.iter().collect::<Vec<_>>(), unpaused);
        status.conditions.clone_from(&before.status().conditions);
        assert_eq!(&status, before.status());
    }
    scene.kubernetes.put_cluster(owner("{}"));
    let resumed = scene.pass(&before.cluster).await;
    assert_eq!(resumed.condition(ConditionType::Paused), "False/NotPaused");
    assert_eq!(resumed.message(ConditionType::Paused), "");
}

#[tokio::test]
async fn an_externally_managed_cluster_only_loses_our_finalizer() {
    let scene = Scene::new();
    let mut cluster = aws_cluster(NETWORK);
    let annotations = cluster.annotations_mut();
    annotations.insert(meta::MANAGED_BY_ANNOTATION.into(), "somebody".into());
    let untouched = scene.pass(&cluster).await;
    assert_eq!((untouched.wrote, untouched.calls), (false, vec![]));

    cluster.finalizers_mut().push(meta::CLUSTER_FINALIZER.into());
    cluster.finalizers_mut().push("example.org/theirs".into());
    let released = scene.pass(&cluster).await;
    assert_eq!(released.calls, ["remove_finalizer"]);
    assert_eq!(released.cluster.finalizers(), ["example.org/theirs"]);
    assert!(!released.wrote);
}

#[tokio::test]
async fn a_paused_cluster_keeps_the_finalizer_under_another_manager() {
    for by_annotation in [true, false] {
        let scene = Scene::new();
        let mut cluster = aws_cluster(NETWORK);
        cluster.finalizers_mut().push(meta::CLUSTER_FINALIZER.into());
        let annotations = cluster.annotations_mut();
        annotations.insert(meta::MANAGED_BY_ANNOTATION.into(), "somebody".into());
        if by_annotation {
            annotations.insert(meta::PAUSED_ANNOTATION.into(), String::new());
        } else {
            scene.kubernetes.put_cluster(super::owner("{paused: true}"));
        }
        let paused = scene.pass(&cluster).await;
        assert_eq!((paused.wrote, paused.calls), (false, vec![]));
    }
}

#[tokio::test]
async fn ready_but_unprovisioned_external_clusters_get_one_warning() {
    let scene = Scene::new();
    let mut cluster = aws_cluster(NETWORK);
    let annotations = cluster.annotations_mut();
    annotations.insert(meta::MANAGED_BY_ANNOTATION.into(), String::new());
    cluster.status.get_or_insert_default().ready = Some(true);
    let half = scene.pass(&cluster).await;
    assert_eq!(half.events.len(), 1);
    assert_eq!(half.events[0].reason, "ManagedByStatusIncomplete");
    assert_eq!(scene.pass(&cluster).await.events, [], "said once");
    cluster.metadata.generation = Some(2);
    assert_eq!(scene.pass(&cluster).await.events.len(), 1, "another spec, another warning");
    let status = cluster.status.get_or_insert_default();
    status.initialization.get_or_insert_default().provisioned = Some(true);
    assert_eq!(scene.pass(&cluster).await.events, []);
}

#[tokio::test]
async fn a_cluster_that_cannot_be_managed_yet_keeps_its_finalizer() {
    let scene = Scene::new();
    let mut cluster = aws_cluster("region: eu-west-1, network: {vpc: {ipv6: {}}}");
    cluster.finalizers_mut().push(meta::CLUSTER_FINALIZER.into());
    let pass = scene.pass(&cluster).await;
    assert_eq!(pass.condition(ConditionType::Ready), "False/NotManagedYet");
    assert!(pass.message(ConditionType::Ready).contains("spec.unmanaged: true"), "names what helps");
    assert_eq!(pass.events.len(), 1);
    assert_eq!((pass.events[0].warning, pass.events[0].reason.as_str()), (true, "NotManagedYet"));
    assert_eq!(pass.calls, [""; 0]);
    assert_eq!(pass.cluster.finalizers(), [meta::CLUSTER_FINALIZER]);
}

#[tokio::test]
async fn a_cluster_that_becomes_unmanaged_loses_its_finalizer() {
    let scene = Scene::new();
    let mut cluster = aws_cluster(NETWORK);
    cluster.finalizers_mut().push(meta::CLUSTER_FINALIZER.into());
    let pass = scene.pass(&cluster).await;
    assert_eq!(pass.calls[0], "remove_finalizer");
    assert_eq!(pass.calls[1..], LOOKUP);
    assert!(pass.status().provisioned());
}

#[tokio::test]
async fn a_cluster_with_machines_is_held_until_they_are_gone() {
    let scene = Scene::new();
    let machine = "{apiVersion: infrastructure.cluster.x-k8s.io/v1beta2, kind: AWSMachine, metadata: {name: m, \
                   namespace: team-a, labels: {cluster.x-k8s.io/cluster-name: dev}, finalizers: \
                   [awsmachine.infrastructure.cluster.x-k8s.io]}, spec: {instanceType: t3.large}}";
    scene.kubernetes.put_aws_machine(read(machine));
    let held = scene.pass(&aws_cluster(NETWORK)).await;
    assert_eq!(held.calls[0], "add_finalizer");
    assert_eq!(held.cluster.finalizers(), [meta::CLUSTER_FINALIZER]);
    assert_eq!(scene.pass(&held.cluster).await.calls, [""; 0], "it is held already");

    let mut deleted = held.cluster.clone();
    deleted.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
    let waiting = scene.pass(&deleted).await;
    assert_eq!(waiting.condition(ConditionType::Ready), "True/DeletionBlocked");
    let message = waiting.message(ConditionType::Ready);
    assert!(message.contains("until they are gone: m;"), "{message}");
    assert_eq!(waiting.calls, [""; 0]);
    assert_eq!(waiting.status().network, held.status().network, "the machines keep it");

    let unused = "{infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: AWSCluster, name: another}}";
    scene.kubernetes.put_cluster(owner(unused));
    let released = scene.pass(&waiting.cluster).await;
    assert_eq!(released.calls, ["remove_finalizer"], "the Cluster names another");

    scene.kubernetes.put_cluster(owner("{}"));
    let without_finalizer = machine.replace("awsmachine.infrastructure", "example");
    scene.kubernetes.put_aws_machine(read(&without_finalizer));
    let released = scene.pass(&waiting.cluster).await;
    assert_eq!(released.calls, ["remove_finalizer"]);
    assert!(released.cluster.finalizers().is_empty());
}

#[tokio::test]
async fn deletion_needs_nothing_from_us() {
    let scene = Scene::new();
    let mut deleted = scene.pass(&aws_cluster(NETWORK)).await.cluster;
    deleted.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
    let mut moved = aws_cluster(NETWORK);
    let annotations = moved.annotations_mut();
    annotations.insert(meta::DELETE_FOR_MOVE_ANNOTATION.into(), String::new());
    moved.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
    for cluster in [deleted, moved] {
        let pass = scene.pass(&cluster).await;
        assert_eq!((pass.wrote, pass.calls), (false, vec![]));
        assert_eq!(pass.next, Next::AwaitChange);
    }
}

#[tokio::test]
async fn a_moved_managed_cluster_only_loses_our_finalizer() {
    let scene = Scene::new();
    let mut moved = aws_cluster("region: eu-west-1");
    moved.finalizers_mut().push(meta::CLUSTER_FINALIZER.into());
    let annotations = moved.annotations_mut();
    annotations.insert(meta::DELETE_FOR_MOVE_ANNOTATION.into(), String::new());
    moved.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
    let pass = scene.pass(&moved).await;
    assert_eq!((pass.wrote, pass.calls), (false, vec!["remove_finalizer".to_owned()]));
}

#[tokio::test]
async fn a_mark_that_a_move_left_behind_freezes_no_cluster() {
    let scene = Scene::new();
    let mut marked = aws_cluster(NETWORK);
    let annotations = marked.annotations_mut();
    annotations.insert(meta::DELETE_FOR_MOVE_ANNOTATION.into(), String::new());
    let pass = scene.pass(&marked).await;
    assert!(pass.status().provisioned());
    assert_eq!(pass.condition(ConditionType::Paused), "False/MoveInterrupted");
    assert_eq!(pass.condition(ConditionType::Ready), "True/Ready");
    assert!(pass.events.iter().any(|event| event.warning && event.reason == "MoveInterrupted"));
    scene.kubernetes.put_cluster(owner("{paused: true}"));
    assert_eq!(scene.pass(&marked).await.condition(ConditionType::Paused), "True/Paused");
}

#[tokio::test]
async fn the_mark_of_a_move_keeps_the_status_of_another_controller() {
    let scene = Scene::new();
    let mut marked = aws_cluster("region: eu-west-1");
    let annotations = marked.annotations_mut();
    annotations.insert(meta::DELETE_FOR_MOVE_ANNOTATION.into(), String::new());
    let pass = scene.pass(&marked).await;
    assert_eq!(pass.condition(ConditionType::Paused), "False/MoveInterrupted");
    let types = pass.status().conditions.iter().map(|condition| condition.type_.as_str());
    assert_eq!(types.collect::<Vec<_>>(), [ConditionType::Paused.as_str()]);
}

#[tokio::test]
async fn the_endpoint_is_adopted_and_never_waited_for() {
    let scene = Scene::new();
    let endpoint = ConditionType::ControlPlaneEndpointReady;
    let without = scene.pass(&aws_cluster(NETWORK)).await;
    assert_eq!(without.condition(endpoint), "False/WaitingForEndpoint");
    assert_eq!(without.condition(ConditionType::Ready), "True/Ready");
    assert!(without.status().provisioned());
    assert_eq!(without.status().control_plane_endpoint, None);

    let own = format!("{NETWORK}, controlPlaneEndpoint: {{host: api, port: 6443}}");
    assert_eq!(scene.pass(&aws_cluster(&own)).await.condition(endpoint), "True/Ready");

    let of_the_cluster = owner("{controlPlaneEndpoint: {host: api, port: 6443}}");
    scene.kubernetes.put_cluster(of_the_cluster);
    let adopted = scene.pass(&without.cluster).await;
    assert_eq!(adopted.condition(endpoint), "True/Ready");
    let published = adopted.status().control_plane_endpoint.clone().unwrap();
    assert_eq!((published.host.as_str(), published.port), ("api", 6443));
    assert_eq!(adopted.cluster.spec, without.cluster.spec, "nothing is written to the spec");
}

#[tokio::test]
async fn ready_that_is_true_names_the_condition_in_trouble() {
    let scene = Scene::new();
    let waiting = scene.pass(&aws_cluster(NETWORK)).await;
    assert_eq!(waiting.condition(ConditionType::ControlPlaneEndpointReady), "False/WaitingForEndpoint");
    let ready = (waiting.condition(ConditionType::Ready), waiting.message(ConditionType::Ready));
    assert_eq!(ready, ("True/Ready".to_owned(), ""), "waiting is no trouble");

    let missing = laid_over(NETWORK, "network: {subnets: [{id: subnet-0000000a}, {id: subnet-0000000f}]}");
    let ignored = laid_over(&missing, "bastion: {enabled: true}");
    for (spec, end) in [(missing, ""), (ignored, "; of managed clusters only, ignored here: bastion")] {
        let pass = scene.edited(&waiting, &spec).await;
        assert_eq!(pass.condition(ConditionType::Ready), "True/NotFound");
        let message = pass.message(ConditionType::Ready);
        let named = "NetworkReady is False (NotFound): subnet subnet-0000000f does not exist";
        assert!(message.starts_with(named) && message.ends_with(end), "{message}");
    }
}
