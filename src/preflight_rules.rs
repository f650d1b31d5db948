//! `capa-rs preflight-rules`: prints the rules of the checks in the form of docs/preflight.md.

use std::fmt::Write as _;
use std::path::PathBuf;

use anyhow::Result;
use capa_preflight::member::member_rules;
use capa_preflight::{Category, Rule, rules};
use clap::Args;
use strum::IntoEnumIterator as _;

use crate::markdown;

/// The generated part of the page.
const PART: &str = "preflight-rules";

/// Flags of `capa-rs preflight-rules`.
#[derive(Debug, Args)]
pub(crate) struct Flags {
    /// Write the rules into this Markdown file, between its markers, instead of printing them.
    #[arg(long, value_name = "FILE")]
    update: Option<PathBuf>,
}

pub(crate) fn run(flags: &Flags) -> Result<()> {
    markdown::print_or_update(flags.update.as_deref(), PART, &document())
}

/// A section for each category, with a subsection for each rule. The anchor of a subsection is the id of its rule.
fn document() -> String {
    let mut text = String::new();
    for category in Category::iter() {
        let _ = writeln!(text, "## {category} ({})\n", category.letter());
        describe(&mut text, category, rules());
        describe(&mut text, category, member_rules());
    }
    text.trim_end().to_owned() + "\n"
}

fn describe<F: 'static>(text: &mut String, category: Category, rules: impl IntoIterator<Item = &'static Rule<F>>) {
    for rule in rules.into_iter().filter(|rule| rule.category == category) {
        let _ = writeln!(
            text,
            "### {}\n\n{}.\n\n- Severity: {}\n- Without it: {}\n- Shown by: {}\n",
            rule.id, rule.title, rule.severity, rule.breaks, rule.shown_by
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_all_rules() {
        let page = include_str!("../docs/preflight.md");
        let updated = markdown::with_part(page, PART, &document()).expect("the page has the markers");
        assert!(page == updated, "docs/preflight.md is not up to date: run `make generate`");
    }
}
