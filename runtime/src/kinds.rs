//! The traits of Kubernetes types that can be cached and reconciled.

use std::fmt::{self, Debug, Display};

use kube::Resource;
use kube::core::object::HasStatus;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A kind known at compile time that a cache can hold.
pub trait CachedKind: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static {}

impl<K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static> CachedKind for K {}

/// A kind whose status this provider writes.
pub trait ReconciledKind: CachedKind + HasStatus<Status: Serialize + Send + Sync> {}

impl<K> ReconciledKind for K where K: CachedKind + HasStatus<Status: Serialize + Send + Sync> {}

/// The name of an object in errors and logs: `AWSMachine namespace/name`, or `Kind name` for a cluster-scoped object.
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
