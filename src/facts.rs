//! The facts for commands about infrastructure: gathered from AWS, or saved by an earlier check.

use std::path::Path;

use anyhow::{Context, Result};
use capa_aws::SessionPool;
use capa_cloud::Answers;
use capa_cloud::ClusterClouds as _;
use capa_controllers::awscluster::resolved_network;
use capa_preflight::facts::{Demand, Facts};
use kube::ResourceExt as _;
use tokio::runtime::{Builder, Runtime};

use crate::aws_access::{identity, pool};
use crate::live;
use crate::notices::progress;
use crate::objects::{self, Described};

/// The facts that an earlier check saved.
pub(crate) fn saved(file: &Path) -> Result<Facts> {
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    serde_json::from_str(&text).with_context(|| format!("{} has no facts of a check", file.display()))
}

/// The facts about the objects in a file.
pub(crate) fn of_file(file: &Path) -> Result<Facts> {
    let described = objects::read(file)?;
    runtime()?.block_on(async {
        let pool = pool().await;
        Ok(gathered(&pool, demanded(&described, &pool).await?).await)
    })
}

/// The facts about a Cluster in the management cluster.
pub(crate) fn of_cluster(name: &str, flags: &live::SourceFlags) -> Result<Facts> {
    runtime()?.block_on(async {
        let (described, kubernetes) = live::read(name, flags).await?;
        let pool = pool().await;
        let demand = demanded(&described, &pool).await?;
        Ok(Facts { kubernetes: Some(kubernetes), ..gathered(&pool, demand).await })
    })
}

pub(crate) fn runtime() -> Result<Runtime> {
    Ok(Builder::new_current_thread().enable_all().build()?)
}

/// Gathers the facts about a demand.
async fn gathered(pool: &SessionPool, demand: Demand) -> Facts {
    if demand.region.is_empty() {
        // Without a region, AWS cannot be called. The rules about the network sources report why there is no region.
        return Facts { demand, ..Facts::default() };
    }
    progress(&format!("asking AWS about the infrastructure of {} in {}", demand.cluster_tag, demand.region));
    pool.facts(&identity(), &demand.region).facts(&demand, &Answers::default()).await
}

/// What the objects require of the infrastructure, with the ids that their filters and discovery find.
async fn demanded(described: &Described, pool: &SessionPool) -> Result<Demand> {
    let objects = match described {
        Described::ByAWSCluster(objects) => objects,
        Described::BySources(sourced) => return Ok(sourced.demand.clone()),
    };
    let spec = &objects.aws_cluster.spec;
    let region = spec.region().context("spec.region of the AWSCluster is missing, or is no name of a region")?;
    let cloud = pool.cluster(&identity(), region);
    let resolved = resolved_network(spec, &objects.cluster.name_any(), cloud.as_ref()).await;
    // If the credentials do not work, the facts contain the reason.
    let (network, problem) = resolved.unwrap_or_default();
    if let Some(problem) = problem {
        progress(&format!("the network is not complete: {problem}"));
    }
    Ok(objects.demand(&network))
}
