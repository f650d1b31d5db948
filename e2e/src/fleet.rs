//! The installation of `capa-rs fleet` in a world: the kind ClusterProfile, and everything of the add-on except its
//! Deployment.

use anyhow::Context;
use kube::Client;

use crate::{objects, programs};

/// Namespace and name of the ServiceAccount, in tests as in production.
pub(crate) const SERVICE_ACCOUNT: (&str, &str) = ("capa-rs-fleet-system", "capa-rs-fleet");

/// The definition of ClusterProfile, in `bin/`.
const DEFINITION: &str = "cluster-profiles.yaml";

/// Applies the definition and `config/fleet` of this repository.
pub(crate) async fn install(client: &Client) -> anyhow::Result<()> {
    let definition = std::fs::read_to_string(programs::tool(DEFINITION)?)?;
    let addon = programs::kustomize(&programs::repository().join("config/fleet"))?;
    let mut manifests = objects::parse(&definition)?;
    manifests.extend(objects::parse(&addon)?);
    manifests.retain(|object| !objects::is(object, "Deployment"));
    let (namespace, _) = SERVICE_ACCOUNT;
    objects::apply_all(client, manifests, namespace).await.context("install the add-on")
}
