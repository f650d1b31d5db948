//! What `kubectl describe` tells of a life: an event for each write to AWS and for each turn for the worse, no other.

use std::collections::BTreeSet;

use anyhow::ensure;
use capa_e2e::{eventually, fixtures};
use k8s_openapi::api::events::v1::Event;
use kube::Api;
use kube::api::ListParams;
use serde_json::json;

use super::machines::{INLINE, machine, text};
use super::scenario::{CORE, OURS, Scenario, WITHIN};

/// Kind, name, type, reason.
type Told = (String, String, String, String);

#[tokio::test]
async fn a_life_is_told_by_its_writes_to_aws_and_its_turns_for_the_worse() -> anyhow::Result<()> {
    let scenario = Scenario::new("events").await?;
    let manager = scenario.manager().await?;
    let misspelt = scenario
        .unmanaged("dev", "")
        .replace(&scenario.network.vpc_id, "vpc-0123456789abcdef0");
    scenario.owned("dev", &misspelt).await?;
    scenario.says("dev", "NetworkReady", "False", "NotFound").await?;
    let vpc = json!({"spec": {"network": {"vpc": {"id": scenario.network.vpc_id}}}});
    scenario.change("dev", vpc).await?;
    scenario.says("dev", "NetworkReady", "True", "Ready").await?;
    scenario.infrastructure_provisioned("dev").await?;

    let ignition = fixtures::bootstrap_secret("first", "{}").replace("cloud-config", "ignition");
    scenario.environment.apply(&ignition).await?;
    scenario.environment.apply(&machine("first", "dev", INLINE)).await?;
    scenario
        .condition(
            "AWSMachine",
            "first",
            "BootstrapDataReady",
            "False",
            "UnsupportedFormat",
        )
        .await?;
    scenario
        .environment
        .apply(&fixtures::bootstrap_secret("first", "#cloud-config"))
        .await?;
    let first = scenario.machine_ready("first").await?;
    scenario.user.terminate(text(&first, "/spec/instanceID")).await?;
    scenario
        .condition("AWSMachine", "first", "InstanceReady", "False", "Terminated")
        .await?;
    scenario.machine("second", "dev", INLINE).await?;
    scenario.machine_ready("second").await?;
    for name in ["first", "second"] {
        scenario.begin_deletion(CORE, "Machine", name).await?;
    }
    scenario.gone(OURS, "AWSMachine", &["first", "second"]).await?;
    scenario.environment.apply(&managed("other")).await?;
    scenario.says("other", "Ready", "False", "NotManagedYet").await?;

    let expected: BTreeSet<Told> = [
        ("AWSCluster", "dev", "Warning", "NotFound"),
        ("AWSCluster", "other", "Warning", "NotManagedYet"),
        ("AWSMachine", "first", "Warning", "UnsupportedFormat"),
        ("AWSMachine", "first", "Normal", "SuccessfulCreate"),
        ("AWSMachine", "first", "Warning", "Terminated"),
        ("AWSMachine", "second", "Normal", "SuccessfulCreate"),
        ("AWSMachine", "second", "Normal", "SuccessfulTerminate"),
    ]
    .map(|(kind, name, type_, reason)| (kind.into(), name.into(), type_.into(), reason.into()))
    .into();
    eventually(WITHIN, "every event", async || {
        let told = told(&scenario).await?;
        ensure!(told.is_superset(&expected), "only {told:?}");
        Ok(())
    })
    .await?;
    assert!(manager.stop().await?.success());
    assert_eq!(told(&scenario).await?, expected, "no other");
    scenario.environment.finish().await
}

fn managed(name: &str) -> String {
    format!("{{apiVersion: {OURS}, kind: AWSCluster, metadata: {{name: {name}}}, spec: {{region: eu-west-1}}}}")
}

/// All events about our objects; each must be our manager's.
async fn told(scenario: &Scenario) -> anyhow::Result<BTreeSet<Told>> {
    let events: Api<Event> = Api::namespaced(scenario.environment.client(), scenario.environment.namespace());
    let mut told = BTreeSet::new();
    for event in events.list(&ListParams::default()).await?.items {
        let about = event.regarding.unwrap_or_default();
        if about.api_version.as_deref() != Some(OURS) {
            continue;
        }
        ensure!(
            event.reporting_controller.as_deref() == Some("capa-rs"),
            "{:?}",
            event.reporting_controller
        );
        told.insert((
            about.kind.unwrap_or_default(),
            about.name.unwrap_or_default(),
            event.type_.unwrap_or_default(),
            event.reason.unwrap_or_default(),
        ));
    }
    Ok(told)
}
