//! Other managed AWSClusters whose resources would have the same names and tags. Pure.

use std::cmp::Ordering;
use std::sync::Arc;

use capa_api::cluster::AWSCluster;
use capa_api::meta;
use kube::ResourceExt;

/// Why the AWSCluster must not touch AWS: an older managed AWSCluster of another namespace belongs to a Cluster of the
/// same name, in the same account and region. The tags could not tell whose a resource is.
pub(super) fn conflict(cluster: &AWSCluster, name: &str, others: &[Arc<AWSCluster>]) -> Option<String> {
    let older = others.iter().find(|other| {
        other.metadata.uid != cluster.metadata.uid
            && meta::owner_cluster_name(&other.metadata) == Some(name)
            && other.spec.region() == cluster.spec.region()
            && may_share_account(other, cluster)
            && precedence(other, cluster) == Ordering::Less
    })?;
    Some(format!(
        "the AWSCluster {}/{} has the resources of a Cluster {name} in this region already, and AWS could not tell them \
         apart from those of this one: give the Cluster another name, or use another AWS account or region",
        older.namespace().unwrap_or_default(),
        older.name_any()
    ))
}

/// Whether both may be in one account. An account that is not recorded yet may be any.
fn may_share_account(one: &AWSCluster, other: &AWSCluster) -> bool {
    let account = |cluster: &AWSCluster| cluster.status.as_ref().and_then(|status| status.account_id.clone());
    match (account(one), account(other)) {
        (Some(one), Some(other)) => one == other,
        _ => one.spec.effective_identity_ref() == other.spec.effective_identity_ref(),
    }
}

/// Who goes first: whoever has resources, then the older one, then by name.
fn precedence(one: &AWSCluster, other: &AWSCluster) -> Ordering {
    let has_none = |cluster: &AWSCluster| {
        let status = cluster.status.as_ref();
        status.is_none_or(|status| status.resources.iter().all(|resource| resource.id.is_none()))
    };
    let created = |cluster: &AWSCluster| cluster.metadata.creation_timestamp.as_ref().map(|time| time.0);
    let key = |cluster: &AWSCluster| {
        (
            has_none(cluster),
            created(cluster),
            cluster.namespace(),
            cluster.name_any(),
        )
    };
    key(one).cmp(&key(other))
}
