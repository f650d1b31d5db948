//! The whole life of a cluster on infrastructure that the user brought: nothing is written to AWS, and little is read.

use std::collections::BTreeMap;

use anyhow::ensure;
use capa_e2e::{eventually, objects};
use serde_json::{Value, json};

use super::scenario::{CORE, REGION, Scenario, WITHIN};

/// One look at everything that the spec declares.
const LOOKUP: [&str; 4] = [
    "DescribeRouteTables",
    "DescribeSecurityGroups",
    "DescribeSubnets",
    "DescribeVpcs",
];

#[tokio::test]
async fn an_unmanaged_cluster_lives_and_dies_without_a_write_to_aws() -> anyhow::Result<()> {
    let scenario = Scenario::new("unmanaged").await?;
    let before = scenario.user.dump().await?;
    let manager = scenario.manager().await?;
    scenario.cluster("dev").await?;
    scenario
        .says("dev", "ControlPlaneEndpointReady", "False", "WaitingForEndpoint")
        .await?;
    let cluster = scenario.aws_cluster("dev").await?;
    assert_published(&scenario, &cluster.data["status"]);
    for condition in ["Ready", "IdentityReady", "NetworkReady"] {
        let condition = objects::condition(&cluster, condition).expect(condition);
        assert_eq!(
            (condition.status.as_str(), condition.reason.as_str()),
            ("True", "Ready")
        );
    }
    assert_eq!(scenario.calls(), lookups(1));

    scenario.reconciles_without_a_write(&manager, "dev", 100).await?;
    assert_eq!(scenario.calls(), lookups(1), "a complete lookup is not repeated");

    scenario
        .change("dev", json!({"spec": {"additionalTags": {"cost-centre": "42"}}}))
        .await?;
    published(&scenario, "additionalTags", json!({"cost-centre": "42"})).await?;
    assert_eq!(scenario.calls(), lookups(2));
    let subnets = &cluster.data["spec"]["network"]["subnets"];
    let mut subnets: Vec<Value> = subnets.as_array().cloned().unwrap_or_default();
    let public = &scenario.network.zones[0].public_subnet_id;
    subnets.push(json!({"id": public}));
    scenario
        .change("dev", json!({"spec": {"network": {"subnets": subnets}}}))
        .await?;
    eventually(WITHIN, "the added subnet to be published", async || {
        let status = scenario.aws_cluster("dev").await?.data["status"].take();
        let all = status["network"]["subnets"].as_array().cloned().unwrap_or_default();
        let added = json!({"id": public, "availabilityZone": "eu-west-1a", "public": true});
        ensure!(all.contains(&added), "the network is {}", status["network"]);
        Ok(())
    })
    .await?;
    assert_eq!(scenario.calls(), lookups(3), "one look a change of the spec");

    let metadata = scenario.aws_cluster("dev").await?.metadata;
    assert_eq!(metadata.generation, Some(3), "only the user has changed the spec");
    assert_eq!(metadata.finalizers, None);
    scenario.environment.delete(CORE, "Cluster", "dev", WITHIN).await?;
    assert_eq!(scenario.calls(), lookups(3), "deleting needs no look");
    assert_eq!(scenario.user.dump().await?, before, "the user's network is as it was");
    assert!(manager.stop().await?.success());
    scenario.environment.finish().await
}

#[tokio::test]
async fn with_preflight_disabled_aws_is_never_called() -> anyhow::Result<()> {
    let scenario = Scenario::new("disabled").await?;
    let manager = scenario.manager().await?;
    let disabled = scenario.unmanaged("dev", "  preflight: {mode: Disabled}");
    scenario.owned("dev", &disabled).await?;
    scenario.infrastructure_provisioned("dev").await?;
    let message = scenario.says("dev", "NetworkReady", "True", "Ready").await?;
    for subnet in scenario.network.private_subnet_ids() {
        assert!(message.contains(subnet), "{subnet} has no zone: {message}");
    }
    assert!(message.contains("availabilityZone"), "{message}");
    let status = scenario.aws_cluster("dev").await?.data["status"].take();
    assert_eq!(status["failureDomains"], Value::Null);
    assert_eq!(status["network"]["vpc"], json!({"id": scenario.network.vpc_id}));

    let subnets: Vec<Value> = scenario
        .network
        .zones
        .iter()
        .map(|zone| json!({"id": zone.private_subnet_id, "availabilityZone": zone.name}))
        .collect();
    scenario
        .change("dev", json!({"spec": {"network": {"subnets": subnets}}}))
        .await?;
    eventually(WITHIN, "failure domains", async || {
        let status = scenario.aws_cluster("dev").await?.data["status"].take();
        ensure!(status["failureDomains"] == three_zones(), "the status is {status}");
        Ok(())
    })
    .await?;
    assert_eq!(scenario.says("dev", "NetworkReady", "True", "Ready").await?, "");
    scenario.reconciles_without_a_write(&manager, "dev", 20).await?;
    scenario.environment.delete(CORE, "Cluster", "dev", WITHIN).await?;
    let journal = scenario.environment.aws().manager_journal();
    assert!(journal.is_empty(), "{journal}");
    assert!(manager.stop().await?.success());
    scenario.environment.finish().await
}

