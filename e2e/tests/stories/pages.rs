//! The manifests on the pages about bringing infrastructure, and those of the samples, judged by the real API server.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use capa_e2e::{Story, TestEnvironment, eventually, fixtures, objects};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams};
use kube::{Api, ResourceExt as _};

use super::scenario::WITHIN;

/// API groups whose kinds other stories define as well: this story gives them other names, because it deletes them.
const RENAMED: [(&str, &str); 2] =
    [(".services.k8s.aws", ".pages.services.k8s.aws"), ("platform.example.org", "platform.pages.example.org")];
const DEFINITION: &str = "CustomResourceDefinition";

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The files below a folder with this end of their name, sorted.
fn files(folder: &Path, end: &str) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(files(&path, end)?);
        } else if path.to_string_lossy().ends_with(end) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

fn read(path: &Path) -> anyhow::Result<String> {
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    Ok(RENAMED.iter().fold(text, |text, (group, other)| text.replace(group, other)))
}

/// The definitions of the samples' kinds by their name. Several samples have the same one.
fn definitions() -> anyhow::Result<BTreeMap<String, DynamicObject>> {
    let mut definitions = BTreeMap::new();
    // The policies of a fleet are for a Karmada, which has the kind.
    let policies = fixtures::definition("policy.karmada.io", "PropagationPolicy", "");
    let mut of_samples = objects::parse(&policies)?;
    for file in files(&repository().join("config/samples"), "kind.yaml")? {
        of_samples.extend(objects::parse(&read(&file)?)?);
    }
    definitions.extend(of_samples.into_iter().map(|object| (object.name_any(), object)));
    Ok(definitions)
}

/// The objects of the samples, and those in the YAML blocks of the pages, with the file that they are from.
fn manifests() -> anyhow::Result<Vec<(PathBuf, DynamicObject)>> {
    let mut manifests = Vec::new();
    for file in files(&repository().join("config/samples"), ".yaml")? {
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        // The network in `expected.yaml` is no object.
        if name != "kind.yaml" && name != "expected.yaml" {
            let objects = objects::parse(&read(&file)?)?;
            manifests.extend(objects.into_iter().map(|object| (file.clone(), object)));
        }
    }
    for page in files(&repository().join("docs/bring-your-own"), ".md")? {
        let text = read(&page)?;
        let blocks = text.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next());
        for block in blocks {
            let objects = objects::parse(block).with_context(|| page.display().to_string())?;
            manifests.extend(objects.into_iter().map(|object| (page.clone(), object)));
        }
    }
    Ok(manifests)
}

#[test]
fn every_manifest_of_pages_and_samples_is_accepted_as_it_is() -> anyhow::Result<()> {
    Story::new("pages").run(async |environment| {
        let world = environment.world();
        world.install_provider().await?;
        world.start_kubeadm().await?;
        let definitions = definitions()?;
        let api: Api<CustomResourceDefinition> = Api::all(environment.client());
        for (name, definition) in &definitions {
            let apply = PatchParams::apply("a-user").force();
            api.patch(name, &apply, &Patch::Apply(definition)).await.with_context(|| name.clone())?;
        }
        let judged = judge(environment).await;
        for name in definitions.keys() {
            api.delete(name, &DeleteParams::default()).await?;
        }
        let accepted = judged?;
        ensure!(accepted > 40, "only {accepted} objects were applied");
        Ok(())
    })
}

/// Applies all manifests in a dry run, and gives their number.
async fn judge(environment: &TestEnvironment) -> anyhow::Result<usize> {
    let mut accepted = 0;
    for (file, object) in manifests()? {
        let kind = object.types.as_ref().map(|types| types.kind.clone()).unwrap_or_default();
        if kind == DEFINITION {
            continue;
        }
        // The API server serves a new kind soon after its definition.
        eventually(WITHIN, &format!("{} to be accepted", object.name_any()), async || {
            environment
                .apply_strictly(&object)
                .await
                .with_context(|| format!("{}: {kind} {}", file.display(), object.name_any()))
        })
        .await?;
        accepted += 1;
    }
    Ok(accepted)
}
