//! Machines whose network comes from `spec.networkSources`, under an infrastructure kind that says nothing about AWS.

pub(super) mod ack;
mod kinds;
mod mappings;
mod mistakes;
mod objects;

use capa_e2e::fixtures;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::foreign_kind::Kind;
use super::machines::INLINE;
use super::scenario::Scenario;

/// The label of the ClusterRoles that are aggregated into the manager's role.
pub(super) const FOR_US: &str = "infrastructure.cluster.x-k8s.io/aggregate-to-capa-rs";
/// The label of the ClusterRoles that are aggregated into the role of Cluster API's core.
pub(super) const FOR_CORE: &str = "cluster.x-k8s.io/aggregate-to-manager";

/// A provisioned Cluster under an object of a foreign kind, which Cluster API may read and the provider may not.
async fn foreign_cluster(scenario: &Scenario, kind: &Kind, name: &str) -> anyhow::Result<()> {
    scenario.apply(&definition(kind)).await?;
    let for_core = kind.readable_by(FOR_CORE, "[get, list, watch, patch, update]");
    scenario.apply(&for_core).await?;
    kind.cluster(scenario, name, json!({})).await
}

/// The definition of a kind without the label of the network contract.
pub(super) fn definition(kind: &Kind) -> String {
    fixtures::definition(&kind.group, &kind.name, "")
}

/// A machine whose spec names these sources, in YAML's flow style.
async fn machine(scenario: &Scenario, name: &str, cluster: &str, sources: &str) -> anyhow::Result<()> {
    let spec = format!("{INLINE}, networkSources: [{sources}]");
    scenario.machine(name, cluster, &spec).await
}

/// Applies an object and merges a status into it.
pub(super) async fn apply_with_status(
    scenario: &Scenario,
    api_version: &str,
    kind: &str,
    name: &str,
    spec: Value,
    status: Value,
) -> anyhow::Result<()> {
    let object = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, "spec": spec});
    scenario.apply(&object.to_string()).await?;
    let api = scenario.api(api_version, kind).await?;
    let patch = Patch::Merge(json!({"status": status}));
    api.patch_status(name, &PatchParams::default(), &patch).await?;
    Ok(())
}
