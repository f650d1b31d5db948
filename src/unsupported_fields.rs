//! `capa-rs unsupported-fields`: the fields without effect yet, as the README has them.

use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;

use anyhow::{Context, Result};
use capa_api::unsupported;
use clap::Args;

const BEGIN: &str = "<!-- unsupported-fields: written by `make generate` -->\n";
const END: &str = "<!-- unsupported-fields: end -->\n";

/// Flags of `capa-rs unsupported-fields`.
#[derive(Debug, Args)]
pub(crate) struct Flags {
    /// Write the table into this Markdown file, between its markers, instead of printing it.
    #[arg(long, value_name = "FILE")]
    update: Option<PathBuf>,
}

pub(crate) fn run(flags: &Flags) -> Result<()> {
    let Some(file) = &flags.update else {
        return Ok(io::stdout().lock().write_all(unsupported::table().as_bytes())?);
    };
    let text = fs::read_to_string(file).with_context(|| format!("failed to read {}", file.display()))?;
    let updated = with_table(&text).with_context(|| format!("{} lacks the lines {BEGIN} and {END}", file.display()))?;
    fs::write(file, updated).with_context(|| format!("failed to write {}", file.display()))
}

/// The text with the table between its markers; `None` where a marker is missing.
pub(crate) fn with_table(text: &str) -> Option<String> {
    let (before, rest) = text.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}\n{}\n{END}{after}", unsupported::table()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_readme_has_the_table_of_fields_without_effect() {
        let readme = include_str!("../README.md");
        let updated = with_table(readme).expect("the README has the markers");
        assert!(readme == updated, "README.md is not up to date: run `make generate`");
    }

    #[test]
    fn only_what_stands_between_the_markers_is_replaced() {
        let text = format!("before\n{BEGIN}old\n{END}after\n");
        let expected = format!("before\n{BEGIN}\n{}\n{END}after\n", unsupported::table());
        assert_eq!(with_table(&text), Some(expected));
        assert_eq!(with_table("no markers"), None);
    }
}
