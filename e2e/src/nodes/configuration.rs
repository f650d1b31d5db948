//! kubeadm's ClusterConfiguration: the versions and images of a cluster's components.

use anyhow::Context;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client};
use serde_json::{Value, json};

use super::write::{SYSTEM, apply};

/// The ConfigMap with the ClusterConfiguration.
const NAME: &str = "kubeadm-config";
const KEY: &str = "ClusterConfiguration";

/// The repository of kubeadm's images.
const REPOSITORY: &str = "registry.k8s.io";
/// The tags that kubeadm v1.35 uses by default.
const ETCD_TAG: &str = "3.6.6-0";
const COREDNS_TAG: &str = "v1.13.1";

/// A ClusterConfiguration.
#[derive(Clone, Debug)]
pub(super) struct Configuration {
    document: Value,
    /// The Kubernetes version of new nodes.
    pub(super) kubernetes_version: String,
}

impl Configuration {
    pub(super) fn new(document: Value) -> anyhow::Result<Self> {
        let version = document.get("kubernetesVersion").and_then(Value::as_str);
        let kubernetes_version = version.context("the ClusterConfiguration has no kubernetesVersion")?;
        Ok(Self { kubernetes_version: kubernetes_version.to_owned(), document })
    }

    /// Stores the configuration, as `kubeadm init` does for joins and upgrades.
    pub(super) async fn store(&self, client: &Client) -> anyhow::Result<()> {
        let object = json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": NAME, "namespace": SYSTEM},
            // JSON is YAML.
            "data": {KEY: self.document.to_string()},
        });
        apply::<ConfigMap>(&Api::namespaced(client.clone(), SYSTEM), NAME, &object).await
    }

    /// Reads the stored configuration, as `kubeadm join` does.
    pub(super) async fn stored(client: &Client) -> anyhow::Result<Self> {
        let api = Api::<ConfigMap>::namespaced(client.clone(), SYSTEM);
        let data = api.get(NAME).await.context("read kubeadm-config")?.data;
        let text = data.unwrap_or_default().remove(KEY);
        let text = text.context("kubeadm-config has no ClusterConfiguration")?;
        Self::new(serde_saphyr::from_str(&text)?)
    }

    /// Whether the control plane nodes run etcd.
    pub(super) fn has_stacked_etcd(&self) -> bool {
        self.document.pointer("/etcd/external").is_none()
    }

    /// The image of a component whose version is that of Kubernetes.
    pub(super) fn image(&self, component: &str) -> String {
        format!("{REPOSITORY}/{component}:{}", self.kubernetes_version.replace('+', "_"))
    }

    pub(super) fn etcd_image(&self) -> String {
        format!("{REPOSITORY}/etcd:{}", self.tag("/etcd/local/imageTag", ETCD_TAG))
    }

    pub(super) fn coredns_image(&self) -> String {
        format!("{REPOSITORY}/coredns/coredns:{}", self.tag("/dns/imageTag", COREDNS_TAG))
    }

    fn tag<'a>(&'a self, path: &str, default: &'a str) -> &'a str {
        let tag = self.document.pointer(path).and_then(Value::as_str);
        tag.filter(|tag| !tag.is_empty()).unwrap_or(default)
    }
}