#[tokio::test]
async fn the_endpoint_is_adopted_from_cluster_or_spec() -> anyhow::Result<()> {
    let scenario = Scenario::new("endpoint").await?;
    let manager = scenario.manager().await?;
    let endpoint = json!({"spec": {"controlPlaneEndpoint": {"host": "api.example.org", "port": 6443}}});
    for (name, api_version, kind) in [
        ("by-cluster", CORE, "Cluster"),
        ("by-spec", super::scenario::OURS, "AWSCluster"),
    ] {
        scenario.cluster(name).await?;
        let message = scenario
            .says(name, "ControlPlaneEndpointReady", "False", "WaitingForEndpoint")
            .await?;
        assert!(message.contains("spec.controlPlaneEndpoint"), "{message}");
        scenario.says(name, "Ready", "True", "Ready").await?;
        scenario.patch(api_version, kind, name, endpoint.clone()).await?;
        scenario
            .says(name, "ControlPlaneEndpointReady", "True", "Ready")
            .await?;
    }
    let spec = scenario.aws_cluster("by-cluster").await?.data["spec"].take();
    assert_eq!(spec["controlPlaneEndpoint"], Value::Null, "the spec is the user's");
    eventually(WITHIN, "Cluster API to take the endpoint over", async || {
        let spec = scenario.get(CORE, "Cluster", "by-spec").await?.data["spec"].take();
        ensure!(
            spec["controlPlaneEndpoint"] == endpoint["spec"]["controlPlaneEndpoint"],
            "{spec}"
        );
        Ok(())
    })
    .await?;
    assert!(manager.stop().await?.success());
    scenario.environment.finish().await
}

/// What the status of an unmanaged cluster on three private subnets publishes.
fn assert_published(scenario: &Scenario, status: &Value) {
    let network = &scenario.network;
    assert_eq!(status["initialization"], json!({"provisioned": true}));
    assert_eq!(status["ready"], true);
    assert_eq!(status["failureDomains"], three_zones());
    let subnets: Vec<Value> = network
        .zones
        .iter()
        .map(|zone| json!({"id": zone.private_subnet_id, "availabilityZone": zone.name, "public": false}))
        .collect();
    let expected = json!({
        "region": REGION,
        "subnets": subnets,
        "securityGroups": {
            "all": [network.node_security_group_id],
            "controlPlane": [network.control_plane_security_group_id],
        },
        "vpc": {"id": network.vpc_id, "cidrBlocks": ["10.0.0.0/16"]},
        "clusterTag": "dev",
        "identityRef": {"kind": "AWSClusterControllerIdentity", "name": "default"},
    });
    assert_eq!(status["network"], expected);
}

fn three_zones() -> Value {
    ["eu-west-1a", "eu-west-1b", "eu-west-1c"]
        .map(|zone| json!({"name": zone, "controlPlane": true}))
        .into()
}

/// All that may have been called for this many lookups.
fn lookups(count: usize) -> BTreeMap<String, usize> {
    let describes = LOOKUP.map(|action| (action.to_owned(), count));
    describes
        .into_iter()
        .chain([("GetCallerIdentity".to_owned(), 1)])
        .collect()
}

/// Waits until a field of the published network has this value.
async fn published(scenario: &Scenario, field: &str, value: Value) -> anyhow::Result<()> {
    eventually(WITHIN, &format!("{field} to be published"), async || {
        let network = scenario.aws_cluster("dev").await?.data["status"]["network"].take();
        ensure!(network[field] == value, "the network is {network}");
        Ok(())
    })
    .await
}
