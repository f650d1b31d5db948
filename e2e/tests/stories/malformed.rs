//! Objects that another CustomResourceDefinition let in: they are healed or named, and no other object suffers.

use std::sync::Arc;

use anyhow::{Context as _, ensure};
use capa_e2e::{World, eventually, objects};
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::scenario::{OURS, Scenario, WITHIN};

const DEFINITION: &str = "awsclusters.infrastructure.cluster.x-k8s.io";
const SCHEMA: &str = "/spec/versions/0/schema/openAPIV3Schema";

#[tokio::test]
async fn an_object_that_cannot_be_read_stops_no_other_and_a_foreign_status_is_healed() -> anyhow::Result<()> {
    // A world of its own, because a schema is everybody's.
    let world = Arc::new(World::start().await?);
    world.install_provider().await?;
    let scenario = Scenario::in_world(&world, "malformed").await?;
    let ours = replace_schema(
        &scenario,
        json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}),
    )
    .await?;
    wait_until_text_for_a_network_is(&scenario, true).await?;
    for name in ["unreadable", "foreign", "fine"] {
        scenario.owned(name, &scenario.unmanaged(name, "")).await?;
    }
    let network = json!({"spec": {"network": "none"}});
    scenario.change("unreadable", network).await?;
    // As the Go provider leaves it.
    let foreign = json!({"status": {"ready": true, "failureDomains": {"eu-west-1a": {"controlPlane": true}}, "conditions": "none"}});
    let api = scenario.environment.api(OURS, "AWSCluster").await?;
    api.patch_status("foreign", &PatchParams::default(), &Patch::Merge(foreign))
        .await?;
    replace_schema(&scenario, ours).await?;
    wait_until_text_for_a_network_is(&scenario, false).await?;

    let manager = scenario.manager().await?;
    for name in ["fine", "foreign"] {
        scenario.infrastructure_provisioned(name).await?;
        scenario.says(name, "Ready", "True", "Ready").await?;
    }
    let healed = scenario.aws_cluster("foreign").await?.data["status"].take();
    assert_eq!(healed["failureDomains"].as_array().map(Vec::len), Some(3), "{healed}");
    let unreadable = scenario.aws_cluster("unreadable").await?;
    assert_eq!(unreadable.data.get("status"), None);
    let malformed = manager
        .metrics()
        .await?
        .sum("capa_malformed_objects", &[("kind", "AWSCluster")]);
    assert_eq!(malformed, Some(1.0));
    let log = manager.log()?;
    let named = |line: &str| line.contains("/unreadable") && line.contains("malformed");
    assert!(log.lines().any(named), "{log}");

    let network = scenario.aws_cluster("fine").await?.data["spec"]["network"].take();
    scenario
        .change("unreadable", json!({"spec": {"network": network}}))
        .await?;
    scenario.infrastructure_provisioned("unreadable").await?;
    assert!(manager.stop().await?.success());
    scenario.environment.finish().await
}

/// Puts another schema in place of an AWSCluster's, and gives the former one.
async fn replace_schema(scenario: &Scenario, schema: Value) -> anyhow::Result<Value> {
    let api = scenario
        .environment
        .api("apiextensions.k8s.io/v1", "CustomResourceDefinition")
        .await?;
    let mut definition = api.get(DEFINITION).await?;
    let place = definition.data.pointer_mut(SCHEMA).context("no schema")?;
    let former = std::mem::replace(place, schema);
    api.replace(DEFINITION, &PostParams::default(), &definition).await?;
    Ok(former)
}

/// A schema takes effect some moments after it was written.
async fn wait_until_text_for_a_network_is(scenario: &Scenario, accepted: bool) -> anyhow::Result<()> {
    let api = scenario.environment.api(OURS, "AWSCluster").await?;
    let mut probe = objects::parse(&scenario.unmanaged("probe", ""))?.remove(0);
    probe.data["spec"]["network"] = "none".into();
    let dry_run = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    eventually(WITHIN, "the schema to take effect", async || {
        let answer = api.create(&dry_run, &probe).await;
        ensure!(answer.is_ok() == accepted, "the answer is {answer:?}");
        Ok(())
    })
    .await
}
