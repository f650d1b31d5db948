//! The benchmark: what machines cost in AWS calls, in time, in the manager and in the kube-apiserver, on the local
//! world. docs/benchmarks.md has the method. Progress goes to standard error, the tables to standard output.

mod existing;
mod field;
mod follow;
mod goals;
mod life;
mod meters;
mod provider;
mod report;
mod tables;
mod troubles;

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use capa_e2e::Manager;
use clap::{Parser, ValueEnum};

use crate::field::Storage;
use crate::goals::Goal;
use crate::provider::Provider;
use crate::report::Report;

/// Measures what machines cost, on the local world.
#[derive(Parser)]
struct Arguments {
    /// Numbers of workers, each measured in a world of its own.
    #[arg(long, value_name = "COUNTS", value_delimiter = ',', default_values_t = [10, 100, 500])]
    workers: Vec<usize>,

    /// Parts to measure. Default: all.
    #[arg(long, value_name = "PARTS", value_delimiter = ',')]
    only: Vec<Part>,

    /// Program of the manager. Default: `CAPA_RS_BINARY`, or the one beside this program.
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,

    /// Providers to measure as well, on the same worlds and with the same machines. `make capa` builds CAPA.
    #[arg(long, value_name = "PROVIDERS", value_delimiter = ',')]
    beside: Vec<Beside>,

    /// Seconds without changes, measured with the most workers.
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    idle: u64,

    /// Minutes with a wrong image.
    #[arg(long, value_name = "MINUTES", default_value_t = 6)]
    minutes: u64,

    /// File for the measurements as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// A part of the benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// The life of workers whose bootstrap data is in the user data.
    Inline,
    /// The life of workers whose bootstrap data is in Secrets Manager.
    Secrets,
    /// Machines whose instances run already, as after `clusterctl move`. Only this provider is measured.
    Existing,
    /// A hundred machines against EC2's request buckets.
    Buckets,
    /// Fifty machines that meet a minute in which AWS throttles every call.
    Minute,
    /// A machine with a wrong image.
    Image,
}

/// Another provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Beside {
    /// CAPA, in the version that this repository pins.
    Capa,
}

#[tokio::main]
async fn main() -> anyhow::Result<ExitCode> {
    let arguments = Arguments::parse();
    let program = arguments.program.clone().map_or_else(Manager::program, Ok)?;
    let program = std::path::absolute(program)?;
    let mut report = Report::new(program)?;
    let measured = measure(&arguments, &mut report).await;
    let goals = goals::goals(&report);
    // What was measured before a failure is in the tables.
    let written = write(&arguments, &report, &goals);
    measured.and(written)?;
    let missed = goals.iter().any(|goal| !goal.is_reached());
    Ok(if missed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Writes the measurements to the file, and the tables to standard output.
fn write(arguments: &Arguments, report: &Report, goals: &[Goal]) -> anyhow::Result<()> {
    if let Some(file) = &arguments.json {
        std::fs::write(file, serde_json::to_string_pretty(report)?)?;
    }
    Ok(std::io::stdout().write_all(tables::markdown(report, goals).as_bytes())?)
}

async fn measure(arguments: &Arguments, report: &mut Report) -> anyhow::Result<()> {
    let wanted = |part| arguments.only.is_empty() || arguments.only.contains(&part);
    let most = arguments.workers.iter().max().copied();
    let beside = arguments.beside.iter().map(|Beside::Capa| Provider::Capa);
    let here = Provider::Here(report.program.clone());
    let providers: Vec<Provider> = std::iter::once(here.clone()).chain(beside).collect();
    for (part, storage) in [(Part::Inline, Storage::Inline), (Part::Secrets, Storage::SecretsManager)] {
        for workers in arguments.workers.iter().copied().filter(|_| wanted(part)) {
            let idle = (part == Part::Inline && Some(workers) == most).then(|| Duration::from_secs(arguments.idle));
            for provider in &providers {
                let life = life::measure(provider, workers, storage, idle).await?;
                report.lives.push(life);
            }
        }
    }
    for machines in arguments.workers.iter().copied().filter(|_| wanted(Part::Existing)) {
        report.existing.push(existing::measure(&here, machines).await?);
    }
    for provider in &providers {
        if wanted(Part::Buckets) {
            report.buckets.push(troubles::buckets(provider).await?);
        }
        if wanted(Part::Minute) {
            report.throttled_minutes.push(troubles::throttled_minute(provider).await?);
        }
        if wanted(Part::Image) {
            report.wrong_images.push(troubles::wrong_image(provider, arguments.minutes).await?);
        }
    }
    Ok(())
}

/// Prints a line about the progress.
fn progress(line: &str) {
    // Nobody may be reading, and the measurement goes on.
    let _ = writeln!(std::io::stderr(), "{line}");
}
