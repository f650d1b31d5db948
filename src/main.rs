//! `capa-rs`: see `capa-rs --help`.

use std::process::ExitCode;

use capa_rs::{Cli, run};

fn main() -> ExitCode {
    match Cli::from_arguments() {
        Ok(cli) => run(cli),
        Err(code) => code,
    }
}
