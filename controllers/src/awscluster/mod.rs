//! AWSCluster: marks infrastructure that the user brought as ready, and publishes its network.
//!
//! The reconciler is handed reads of AWS only (`ClusterClouds`): that an unmanaged cluster never writes to AWS is checked
//! by the compiler.

mod complaints;
mod controller;
mod dereference;
mod load_balancer;
mod looks;
mod problems;
mod resolve;
mod status;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use capa_api::cluster::AWSCluster;
use capa_api::cluster::status::AWSClusterStatus;
use capa_api::core::Cluster;
use capa_api::meta;
use capa_cloud::{ClusterClouds, Timing};
use capa_runtime::reconcile::{EventDraft, Next, Outcome, ReconcileError};

pub use complaints::Complaints;
pub use controller::{ClusterReconciler, wakes_machines, watched_cluster};
pub use looks::LookMemory;

use crate::kubernetes_api::ClusterKubernetes;
use crate::transitions;

/// What an AWSCluster is reconciled with.
#[derive(Clone)]
pub struct ClusterContext {
    /// Kubernetes.
    pub kubernetes: Arc<dyn ClusterKubernetes>,
    /// AWS, reads only.
    pub clouds: Arc<dyn ClusterClouds>,
    /// Looks of this process at networks that are not complete.
    pub looks: LookMemory,
    /// Externally managed clusters whose manager was told what its status lacks.
    pub complaints: Complaints,
    /// Periods and ages.
    pub timing: Timing,
    /// Namespace of the Secrets of static identities.
    pub identity_namespace: String,
}

/// One pass: identity → resolve → failure domains → provisioned.
pub async fn reconcile(cluster: AWSCluster, context: &ClusterContext) -> Result<Outcome<AWSCluster>, ReconcileError> {
    if meta::is_deleted_for_move(&cluster.metadata) {
        return Ok(Outcome::done(cluster));
    }
    let owner = owner_cluster(&cluster, context);
    let paused = meta::is_paused(&cluster.metadata) || owner.as_deref().is_some_and(Cluster::is_paused);
    if meta::is_externally_managed(&cluster.metadata) {
        if paused {
            return Ok(Outcome::done(cluster));
        }
        return externally_managed(cluster, context).await;
    }
    if paused {
        let paused = status::paused(&cluster, context.kubernetes.now());
        return Ok(Outcome::done(cluster).with_status(paused));
    }
    if !cluster.spec.unmanaged {
        let not_yet = status::not_managed_yet(&cluster, context.kubernetes.now());
        return Ok(outcome(cluster, not_yet));
    }
    let cluster = release(cluster, context).await?;
    // An unmanaged cluster has no finalizer and nothing of ours in AWS: its deletion needs nothing from us.
    if cluster.metadata.deletion_timestamp.is_some() {
        context
            .looks
            .forget(cluster.metadata.uid.as_deref().unwrap_or_default());
        return Ok(Outcome::done(cluster));
    }
    let Some(owner) = owner else {
        let waiting = status::waiting_for_owner(&cluster, context.kubernetes.now());
        return Ok(Outcome::done(cluster).with_status(waiting));
    };
    let facts = dereference::facts(&cluster, &owner, context).await?;
    let now = context.kubernetes.now();
    let (status, next) = status::unmanaged(&cluster, &owner, &facts, &context.timing, now);
    Ok(outcome(cluster, status).with_next(next))
}

/// The status, and a warning for each condition in it that has turned bad.
fn outcome(cluster: AWSCluster, status: AWSClusterStatus) -> Outcome<AWSCluster> {
    let before = cluster
        .status
        .as_ref()
        .map(|status| status.conditions.as_slice())
        .unwrap_or_default();
    let warnings = transitions::warnings(before, &status.conditions);
    Outcome::done(cluster).with_status(status).with_events(warnings)
}

/// Another controller owns the object: our only write is taking our own finalizer off.
async fn externally_managed(
    cluster: AWSCluster,
    context: &ClusterContext,
) -> Result<Outcome<AWSCluster>, ReconcileError> {
    let cluster = release(cluster, context).await?;
    let half_written = cluster
        .status
        .as_ref()
        .is_some_and(|status| status.ready == Some(true) && !status.provisioned());
    let untold = half_written && context.complaints.is_first(&cluster.metadata);
    let notice = untold.then(|| {
        EventDraft::warning(
            "ManagedByStatusIncomplete",
            "status.ready is true but status.initialization.provisioned is not set: Cluster API waits for the latter; \
             the controller named by cluster.x-k8s.io/managed-by must set it",
        )
    });
    Ok(Outcome::done(cluster).with_next(Next::AwaitChange).with_events(notice))
}

async fn release(cluster: AWSCluster, context: &ClusterContext) -> Result<AWSCluster, ReconcileError> {
    if meta::has_finalizer(&cluster.metadata, meta::CLUSTER_FINALIZER) {
        return Ok(context.kubernetes.remove_finalizer(&cluster).await?);
    }
    Ok(cluster)
}

fn owner_cluster(cluster: &AWSCluster, context: &ClusterContext) -> Option<Arc<Cluster>> {
    let namespace = cluster.metadata.namespace.as_deref()?;
    context
        .kubernetes
        .cluster(namespace, meta::owner_cluster_name(&cluster.metadata)?)
}
