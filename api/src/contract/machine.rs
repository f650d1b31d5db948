//! The fields of a Machine that this provider reads.

use kube::CustomResource;
use serde::{Deserialize, Serialize};

use super::ContractReference;
use crate::lenient;

/// Spec of a Machine.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, CustomResource)]
#[kube(
    group = "cluster.x-k8s.io",
    version = "v1beta2",
    kind = "Machine",
    plural = "machines",
    namespaced,
    status = "MachineStatus",
    schema = "disabled",
    derive = "PartialEq",
    doc = "A Machine of Cluster API."
)]
#[serde(rename_all = "camelCase")]
pub struct MachineSpec {
    /// Name of the Cluster that the machine belongs to.
    #[serde(default, deserialize_with = "lenient::field")]
    pub cluster_name: String,
    /// The bootstrap configuration of the machine.
    #[serde(default, deserialize_with = "lenient::field")]
    pub bootstrap: Bootstrap,
    /// The object that provides the machine's infrastructure.
    #[serde(default, deserialize_with = "lenient::field", skip_serializing_if = "Option::is_none")]
    pub infrastructure_ref: Option<ContractReference>,
    /// Failure domain in which the machine is to be placed.
    #[serde(default, deserialize_with = "lenient::field", skip_serializing_if = "Option::is_none")]
    pub failure_domain: Option<String>,
    /// Kubernetes version of the machine, for example `v1.33.2`.
    #[serde(default, deserialize_with = "lenient::field", skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Provider id of the machine, once known.
    #[serde(
        default,
        rename = "providerID",
        deserialize_with = "lenient::field",
        skip_serializing_if = "Option::is_none"
    )]
    pub provider_id: Option<String>,
}

/// Bootstrap part of a Machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Bootstrap {
    /// Name of the Secret with the bootstrap data, once the Secret exists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_secret_name: Option<String>,
    /// The object that generates the bootstrap data.
    #[serde(default, deserialize_with = "lenient::field", skip_serializing_if = "Option::is_none")]
    pub config_ref: Option<ContractReference>,
}

/// Status of a Machine.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineStatus {
    /// Reference to the node of the machine.
    #[serde(default, deserialize_with = "lenient::field", skip_serializing_if = "Option::is_none")]
    pub node_ref: Option<NodeReference>,
}

/// Reference to a node of the workload cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct NodeReference {
    /// Name of the node.
    pub name: String,
}

impl Machine {
    /// Name of the Secret with the bootstrap data. An empty name counts as absent.
    pub fn bootstrap_secret_name(&self) -> Option<&str> {
        self.spec.bootstrap.data_secret_name.as_deref().filter(|name| !name.is_empty())
    }

    /// Whether the machine has become a node.
    pub fn has_joined(&self) -> bool {
        self.status.as_ref().is_some_and(|status| status.node_ref.is_some())
    }

    /// Failure domain in which the machine is to be placed. An empty name counts as absent.
    pub fn requested_failure_domain(&self) -> Option<&str> {
        self.spec.failure_domain.as_deref().filter(|name| !name.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_secret_name_or_failure_domain_counts_as_absent() {
        let mut machine = Machine::new("m", MachineSpec::default());
        machine.spec.bootstrap.data_secret_name = Some(String::new());
        machine.spec.failure_domain = Some(String::new());
        assert_eq!(machine.bootstrap_secret_name(), None);
        assert_eq!(machine.requested_failure_domain(), None);
    }
}
