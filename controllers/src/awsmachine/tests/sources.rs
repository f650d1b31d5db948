//! The network of machines from `spec.networkSources`.

use capa_api::conditions::ConditionType::NetworkReady;
use serde_json::json;

use super::{SPEC, Scene};
use crate::kubernetes_api::SourceOutcome;
use crate::testing::{FakeSource, read};

/// A spec with one ConfigMap as its source.
const SOURCES: &str = "networkSources: [{kind: ConfigMap, name: network}]";

/// A Cluster whose infrastructure object does not describe a network.
const UNDER_FOREIGN_KIND: &str = "{apiVersion: cluster.x-k8s.io/v1beta2, kind: Cluster, metadata: {name: dev, \
    namespace: team-a}, spec: {infrastructureRef: {apiGroup: example.org, kind: Landscape, name: dev}}, \
    status: {initialization: {infrastructureProvisioned: true}}}";

/// A ConfigMap with the document of the contract.
fn config_map(subnet: &str, more: &str) -> FakeSource {
    let network = format!(
        "{{region: eu-west-1, clusterTag: dev, subnets: [{{id: {subnet}, availabilityZone: eu-west-1a}}], \
         securityGroups: {{all: [sg-0000000a]}}{more}}}"
    );
    FakeSource::Object(json!({"data": {"network.yaml": network}}))
}

/// A machine under an infrastructure object that says nothing about networks.
fn scene(sources: &str) -> Scene {
    let scene = Scene::with_spec(&format!("{SPEC}, {sources}"));
    scene.kubernetes.put_cluster(read(UNDER_FOREIGN_KIND));
    scene.kubernetes.put_source("dev", SourceOutcome::Undescribed);
    scene
}

#[tokio::test]
async fn a_config_map_places_a_machine_under_a_foreign_kind() {
    let scene = scene(SOURCES);
    scene.kubernetes.put_source("network", config_map("subnet-0000000b", ""));
    let pass = scene.pass().await;
    assert_eq!(scene.aws.launches()[0].subnet_id, "subnet-0000000b");
    let network = pass.status().network.as_ref().unwrap();
    for field in ["region", "subnets", "securityGroups.all"] {
        assert_eq!(network.sources[field], "ConfigMap/network", "{field}");
    }
}

#[tokio::test]
async fn an_earlier_source_wins_whole_fields() {
    let scene = scene("networkSources: [{kind: ConfigMap, name: first}, {kind: ConfigMap, name: second}]");
    let first = json!({"data": {"subnets": "[{\"id\": \"subnet-0000000b\"}]"}});
    scene.kubernetes.put_source("first", FakeSource::Object(first));
    scene.kubernetes.put_source("second", config_map("subnet-0000000a", ""));
    let pass = scene.pass().await;
    assert_eq!(scene.aws.launches()[0].subnet_id, "subnet-0000000b");
    let sources = &pass.status().network.as_ref().unwrap().sources;
    assert_eq!(sources["subnets"], "ConfigMap/first");
    assert_eq!(sources["region"], "ConfigMap/second");
}

#[tokio::test]
async fn an_unusable_source_is_not_replaced_by_the_infrastructure() {
    let table = [
        (SourceOutcome::NotFound, "False/NotFound"),
        (SourceOutcome::NoKindMatch, "False/NoKindMatch"),
        (SourceOutcome::Forbidden, "False/Forbidden"),
        (SourceOutcome::Undescribed, "False/NotFound"),
        (SourceOutcome::NoMapping, "False/NotFound"),
    ];
    for (outcome, expected) in table {
        // The infrastructure object of this scene publishes a complete network.
        let scene = Scene::with_spec(&format!("{SPEC}, {SOURCES}"));
        scene.kubernetes.put_source("network", outcome);
        let pass = scene.pass().await;
        assert_eq!(pass.condition(NetworkReady), expected);
        assert!(scene.aws.launches().is_empty(), "{expected}");
    }
}

#[tokio::test]
async fn a_source_that_the_machine_does_not_need_stops_nothing() {
    let own = "region: eu-west-1, subnet: {id: subnet-0000000a}, securityGroupOverrides: {node: sg-0000000a}";
    let group = "{apiGroup: ec2.services.k8s.aws, kind: VPC, name: gone}";
    let scene = scene(&format!("{own}, networkSources: [{group}]"));
    scene.kubernetes.put_source("gone", SourceOutcome::NotFound);
    let pass = scene.pass().await;
    assert_eq!(pass.condition(NetworkReady), "False/NotFound", "the VPC is still lacking");
    let subnet = "{apiGroup: ec2.services.k8s.aws, kind: Subnet, name: gone}";
    let scene = self::scene(&format!("{own}, networkSources: [{subnet}]"));
    scene.kubernetes.put_source("gone", SourceOutcome::NotFound);
    scene.pass().await;
    assert_eq!(scene.aws.launches().len(), 1, "the spec has a subnet of its own");
}

