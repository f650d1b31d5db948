//! `capa-rs topology`: draws the infrastructure of a cluster.

use std::io::{self, Write as _};
use std::path::PathBuf;

use anyhow::{Context, Result};
use capa_preflight::{Selection, check, dot, mermaid, svg};
use clap::{Args, ValueEnum};

use crate::{facts, live};

/// Flags of `capa-rs topology`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  capa-rs topology -f cluster.yaml -o svg > cluster.svg\n  \
                  capa-rs topology prod -n team-a -o mermaid")]
pub(crate) struct Flags {
    /// Name of a Cluster in the management cluster.
    #[arg(required_unless_present_any = ["file", "facts"], conflicts_with_all = ["file", "facts"])]
    name: Option<String>,

    /// File with the Cluster and the objects that describe its network, such as an unmanaged AWSCluster, and with the
    /// templates, control plane and deployments as far as they exist; `-` for standard input.
    #[arg(short, long, value_name = "FILE")]
    file: Option<PathBuf>,

    /// Draw facts that `capa-rs check` has saved, instead of calling AWS.
    #[arg(long, value_name = "FILE", conflicts_with = "file")]
    facts: Option<PathBuf>,

    #[command(flatten)]
    live: live::SourceFlags,

    /// Format of the picture.
    #[arg(short, long, value_enum, default_value_t = Format::Mermaid)]
    output: Format,
}

/// Format of a picture.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    /// A diagram for Mermaid, which GitHub and many wikis show.
    Mermaid,
    /// A graph for Graphviz.
    Dot,
    /// A picture for a browser.
    Svg,
}

/// Gathers the facts, checks them, and draws the infrastructure with the findings.
pub(crate) fn run(flags: &Flags) -> Result<()> {
    let facts = match (&flags.facts, &flags.file, &flags.name) {
        (Some(file), ..) => facts::saved(file)?,
        (None, Some(file), _) => facts::of_file(file)?,
        (None, None, name) => {
            let name = name.as_deref().context("the name of the Cluster is missing")?;
            facts::of_cluster(name, &flags.live)?
        }
    };
    let report = check(&facts, &Selection::default());
    let draw = match flags.output {
        Format::Mermaid => mermaid,
        Format::Dot => dot,
        Format::Svg => svg,
    };
    Ok(io::stdout().lock().write_all(draw(&facts, &report).as_bytes())?)
}
