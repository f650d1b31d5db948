//! The fields of the kind ClusterProfile of Kubernetes' SIG Multicluster that this crate writes. Pure.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Spec of a ClusterProfile.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, CustomResource)]
#[kube(
    group = "multicluster.x-k8s.io",
    version = "v1alpha1",
    kind = "ClusterProfile",
    plural = "clusterprofiles",
    namespaced,
    status = "ClusterProfileStatus",
    schema = "disabled",
    derive = "PartialEq",
    doc = "A cluster of an inventory."
)]
#[serde(rename_all = "camelCase")]
pub struct ClusterProfileSpec {
    /// Human-readable name of the cluster.
    #[serde(default)]
    pub display_name: String,
    /// The only writer of the object.
    pub cluster_manager: ClusterManager,
}

/// The manager of a ClusterProfile.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct ClusterManager {
    /// Name of the manager. The API server refuses to change it.
    pub name: String,
}

/// Status of a ClusterProfile.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterProfileStatus {
    /// Conditions, at most one of each type.
    #[serde(default)]
    pub conditions: Vec<Condition>,
    /// Versions of the cluster.
    #[serde(default)]
    pub version: ClusterVersion,
    /// Facts about the cluster, at most one of each name.
    #[serde(default)]
    pub properties: Vec<Property>,
    /// Ways to reach the API server of the cluster, at most one of each name.
    #[serde(default)]
    pub access_providers: Vec<AccessProvider>,
}

/// Versions of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct ClusterVersion {
    /// Version of Kubernetes, for example `v1.36.2`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubernetes: Option<String>,
}

/// A fact about a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct Property {
    /// Name of the fact; at most 253 characters.
    pub name: String,
    /// Value of the fact; 1 to 1024 characters.
    pub value: String,
}

/// A way to reach the API server of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct AccessProvider {
    /// Name by which a consumer finds its plugin.
    pub name: String,
    /// The API server, in the form of a kubeconfig.
    pub cluster: AccessCluster,
}

/// The API server of a cluster, in the form of a kubeconfig.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct AccessCluster {
    /// URL of the API server.
    pub server: String,
    /// Expected name in the certificate, if it differs from the host of the URL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls_server_name: Option<String>,
    /// Certificate authority, PEM in base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate_authority_data: Option<String>,
    /// Settings for a plugin.
    #[serde(default)]
    pub extensions: Vec<Extension>,
}

/// Settings for a plugin.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct Extension {
    /// Name of the extension.
    pub name: String,
    /// Content of the extension.
    pub extension: Value,
}