#[tokio::test]
async fn an_aws_cluster_that_cannot_be_read_might_have_the_identity() {
    let whole_placement = "{region: eu-west-1, clusterTag: dev, vpc: {id: vpc-00000001}, sshKeyName: key, \
        subnets: [{id: subnet-0000000a, availabilityZone: eu-west-1a}], additionalTags: {team: a}, \
        securityGroups: {all: [sg-0000000a], controlPlane: [sg-0000000a], worker: [sg-0000000a]}, \
        imageLookup: {org: '111122223333'}}";
    let under_aws_cluster = Scene::with_spec(&format!("{SPEC}, {SOURCES}"));
    for (scene, launches) in [(under_aws_cluster, 0), (scene(SOURCES), 1)] {
        let network = FakeSource::Object(json!({"data": {"network.yaml": whole_placement}}));
        scene.kubernetes.put_source("network", network);
        scene.kubernetes.put_source("dev", SourceOutcome::Forbidden);
        let pass = scene.pass().await;
        assert_eq!(pass.condition(NetworkReady) == "False/Forbidden", launches == 0);
        assert_eq!(scene.aws.launches().len(), launches);
    }
}

#[tokio::test]
async fn sources_of_another_role_are_not_read() {
    let scene =
        scene(&format!("{}, {{kind: ConfigMap, name: gone, role: ControlPlane}}]", SOURCES.trim_end_matches(']')));
    scene.kubernetes.put_source("network", config_map("subnet-0000000b", ""));
    scene.pass().await;
    assert_eq!(scene.aws.launches().len(), 1);
}

#[tokio::test]
async fn a_config_map_never_names_a_role_a_bucket_or_a_target_group() {
    let table = [
        ("identityRef: {kind: AWSClusterRoleIdentity, name: admin}", "identityRef"),
        ("instanceProfiles: {worker: admin}", "instanceProfiles"),
        ("bootstrapStorage: {s3: {bucket: admin}}", "bootstrapStorage"),
        ("controlPlaneTargets: [{classicLoadBalancerName: admin}]", "controlPlaneTargets"),
    ];
    for (authority, field) in table {
        let scene = scene(SOURCES);
        let map = config_map("subnet-0000000b", &format!(", {authority}"));
        scene.kubernetes.put_source("network", map);
        let pass = scene.pass().await;
        assert_eq!(pass.condition(NetworkReady), "False/AuthorityNotAllowed", "{field}");
        let message = pass.message(NetworkReady);
        assert!(message.contains(field) && !message.contains("admin"), "{message}");
        assert!(scene.aws.launches().is_empty(), "{field}");
    }
}

#[tokio::test]
async fn system_tags_of_a_source_are_refused() {
    let keys = ["sigs.k8s.io/cluster-api-provider-aws/cluster/other", "kubernetes.io/cluster/other", "MachineName"];
    for key in keys {
        let scene = scene(SOURCES);
        let map = config_map("subnet-0000000b", &format!(", additionalTags: {{'{key}': owned}}"));
        scene.kubernetes.put_source("network", map);
        let pass = scene.pass().await;
        assert_eq!(pass.condition(NetworkReady), "False/Conflict", "{key}");
        assert!(scene.aws.launches().is_empty(), "{key}");
    }
}

#[tokio::test]
async fn a_source_swapped_after_the_record_changes_no_launch() {
    let scene = scene(SOURCES);
    scene.kubernetes.put_source("network", config_map("subnet-0000000a", ""));
    scene.unanswered_launch().await;
    scene.kubernetes.put_source("network", config_map("subnet-0000000b", ""));
    scene.after(super::RETRY).await;
    let launches = scene.aws.launches();
    assert!(!launches.is_empty());
    assert!(launches.iter().all(|launch| launch.subnet_id == "subnet-0000000a"));
}

#[tokio::test]
async fn a_running_machine_survives_its_source_and_can_be_deleted() {
    let scene = scene(SOURCES);
    scene.kubernetes.put_source("network", config_map("subnet-0000000a", ""));
    let scene = scene.run().await;
    scene.kubernetes.put_source("network", SourceOutcome::NotFound);
    let pass = scene.pass().await;
    assert_eq!(pass.condition(capa_api::conditions::ConditionType::Ready), "True/Ready");
    let gone = scene.delete_with_instance().await;
    assert!(gone.machine.is_none(), "the machine is released without its source");
}
