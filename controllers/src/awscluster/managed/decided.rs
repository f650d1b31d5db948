//! The decisions that are final once anything is created for a cluster, whatever its spec says later. Pure.

use capa_api::cluster::AWSCluster;
use capa_api::cluster::status::{ClusterResource, Lifecycle};

use super::reference::Kind;

/// Whether anything is or may be created for the cluster, or machines may use its network.
pub(super) fn has_begun(cluster: &AWSCluster) -> bool {
    let Some(status) = &cluster.status else { return false };
    let mut owned = status.resources.iter().filter(|resource| resource.lifecycle == Lifecycle::Owned);
    status.provisioned() || owned.any(may_exist)
}

/// Whether a VPC is recorded that was created, or that a call may have created.
pub(super) fn may_have_vpc(cluster: &AWSCluster) -> bool {
    let resources = cluster.status.iter().flat_map(|status| &status.resources);
    let mut vpcs = resources.filter(|resource| resource.resource_type.parse() == Ok(Kind::Vpc));
    vpcs.any(may_exist)
}

/// Whether the resource was created, or a call may have created it.
fn may_exist(resource: &ClusterResource) -> bool {
    resource.id.is_some() || resource.requested_at.is_some()
}

/// The recorded resources. Those of the user can be corrected in the spec until the cluster has begun, or is deleted.
pub(super) fn recorded(cluster: &AWSCluster) -> Vec<ClusterResource> {
    let is_decided = has_begun(cluster) || cluster.metadata.deletion_timestamp.is_some();
    let resources = cluster.status.iter().flat_map(|status| &status.resources);
    let decided = resources.filter(|resource| is_decided || resource.lifecycle == Lifecycle::Owned);
    decided.cloned().collect()
}
