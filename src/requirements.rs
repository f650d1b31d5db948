//! `capa-rs requirements`: prints what has to be provided for a cluster.

use std::io::{self, Write as _};
use std::path::PathBuf;

use anyhow::Result;
use capa_preflight::requirements;
use clap::{Args, ValueEnum};

use crate::objects;

/// Flags of `capa-rs requirements`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  capa-rs requirements -f cluster.yaml\n  \
                  capa-rs requirements -f cluster.yaml -o terraform > main.tf")]
pub(crate) struct Flags {
    /// File with the Cluster and the objects that describe its network, such as an unmanaged AWSCluster, and with the
    /// templates, control plane and deployments as far as they exist; `-` for standard input.
    #[arg(short, long, value_name = "FILE")]
    file: PathBuf,

    /// Format of the list.
    #[arg(short, long, value_enum, default_value_t = Format::Text)]
    output: Format,
}

/// Format of a list of requirements.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    /// For people.
    Text,
    /// A Terraform configuration that creates what does not exist yet.
    Terraform,
    /// For programs.
    Json,
}

/// Prints what the objects in the file require, without calls to AWS or Kubernetes.
pub(crate) fn run(flags: &Flags) -> Result<()> {
    let required = requirements(&objects::read(&flags.file)?.as_written());
    let text = match flags.output {
        Format::Text => requirements::text(&required, &flags.file.display().to_string()),
        Format::Terraform => requirements::terraform(&required)?,
        Format::Json => serde_json::to_string_pretty(&required)? + "\n",
    };
    Ok(io::stdout().lock().write_all(text.as_bytes())?)
}
