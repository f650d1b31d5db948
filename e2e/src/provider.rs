//! Our own provider in a world: what an administrator would install, except the Deployment.

use std::process::Command;

use anyhow::{Context, ensure};
use kube::Client;

use crate::{objects, programs};

/// The namespace of the manager's ServiceAccount.
pub(crate) const NAMESPACE: &str = "capa-rs-system";

/// The ServiceAccount whose permissions the manager has, in tests as in production.
pub(crate) const SERVICE_ACCOUNT: &str = "capa-controller-manager";

/// Applies `config/default` of this repository without its Deployment.
pub(crate) async fn install(client: &Client) -> anyhow::Result<()> {
    let mut manifests = objects::parse(&kustomize()?).context("read our own manifests")?;
    manifests.retain(|object| object.types.as_ref().is_some_and(|types| types.kind != "Deployment"));
    objects::apply_all(client, manifests, NAMESPACE)
        .await
        .context("install our own manifests")
}

fn kustomize() -> anyhow::Result<String> {
    let folder = programs::repository().join("config/default");
    let output = Command::new(programs::tool("kubectl")?)
        .arg("kustomize")
        .arg(&folder)
        .output()?;
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "kubectl kustomize {}: {error}",
        folder.display()
    );
    Ok(String::from_utf8(output.stdout)?)
}
