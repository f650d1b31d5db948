//! `capa-rs unsupported-fields`: prints the spec fields that have no effect yet, in the form of
//! docs/fields-without-effect.md.

use std::path::PathBuf;

use anyhow::Result;
use capa_api::unsupported;
use clap::Args;

use crate::markdown;

/// The generated part of the page.
const PART: &str = "unsupported-fields";

/// Flags of `capa-rs unsupported-fields`.
#[derive(Debug, Args)]
pub(crate) struct Flags {
    /// Write the lists into this Markdown file, between its markers, instead of printing them.
    #[arg(long, value_name = "FILE")]
    update: Option<PathBuf>,
}

pub(crate) fn run(flags: &Flags) -> Result<()> {
    markdown::print_or_update(flags.update.as_deref(), PART, &unsupported::document())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_lists_the_fields_without_effect() {
        let page = include_str!("../docs/fields-without-effect.md");
        let updated = markdown::with_part(page, PART, &unsupported::document()).expect("the page has the markers");
        assert!(page == updated, "docs/fields-without-effect.md is not up to date: run `make generate`");
    }
}
