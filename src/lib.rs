//! The `capa-rs` binary as a library: one module a subcommand.

mod crds;
pub mod manager;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use tracing::error;

/// Cluster API infrastructure provider for AWS.
#[derive(Debug, Parser)]
#[command(name = "capa-rs", version, about)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the controllers.
    Manager(Box<manager::Flags>),
    /// Print the CustomResourceDefinitions as YAML, or write one file each.
    Crds(crds::Flags),
}

/// Runs a subcommand to its end.
pub fn run(cli: Cli) -> ExitCode {
    // Both the Kubernetes and the AWS client use rustls. It must be told once which cryptography to use, or it panics at
    // the first connection; a second call finds the first one's choice and may be ignored.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let ended = match cli.command {
        Command::Manager(flags) => manager::run_blocking(*flags),
        Command::Crds(flags) => crds::run(&flags),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            error!("{reason:#}");
            report(&reason);
            ExitCode::FAILURE
        }
    }
}

#[expect(
    clippy::print_stderr,
    reason = "the one place where the command line speaks of its own failure"
)]
fn report(reason: &anyhow::Error) {
    eprintln!("capa-rs: {reason:#}");
}
