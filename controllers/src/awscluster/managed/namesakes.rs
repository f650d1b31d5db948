//! Other managed AWSClusters whose resources would have the same names and tags. Pure.

use std::cmp::Ordering;
use std::sync::Arc;

use capa_api::cluster::AWSCluster;
use capa_api::meta;
use kube::ResourceExt;

use super::decided::has_begun;
use super::inputs::brought;

/// The reason why the AWSCluster, whose credentials belong to `account`, must not use AWS: another managed AWSCluster
/// in the same account and region, whose Cluster has the same name, takes precedence. The tags could not distinguish
/// their resources.
pub(super) fn conflict(cluster: &AWSCluster, name: &str, account: &str, others: &[Arc<AWSCluster>]) -> Option<String> {
    let first = others.iter().find(|other| {
        other.metadata.uid != cluster.metadata.uid
            && meta::owner_cluster_name(&other.metadata) == Some(name)
            && other.spec.region() == cluster.spec.region()
            && recorded_account(other).is_none_or(|recorded| recorded == account)
            && precedence(other, cluster) == Ordering::Less
    })?;
    Some(format!(
        "the AWSCluster {}/{} may have the resources of a Cluster {name} in this account and region already, and AWS \
         could not tell them apart from those of this one: give the Cluster another name, or use another account or \
         region",
        first.namespace().unwrap_or_default(),
        first.name_any()
    ))
}

/// The account of the resources of an AWSCluster. `None` if it is not known yet: it may be any account.
fn recorded_account(cluster: &AWSCluster) -> Option<&str> {
    cluster.status.as_ref()?.account_id.as_deref()
}

/// Whether the spec says that CAPA has created the VPC of the cluster.
fn is_of_capa(cluster: &AWSCluster) -> bool {
    let name = meta::owner_cluster_name(&cluster.metadata).unwrap_or_default();
    brought::is_made_for(&cluster.spec, name)
}

/// The precedence: an AWSCluster with created resources comes first, then the older one, then the order of names.
fn precedence(one: &AWSCluster, other: &AWSCluster) -> Ordering {
    let created = |cluster: &AWSCluster| cluster.metadata.creation_timestamp.as_ref().map(|time| time.0);
    let key = |cluster: &AWSCluster| {
        let names = (cluster.namespace(), cluster.name_any());
        (!(has_begun(cluster) || is_of_capa(cluster)), created(cluster), names)
    };
    key(one).cmp(&key(other))
}
