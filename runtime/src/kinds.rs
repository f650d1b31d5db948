//! What a Kubernetes type must offer to be cached and to be reconciled.

use std::fmt::{self, Debug, Display};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::core::object::HasStatus;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A kind known at compile time that a cache can hold.
pub trait CachedKind: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static {}

impl<K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static> CachedKind for K {}

/// A kind with a status of ours.
pub trait ReconciledKind: CachedKind + HasStatus<Status: Serialize + Send + Sync> {}

impl<K> ReconciledKind for K where K: CachedKind + HasStatus<Status: Serialize + Send + Sync> {}

/// The label that Cluster API puts on all objects of a cluster.
const CLUSTER_NAME_LABEL: &str = "cluster.x-k8s.io/cluster-name";

/// Name of the Cluster that an object belongs to, by its label or else by its owner.
pub(crate) fn cluster_name(metadata: &ObjectMeta) -> Option<&str> {
    let label = metadata
        .labels
        .as_ref()
        .and_then(|labels| labels.get(CLUSTER_NAME_LABEL));
    let owner = || {
        metadata
            .owner_references
            .iter()
            .flatten()
            .find(|owner| owner.kind == "Cluster")
    };
    label
        .map(String::as_str)
        .or_else(|| owner().map(|owner| owner.name.as_str()))
}

/// How errors and logs name an object: `AWSMachine namespace/name`, or `Kind name` for a cluster-scoped one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ObjectName(String);

impl ObjectName {
    /// The name of `object`.
    pub fn of<K: Resource<DynamicType = ()>>(object: &K) -> Self {
        let (kind, metadata) = (K::kind(&()), object.meta());
        let name = metadata.name.as_deref().unwrap_or_default();
        Self(match &metadata.namespace {
            Some(namespace) => format!("{kind} {namespace}/{name}"),
            None => format!("{kind} {name}"),
        })
    }
}

impl Display for ObjectName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}
