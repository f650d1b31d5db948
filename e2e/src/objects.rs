//! Objects of any kind: parsing, server-side apply, conditions.

use std::time::Duration;

use anyhow::Context;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client, Resource as _, ResourceExt as _,
    api::{DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams, TypeMeta},
    discovery::{self, Scope},
    runtime::wait::{await_condition, conditions},
};
use serde_json::Value;

use crate::wait::eventually_by_polling;

/// The field manager of all objects that a user of the management cluster would apply.
const FIELD_MANAGER: &str = "capa-e2e";

/// The kind of definitions of kinds.
const DEFINITION: &str = "CustomResourceDefinition";

/// The number of concurrent requests: enough to hide latency, few enough for a small computer.
const CONCURRENT_REQUESTS: usize = 8;

/// The limit for the API server to serve a CustomResourceDefinition that it has accepted.
const ESTABLISHED_WITHIN: Duration = Duration::from_mins(2);

/// Parses YAML of one or several documents. Empty documents are skipped.
pub fn parse(yaml: &str) -> anyhow::Result<Vec<DynamicObject>> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(yaml).context("parse the YAML")?;
    documents.into_iter().filter(|document| !document.is_null()).map(from_value).collect()
}

/// The object that a JSON document describes.
pub(crate) fn from_value(document: Value) -> anyhow::Result<DynamicObject> {
    let start: String = document.to_string().chars().take(80).collect();
    serde_json::from_value(document).with_context(|| format!("read the object that starts with {start}"))
}

/// The kind and the name, for messages.
pub(crate) fn describe(object: &DynamicObject) -> String {
    let kind = object.types.as_ref().map_or("object without a kind", |types| types.kind.as_str());
    format!("{kind} {}", object.name_any())
}

/// The API of a kind, in the namespace if the kind is namespaced. `types` contains the group, the version and the kind.
pub async fn api_of(client: &Client, types: &TypeMeta, namespace: &str) -> anyhow::Result<Api<DynamicObject>> {
    let kind = GroupVersionKind::try_from(types).with_context(|| format!("read apiVersion {}", types.api_version))?;
    let (resource, capabilities) = discovery::pinned_kind(client, &kind)
        .await
        .with_context(|| format!("find the kind {} of {}", types.kind, types.api_version))?;
    Ok(match capabilities.scope {
        Scope::Cluster => Api::all_with(client.clone(), &resource),
        Scope::Namespaced => Api::namespaced_with(client.clone(), namespace, &resource),
    })
}

async fn api_for(client: &Client, object: &DynamicObject, namespace: &str) -> anyhow::Result<Api<DynamicObject>> {
    let types = object.types.as_ref().with_context(|| format!("{} has no apiVersion", describe(object)))?;
    api_of(client, types, object.metadata.namespace.as_deref().unwrap_or(namespace)).await
}

/// Server-side apply of one object, in `namespace` unless the object names its own. For a CustomResourceDefinition,
/// returns when its kind is served.
pub async fn apply(client: &Client, object: &DynamicObject, namespace: &str) -> anyhow::Result<DynamicObject> {
    let parameters = PatchParams::apply(FIELD_MANAGER).force();
    let applied = api_for(client, object, namespace)
        .await?
        .patch(&object.name_any(), &parameters, &Patch::Apply(object))
        .await
        .with_context(|| format!("apply {}", describe(object)))?;
    if is(object, DEFINITION) {
        Box::pin(established(client, object)).await?;
    }
    Ok(applied)
}

/// Server-side apply of one object like [`apply`], in a dry run, in which schemas, policies and webhooks judge it, and
/// unknown fields are refused.
pub(crate) async fn apply_strictly(client: &Client, object: &DynamicObject, namespace: &str) -> anyhow::Result<()> {
    let strict = PatchParams::apply(FIELD_MANAGER).validation_strict().dry_run().force();
    let api = api_for(client, object, namespace).await?;
    let applied = api.patch(&object.name_any(), &strict, &Patch::Apply(object)).await;
    applied.with_context(|| format!("apply {} in a dry run", describe(object)))?;
    Ok(())
}

/// Applies a set of objects in any order: definitions and namespaces are applied before the objects that need them.
pub(crate) async fn apply_all(client: &Client, objects: Vec<DynamicObject>, namespace: &str) -> anyhow::Result<()> {
    let (first, rest): (Vec<_>, Vec<_>) =
        objects.into_iter().partition(|object| is(object, "Namespace") || is(object, DEFINITION));
    for objects in [first, rest] {
        stream::iter(objects)
            .map(|object| async move { apply(client, &object, namespace).await })
            .buffer_unordered(CONCURRENT_REQUESTS)
            .try_collect::<Vec<_>>()
            .await?;
    }
    Ok(())
}

/// Whether the object has this kind.
pub(crate) fn is(object: &DynamicObject, kind: &str) -> bool {
    object.types.as_ref().is_some_and(|types| types.kind == kind)
}

async fn established(client: &Client, definition: &DynamicObject) -> anyhow::Result<()> {
    let name = definition.name_any();
    let what = format!("{DEFINITION} {name} to be established");
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let established = await_condition(definitions, &name, conditions::is_crd_established());
    tokio::time::timeout(ESTABLISHED_WITHIN, established)
        .await
        .with_context(|| format!("waited {} s for {what}", ESTABLISHED_WITHIN.as_secs()))??;
    // The condition becomes true a moment before discovery shows the kind and the API server serves it.
    let types = defined(definition)?;
    eventually_by_polling(ESTABLISHED_WITHIN, &format!("{} to be served", types.kind), async || {
        let served = api_of(client, &types, "default").await?;
        served.list(&ListParams::default().limit(1)).await?;
        Ok(())
    })
    .await
}

/// The kind of a definition, in its first served version.
fn defined(definition: &DynamicObject) -> anyhow::Result<TypeMeta> {
    let spec = definition.data.get("spec").context("no spec")?;
    let text = |path: &str| spec.pointer(path).and_then(Value::as_str);
    let versions = spec.get("versions").and_then(Value::as_array).context("no versions")?;
    let served = versions.iter().find(|version| version.get("served") == Some(&Value::Bool(true)));
    let version = served.and_then(|version| version.get("name")?.as_str());
    let version = version.context("no served version")?;
    Ok(TypeMeta {
        api_version: format!("{}/{version}", text("/group").context("no group")?),
        kind: text("/names/kind").context("no kind")?.to_owned(),
    })
}

/// The content of a condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// The reason, a CamelCase word for programs.
    pub reason: String,
    /// The message, a sentence for people.
    pub message: String,
}

/// The condition of this type in `status.conditions`; `None` if the object does not have it.
pub fn condition(object: &DynamicObject, type_: &str) -> Option<Condition> {
    let conditions = object.data.pointer("/status/conditions")?.as_array()?;
    let found = conditions.iter().find(|condition| condition["type"] == type_)?;
    let text = |field: &str| found[field].as_str().unwrap_or_default().to_owned();
    Some(Condition { status: text("status"), reason: text("reason"), message: text("message") })
}

/// Whether the condition `Ready` of an object is true.
pub fn is_ready(object: &DynamicObject) -> bool {
    condition(object, "Ready").is_some_and(|ready| ready.status == "True")
}

/// The object as YAML, without the bookkeeping of server-side apply and without the content of Secrets.
pub(crate) fn to_yaml(object: &DynamicObject) -> anyhow::Result<String> {
    let mut object = object.clone();
    object.meta_mut().managed_fields = None;
    if is(&object, "Secret") {
        object.data = Value::Null;
    }
    Ok(serde_saphyr::to_string(&object)?)
}
