//! Every folder of kustomize in the repository can be built, also those that only long stories use.

use std::path::{Path, PathBuf};

use anyhow::ensure;
use capa_e2e::{kustomize, upstream_folder};

#[test]
fn every_kustomization_can_be_built() -> anyhow::Result<()> {
    let config = Path::new(env!("CARGO_MANIFEST_DIR")).join("../config");
    let mut folders = Vec::new();
    for root in [config, upstream_folder().join("data")] {
        find(&root, &mut folders)?;
    }
    ensure!(folders.len() >= 20, "only {folders:?}");
    for folder in folders {
        let objects = kustomize(&folder)?;
        ensure!(objects.contains("kind: "), "{} has no object: {objects}", folder.display());
    }
    Ok(())
}

/// Adds the folders with a kustomization below `folder`.
fn find(folder: &Path, found: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    if folder.join("kustomization.yaml").is_file() {
        found.push(folder.to_owned());
    }
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            find(&path, found)?;
        }
    }
    Ok(())
}
