//! The AWSCluster reconciler for the runtime, and the changes that trigger it and the reconciles of its machines.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use async_trait::async_trait;
use capa_api::cluster::AWSCluster;
use capa_api::contract::Cluster;
use capa_runtime::reconcile::{Outcome, ReconcileError, Reconciler};

use super::{ClusterContext, ManagedContext};
use crate::identity::identity_group;
use crate::resync::with_resync;

/// Reconciles AWSClusters.
pub struct ClusterReconciler {
    /// The dependencies of the reconciles.
    pub context: ClusterContext,
    /// The dependencies of the reconciles of managed AWSClusters.
    pub managed: ManagedContext,
    /// The longest time between two reconciles of an object.
    pub sync_period: Duration,
}

#[async_trait]
impl Reconciler for ClusterReconciler {
    type Kind = AWSCluster;

    fn name() -> &'static str {
        "awscluster"
    }

    async fn reconcile(&self, object: AWSCluster) -> Result<Outcome<AWSCluster>, ReconcileError> {
        Box::pin(super::reconcile(object, &self.context, &self.managed))
            .await
            .map(|outcome| with_resync(outcome, self.sync_period))
    }

    /// A cluster has only one AWSCluster, so the group is that of its AWS account.
    fn groups(&self, object: &AWSCluster) -> Vec<String> {
        let identity = object.spec.effective_identity_ref();
        vec![identity_group(&identity, object.spec.region())]
    }

    fn forget(&self, object: &AWSCluster) {
        let uid = object.metadata.uid.as_deref().unwrap_or_default();
        self.context.lookups.remove(uid);
        self.context.checks.forget(uid);
        self.context.warnings.forget(uid);
        self.managed.known_details.remove(uid);
    }
}

/// Hash of the fields of a Cluster whose change triggers a reconcile of its AWSCluster.
pub fn watched_cluster(cluster: &Cluster) -> Option<u64> {
    let mut hasher = DefaultHasher::new();
    cluster.is_paused().hash(&mut hasher);
    cluster.spec.control_plane_endpoint.hash(&mut hasher);
    cluster.metadata.uid.hash(&mut hasher);
    Some(hasher.finish())
}

/// Hash of the fields of an AWSCluster whose change triggers reconciles of its machines. The hash excludes conditions,
/// which may change often without an effect on machines.
pub fn wakes_machines(cluster: &AWSCluster) -> Option<u64> {
    let status = cluster.status.as_ref();
    let mut hasher = DefaultHasher::new();
    status.is_some_and(capa_api::cluster::status::AWSClusterStatus::provisioned).hash(&mut hasher);
    // The types of the contract contain no floats and no unordered maps, so equal values have equal JSON.
    let network = status.and_then(|status| status.network.as_ref());
    serde_json::to_vec(&network).unwrap_or_default().hash(&mut hasher);
    Some(hasher.finish())
}
