//! `capa-rs unsupported-fields`: the fields without effect yet, as the README has them.

use std::io::{self, Write};
use std::path::PathBuf;

use anyhow::Result;
use capa_api::unsupported;
use clap::Args;

use crate::markdown;

/// The part of the README that holds the table.
const PART: &str = "unsupported-fields";

/// Flags of `capa-rs unsupported-fields`.
#[derive(Debug, Args)]
pub(crate) struct Flags {
    /// Write the table into this Markdown file, between its markers, instead of printing it.
    #[arg(long, value_name = "FILE")]
    update: Option<PathBuf>,
}

pub(crate) fn run(flags: &Flags) -> Result<()> {
    match &flags.update {
        None => Ok(io::stdout().lock().write_all(unsupported::table().as_bytes())?),
        Some(file) => markdown::update(file, PART, &unsupported::table()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_readme_has_the_table_of_fields_without_effect() {
        let readme = include_str!("../README.md");
        let updated = markdown::with_part(readme, PART, &unsupported::table()).expect("the README has the markers");
        assert!(readme == updated, "README.md is not up to date: run `make generate`");
    }
}
