//! `capa-rs`: see `capa-rs --help`.

use std::process::ExitCode;

use capa_rs::{Cli, run};
use clap::Parser;

fn main() -> ExitCode {
    run(Cli::parse())
}
