//! Our own provider in a world: what an administrator would install, except the Deployment.

use std::process::Command;

use anyhow::{Context, ensure};
use kube::{
    Client,
    api::{ObjectMeta, TypeMeta},
};

use crate::{objects, programs};

/// The namespace of the manager's ServiceAccount.
pub(crate) const NAMESPACE: &str = "capa-rs-system";

/// The ServiceAccount whose permissions the manager has, in tests as in production.
pub(crate) const SERVICE_ACCOUNT: &str = "capa-controller-manager";

/// The Role and the RoleBinding for the Lease are both called this.
const LEASE_ROLE: &str = "capa-rs-leader-election";

/// Applies `config/default` of this repository without what is about the manager's pod.
pub(crate) async fn install(client: &Client) -> anyhow::Result<()> {
    let mut manifests = objects::parse(&kustomize()?).context("read our own manifests")?;
    // The Deployment and the Secret with its AWS credentials are about the pod.
    manifests.retain(|object| !["Deployment", "Secret"].iter().any(|kind| objects::is(object, kind)));
    objects::apply_all(client, manifests, NAMESPACE)
        .await
        .context("install our own manifests")
}

/// Gives the manager in another namespace what our manifests give it in its own: its Lease.
pub(crate) async fn grant_lease(client: &Client, namespace: &str) -> anyhow::Result<()> {
    for kind in ["Role", "RoleBinding"] {
        let types = TypeMeta {
            api_version: "rbac.authorization.k8s.io/v1".to_owned(),
            kind: kind.to_owned(),
        };
        let ours = objects::api_of(client, &types, NAMESPACE).await?;
        let mut copy = ours
            .get(LEASE_ROLE)
            .await
            .with_context(|| format!("read our {kind} {LEASE_ROLE}"))?;
        copy.metadata = ObjectMeta {
            name: Some(LEASE_ROLE.to_owned()),
            ..ObjectMeta::default()
        };
        objects::apply(client, &copy, namespace).await?;
    }
    Ok(())
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
