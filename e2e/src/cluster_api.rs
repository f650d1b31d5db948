//! Cluster API core: its CustomResourceDefinitions, permissions and webhooks, and its manager as a process of the host.

use std::{process::Command, time::Duration};

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
    wait::{eventually, http_get},
};

/// Where the release manifests put core.
const NAMESPACE: &str = "capi-system";
const SERVICE_ACCOUNT: &str = "capi-manager";

/// A role whose rules kube-controller-manager gathers from labelled roles. Until it has some, core may do nothing.
const AGGREGATED_ROLE: &str = "capi-aggregated-manager-role";

const START_WITHIN: Duration = Duration::from_mins(1);

/// Installs core and starts its manager under its own ServiceAccount; returns when its webhooks answer.
pub(crate) async fn start(
    directory: &Directory,
    server: &ApiServer,
    manifests: Vec<Value>,
) -> anyhow::Result<Supervised> {
    let client = server.admin().await?;
    let webhook_port = free_port()?;
    let objects = on_this_host(manifests, webhook_port, &server.pki.ca)?;
    objects::apply_all(&client, objects, "")
        .await
        .context("install Cluster API core")?;
    wait_for_permissions(&client).await?;

    let kubeconfig = server.service_account(NAMESPACE, SERVICE_ACCOUNT).await?;
    let kubeconfig = directory.write("cluster-api-core.kubeconfig", kubeconfig)?;
    let health = format!("127.0.0.1:{}", free_port()?);
    let mut command = Command::new(programs::tool("cluster-api-core")?);
    command
        .arg(format!("--kubeconfig={}", kubeconfig.display()))
        .arg(format!("--webhook-port={webhook_port}"))
        .arg(format!("--webhook-cert-dir={}", server.pki.folder.display()))
        .arg(format!("--health-addr={health}"))
        .arg(format!("--diagnostics-address=127.0.0.1:{}", free_port()?))
        .arg("--insecure-diagnostics")
        .arg("--feature-gates=ClusterTopology=true,MachinePool=true,MachineTaintPropagation=true");
    let mut core = Supervised::start(directory, &directory.folder("logs")?, "cluster-api-core", &command)?;
    ready(&mut core).await?;
    Ok(core)
}

/// Waits until core is ready.
pub(crate) async fn ready(core: &mut Supervised) -> anyhow::Result<()> {
    let health = core.argument("--health-addr=").context("core has no health address")?;
    let url = format!("http://{health}/readyz");
    core.ready(START_WITHIN, async || http_get(&url).await.map(drop)).await
}

/// The manifests that `make tools` made.
pub(crate) fn manifests() -> anyhow::Result<Vec<Value>> {
    let path = programs::tool("core-components.yaml")?;
    let yaml = std::fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
    serde_saphyr::from_multiple(&yaml).with_context(|| format!("parse {}", path.display()))
}

async fn wait_for_permissions(client: &Client) -> anyhow::Result<()> {
    let roles: Api<ClusterRole> = Api::all(client.clone());
    eventually(
        START_WITHIN,
        "kube-controller-manager to fill the ClusterRole of Cluster API core",
        async || {
            let role = roles.get(AGGREGATED_ROLE).await?;
            ensure!(
                role.rules.is_some_and(|rules| !rules.is_empty()),
                "{AGGREGATED_ROLE} has no rules"
            );
            Ok(())
        },
    )
    .await
}

/// The manifests of a cluster with pods, for a manager that is a process of this host: webhooks by URL instead of by
/// Service, no cert-manager, nothing that would run in a pod.
fn on_this_host(manifests: Vec<Value>, webhook_port: u16, ca: &str) -> anyhow::Result<Vec<DynamicObject>> {
    let in_cluster = ["Deployment", "Service", "Certificate", "Issuer"];
    let ca = BASE64_STANDARD.encode(ca);
    manifests
        .into_iter()
        .filter(|object| !in_cluster.iter().any(|kind| object["kind"] == *kind))
        .map(|mut object| {
            if let Some(annotations) = object
                .pointer_mut("/metadata/annotations")
                .and_then(Value::as_object_mut)
            {
                annotations.remove("cert-manager.io/inject-ca-from");
            }
            if let Some(conversion) = object.pointer_mut("/spec/conversion/webhook/clientConfig") {
                call_by_url(conversion, webhook_port, &ca)?;
            }
            let webhooks = object.get_mut("webhooks").and_then(Value::as_array_mut);
            for client_config in webhooks
                .into_iter()
                .flatten()
                .filter_map(|webhook| webhook.get_mut("clientConfig"))
            {
                call_by_url(client_config, webhook_port, &ca)?;
            }
            objects::from_value(object)
        })
        .collect()
}

fn call_by_url(client_config: &mut Value, port: u16, ca: &str) -> anyhow::Result<()> {
    let path = client_config
        .pointer("/service/path")
        .and_then(Value::as_str)
        .context("a webhook without a path")?;
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
        assert_eq!(
            client_config,
            &json!({"url": "https://127.0.0.1:4711/validate", "caBundle": "Y2VydGlmaWNhdGU="})
        );
    }
}
