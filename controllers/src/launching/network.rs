//! Reads the network of a machine spec from its sources.

use capa_api::common::MachineRole;
use capa_api::contract::Cluster;
use capa_api::machine::AWSMachineSpec;
use capa_network::{Merged, merge};

use super::network_sources::{self, requests};
use crate::kubernetes_api::{BeingRead, NetworkKubernetes, NetworkReader};

/// The network from a machine spec, its `networkSources` and the cluster's infrastructure object. `reader` is the
/// object of the spec, and `role` the role of the machine, if the spec belongs to one machine. Subnet filters of the
/// spec are not resolved.
pub(crate) async fn read_network(
    reader: &NetworkReader,
    spec: &AWSMachineSpec,
    role: Option<MachineRole>,
    cluster: &Cluster,
    kubernetes: &dyn NetworkKubernetes,
) -> Result<Merged, BeingRead> {
    let mut sources = vec![network_sources::from_spec(reader.to_string(), spec)];
    for (named_by, request) in requests(spec, role, cluster) {
        let read = kubernetes.source(reader, &request).await?;
        sources.push(network_sources::from_read(named_by, &request, read));
    }
    Ok(merge(&sources))
}
