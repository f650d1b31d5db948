//! `capa-rs crds`: the CustomResourceDefinitions and the admission policy as YAML.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use capa_api::{crd, unsupported};
use clap::Args;

/// Flags of `capa-rs crds`.
#[derive(Debug, Args)]
pub(crate) struct Flags {
    /// Write one file for each kind into this folder instead of printing.
    #[arg(long, value_name = "FOLDER")]
    output_dir: Option<PathBuf>,
    /// Write the admission policy about fields without effect into this folder.
    #[arg(long, value_name = "FOLDER")]
    policy_dir: Option<PathBuf>,
}

/// File of the policy about fields without effect.
const POLICY_FILE: &str = "unsupported_fields.yaml";

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
        Some(folder) => write_file(&folder.join(POLICY_FILE), &policy()?),
        None => Ok(()),
    }
}

/// The policy about fields without effect and its binding, in the form of their file.
pub(crate) fn policy() -> Result<String> {
    let policy = serde_saphyr::to_string(&unsupported::policy())?;
    let binding = serde_saphyr::to_string(&unsupported::binding())?;
    Ok(format!(
        "# Written by `make generate` from the table of fields without effect.\n{policy}---\n{binding}"
    ))
}

fn write_file(file: &Path, text: &str) -> Result<()> {
    fs::write(file, text).with_context(|| format!("failed to write {}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn config_policy_holds_what_the_table_generates() {
        let written = include_str!("../config/policy/unsupported_fields.yaml");
        let generated = policy().expect("a policy");
        assert!(
            written == generated,
            "config/policy/{POLICY_FILE} is not up to date: run `make generate`"
        );
    }
}
