//! The watched objects that use an identity.

use std::collections::BTreeSet;

use capa_api::cluster::AWSCluster;
use capa_api::common::IdentityReference;
use capa_api::machine::AWSMachine;
use kube::runtime::reflector::ObjectRef;

use super::KubernetesClient;
use crate::identity::users::{cluster_of, cluster_uses, machine_uses};
use crate::kubernetes_api::Kubernetes;

impl KubernetesClient {
    /// The AWSClusters that use an identity.
    pub fn clusters_with_identity(&self, identity: &IdentityReference) -> Vec<ObjectRef<AWSCluster>> {
        let find = |reference: &IdentityReference| self.identity(reference);
        let uses = |cluster: &AWSCluster| cluster_uses(cluster, identity, &find);
        let clusters = self.caches.aws_clusters.store().state_filter(uses);
        let references = clusters.iter().map(|cluster| ObjectRef::from_obj(cluster.as_ref()));
        references.collect()
    }

    /// The Clusters, as `<namespace>/<name>`, whose AWSCluster or AWSMachines use an identity.
    pub fn users_of_identity(&self, identity: &IdentityReference) -> BTreeSet<String> {
        let find = |reference: &IdentityReference| self.identity(reference);
        let clusters = |cluster: &AWSCluster| cluster_uses(cluster, identity, &find);
        let clusters = self.caches.aws_clusters.store().state_filter(clusters);
        let machines = |machine: &AWSMachine| machine_uses(machine, identity, &find);
        let machines = self.caches.aws_machines.store().state_filter(machines);
        let clusters = clusters.iter().map(|cluster| cluster_of(&cluster.metadata));
        let machines = machines.iter().map(|machine| cluster_of(&machine.metadata));
        clusters.chain(machines).collect()
    }
}
