//! Reads the network of a machine spec from its sources.

use capa_api::common::MachineRole;
use capa_api::contract::Cluster;
use capa_api::machine::AWSMachineSpec;
use capa_network::{Merged, merge};
use futures::future::join_all;

use super::network_sources::{self, requests};
use crate::kubernetes_api::{NetworkKubernetes, NetworkReader, ReadPending};

/// The network from a machine spec, its `networkSources` and the cluster's infrastructure object. `reader` is the
/// object of the spec, and `role` the role of the machine, if the spec belongs to one machine. Subnet filters of the
/// spec are not resolved.
pub(crate) async fn read_network(
    reader: &NetworkReader,
    spec: &AWSMachineSpec,
    role: Option<MachineRole>,
    cluster: &Cluster,
    kubernetes: &dyn NetworkKubernetes,
) -> Result<Merged, ReadPending> {
    // All reads begin together: the answers of slow reads must be known in one pass.
    let reads = requests(spec, role, cluster).into_iter().map(|(named_by, request)| async move {
        let read = kubernetes.source(reader, &request).await?;
        Ok(network_sources::from_read(named_by, &request, read))
    });
    let read: Result<Vec<_>, ReadPending> = join_all(reads).await.into_iter().collect();
    let mut sources = vec![network_sources::from_spec(reader.to_string(), spec)];
    sources.extend(read?);
    Ok(merge(&sources))
}
