//! Reads the network of a machine spec from its sources.

use capa_api::contract::Cluster;
use capa_api::machine::AWSMachineSpec;
use capa_network::{Merged, merge};

use super::network_sources;
use crate::kubernetes_api::{BeingRead, NetworkKubernetes, NetworkReader};

/// The network from a machine spec and the cluster's infrastructure object. `reader` is the object of the spec. Subnet
/// filters of the spec are not resolved.
pub(crate) async fn read_network(
    reader: &NetworkReader,
    spec: &AWSMachineSpec,
    cluster: &Cluster,
    kubernetes: &dyn NetworkKubernetes,
) -> Result<Merged, BeingRead> {
    let mut sources = vec![network_sources::from_spec(reader.to_string(), spec)];
    if let Some(reference) = &cluster.spec.infrastructure_ref {
        let read = kubernetes.infrastructure(reader, reference).await?;
        sources.push(network_sources::from_infrastructure(reference, read));
    }
    Ok(merge(&sources))
}
