//! The reconciler of AWSMachines as the runtime runs it, and the changes of other objects that wake it.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use async_trait::async_trait;
use capa_api::common::IdentityReference;
use capa_api::contract::{Cluster, Machine};
use capa_api::machine::AWSMachine;
use capa_runtime::reconcile::{Outcome, ReconcileError, Reconciler, cluster_group};

use super::context::MachineContext;
use super::scope::key;
use crate::identity::identity_group;
use crate::resync::with_resync;

/// Reconciles AWSMachines.
pub struct MachineReconciler {
    /// The context of the reconciles.
    pub context: MachineContext,
    /// The longest time between two passes of one object.
    pub sync_period: Duration,
}

#[async_trait]
impl Reconciler for MachineReconciler {
    type Kind = AWSMachine;

    fn name() -> &'static str {
        "awsmachine"
    }

    async fn reconcile(&self, object: AWSMachine) -> Result<Outcome<AWSMachine>, ReconcileError> {
        // On the heap: the future holds whole objects, and there are as many as the controller reconciles at once.
        let outcome = Box::pin(super::reconcile(object, &self.context)).await?;
        Ok(with_resync(outcome, self.sync_period))
    }

    /// A machine waits for its AWS account. The status records the account only with the launch, and a refused launch
    /// removes it, so the identity of the last pass is a group too.
    fn groups(&self, object: &AWSMachine) -> Vec<String> {
        let network = object.status.as_ref().and_then(|status| status.network.as_ref());
        let recorded = network.and_then(|network| Some((network, network.region.as_deref()?)));
        let account = recorded.and_then(|(network, region)| {
            let account = network.account_id.as_ref()?;
            Some(format!("account {account} {region}"))
        });
        let uid = object.metadata.uid.as_deref().unwrap_or_default();
        let spec = &object.spec;
        let identity = recorded.map(|(network, region)| {
            let default = IdentityReference::controller_default;
            let identity = network.identity_ref.clone().unwrap_or_else(default);
            identity_group(&identity, Some(region))
        });
        let identity = identity.or_else(|| self.context.memory.identity_group(uid)).or_else(|| {
            let identity = spec.identity_ref.as_ref()?;
            Some(identity_group(identity, spec.region.as_deref()))
        });
        let cluster = [cluster_group(&object.metadata)].into_iter();
        cluster.chain(account).chain(identity).collect()
    }

    fn forget(&self, object: &AWSMachine) {
        self.context.clouds.forget(&key(object));
        self.context.memory.forget(object.metadata.uid.as_deref().unwrap_or_default());
    }
}

/// Hash of the fields of a Machine that its AWSMachine depends on. The status of the Machine, which Cluster API writes
/// often, is not among them.
pub fn watched_machine(machine: &Machine) -> Option<u64> {
    let spec = &machine.spec;
    Some(hash(&(
        &spec.bootstrap.data_secret_name,
        &spec.failure_domain,
        &spec.cluster_name,
        spec.infrastructure_ref.as_ref(),
        &machine.metadata.labels,
        machine.has_joined(),
        machine.metadata.deletion_timestamp.is_some(),
    )))
}

/// Hash of the fields of a Cluster that its AWSMachines depend on.
pub fn watched_cluster(cluster: &Cluster) -> Option<u64> {
    Some(hash(&(
        cluster.is_paused(),
        cluster.infrastructure_provisioned(),
        cluster.spec.infrastructure_ref.as_ref(),
        cluster.metadata.uid.as_deref(),
    )))
}

fn hash(facts: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    facts.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use capa_api::contract::{ClusterInitialization, ClusterStatus, NodeReference};

    use super::*;

    #[test]
    fn a_machine_wakes_its_awsmachine_when_its_node_joins() {
        let quiet = Machine::new("m", capa_api::contract::MachineSpec::default());
        let mut joined = quiet.clone();
        joined.status.get_or_insert_default().node_ref = Some(NodeReference { name: "n".into() });
        let mut ready = quiet.clone();
        ready.spec.bootstrap.data_secret_name = Some("boot".into());
        assert_ne!(watched_machine(&quiet), watched_machine(&joined));
        let mut moved = joined.clone();
        moved.status.get_or_insert_default().node_ref = Some(NodeReference { name: "o".into() });
        assert_eq!(watched_machine(&joined), watched_machine(&moved));
        assert_ne!(watched_machine(&quiet), watched_machine(&ready));
    }

    #[test]
    fn pause_and_provisioning_of_a_cluster_wake_its_machines() {
        let cluster = Cluster::new("c", capa_api::contract::ClusterSpec::default());
        let mut paused = cluster.clone();
        paused.spec.paused = Some(true);
        let mut provisioned = cluster.clone();
        provisioned.status = Some(ClusterStatus {
            initialization: Some(ClusterInitialization {
                infrastructure_provisioned: Some(true),
                ..ClusterInitialization::default()
            }),
            ..ClusterStatus::default()
        });
        assert_ne!(watched_cluster(&cluster), watched_cluster(&paused));
        assert_ne!(watched_cluster(&cluster), watched_cluster(&provisioned));
    }
}
