//! `capa-rs plan`: what the provider would do for a managed AWSCluster. Nothing is changed.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use capa_api::cluster::AWSCluster;
use capa_api::contract::Cluster;
use capa_cloud::managed::{ManagedClouds as _, ManagedLook};
use capa_controllers::awscluster::{PlanFacts, Preview, preview};
use clap::{Args, Subcommand, ValueEnum};
use jiff::Timestamp;

use crate::aws_access::{identity, pool};
use crate::facts::{progress, runtime};
use crate::{NOT_PLANNED, live, objects};

/// Exit code: the provider would make a call.
const CHANGES: u8 = 2;

/// Flags of `capa-rs plan`.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "Exit codes: 0 nothing to do, 1 a problem that a person has to mend, or no plan, 2 changes.\n\n\
                  Examples:\n  \
                  capa-rs plan -f cluster.yaml\n  \
                  capa-rs plan -f cluster.yaml --save-facts facts.json\n  \
                  capa-rs plan -f changed.yaml --facts facts.json\n  \
                  capa-rs plan cluster prod -n team-a -o json"
)]
pub(crate) struct Flags {
    #[command(subcommand)]
    live: Option<Live>,

    #[command(flatten)]
    file: FileFlags,
}

#[derive(Debug, Subcommand)]
enum Live {
    /// Plan for a Cluster in the management cluster, with what its AWSCluster records.
    #[command(after_help = "Example:\n  capa-rs plan cluster prod -n team-a")]
    Cluster(ClusterFlags),
}

#[derive(Debug, Args)]
struct FileFlags {
    /// File with the managed AWSCluster and its Cluster; `-` for standard input. A status in it is ignored: what exists is
    /// found by its tags.
    #[arg(short, long, value_name = "FILE", required = true)]
    file: Option<PathBuf>,

    /// Plan with what AWS has answered to an earlier plan, without a call to AWS.
    #[arg(long, value_name = "FILE", conflicts_with = "save_facts")]
    facts: Option<PathBuf>,

    #[command(flatten)]
    output: OutputFlags,
}

#[derive(Debug, Args)]
struct ClusterFlags {
    /// Name of the Cluster.
    name: String,

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

    /// Save what AWS has answered, for another plan or for a bug report.
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

/// Prints the plan, and says with the exit code what is in it.
pub(crate) fn run(flags: &Flags) -> Result<ExitCode> {
    let output = match &flags.live {
        Some(Live::Cluster(flags)) => &flags.output,
        None => &flags.file.output,
    };
    let (preview, facts) = runtime()?.block_on(planned(flags))?;
    if let Some(file) = &output.save_facts {
        let text = serde_json::to_string_pretty(&facts)? + "\n";
        std::fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))?;
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
        Some(Live::Cluster(flags)) => live::read_managed(&flags.name, &flags.management).await?,
        None => objects::read_managed(flags.file.file.as_deref().context("--file is missing")?)?,
    };
    match &flags.file.facts {
        Some(file) => of(&aws_cluster, &cluster, &saved(file)?).await,
        None => {
            let region = aws_cluster.spec.region();
            let region = region.context("spec.region of the AWSCluster is missing, or is no name of a region")?;
            progress(&format!("asking AWS about the resources of the cluster in {region}"));
            let cloud = pool().await.managed(&identity(), region);
            of(&aws_cluster, &cluster, cloud.as_ref()).await
        }
    }
}

async fn of(aws_cluster: &AWSCluster, cluster: &Cluster, cloud: &dyn ManagedLook) -> Result<(Preview, PlanFacts)> {
    let planned = preview(aws_cluster, cluster, cloud, Timestamp::now()).await;
    planned.map_err(anyhow::Error::msg)
}

/// What an earlier plan has saved.
fn saved(file: &Path) -> Result<PlanFacts> {
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    serde_json::from_str(&text).with_context(|| format!("{} has no facts of a plan", file.display()))
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
            ("plan cluster prod -n team-a -o json --save-facts c", true),
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
