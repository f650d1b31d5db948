//! The evidence of a failed test: logs, AWS calls, objects.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Context;
use capa_api::meta::GROUP;
use kube::{
    Api, Client, ResourceExt as _,
    api::{ApiResource, DynamicObject, ListParams, TypeMeta},
    discovery::{Discovery, Scope, verbs},
};

use crate::{api_server, objects, programs};

/// The limit for collecting objects: a failed test must not hang because the API server is gone.
const COLLECT_WITHIN: Duration = Duration::from_secs(30);

/// A new, empty folder of this name, beside cargo's output.
pub(crate) fn folder(name: &str) -> anyhow::Result<PathBuf> {
    let folder = programs::evidence_folder()?.join(name);
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(&folder).with_context(|| format!("make {}", folder.display()))?;
    Ok(folder)
}

/// Copies the logs of one folder to another.
pub(crate) fn copy_logs(from: &Path, to: &Path) -> anyhow::Result<()> {
    for entry in fs::read_dir(from).with_context(|| format!("read {}", from.display()))? {
        let path = entry?.path();
        if let Some(name) = path.file_name().filter(|_| path.extension().is_some_and(|extension| extension == "log")) {
            fs::copy(&path, to.join(name))?;
        }
    }
    Ok(())
}

/// Writes the objects of a namespace and the cluster-scoped objects of this provider's group to `folder`, one file per
/// kind. The function uses its own thread and runtime, because those of the test are ending when it is called.
pub(crate) fn write_objects(kubeconfig: String, namespace: String, folder: PathBuf) -> anyhow::Result<()> {
    let collector = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let collect = async {
                let client = api_server::client(&kubeconfig).await?;
                collect(&client, &namespace, &folder).await
            };
            tokio::time::timeout(COLLECT_WITHIN, collect).await.context("list the objects in time")?
        })
    });
    collector.join().map_err(|_| anyhow::anyhow!("the collector of objects panicked"))?
}

async fn collect(client: &Client, namespace: &str, folder: &Path) -> anyhow::Result<()> {
    for (name, objects) in objects(client, namespace).await? {
        let documents = objects
            .iter()
            .map(|object| objects::to_yaml(object).with_context(|| format!("write {}", object.name_any())));
        let documents = documents.collect::<anyhow::Result<Vec<_>>>()?;
        fs::write(folder.join(format!("{name}.yaml")), documents.join("\n---\n"))?;
    }
    Ok(())
}

/// The objects of a namespace and the cluster-scoped objects of this provider's group by the name of their kind, for
/// example `secrets.core`. Kinds without objects are left out.
pub(crate) async fn objects(client: &Client, namespace: &str) -> anyhow::Result<BTreeMap<String, Vec<DynamicObject>>> {
    let mut found = BTreeMap::new();
    let discovery = Discovery::new(client.clone()).run().await.context("list the kinds")?;
    for group in discovery.groups() {
        for (resource, capabilities) in group.recommended_resources() {
            let api: Api<DynamicObject> = match capabilities.scope {
                Scope::Namespaced => Api::namespaced_with(client.clone(), namespace, &resource),
                Scope::Cluster if resource.group == GROUP => Api::all_with(client.clone(), &resource),
                Scope::Cluster => continue,
            };
            if !capabilities.supports_operation(verbs::LIST) {
                continue;
            }
            let objects = list(&api, &resource).await?;
            if !objects.is_empty() {
                let group = if resource.group.is_empty() { "core" } else { &resource.group };
                found.insert(format!("{}.{group}", resource.plural), objects);
            }
        }
    }
    Ok(found)
}

async fn list(api: &Api<DynamicObject>, resource: &ApiResource) -> anyhow::Result<Vec<DynamicObject>> {
    let listed = api.list(&ListParams::default()).await.with_context(|| format!("list {}", resource.plural))?;
    let mut objects = listed.items;
    for object in &mut objects {
        // The items of a list do not contain their kind.
        object.types = Some(TypeMeta { api_version: resource.api_version.clone(), kind: resource.kind.clone() });
    }
    Ok(objects)
}
