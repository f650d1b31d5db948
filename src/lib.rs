//! The `capa-rs` binary as a library, with one module for each subcommand.

mod aws_access;
mod build_info;
mod check;
mod crds;
mod discover;
mod duration_flag;
mod facts;
mod fleet;
mod iam;
mod joined_network;
mod kube_config;
mod live;
mod manager;
mod markdown;
mod notices;
mod objects;
mod plan;
mod preflight_rules;
mod process;
mod requirements;
mod topology;
mod unsupported_fields;
mod version;

use std::process::ExitCode;

use anyhow::bail;
use capa_aws::AccessKey;
use capa_runtime::errors::described;
use clap::{Parser, Subcommand};
use tokio_util::sync::CancellationToken;
use tracing::{Level, enabled, error};

/// Exit code: a check could not be run, or the command line is wrong.
const NOT_CHECKED: u8 = 2;
/// Exit code: there is no plan, or the plan has only problems that a person has to fix.
const NOT_PLANNED: u8 = 1;

/// Cluster API infrastructure provider for AWS.
#[derive(Debug, Parser)]
#[command(name = "capa-rs", version, about)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

impl Cli {
    /// Parses the command line of this process. If the command line is wrong or asks for help, the message is printed,
    /// and the error is the exit code.
    pub fn from_arguments() -> Result<Self, ExitCode> {
        Self::try_parse().map_err(|error| {
            // If the terminal cannot be written to, the error cannot be reported anywhere.
            let _ = error.print();
            // For `capa-rs plan`, exit code 2 means that there are changes.
            let is_plan = std::env::args().nth(1).is_some_and(|command| command == "plan");
            match error.exit_code() {
                0 => ExitCode::SUCCESS,
                _ if is_plan => ExitCode::from(NOT_PLANNED),
                _ => ExitCode::from(NOT_CHECKED),
            }
        })
    }

    /// Runs `capa-rs manager` inside another program, such as a test, until `stop`. `controller_key` replaces the
    /// credentials that the SDK would find. Any other subcommand is an error.
    pub async fn manager(self, controller_key: AccessKey, stop: CancellationToken) -> anyhow::Result<()> {
        install_cryptography();
        let Command::Manager(flags) = self.command else {
            bail!("not the manager's command line");
        };
        manager::run(*flags, Some(controller_key), stop).await
    }
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the controllers.
    Manager(Box<manager::Flags>),
    /// Find what is wrong with the infrastructure that you bring.
    Check(check::Flags),
    /// Print the CustomResourceDefinitions as YAML, or write one file for each kind.
    Crds(crds::Flags),
    /// Print an unmanaged AWSCluster for a VPC that is found by its tags or id.
    Discover(discover::Flags),
    /// Publish Clusters of any provider to fleet engines, as ClusterProfiles. Needs no AWS credentials.
    Fleet(Box<fleet::Flags>),
    /// Print the minimal IAM policy of the controller, of managed clusters or of nodes.
    Iam(iam::Flags),
    /// Print what the provider would do for a managed AWSCluster.
    Plan(plan::Flags),
    /// Print the rules of `capa-rs check` as Markdown, or write them into a file.
    PreflightRules(preflight_rules::Flags),
    /// Print what you have to provide for a cluster on infrastructure that you bring, as a list or for Terraform.
    Requirements(requirements::Flags),
    /// Draw the infrastructure of a cluster, with the findings of the checks.
    Topology(topology::Flags),
    /// Print the spec fields that have no effect yet as Markdown, or write them into a file.
    UnsupportedFields(unsupported_fields::Flags),
    /// Print the version of this program, and the versions of the APIs that it works with.
    Version,
}

/// Runs a subcommand to its end.
pub fn run(cli: Cli) -> ExitCode {
    install_cryptography();
    let or_else = |ended: anyhow::Result<ExitCode>, code: u8| {
        ended.unwrap_or_else(|reason| {
            report(&described(reason.as_ref()));
            ExitCode::from(code)
        })
    };
    let ended = match cli.command {
        Command::Check(flags) => return or_else(check::run(&flags), NOT_CHECKED),
        Command::Plan(flags) => return or_else(plan::run(&flags), NOT_PLANNED),
        Command::Manager(flags) => manager::run_blocking(*flags),
        Command::Crds(flags) => crds::run(&flags),
        Command::Discover(flags) => discover::run(&flags),
        Command::Fleet(flags) => fleet::run(&flags),
        Command::Iam(flags) => iam::run(&flags),
        Command::PreflightRules(flags) => preflight_rules::run(&flags),
        Command::Requirements(flags) => requirements::run(&flags),
        Command::Topology(flags) => topology::run(&flags),
        Command::UnsupportedFields(flags) => unsupported_fields::run(&flags),
        Command::Version => version::run(),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            let reason = described(reason.as_ref());
            // The manager writes the error to its log. The other commands, and a manager that has not started its log
            // yet, have no log.
            if enabled!(Level::ERROR) {
                error!("{reason}");
            } else {
                report(&reason);
            }
            ExitCode::FAILURE
        }
    }
}

/// The Kubernetes client and the AWS client both use rustls. Without an installed cryptography provider rustls panics
/// at the first connection; a second installation fails and its error is ignored.
fn install_cryptography() {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
}

#[expect(clippy::print_stderr, reason = "the one place where the command line speaks of its own failure")]
fn report(reason: &str) {
    eprintln!("capa-rs: {reason}");
}
