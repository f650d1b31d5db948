//! Writes into the API of a simulated cluster.

use anyhow::Context;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The namespace of the components of a cluster.
pub(super) const SYSTEM: &str = "kube-system";

/// Writes an object, as the component that owns it.
pub(super) async fn apply<K>(api: &Api<K>, name: &str, object: &Value) -> anyhow::Result<()>
where
    K: Clone + DeserializeOwned + Serialize + std::fmt::Debug,
{
    let parameters = PatchParams::apply("kubelet").force();
    api.patch(name, &parameters, &Patch::Apply(object)).await.with_context(|| format!("write {name}"))?;
    Ok(())
}
