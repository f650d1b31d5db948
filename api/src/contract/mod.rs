//! The fields of Cluster API's own kinds that this provider reads. An absent or ill-typed field reads as absent.

mod cluster;
mod machine;

use kube::{Resource, ResourceExt};
use serde::{Deserialize, Serialize};

pub use cluster::{Cluster, ClusterFailureDomain, ClusterInitialization, ClusterSpec, ClusterStatus};
pub use machine::{Bootstrap, Machine, MachineSpec, MachineStatus, NodeReference};

/// Reference to an object in the same namespace. The contract label of the CRD determines the version.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ContractReference {
    /// API group of the object.
    #[serde(default)]
    pub api_group: String,
    /// Kind of the object.
    pub kind: String,
    /// Name of the object.
    pub name: String,
}

impl ContractReference {
    /// The reference to an object.
    pub fn to<K: Resource<DynamicType = ()>>(object: &K) -> Self {
        Self { api_group: K::group(&()).into_owned(), kind: K::kind(&()).into_owned(), name: object.name_any() }
    }
}

/// Host and port of an API server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
pub struct ApiEndpoint {
    /// DNS name or IP address. Empty: not known yet.
    #[serde(default)]
    pub host: String,
    /// Port. 0: not known yet.
    #[serde(default)]
    pub port: i32,
}

impl ApiEndpoint {
    /// Whether both the host and the port are set.
    pub fn is_set(&self) -> bool {
        !self.host.is_empty() && self.port != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoint_is_set_only_with_host_and_port() {
        assert!(!ApiEndpoint { host: "api".to_owned(), port: 0 }.is_set());
        assert!(!ApiEndpoint { host: String::new(), port: 6443 }.is_set());
    }
}
