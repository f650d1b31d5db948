//! AWSCluster: marks infrastructure that the user brings as provisioned and publishes its network, or creates the
//! infrastructure of a managed cluster.
//!
//! The reconciler of unmanaged clusters has read-only access to AWS (`ClusterClouds`), so the compiler checks that it
//! never writes to AWS for one of them. `managed` has access that can write.

mod check_results;
mod check_times;
mod controller;
mod demand;
mod facts;
mod load_balancer;
mod lookup_cache;
mod managed;
mod network_problems;
mod preflight;
mod read;
mod ready;
mod resolve;
mod search;
mod status;
mod targets;
#[cfg(test)]
mod tests;
mod warning_dedup;

use std::collections::BTreeSet;
use std::sync::Arc;

use capa_api::cluster::AWSCluster;
use capa_api::cluster::status::AWSClusterStatus;
use capa_api::contract::{Cluster, ContractReference};
use capa_api::meta;
use capa_cloud::{ClusterClouds, ResolvedIdentity, Timing};
use capa_preflight::FactsSource;
use capa_runtime::reconcile::{EventDraft, Next, Outcome, ReconcileError};

pub use check_times::CheckTimes;
pub use controller::{ClusterReconciler, wakes_machines, watched_cluster};
pub use demand::{demand, demand_of_network, resolved_network};
pub use lookup_cache::LookupCache;
#[cfg(test)]
pub(crate) use managed::tests::World as ManagedWorld;
pub use managed::{KnownDetails, ManagedContext, PlanFacts, Preview, preview};
pub use warning_dedup::WarningDedup;

use crate::kubernetes_api::ClusterKubernetes;
use crate::machine_networks::MachineNetworks;
use crate::{pause, transitions};

/// Gives the source of facts with an identity in a region. Makes no call.
pub type FactsSources = Arc<dyn Fn(&ResolvedIdentity, &str) -> Arc<dyn FactsSource> + Send + Sync>;

/// The dependencies of the reconciles of AWSClusters.
#[derive(Clone)]
pub struct ClusterContext {
    /// The requests to Kubernetes.
    pub kubernetes: Arc<dyn ClusterKubernetes>,
    /// The read-only access to AWS.
    pub clouds: Arc<dyn ClusterClouds>,
    /// The sources of facts for the checks of the infrastructure.
    pub facts: FactsSources,
    /// The last lookups of incomplete networks.
    pub lookups: LookupCache,
    /// The times of the last checks of the infrastructure.
    pub checks: CheckTimes,
    /// Warnings published about the incomplete status of externally managed AWSClusters.
    pub warnings: WarningDedup,
    /// Periods and ages.
    pub timing: Timing,
    /// Namespace of the Secrets of static identities.
    pub identity_namespace: String,
}

/// One reconcile. For infrastructure that the user brings: identity → resolve → failure domains → provisioned.
pub async fn reconcile(
    cluster: AWSCluster,
    context: &ClusterContext,
    managed: &ManagedContext,
) -> Result<Outcome<AWSCluster>, ReconcileError> {
    if meta::is_deleted_for_move(&cluster.metadata) {
        // Another management cluster manages the infrastructure by now, so only this provider's finalizer needs to be
        // removed.
        let cluster = ensure_finalizer_removed(cluster, context).await?;
        return Ok(Outcome::done(cluster).because("the AWSCluster has moved to another management cluster"));
    }
    let owner = owner_cluster(&cluster, context);
    let paused = pause::paused(&cluster, owner.as_deref());
    if meta::is_externally_managed(&cluster.metadata) {
        if paused.is_some() {
            return Ok(Outcome::done(cluster).because("the AWSCluster or its Cluster is paused"));
        }
        return externally_managed(cluster, context).await;
    }
    if let Some(paused) = paused {
        let paused = status::paused(&cluster, paused, context.kubernetes.now());
        let paused = Outcome::done(cluster).with_status(paused);
        return Ok(paused.because("the AWSCluster or its Cluster is paused"));
    }
    if !cluster.spec.unmanaged && meta::is_marked_for_move(&cluster.metadata) {
        // `clusterctl move` has replaced all annotations, so another controller may still manage the infrastructure.
        let interrupted = status::move_interrupted(&cluster, context.kubernetes.now());
        return Ok(outcome(cluster, interrupted));
    }
    if !cluster.spec.unmanaged {
        return Box::pin(managed::reconcile(cluster, owner.as_deref(), managed)).await;
    }
    let machines = machines_to_wait_for(&cluster, owner.as_deref(), context);
    let cluster = hold_while_there_are(&machines, cluster, context).await?;
    let is_deleted = cluster.metadata.deletion_timestamp.is_some();
    if is_deleted && !meta::has_finalizer(&cluster.metadata, meta::CLUSTER_FINALIZER) {
        return Ok(released(cluster, context));
    }
    let deletion = is_deleted.then(|| status::waiting_for_machines(&machines));
    let Some(owner) = owner else {
        let waiting = status::without_owner(&cluster, deletion, context.kubernetes.now());
        return Ok(Outcome::done(cluster).with_status(waiting));
    };
    let reading = read::read_facts(&cluster, &owner, context).await;
    let resolution = status::resolution(&cluster, &owner, &reading.facts);
    let checked = preflight::checked(&cluster, &owner, &reading, &resolution.network, context).await;
    let now = context.kubernetes.now();
    let inputs = status::Inputs {
        facts: &reading.facts,
        resolution,
        checked,
        machines: machine_networks(&owner, context),
        deletion,
    };
    let (status, next) = status::unmanaged(&cluster, &owner, inputs, &context.timing, now);
    Ok(outcome(cluster, status).with_next(next))
}

