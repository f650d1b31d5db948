//! Asks AWS for the facts about the objects of a cluster.

use std::io::IsTerminal as _;

use anyhow::{Context, Result};
use capa_cloud::ClusterClouds as _;
use capa_controllers::awscluster::{demand, resolved_network};
use capa_preflight::facts::Facts;
use kube::ResourceExt as _;

use crate::aws_access::{identity, pool};
use crate::objects::Objects;

/// Resolves the network that the objects describe, and gathers the facts about it.
pub(crate) async fn facts(objects: &Objects) -> Result<Facts> {
    let spec = &objects.aws_cluster.spec;
    let region = spec
        .region()
        .context("spec.region of the AWSCluster is missing, or is no name of a region")?;
    let (pool, identity) = (pool().await, identity());
    progress(&format!(
        "asking AWS about the infrastructure of {} in {region}",
        objects.aws_cluster.name_any()
    ));
    let cloud = pool.cluster(&identity, region);
    let name = objects.cluster.name_any();
    let resolved = resolved_network(spec, &name, cloud.as_ref()).await;
    // Without credentials, the facts tell what is wrong with them.
    let (network, problem) = resolved.unwrap_or_default();
    if let Some(problem) = problem {
        progress(&format!("the network is not complete: {problem}"));
    }
    let demand = demand(
        &objects.aws_cluster,
        &objects.cluster,
        &network,
        objects.machines.clone(),
    );
    Ok(pool.facts(&identity, region).facts(&demand).await)
}

/// Tells a person at a terminal what takes so long.
#[expect(
    clippy::print_stderr,
    reason = "progress is for people, and the report is for standard output"
)]
fn progress(doing: &str) {
    if std::io::stderr().is_terminal() {
        eprintln!("{doing}");
    }
}
