//! The whole life of a cluster on existing infrastructure: nothing is written to AWS, and little is read.

use anyhow::ensure;
use capa_e2e::{eventually, objects};
use serde_json::{Value, json};

use super::scenario::{CORE, REGION, Scenario, WITHIN, story};

/// The calls of a lookup of all declared resources.
const LOOKUP: [&str; 5] =
    ["DescribeRouteTables", "DescribeSecurityGroups", "DescribeSubnets", "DescribeVpcs", "GetCallerIdentity"];

/// The passes over a cluster that is looked up already.
const PASSES: u32 = 20;

#[test]
fn an_unmanaged_cluster_lives_and_dies_without_a_write_to_aws() -> anyhow::Result<()> {
    story("unmanaged", async |s| {
        let before = s.user.details().await?;
        s.cluster("dev").await?;
        s.await_condition("dev", "ControlPlaneEndpointReady", "False", "WaitingForEndpoint").await?;
        let cluster = s.aws_cluster("dev").await?;
        assert_published(s, &cluster.data["status"]);
        for condition in ["Ready", "IdentityReady", "NetworkReady"] {
            let condition = objects::condition(&cluster, condition).expect(condition);
            assert_eq!((condition.status.as_str(), condition.reason.as_str()), ("True", "Ready"));
        }
        assert_eq!(s.calls().into_keys().collect::<Vec<_>>(), LOOKUP);

        let looked_up = s.aws().mark();
        s.reconciles_without_a_write("dev", PASSES).await?;
        let again = s.aws().journal_since(looked_up).of("DescribeVpcs");
        assert!(again.len() < PASSES as usize / 2, "a complete lookup is not repeated: {again}");

        s.change("dev", json!({"spec": {"additionalTags": {"cost-centre": "42"}}})).await?;
        published(s, "additionalTags", json!({"cost-centre": "42"})).await?;
        let subnets = &cluster.data["spec"]["network"]["subnets"];
        let mut subnets: Vec<Value> = subnets.as_array().cloned().unwrap_or_default();
        let public = &s.network.zones[0].public_subnet_id;
        subnets.push(json!({"id": public}));
        s.change("dev", json!({"spec": {"network": {"subnets": subnets}}})).await?;
        eventually(WITHIN, "the added subnet to be published", async || {
            let status = s.aws_cluster("dev").await?.data["status"].take();
            let all = status["network"]["subnets"].as_array().cloned().unwrap_or_default();
            let added = json!({"id": public, "availabilityZone": "eu-west-1a", "public": true});
            ensure!(all.contains(&added), "the network is {}", status["network"]);
            Ok(())
        })
        .await?;

        let metadata = s.aws_cluster("dev").await?.metadata;
        assert_eq!(metadata.generation, Some(3), "only the user has changed the spec");
        assert_eq!(metadata.finalizers, None);
        s.delete(CORE, "Cluster", "dev").await?;
        assert_eq!(s.calls().into_keys().collect::<Vec<_>>(), LOOKUP, "no other call was made");
        assert_eq!(s.user.details().await?, before, "the user's network is as it was");
        Ok(())
    })
}

#[test]
fn with_preflight_disabled_aws_is_never_called() -> anyhow::Result<()> {
    story("disabled", async |s| {
        let disabled = s.unmanaged("dev", "  preflight: {mode: Disabled}");
        s.owned("dev", &disabled).await?;
        s.infrastructure_provisioned("dev").await?;
        let message = s.await_condition("dev", "NetworkReady", "True", "Ready").await?;
        for subnet in s.network.private_subnet_ids() {
            assert!(message.contains(subnet), "{subnet} has no zone: {message}");
        }
        assert!(message.contains("availabilityZone"), "{message}");
        let status = s.aws_cluster("dev").await?.data["status"].take();
        assert_eq!(status["failureDomains"], Value::Null);
        assert_eq!(status["network"]["vpc"], json!({"id": s.network.vpc_id}));

        let subnets: Vec<Value> = s
            .network
            .zones
            .iter()
            .map(|zone| json!({"id": zone.private_subnet_id, "availabilityZone": zone.name}))
            .collect();
        s.change("dev", json!({"spec": {"network": {"subnets": subnets}}})).await?;
        eventually(WITHIN, "failure domains", async || {
            let status = s.aws_cluster("dev").await?.data["status"].take();
            ensure!(status["failureDomains"] == three_zones(), "the status is {status}");
            Ok(())
        })
        .await?;
        assert_eq!(s.await_condition("dev", "NetworkReady", "True", "Ready").await?, "");
        s.reconciles_without_a_write("dev", 20).await?;
        s.delete(CORE, "Cluster", "dev").await?;
        let journal = s.aws().manager_journal();
        assert!(journal.is_empty(), "{journal}");
        Ok(())
    })
}

#[test]
fn the_endpoint_is_adopted_from_cluster_or_spec() -> anyhow::Result<()> {
    story("endpoint", async |s| {
        let endpoint = json!({"spec": {"controlPlaneEndpoint": {"host": "api.example.org", "port": 6443}}});
        for (name, api_version, kind) in
            [("by-cluster", CORE, "Cluster"), ("by-spec", super::scenario::OURS, "AWSCluster")]
        {
            s.cluster(name).await?;
            let message = s.await_condition(name, "ControlPlaneEndpointReady", "False", "WaitingForEndpoint").await?;
            assert!(message.contains("spec.controlPlaneEndpoint"), "{message}");
            s.await_condition(name, "Ready", "True", "Ready").await?;
            s.patch(api_version, kind, name, endpoint.clone()).await?;
            s.await_condition(name, "ControlPlaneEndpointReady", "True", "Ready").await?;
        }
        let spec = s.aws_cluster("by-cluster").await?.data["spec"].take();
        assert_eq!(spec["controlPlaneEndpoint"], Value::Null, "the spec is the user's");
        eventually(WITHIN, "Cluster API to take the endpoint over", async || {
            let spec = s.get(CORE, "Cluster", "by-spec").await?.data["spec"].take();
            ensure!(spec["controlPlaneEndpoint"] == endpoint["spec"]["controlPlaneEndpoint"], "{spec}");
            Ok(())
        })
        .await
    })
}

/// Checks the published status of an unmanaged cluster on three private subnets.
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
    ["eu-west-1a", "eu-west-1b", "eu-west-1c"].map(|zone| json!({"name": zone, "controlPlane": true})).into()
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
