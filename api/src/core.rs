//! Cluster API's own kinds, as far as they are read here. Reading is tolerant: what is absent or ill-typed reads as absent.

use kube::CustomResource;
use serde::{Deserialize, Serialize};

use crate::lenient;

/// Spec of a Cluster.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, CustomResource)]
#[kube(
    group = "cluster.x-k8s.io",
    version = "v1beta2",
    kind = "Cluster",
    plural = "clusters",
    namespaced,
    status = "ClusterStatus",
    schema = "disabled",
    derive = "PartialEq",
    doc = "A Kubernetes cluster as Cluster API describes it."
)]
#[serde(rename_all = "camelCase")]
pub struct ClusterSpec {
    /// Whether the cluster and everything that belongs to it is paused.
    #[serde(
        default,
        deserialize_with = "lenient::field",
        skip_serializing_if = "Option::is_none"
    )]
    pub paused: Option<bool>,
    /// The object that provides the cluster's infrastructure; absent for clusters whose machines bring their own.
    #[serde(
        default,
        deserialize_with = "lenient::field",
        skip_serializing_if = "Option::is_none"
    )]
    pub infrastructure_ref: Option<ContractReference>,
    /// The object that runs the control plane.
    #[serde(
        default,
        deserialize_with = "lenient::field",
        skip_serializing_if = "Option::is_none"
    )]
    pub control_plane_ref: Option<ContractReference>,
    /// Address of the API server.
    #[serde(
        default,
        deserialize_with = "lenient::field",
        skip_serializing_if = "Option::is_none"
    )]
    pub control_plane_endpoint: Option<ApiEndpoint>,
}

/// Status of a Cluster.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterStatus {
    /// What has once been reached; never taken back.
    #[serde(
        default,
        deserialize_with = "lenient::field",
        skip_serializing_if = "Option::is_none"
    )]
    pub initialization: Option<ClusterInitialization>,
}

/// Milestones in the life of a Cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterInitialization {
    /// Whether the infrastructure was reported as provisioned.
    #[serde(
        default,
        deserialize_with = "lenient::field",
        skip_serializing_if = "Option::is_none"
    )]
    pub infrastructure_provisioned: Option<bool>,
    /// Whether the control plane has answered once.
    #[serde(
        default,
        deserialize_with = "lenient::field",
        skip_serializing_if = "Option::is_none"
    )]
    pub control_plane_initialized: Option<bool>,
}

impl Cluster {
    /// Whether the cluster is paused through its spec.
    pub fn is_paused(&self) -> bool {
        self.spec.paused == Some(true)
    }

    /// Whether core has seen the infrastructure provisioned.
    pub fn infrastructure_provisioned(&self) -> bool {
        self.initialization()
            .and_then(|reached| reached.infrastructure_provisioned)
            == Some(true)
    }

    /// Whether the control plane has answered once.
    pub fn control_plane_initialized(&self) -> bool {
        self.initialization()
            .and_then(|reached| reached.control_plane_initialized)
            == Some(true)
    }

    fn initialization(&self) -> Option<&ClusterInitialization> {
        self.status.as_ref()?.initialization.as_ref()
    }
}

/// Reference to an object of the same namespace whose version the CRD's contract label decides.
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

/// Host and port of an API server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
pub struct ApiEndpoint {
    /// DNS name or IP address; empty where it is not known yet.
    #[serde(default)]
    pub host: String,
    /// Port; 0 where it is not known yet.
    #[serde(default)]
    pub port: i32,
}

impl ApiEndpoint {
    /// Whether both halves are known.
    pub fn is_set(&self) -> bool {
        !self.host.is_empty() && self.port != 0
    }
}

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
    doc = "A machine of a cluster as Cluster API describes it."
)]
#[serde(rename_all = "camelCase")]
pub struct MachineSpec {
    /// Name of the Cluster that the machine belongs to.
    #[serde(default, deserialize_with = "lenient::field")]
    pub cluster_name: String,
    /// How the machine becomes a node.
    #[serde(default, deserialize_with = "lenient::field")]
    pub bootstrap: Bootstrap,
    /// The object that provides the machine's infrastructure.
    #[serde(
        default,
        deserialize_with = "lenient::field",
        skip_serializing_if = "Option::is_none"
    )]
    pub infrastructure_ref: Option<ContractReference>,
    /// Failure domain that the machine is asked to be placed in.
    #[serde(
        default,
        deserialize_with = "lenient::field",
        skip_serializing_if = "Option::is_none"
    )]
    pub failure_domain: Option<String>,
    /// Kubernetes version of the machine, for example `v1.33.2`.
    #[serde(
        default,
        deserialize_with = "lenient::field",
        skip_serializing_if = "Option::is_none"
    )]
    pub version: Option<String>,
    /// Id of the machine at its provider, once known.
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
    /// Name of the Secret with the bootstrap data, once it is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_secret_name: Option<String>,
}

/// Status of a Machine.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineStatus {
    /// The node that the machine has become.
    #[serde(
        default,
        deserialize_with = "lenient::field",
        skip_serializing_if = "Option::is_none"
    )]
    pub node_ref: Option<NodeReference>,
}

/// Reference to a node of the workload cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct NodeReference {
    /// Name of the node.
    pub name: String,
}

impl Machine {
    /// Name of the bootstrap data's Secret; an empty name counts as absent.
    pub fn bootstrap_secret_name(&self) -> Option<&str> {
        self.spec
            .bootstrap
            .data_secret_name
            .as_deref()
            .filter(|name| !name.is_empty())
    }

    /// Failure domain that the machine is asked to be placed in; an empty name counts as absent.
    pub fn requested_failure_domain(&self) -> Option<&str> {
        self.spec.failure_domain.as_deref().filter(|name| !name.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_cluster_of_a_newer_core_with_unknown_and_ill_typed_fields_is_read() {
        let cluster: Cluster = serde_json::from_value(json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2",
            "kind": "Cluster",
            "metadata": {"name": "dev", "namespace": "team-a"},
            "spec": {
                "paused": "yes",
                "clusterNetwork": {"pods": {"cidrBlocks": ["192.168.0.0/16"]}},
                "infrastructureRef": {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "AWSCluster", "name": "dev"},
                "controlPlaneEndpoint": {"host": "api.example.org", "port": 6443},
            },
            "status": {"initialization": {"infrastructureProvisioned": true}, "phase": 7},
        }))
        .unwrap();
        assert!(!cluster.is_paused());
        assert!(cluster.infrastructure_provisioned());
        assert!(!cluster.control_plane_initialized());
        assert_eq!(cluster.spec.infrastructure_ref.unwrap().kind, "AWSCluster");
        assert!(cluster.spec.control_plane_endpoint.unwrap().is_set());
    }

    #[test]
    fn an_empty_secret_name_or_failure_domain_counts_as_absent() {
        let mut machine = Machine::new("m", MachineSpec::default());
        machine.spec.bootstrap.data_secret_name = Some(String::new());
        machine.spec.failure_domain = Some(String::new());
        assert_eq!(machine.bootstrap_secret_name(), None);
        assert_eq!(machine.requested_failure_domain(), None);
    }

    #[test]
    fn half_an_endpoint_is_none() {
        assert!(
            !ApiEndpoint {
                host: "api".to_owned(),
                port: 0
            }
            .is_set()
        );
        assert!(
            !ApiEndpoint {
                host: String::new(),
                port: 6443
            }
            .is_set()
        );
    }
}
