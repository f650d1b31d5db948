//! Determines which member of a Karmada belongs to a Cluster. Pure.

use capa_api::contract::Cluster;
use capa_api::meta;
use kube::ResourceExt;
use kube::api::DynamicObject;

use super::control_plane::spec_field;
use super::findings::{member_already, name_in_use};
use super::membership::Record;
use crate::conditions::Finding;

/// Label of a member with the namespace of its Cluster.
const CLUSTER_NAMESPACE_LABEL: &str = "cluster.x-k8s.io/cluster-namespace";

/// The labels by which a member is recognised.
pub(super) fn identity(cluster: &Cluster) -> [(&'static str, String); 2] {
    [(meta::CLUSTER_NAME_LABEL, cluster.name_any()), (CLUSTER_NAMESPACE_LABEL, cluster.namespace().unwrap_or_default())]
}

/// Whether the member belongs to the Cluster: its labels name the Cluster, and its id is the recorded one.
pub(super) fn is_ours(member: &DynamicObject, cluster: &Cluster, record: &Record) -> bool {
    let labels = member.labels();
    let identity = identity(cluster);
    let mut identity = identity.iter();
    identity.all(|(key, value)| labels.get(*key) == Some(value)) && has_id(member, record)
}

fn has_id(member: &DynamicObject, record: &Record) -> bool {
    spec_field(member, "id").is_some_and(|id| *id == record.id)
}

/// The reason why the cluster cannot have this name among these members.
pub(super) fn taken(members: &[DynamicObject], cluster: &Cluster, record: &Record) -> Option<Finding> {
    let mut others = members.iter().filter(|member| !is_ours(member, cluster, record));
    others.find_map(|member| {
        if member.name_any() == record.member {
            Some(name_in_use(member))
        } else {
            has_id(member, record).then(|| member_already(member))
        }
    })
}
