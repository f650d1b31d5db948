//! The fields of a Cluster that this provider reads.

use kube::CustomResource;
use serde::{Deserialize, Serialize};

use super::{ApiEndpoint, ContractReference};
use crate::common::ControlPlaneTarget;
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
    doc = "A Cluster of Cluster API."
)]
#[serde(rename_all = "camelCase")]
pub struct ClusterSpec {
    /// Whether the cluster and everything that belongs to it is paused.
    #[serde(default, deserialize_with = "lenient::field", skip_serializing_if = "Option::is_none")]
    pub paused: Option<bool>,
    /// The object that provides the cluster's infrastructure. Absent for clusters without an infrastructure object.
    #[serde(default, deserialize_with = "lenient::field", skip_serializing_if = "Option::is_none")]
    pub infrastructure_ref: Option<ContractReference>,
    /// The object that runs the control plane.
    #[serde(default, deserialize_with = "lenient::field", skip_serializing_if = "Option::is_none")]
    pub control_plane_ref: Option<ContractReference>,
    /// Address of the API server.
    #[serde(default, deserialize_with = "lenient::field", skip_serializing_if = "Option::is_none")]
    pub control_plane_endpoint: Option<ApiEndpoint>,
    /// Address ranges of the cluster.
    #[serde(default, deserialize_with = "lenient::field", skip_serializing_if = "Option::is_none")]
    pub cluster_network: Option<ClusterNetwork>,
}

/// Address ranges of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterNetwork {
    /// Port of the API servers.
    #[serde(default, deserialize_with = "lenient::field", skip_serializing_if = "Option::is_none")]
    pub api_server_port: Option<i32>,
    /// Ranges of pods.
    #[serde(default, deserialize_with = "lenient::field", skip_serializing_if = "Option::is_none")]
    pub pods: Option<NetworkRanges>,
    /// Ranges of Services.
    #[serde(default, deserialize_with = "lenient::field", skip_serializing_if = "Option::is_none")]
    pub services: Option<NetworkRanges>,
}

/// Address ranges of pods or Services.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NetworkRanges {
    /// IPv4 and IPv6 ranges.
    #[serde(default)]
    pub cidr_blocks: Vec<String>,
}

/// Status of a Cluster.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterStatus {
    /// The milestones that the cluster has reached. A reached milestone is never reverted.
    #[serde(default, deserialize_with = "lenient::field", skip_serializing_if = "Option::is_none")]
    pub initialization: Option<ClusterInitialization>,
    /// The failure domains that the infrastructure reports.
    #[serde(default, deserialize_with = "lenient::field", skip_serializing_if = "Vec::is_empty")]
    pub failure_domains: Vec<ClusterFailureDomain>,
}

/// A failure domain of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct ClusterFailureDomain {
    /// Name of the failure domain: on AWS, the zone.
    pub name: String,
}

/// Milestones in the life of a Cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterInitialization {
    /// Whether the infrastructure was reported as provisioned.
    #[serde(default, deserialize_with = "lenient::field", skip_serializing_if = "Option::is_none")]
    pub infrastructure_provisioned: Option<bool>,
    /// Whether the control plane has answered at least once.
    #[serde(default, deserialize_with = "lenient::field", skip_serializing_if = "Option::is_none")]
    pub control_plane_initialized: Option<bool>,
}

impl Cluster {
    /// Whether the cluster is paused through its spec.
    pub fn is_paused(&self) -> bool {
        self.spec.paused == Some(true)
    }

    /// Whether Cluster API core has reported the infrastructure as provisioned.
    pub fn infrastructure_provisioned(&self) -> bool {
        self.initialization().and_then(|reached| reached.infrastructure_provisioned) == Some(true)
    }

    /// The address ranges of pods and Services.
    pub fn cidr_blocks(&self) -> Vec<&str> {
        let network = self.spec.cluster_network.as_ref();
        let ranges = network.into_iter().flat_map(|network| [&network.pods, &network.services]);
        let blocks = ranges.flatten().flat_map(|ranges| &ranges.cidr_blocks);
        blocks.map(String::as_str).collect()
    }

    /// Port on which the API servers listen. Control plane providers use 6443 if the Cluster names none. The port of
    /// the control plane endpoint may be another one.
    pub fn api_server_port(&self) -> i32 {
        let network = self.spec.cluster_network.as_ref();
        network.and_then(|network| network.api_server_port).unwrap_or(ControlPlaneTarget::API_PORT)
    }

    /// Whether the control plane has answered at least once.
    pub fn control_plane_initialized(&self) -> bool {
        self.initialization().and_then(|reached| reached.control_plane_initialized) == Some(true)
    }

    /// The names of the failure domains, sorted.
    pub fn failure_domain_names(&self) -> Vec<&str> {
        let status = self.status.as_ref();
        let domains = status.into_iter().flat_map(|status| &status.failure_domains);
        let mut names: Vec<&str> = domains.map(|domain| domain.name.as_str()).collect();
        names.sort_unstable();
        names
    }

    fn initialization(&self) -> Option<&ClusterInitialization> {
        self.status.as_ref()?.initialization.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn cluster_with_unknown_and_ill_typed_fields_is_read() {
        let cluster: Cluster = serde_json::from_value(json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2",
            "kind": "Cluster",
            "metadata": {"name": "dev", "namespace": "team-a"},
            "spec": {
                "paused": "yes",
                "clusterNetwork": {"pods": {"cidrBlocks": ["192.168.0.0/16"]}},
                "infrastructureRef": {
                    "apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "AWSCluster", "name": "dev",
                },
                "controlPlaneEndpoint": {"host": "api.example.org", "port": 6443},
            },
            "status": {
                "initialization": {"infrastructureProvisioned": true},
                "failureDomains": [{"name": "eu-west-1b"}, {"name": "eu-west-1a", "controlPlane": true}],
                "phase": 7,
            },
        }))
        .unwrap();
        assert!(!cluster.is_paused());
        assert!(cluster.infrastructure_provisioned());
        assert!(!cluster.control_plane_initialized());
        assert_eq!(cluster.cidr_blocks(), ["192.168.0.0/16"]);
        assert_eq!(cluster.failure_domain_names(), ["eu-west-1a", "eu-west-1b"]);
        assert_eq!(cluster.spec.infrastructure_ref.unwrap().kind, "AWSCluster");
        assert!(cluster.spec.control_plane_endpoint.unwrap().is_set());
    }
}
