//! One pass as the runtime makes it: reconcile, then write the status.

use std::sync::Arc;

use capa_api::cluster::AWSCluster;
use capa_api::machine::AWSMachine;
use capa_controllers::awscluster::ClusterReconciler;
use capa_controllers::awsmachine::MachineReconciler;
use capa_controllers::kubernetes_api::MachineKubernetes;
use capa_runtime::reconcile::{Next, ReconcileError, Reconciler};

use crate::manager::Manager;

/// A pass over an AWSMachine, which is read anew first where the cache owes it for too long.
pub(crate) async fn machine(
    manager: Manager,
    reconciler: Arc<MachineReconciler>,
    cached: Arc<AWSMachine>,
    reread: bool,
) -> Result<Next, ReconcileError> {
    let machine = if reread {
        let read = manager.read_machine(cached.metadata.name.as_deref().unwrap_or_default());
        let read = read.await?;
        match read.filter(|machine| machine.metadata.uid == cached.metadata.uid) {
            Some(machine) => machine,
            None => return Ok(Next::AwaitChange),
        }
    } else {
        AWSMachine::clone(&cached)
    };
    let outcome = reconciler.reconcile(machine).await?;
    if let Some(status) = &outcome.status {
        manager.write_status(&outcome.object, status).await?;
    }
    Ok(outcome.next)
}

/// A pass over an AWSCluster.
pub(crate) async fn cluster(
    manager: Manager,
    reconciler: Arc<ClusterReconciler>,
    cached: Arc<AWSCluster>,
) -> Result<Next, ReconcileError> {
    let outcome = reconciler.reconcile(AWSCluster::clone(&cached)).await?;
    if let Some(status) = &outcome.status {
        manager.write_cluster_status(&outcome.object, status).await?;
    }
    Ok(outcome.next)
}
