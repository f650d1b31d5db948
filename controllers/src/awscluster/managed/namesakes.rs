//! Other managed AWSClusters whose resources would have the same names and tags. Pure.

use std::cmp::Ordering;
use std::sync::Arc;

use capa_api::cluster::AWSCluster;
use capa_api::meta;
use kube::ResourceExt;

use super::decided::has_begun;
use super::inputs::brought;

/// Why the AWSCluster, whose credentials belong to `account`, must not touch AWS: another managed AWSCluster goes
/// before it, whose Cluster has the same name, in the same account and region. The tags could not tell whose a resource
/// is.
pub(super) fn conflict(cluster: &AWSCluster, name: &str, account: &str, others: &[Arc<AWSCluster>]) -> Option<String> {
    let first = others.iter().find(|other| {
        other.metadata.uid != cluster.metadata.uid
            && meta::owner_cluster_name(&other.metadata) == Some(name)
            && other.spec.region() == cluster.spec.region()
            && recorded_account(other).is_none_or(|recorded| recorded == account)
            && precedence(other, cluster) == Ordering::Less
    })?;
    Some(format!(
        "the AWSCluster {}/{} may have the resources of a Cluster {name} in this account and region already, and AWS could \
         not tell them apart from those of this one: give the Cluster another name, or use another account or region",
        first.namespace().unwrap_or_default(),
        first.name_any()
    ))
}

/// The account of the resources of an AWSCluster. One that is not known yet may be any.
fn recorded_account(cluster: &AWSCluster) -> Option<&str> {
    cluster.status.as_ref()?.account_id.as_deref()
}

/// Whether the spec says that CAPA has made the VPC of the cluster.
fn is_of_capa(cluster: &AWSCluster) -> bool {
    let name = meta::owner_cluster_name(&cluster.metadata).unwrap_or_default();
    brought::is_made_for(&cluster.spec, name)
}

/// Who goes first: whoever has begun, then the older one, then by name.
fn precedence(one: &AWSCluster, other: &AWSCluster) -> Ordering {
    let created = |cluster: &AWSCluster| cluster.metadata.creation_timestamp.as_ref().map(|time| time.0);
    let key = |cluster: &AWSCluster| {
        let names = (cluster.namespace(), cluster.name_any());
        (!(has_begun(cluster) || is_of_capa(cluster)), created(cluster), names)
    };
    key(one).cmp(&key(other))
}
