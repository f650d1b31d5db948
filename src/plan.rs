//! `capa-rs plan`: prints what the provider would do for a managed AWSCluster. The command changes nothing.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use capa_api::cluster::AWSCluster;
use capa_api::contract::Cluster;
use capa_cloud::managed::ManagedObserver;
use capa_controllers::awscluster::{PlanFacts, Preview, preview};
use clap::{Args, Subcommand, ValueEnum};
use jiff::Timestamp;

use crate::aws_access::managed_observer;
use crate::facts::runtime;
use crate::notices::progress;
use crate::{NOT_PLANNED, live, objects};

/// Exit code: the provider would make a call, or waits for something.
const CHANGES: u8 = 2;

/// The limit of a plan that is made without the objects of a management cluster.
const OF_FILE: &str = "what a changed spec leaves over is shown by `capa-rs plan cluster` only";

/// Flags of `capa-rs plan`.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "Exit codes: 0 AWS is as the spec asks, 1 a problem that a person has to fix, or no plan, 2 changes \
                  or waits.\n\n\
                  Examples:\n  \
                  capa-rs plan -f cluster.yaml\n  \
                  capa-rs plan -f cluster.yaml --save-facts facts.json\n  \
                  capa-rs plan -f changed.yaml --facts facts.json\n  \
                  capa-rs plan cluster prod -n team-a -f changed.yaml -o json"
)]
pub(crate) struct Flags {
    #[command(subcommand)]
    live: Option<Live>,

    #[command(flatten)]
    file: FileFlags,
}

#[derive(Debug, Subcommand)]
enum Live {
    /// Plan for a Cluster in the management cluster, with the records in the status of its AWSCluster.
    #[command(after_help = "Examples:\n  capa-rs plan cluster prod -n team-a\n  \
                      capa-rs plan cluster prod -n team-a -f changed.yaml")]
    Cluster(ClusterFlags),
}

#[derive(Debug, Args)]
struct FileFlags {
    /// File with the managed AWSCluster and its Cluster; `-` for standard input. A status in the file is ignored:
    /// existing resources are found by their tags.
    #[arg(short, long, value_name = "FILE", required = true)]
    file: Option<PathBuf>,

    /// Plan with the answers of AWS that an earlier plan has saved, instead of calling AWS.
    #[arg(long, value_name = "FILE", conflicts_with = "save_facts")]
    facts: Option<PathBuf>,

    #[command(flatten)]
    output: OutputFlags,
}

#[derive(Debug, Args)]
struct ClusterFlags {
    /// Name of the Cluster.
    name: String,

    /// File with the Cluster and its AWSCluster, whose specs replace those in the management cluster; `-` for standard
    /// input. Default: the specs in the management cluster.
    #[arg(short, long, value_name = "FILE")]
    file: Option<PathBuf>,

    #[command(flatten)]
    management: live::ManagementFlags,

    #[command(flatten)]
    output: OutputFlags,
}

#[derive(Debug, Args)]
struct OutputFlags {
    /// Format of the plan.
    #[arg(short, long, value_enum, default_value_t = Format::Text)]
    output: Format,

    /// Save the answers of AWS for another plan: ids, tags and rules of everything in the VPC, but no credentials.
    #[arg(long, value_name = "FILE")]
    save_facts: Option<PathBuf>,
}

/// Format of a plan.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    /// For people.
    Text,
    /// For programs.
    Json,
}

/// Prints the plan. The exit code tells what the plan contains.
pub(crate) fn run(flags: &Flags) -> Result<ExitCode> {
    let output = match &flags.live {
        Some(Live::Cluster(flags)) => &flags.output,
        None => &flags.file.output,
    };
    let (mut preview, facts) = runtime()?.block_on(planned(flags))?;
    if flags.live.is_none() {
        preview.notes.push(OF_FILE.to_owned());
    }
    if let Some(file) = &output.save_facts {
        save(&facts, file)?;
    }
    let printed = match output.output {
        Format::Text => preview.to_string(),
        Format::Json => serde_json::to_string_pretty(&preview)? + "\n",
    };
    io::stdout().lock().write_all(printed.as_bytes())?;
    Ok(code(&preview))
}

async fn planned(flags: &Flags) -> Result<(Preview, PlanFacts)> {
    let (aws_cluster, cluster) = match &flags.live {
        Some(Live::Cluster(flags)) => live(flags).await?,
        None => objects::read_managed(flags.file.file.as_deref().context("--file is missing")?)?,
    };
    let region = aws_cluster.spec.region();
    let region = region.context("spec.region of the AWSCluster is missing, or is no name of a region")?;
    let cloud: Arc<dyn ManagedObserver> = if let Some(file) = &flags.file.facts {
        Arc::new(saved(file, region)?)
    } else {
        progress(&format!("asking AWS about the resources of the cluster in {region}"));
        managed_observer(region).await
    };
    let planned = preview(&aws_cluster, &cluster, cloud.as_ref(), Timestamp::now()).await;
    planned.map_err(anyhow::Error::msg)
}

/// The objects of the management cluster, with the specs of a file if there is one.
async fn live(flags: &ClusterFlags) -> Result<(AWSCluster, Cluster)> {
    let (mut aws_cluster, mut cluster) = live::read_managed(&flags.name, &flags.management).await?;
    let Some(file) = &flags.file else {
        return Ok((aws_cluster, cluster));
    };
    let (changed, owner) = objects::read_managed(file)?;
    if owner.metadata.name != cluster.metadata.name {
        bail!("{} has another Cluster than {}", file.display(), flags.name);
    }
    cluster.spec = owner.spec;
    let published = aws_cluster.spec.control_plane_endpoint.take();
    aws_cluster.spec = changed.spec;
    // The provider writes the endpoint, so the file need not contain it.
    aws_cluster.spec.control_plane_endpoint = aws_cluster.spec.control_plane_endpoint.or(published);
    Ok((aws_cluster, cluster))
}

/// The facts that an earlier plan for the region saved.
fn saved(file: &Path, region: &str) -> Result<PlanFacts> {
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let facts: PlanFacts =
        serde_json::from_str(&text).with_context(|| format!("{} has no facts of a plan", file.display()))?;
    let of = &facts.region;
    ensure!(of == region, "{} has facts of {of}, not of {region}", file.display());
    Ok(facts)
}

fn save(facts: &PlanFacts, file: &Path) -> Result<()> {
    if let Some(error) = facts.error() {
        bail!("the facts are not saved, because AWS did not show all: {error}");
    }
    let text = serde_json::to_string_pretty(facts)? + "\n";
    std::fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))
}

fn code(preview: &Preview) -> ExitCode {
    if preview.has_changes() {
        ExitCode::from(CHANGES)
    } else if preview.has_problems() {
        ExitCode::from(NOT_PLANNED)
    } else {
        ExitCode::SUCCESS
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        flags: Flags,
    }

    #[test]
    fn a_plan_is_of_a_file_or_of_a_cluster() {
        for (line, is_valid) in [
            ("plan -f a", true),
            ("plan -f a --facts b", true),
            ("plan cluster prod -n team-a -f a -o json --save-facts c", true),
            ("plan", false),
            ("plan --facts b", false),
            ("plan -f a --facts b --save-facts c", false),
            ("plan -f a cluster prod", false),
            ("plan cluster", false),
        ] {
            assert_eq!(Line::try_parse_from(line.split(' ')).is_ok(), is_valid, "{line}");
        }
    }
}
