//! The world itself, before any manager of ours works in it.

use std::time::Duration;

use anyhow::{Context, ensure};
use capa_e2e::{World, eventually, fixtures, objects::condition};
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, api::DeleteParams};

const CLUSTER_API: &str = "cluster.x-k8s.io/v1beta2";

#[tokio::test]
async fn namespaces_come_and_go() -> anyhow::Result<()> {
    let environment = World::shared().await?.test("namespaces").await?;
    environment
        .apply(&fixtures::bootstrap_secret("data", "#cloud-config"))
        .await?;

    let namespaces: Api<Namespace> = Api::all(environment.client());
    let name = environment.namespace();
    namespaces.delete(name, &DeleteParams::default()).await?;
    eventually(Duration::from_mins(1), "the namespace to be gone", async || {
        let phase = namespaces
            .get_opt(name)
            .await?
            .map(|namespace| namespace.status.unwrap_or_default().phase);
        ensure!(phase.is_none(), "its phase is {phase:?}");
        Ok(())
    })
    .await?;
    // The namespace this one has now is created again for `finish`, which deletes it.
    environment
        .apply(&format!(
            "{{apiVersion: v1, kind: Namespace, metadata: {{name: {name}}}}}"
        ))
        .await?;
    environment.finish().await
}

#[tokio::test]
async fn core_accepts_and_reconciles_a_cluster_without_infrastructure() -> anyhow::Result<()> {
    let environment = World::shared().await?.test("no-infrastructure").await?;
    environment.apply(&fixtures::cluster("bare", None)).await?;

    let clusters = environment.api(CLUSTER_API, "Cluster").await?;
    let infrastructure = eventually(Duration::from_secs(30), "core to report on the cluster", async || {
        let cluster = clusters.get("bare").await?;
        condition(&cluster, "InfrastructureReady").context("no condition InfrastructureReady")
    })
    .await?;
    assert_eq!(infrastructure.status, "True", "{infrastructure:?}");

    environment
        .delete(CLUSTER_API, "Cluster", "bare", Duration::from_mins(1))
        .await?;
    assert!(
        environment.aws().journal().is_empty(),
        "{}",
        environment.aws().journal()
    );
    environment.finish().await
}

#[tokio::test]
async fn the_webhooks_of_core_refuse_what_is_wrong_and_fill_in_defaults() -> anyhow::Result<()> {
    let environment = World::shared().await?.test("webhooks").await?;
    environment.apply(&fixtures::cluster("defaults", None)).await?;
    environment
        .apply(&fixtures::machine_deployment("workers", "defaults", 0))
        .await?;
    let deployments = environment.api(CLUSTER_API, "MachineDeployment").await?;
    let label = deployments.get("workers").await?.data["spec"]["selector"]["matchLabels"]["deployment"].clone();
    assert_eq!(label, "workers");
    let defaulted = deployments.get("workers").await?.data["spec"]["rollout"].clone();
    assert_eq!(defaulted["strategy"]["type"], "RollingUpdate", "{defaulted}");

    let overlapping = fixtures::machine_deployment("workers", "another", 0);
    let refused = environment
        .apply(&overlapping)
        .await
        .expect_err("clusterName is immutable");
    assert!(format!("{refused:#}").contains("clusterName"), "{refused:#}");

    environment
        .delete(CLUSTER_API, "Cluster", "defaults", Duration::from_mins(1))
        .await?;
    environment.finish().await
}

#[tokio::test]
async fn tests_have_namespaces_and_accounts_of_their_own() -> anyhow::Result<()> {
    let world = World::shared().await?;
    let (one, other) = (world.test("neighbour").await?, world.test("neighbour").await?);
    assert_ne!(one.namespace(), other.namespace());
    assert_ne!(one.aws().id(), other.aws().id());
    one.finish().await?;
    other.finish().await
}

/// The memory of the world, for people who size a machine: `cargo test -p capa-e2e memory -- --nocapture`.
#[tokio::test]
async fn the_world_fits_a_small_machine() -> anyhow::Result<()> {
    let memory = World::shared().await?.resident_memory()?;
    let mebibytes: Vec<(String, u64)> = memory.into_iter().map(|(name, bytes)| (name, bytes >> 20)).collect();
    let total: u64 = mebibytes.iter().map(|(_, size)| size).sum();
    assert!(total < 2048, "{total} MiB: {mebibytes:?}");
    Ok(())
}