/// The names of the AWSMachines that need the network of the AWSCluster: those of the Cluster that owns it, even if
/// that Cluster is gone. A Cluster that names another object no longer needs this one.
fn machines_to_wait_for(cluster: &AWSCluster, owner: Option<&Cluster>, context: &ClusterContext) -> BTreeSet<String> {
    let namespace = cluster.metadata.namespace.as_deref().unwrap_or_default();
    let named = owner.and_then(|owner| owner.spec.infrastructure_ref.as_ref());
    let is_unused = named.is_some_and(|named| *named != ContractReference::to(cluster));
    let owner = meta::owner_cluster_name(&cluster.metadata).filter(|_| !is_unused);
    owner.map_or_else(BTreeSet::new, |owner| context.kubernetes.held_machines(namespace, owner))
}

/// An unmanaged AWSCluster has the finalizer while its Cluster has machines: their network stays until they are gone,
/// whatever is deleted first.
async fn hold_while_there_are(
    machines: &BTreeSet<String>,
    cluster: AWSCluster,
    context: &ClusterContext,
) -> Result<AWSCluster, ReconcileError> {
    if machines.is_empty() {
        return ensure_finalizer_removed(cluster, context).await;
    }
    let is_held = meta::has_finalizer(&cluster.metadata, meta::CLUSTER_FINALIZER);
    // The API server adds no finalizer to an object that is being deleted.
    if is_held || cluster.metadata.deletion_timestamp.is_some() {
        return Ok(cluster);
    }
    Ok(context.kubernetes.add_finalizer(&cluster).await?)
}

/// A deleted AWSCluster that no machine needs. This provider owns nothing in AWS for it.
fn released(cluster: AWSCluster, context: &ClusterContext) -> Outcome<AWSCluster> {
    let uid = cluster.metadata.uid.as_deref().unwrap_or_default();
    context.lookups.remove(uid);
    context.checks.forget(uid);
    Outcome::done(cluster).because("the AWSCluster is being deleted")
}

/// The status, and a warning event for each of its conditions that has become False.
fn outcome(cluster: AWSCluster, status: AWSClusterStatus) -> Outcome<AWSCluster> {
    let before = cluster.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    let warnings = transitions::warnings(before, &status.conditions);
    Outcome::done(cluster).with_status(status).with_events(warnings)
}

/// Another controller manages the AWSCluster. The only write of this provider is the removal of its own finalizer.
async fn externally_managed(
    cluster: AWSCluster,
    context: &ClusterContext,
) -> Result<Outcome<AWSCluster>, ReconcileError> {
    let cluster = ensure_finalizer_removed(cluster, context).await?;
    let half_written =
        cluster.status.as_ref().is_some_and(|status| status.ready == Some(true) && !status.provisioned());
    let is_new = half_written && context.warnings.is_first(&cluster.metadata);
    let warning = is_new.then(|| {
        EventDraft::warning(
            "ManagedByStatusIncomplete",
            "status.ready is true but status.initialization.provisioned is not set: Cluster API waits for the latter; \
             the controller named by cluster.x-k8s.io/managed-by must set it",
        )
    });
    Ok(Outcome::done(cluster)
        .with_next(Next::AwaitChange)
        .with_events(warning)
        .because("the annotation cluster.x-k8s.io/managed-by leaves the AWSCluster to another controller"))
}

/// Removes the finalizer.
async fn ensure_finalizer_removed(cluster: AWSCluster, context: &ClusterContext) -> Result<AWSCluster, ReconcileError> {
    if meta::has_finalizer(&cluster.metadata, meta::CLUSTER_FINALIZER) {
        return Ok(context.kubernetes.remove_finalizer(&cluster).await?);
    }
    Ok(cluster)
}

/// The parts of a network that the machines of the cluster name in their own specs.
fn machine_networks(owner: &Cluster, context: &ClusterContext) -> MachineNetworks {
    let [namespace, name] = [&owner.metadata.namespace, &owner.metadata.name].map(|part| part.as_deref());
    let kubernetes = &context.kubernetes;
    kubernetes.machine_networks(namespace.unwrap_or_default(), name.unwrap_or_default())
}

fn owner_cluster(cluster: &AWSCluster, context: &ClusterContext) -> Option<Arc<Cluster>> {
    let namespace = cluster.metadata.namespace.as_deref()?;
    context.kubernetes.cluster(namespace, meta::owner_cluster_name(&cluster.metadata)?)
}
