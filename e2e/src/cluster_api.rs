//! Cluster API and the providers of kubeadm: their CustomResourceDefinitions, permissions and webhooks, and their
//! managers as processes of the host.

use std::{net::SocketAddr, process::Command, time::Duration};

use anyhow::{Context, ensure};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::{Api, Client, api::DynamicObject};
use serde_json::{Value, json};

use crate::{
    api_server::ApiServer,
    directory::Directory,
    objects,
    ports::free_port,
    programs,
    supervised::Supervised,
    wait::{eventually_by_polling, http_get},
};

const START_WITHIN: Duration = Duration::from_mins(3);

/// Cluster API core, or a provider of Cluster API in Go.
#[derive(Debug)]
pub(crate) struct Provider {
    /// The program in `bin/`.
    pub(crate) program: &'static str,
    /// The file with the provider's manifests, in the same folder.
    pub(crate) components: &'static str,
    /// The namespace of the provider's manifests.
    pub(crate) namespace: &'static str,
    pub(crate) service_account: &'static str,
    /// A role whose rules kube-controller-manager aggregates from labelled roles. Until the aggregation, the provider
    /// has no permissions.
    pub(crate) aggregated_role: Option<&'static str>,
    pub(crate) feature_gates: &'static str,
}

/// Cluster API core: Cluster, Machine, and the controllers of sets of machines.
pub(crate) const CORE: Provider = Provider {
    program: "cluster-api-core",
    components: "core-components.yaml",
    namespace: "capi-system",
    service_account: "capi-manager",
    aggregated_role: Some("capi-aggregated-manager-role"),
    feature_gates: "ClusterTopology=true,MachinePool=true,MachineTaintPropagation=true",
};

/// The bootstrap provider of kubeadm.
pub(crate) const BOOTSTRAP: Provider = Provider {
    program: "cluster-api-kubeadm-bootstrap",
    components: "bootstrap-components.yaml",
    namespace: "capi-kubeadm-bootstrap-system",
    service_account: "capi-kubeadm-bootstrap-manager",
    aggregated_role: None,
    feature_gates: "KubeadmBootstrapFormatIgnition=true",
};

/// The control plane provider of kubeadm.
pub(crate) const CONTROL_PLANE: Provider = Provider {
    program: "cluster-api-kubeadm-control-plane",
    components: "control-plane-components.yaml",
    namespace: "capi-kubeadm-control-plane-system",
    service_account: "capi-kubeadm-control-plane-manager",
    aggregated_role: Some("capi-kubeadm-control-plane-aggregated-manager-role"),
    feature_gates: "ClusterTopology=true,KubeadmBootstrapFormatIgnition=true,MachineTaintPropagation=true",
};

