//! `capa-rs crds`: prints the CustomResourceDefinitions as YAML, and writes the hashes of the admission policies.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use capa_api::{crd, meta};
use clap::Args;

/// Flags of `capa-rs crds`.
#[derive(Debug, Args)]
pub(crate) struct Flags {
    /// Write one file for each kind into this folder instead of printing.
    #[arg(long, value_name = "FOLDER")]
    output_dir: Option<PathBuf>,
    /// Write the hash of each admission policy in this folder into its annotation.
    #[arg(long, value_name = "FOLDER")]
    policy_dir: Option<PathBuf>,
}

/// The only file in the folder that is not a policy.
const KUSTOMIZATION: &str = "kustomization.yaml";

pub(crate) fn run(flags: &Flags) -> Result<()> {
    let mut stdout = io::stdout().lock();
    for definition in crd::crds()? {
        let yaml = serde_saphyr::to_string(&crd::manifest(&definition)?)?;
        match &flags.output_dir {
            None => write!(stdout, "---\n{yaml}")?,
            Some(folder) => {
                let names = &definition.spec.names;
                let file = folder.join(format!("{}_{}.yaml", definition.spec.group, names.plural));
                write_file(&file, &yaml)?;
            }
        }
    }
    match &flags.policy_dir {
        Some(folder) => mark_policies(folder),
        None => Ok(()),
    }
}

/// Writes the hash of each policy in the folder into its annotation.
fn mark_policies(folder: &Path) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("failed to read {}", folder.display()))? {
        let file = entry?.path();
        let text = fs::read_to_string(&file).with_context(|| format!("failed to read {}", file.display()))?;
        if file.file_name().is_some_and(|name| name != KUSTOMIZATION) {
            let marked = marked(&text).with_context(|| format!("failed to mark {}", file.display()))?;
            write_file(&file, &marked)?;
        }
    }
    Ok(())
}

/// The text of a policy with its hash in the annotation. The hash is that of the text without the annotation's value.
fn marked(text: &str) -> Result<String> {
    let unmarked = with_hash(text, "");
    let key = meta::DEFINITION_ANNOTATION;
    ensure!(unmarked.matches(key).count() == 1, "the policy needs the annotation {key} once");
    Ok(with_hash(&unmarked, &crd::definition_hash(&unmarked)))
}

fn with_hash(text: &str, hash: &str) -> String {
    let key = meta::DEFINITION_ANNOTATION;
    let lines = text.lines().map(|line| match line.split_once(key) {
        Some((indent, _)) => format!("{indent}{key}: \"{hash}\"\n"),
        None => format!("{line}\n"),
    });
    lines.collect()
}

fn write_file(file: &Path, text: &str) -> Result<()> {
    fs::write(file, text).with_context(|| format!("failed to write {}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_are_marked_with_their_hashes() {
        let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/config/policy"));
        for file in fs::read_dir(folder).unwrap() {
            let file = file.unwrap().path();
            if file.ends_with(KUSTOMIZATION) {
                continue;
            }
            let text = fs::read_to_string(&file).unwrap();
            let name = file.display();
            assert!(marked(&text).unwrap() == text, "{name} is not up to date: run `make generate`");
            let changed = text.replace("Deny", "Warn");
            assert_ne!(marked(&changed).unwrap(), changed, "{name}");
        }
    }

    #[test]
    fn a_policy_without_the_annotation_is_refused() {
        assert!(marked("metadata:\n  name: a\n").is_err());
    }
}
