//! The installation of this provider in a world: everything that an administrator installs except the Deployment.

use std::time::Duration;

use anyhow::{Context, bail};
use kube::{
    Client, ResourceExt as _,
    api::{ObjectMeta, PostParams, TypeMeta},
};
use serde_json::json;

use crate::{objects, programs, wait::eventually_by_polling};

/// The namespace of the manager's ServiceAccount.
pub(crate) const NAMESPACE: &str = "capa-rs-system";

/// The ServiceAccount with the manager's permissions, in tests as in production.
pub(crate) const SERVICE_ACCOUNT: &str = "capa-controller-manager";

/// The common name of the Role and the RoleBinding for the Lease.
const LEASE_ROLE: &str = "capa-rs-leader-election";

/// The policy that is installed last. It refuses an object by its name alone, so a single request shows whether it is
/// enforced.
const LAST_POLICY: &str = "capa-rs-create-only";

/// The limit for the enforcement of policies: the API server reads new policies about every second.
const ENFORCED_WITHIN: Duration = Duration::from_mins(2);

/// Applies `config/default` of this repository without the objects for the manager's pod, and waits until the policies
/// are enforced.
pub(crate) async fn install(client: &Client) -> anyhow::Result<()> {
    let mut manifests = objects::parse(&programs::kustomize(&programs::repository().join("config/default"))?)
        .context("read our own manifests")?;
    // The Deployment, and the Secret with its AWS credentials, exist for the pod.
    manifests.retain(|object| !["Deployment", "Secret"].iter().any(|kind| objects::is(object, kind)));
    let (last, others): (Vec<_>, Vec<_>) = manifests.into_iter().partition(|object| object.name_any() == LAST_POLICY);
    for objects in [others, last] {
        objects::apply_all(client, objects, NAMESPACE).await.context("install our own manifests")?;
    }
    enforced(client).await
}

/// Waits until the policy that was installed last is enforced. The API server reads policies, and their bindings, in
/// the order in which they were written, so all others are enforced by then.
pub(crate) async fn enforced(client: &Client) -> anyhow::Result<()> {
    let identity = objects::from_value(json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2",
        "kind": "AWSClusterControllerIdentity",
        "metadata": {"name": "not-default"},
        "spec": {},
    }))?;
    let types = identity.types.clone().context("a kind")?;
    let identities = objects::api_of(client, &types, "").await?;
    let judge = PostParams { dry_run: true, ..PostParams::default() };
    eventually_by_polling(ENFORCED_WITHIN, "our admission policies to be enforced", async || {
        match identities.create(&judge, &identity).await {
            Err(kube::Error::Api(refusal)) if refusal.message.contains(LAST_POLICY) => Ok(()),
            answer => bail!("an identity that is to be refused: {:?}", answer.map(|_| "accepted")),
        }
    })
    .await
}

/// Gives the manager in another namespace the permissions on its Lease that the manifests give in the manager's own
/// namespace.
pub(crate) async fn grant_lease(client: &Client, namespace: &str) -> anyhow::Result<()> {
    for kind in ["Role", "RoleBinding"] {
        let types = TypeMeta { api_version: "rbac.authorization.k8s.io/v1".to_owned(), kind: kind.to_owned() };
        let ours = objects::api_of(client, &types, NAMESPACE).await?;
        let mut copy = ours.get(LEASE_ROLE).await.with_context(|| format!("read our {kind} {LEASE_ROLE}"))?;
        copy.metadata = ObjectMeta { name: Some(LEASE_ROLE.to_owned()), ..ObjectMeta::default() };
        objects::apply(client, &copy, namespace).await?;
    }
    Ok(())
}
