//! `capa-rs crds`: the CustomResourceDefinitions as YAML.

use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;

use anyhow::{Context, Result};
use capa_api::schema;
use clap::Args;

/// Flags of `capa-rs crds`.
#[derive(Debug, Args)]
pub(crate) struct Flags {
    /// Write one file for each kind into this folder instead of printing.
    #[arg(long, value_name = "FOLDER")]
    output_dir: Option<PathBuf>,
}

pub(crate) fn run(flags: &Flags) -> Result<()> {
    let mut stdout = io::stdout().lock();
    for definition in schema::crds()? {
        let yaml = serde_saphyr::to_string(&schema::manifest(&definition)?)?;
        match &flags.output_dir {
            None => write!(stdout, "---\n{yaml}")?,
            Some(folder) => {
                let names = &definition.spec.names;
                let file = folder.join(format!("{}_{}.yaml", definition.spec.group, names.plural));
                fs::write(&file, yaml).with_context(|| format!("failed to write {}", file.display()))?;
            }
        }
    }
    Ok(())
}
