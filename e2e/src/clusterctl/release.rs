//! A release of this checkout, as `make release-manifests` writes it.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use crate::programs;

/// The name of this provider in a clusterctl repository.
const PROVIDER: &str = "infrastructure-aws-rs";

/// One version of this provider in a repository on disk.
#[derive(Debug)]
pub struct Release {
    folder: PathBuf,
    version: String,
}

impl Release {
    /// Writes a release of this version, e.g. `v0.1.0`, into a repository, beside its other releases.
    pub fn render(repository: &Path, version: &str) -> anyhow::Result<Self> {
        let output = Command::new(programs::repository().join("hack/release/render.sh"))
            .arg(repository)
            .args([version, &format!("localhost/capa-rs:{version}")])
            .output()?;
        ensure!(output.status.success(), "render release {version}: {}", String::from_utf8_lossy(&output.stderr));
        Ok(Self { folder: repository.join(PROVIDER).join(version), version: version.to_owned() })
    }

    /// Adds an optional string field to the spec of one of this provider's kinds, as a later version might.
    pub fn add_field(&self, kind: &str, field: &str) -> anyhow::Result<()> {
        let path = self.folder.join("infrastructure-components.yaml");
        let mut objects: Vec<Value> = serde_saphyr::from_multiple(&std::fs::read_to_string(&path)?)?;
        let spec = objects
            .iter_mut()
            .find(|object| object.pointer("/spec/names/kind").is_some_and(|named| named == kind))
            .and_then(|definition| {
                definition.pointer_mut("/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties")
            });
        let spec = spec.with_context(|| format!("no {kind} in {}", path.display()))?;
        spec[field] = json!({ "type": "string" });
        std::fs::write(&path, super::documents(&objects))?;
        Ok(())
    }

    /// Adds a file of templates. Its parts are folders of kustomize, each of which may be based on files of this
    /// checkout.
    pub fn add_templates(&self, file: &str, parts: &[PathBuf]) -> anyhow::Result<()> {
        let rendered = parts.iter().map(|part| programs::kustomize(part));
        let rendered = rendered.collect::<anyhow::Result<Vec<_>>>()?;
        let path = self.folder.join(file);
        std::fs::write(&path, rendered.join("---\n")).with_context(|| format!("write {}", path.display()))
    }

    /// The folder with the release's files.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The components of the add-on of the same version.
    pub fn addon_components(&self) -> anyhow::Result<String> {
        let releases = self.folder.parent().and_then(Path::parent);
        let addon = releases.context("a repository")?.join("addon-aws-rs-fleet");
        let path = addon.join(&self.version).join("addon-components.yaml");
        std::fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))
    }

    /// The version of the release, e.g. `v0.1.0`.
    pub fn version(&self) -> &str {
        &self.version
    }
}
