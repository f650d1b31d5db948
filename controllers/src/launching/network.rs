//! Reads the network of a machine spec from its sources.

use capa_api::contract::Cluster;
use capa_api::machine::AWSMachineSpec;
use capa_network::{Merged, merge};

use super::network_sources;
use crate::kubernetes_api::NetworkKubernetes;

/// The network from a machine spec and the cluster's infrastructure object. `owner` is the object of the spec as
/// `Kind/name`. Subnet filters of the spec are not resolved.
pub(crate) async fn read_network(
    owner: String,
    spec: &AWSMachineSpec,
    cluster: &Cluster,
    kubernetes: &dyn NetworkKubernetes,
) -> Merged {
    let mut sources = vec![network_sources::from_spec(owner, spec)];
    if let Some(reference) = &cluster.spec.infrastructure_ref {
        let namespace = cluster.metadata.namespace.as_deref().unwrap_or_default();
        let read = kubernetes.infrastructure(namespace, reference).await;
        sources.extend(network_sources::from_infrastructure(reference, read));
    }
    merge(&sources)
}
