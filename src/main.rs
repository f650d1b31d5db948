//! `capa-rs`: see `capa-rs --help`.

use std::process::ExitCode;

use capa_rs::{Cli, run};

/// The allocator of the C library keeps memory that is free between objects that stay: with thousands of machines, a
/// third of all its memory. `.cargo/config.toml` has the settings.
#[cfg(target_arch = "x86_64")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    match Cli::from_arguments() {
        Ok(cli) => run(cli),
        Err(code) => code,
    }
}