/// The environment variables of a manager.
pub(crate) type Variables = [(&'static str, String)];

/// The variables with which a manager reaches the API servers of clusters, by the proxy at this address.
pub(crate) fn through(endpoints: SocketAddr) -> [(&'static str, String); 2] {
    [("HTTPS_PROXY", format!("http://{endpoints}")), ("NO_PROXY", "127.0.0.1,localhost".to_owned())]
}

impl Provider {
    /// The provider's manifests as its releases have them.
    pub(crate) fn manifests(&self) -> anyhow::Result<Vec<Value>> {
        let path = programs::tool(self.components)?;
        let yaml = std::fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
        serde_saphyr::from_multiple(&yaml).with_context(|| format!("parse {}", path.display()))
    }

    /// Installs the manifests and starts the manager under its own ServiceAccount, with further
    /// `flags` and environment variables; returns when its webhooks answer.
    pub(crate) async fn start(
        &self,
        directory: &Directory,
        server: &ApiServer,
        manifests: Vec<Value>,
        flags: &[&str],
        variables: &Variables,
    ) -> anyhow::Result<Supervised> {
        let client = server.admin().await?;
        let webhook_port = free_port()?;
        let objects = on_this_host(manifests, webhook_port, &server.pki.ca)?;
        objects::apply_all(&client, objects, "").await.with_context(|| format!("install {}", self.program))?;
        self.run(directory, server, webhook_port, flags, variables).await
    }

    /// Starts the manager of a provider whose manifests are installed already.
    pub(crate) async fn run(
        &self,
        directory: &Directory,
        server: &ApiServer,
        webhook_port: u16,
        flags: &[&str],
        variables: &Variables,
    ) -> anyhow::Result<Supervised> {
        self.wait_for_permissions(&server.admin().await?).await?;
        let kubeconfig = server.service_account(self.namespace, self.service_account).await?;
        let kubeconfig = directory.write(&format!("{}.kubeconfig", self.program), kubeconfig)?;
        let health = format!("127.0.0.1:{}", free_port()?);
        let mut command = Command::new(programs::tool(self.program)?);
        command
            .arg(format!("--kubeconfig={}", kubeconfig.display()))
            .arg(format!("--webhook-port={webhook_port}"))
            .arg(format!("--webhook-cert-dir={}", server.pki.folder.display()))
            .arg(format!("--health-addr={health}"))
            .arg(format!("--diagnostics-address=127.0.0.1:{}", free_port()?))
            .arg("--insecure-diagnostics")
            .arg(format!("--feature-gates={}", self.feature_gates))
            .args(flags)
            .envs(variables.iter().map(|(name, value)| (*name, value)));
        let mut manager = Supervised::start(directory, &directory.folder("logs")?, self.program, &command)?;
        ready(&mut manager).await?;
        Ok(manager)
    }

    async fn wait_for_permissions(&self, client: &Client) -> anyhow::Result<()> {
        let Some(aggregated_role) = self.aggregated_role else {
            return Ok(());
        };
        let roles: Api<ClusterRole> = Api::all(client.clone());
        let what = format!("kube-controller-manager to fill the ClusterRole of {}", self.program);
        eventually_by_polling(START_WITHIN, &what, async || {
            let role = roles.get(aggregated_role).await?;
            ensure!(role.rules.is_some_and(|rules| !rules.is_empty()), "{aggregated_role} has no rules");
            Ok(())
        })
        .await
    }
}

/// Waits until a provider's manager is ready.
pub(crate) async fn ready(manager: &mut Supervised) -> anyhow::Result<()> {
    let health = manager.argument("--health-addr=").context("the manager has no health address")?;
    let url = format!("http://{health}/readyz");
    manager.ready(START_WITHIN, async || http_get(&url).await.map(drop)).await
}

/// The manifests for a manager that is a process of this host: webhooks are called by URL, and objects for pods are
/// left out.
fn on_this_host(manifests: Vec<Value>, webhook_port: u16, ca: &str) -> anyhow::Result<Vec<DynamicObject>> {
    let mut objects = called_by_url(manifests, webhook_port, ca)?;
    objects.retain(|object| object["kind"] != "Deployment");
    objects.into_iter().map(objects::from_value).collect()
}

/// The manifests with webhooks by URL instead of by Service, and without the Service and certificate objects that only
/// the webhooks need.
pub(crate) fn called_by_url(manifests: Vec<Value>, webhook_port: u16, ca: &str) -> anyhow::Result<Vec<Value>> {
    let of_webhooks = ["Service", "Certificate", "Issuer"];
    let ca = BASE64_STANDARD.encode(ca);
    manifests
        .into_iter()
        .filter(|object| !of_webhooks.iter().any(|kind| object["kind"] == *kind))
        .map(|mut object| {
            if let Some(annotations) = object.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
                annotations.remove("cert-manager.io/inject-ca-from");
            }
            if let Some(conversion) = object.pointer_mut("/spec/conversion/webhook/clientConfig") {
                call_by_url(conversion, webhook_port, &ca)?;
            }
            let webhooks = object.get_mut("webhooks").and_then(Value::as_array_mut);
            for client_config in webhooks.into_iter().flatten().filter_map(|webhook| webhook.get_mut("clientConfig")) {
                call_by_url(client_config, webhook_port, &ca)?;
            }
            Ok(object)
        })
        .collect()
}

fn call_by_url(client_config: &mut Value, port: u16, ca: &str) -> anyhow::Result<()> {
    let path = client_config.pointer("/service/path").and_then(Value::as_str).context("a webhook without a path")?;
    *client_config = json!({ "url": format!("https://127.0.0.1:{port}{path}"), "caBundle": ca });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn webhooks_are_called_on_this_host_and_nothing_needs_a_pod() {
        let manifests = serde_saphyr::from_multiple(
            "
            kind: ValidatingWebhookConfiguration
            apiVersion: admissionregistration.k8s.io/v1
            metadata: {name: v, annotations: {cert-manager.io/inject-ca-from: a/b}}
            webhooks: [{name: w, clientConfig: {service: {name: s, namespace: n, path: /validate}}}]
            \n---
            kind: Deployment
            apiVersion: apps/v1
            metadata: {name: d}
            ",
        );
        let objects = on_this_host(manifests.unwrap(), 4711, "certificate").unwrap();
        assert_eq!(objects.len(), 1);
        assert_eq!(objects[0].metadata.annotations, Some(std::collections::BTreeMap::new()));
        let client_config = &objects[0].data["webhooks"][0]["clientConfig"];
        assert_eq!(client_config, &json!({"url": "https://127.0.0.1:4711/validate", "caBundle": "Y2VydGlmaWNhdGU="}));
    }
}
