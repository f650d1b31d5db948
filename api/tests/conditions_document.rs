//! docs/conditions.md has every condition and reason that the code has, and no others; docs/troubleshooting.md has a
//! remedy for each of these reasons that is a problem.

#![allow(clippy::panic, reason = "all of this is test code, where a panic is a failed test with a place and a reason")]

use std::collections::{BTreeMap, BTreeSet};

use capa_api::conditions::{ConditionType, Reason};
use strum::VariantArray;

const DOCUMENT: &str = include_str!("../../docs/conditions.md");
const TROUBLESHOOTING: &str = include_str!("../../docs/troubleshooting.md");

/// The reasons of conditions without a problem.
const GOOD: [Reason; 3] = [Reason::Ready, Reason::NotPaused, Reason::Compiled];

fn conditions_explained() -> BTreeSet<&'static str> {
    let headings = DOCUMENT.lines().filter_map(|line| line.strip_prefix("### `"));
    headings.filter_map(|heading| heading.strip_suffix('`')).collect()
}

fn reasons_explained() -> BTreeSet<&'static str> {
    let rows = DOCUMENT.lines().filter_map(|line| line.strip_prefix("| `"));
    rows.filter_map(|row| row.split_once("` |")).map(|(reason, _)| reason).collect()
}

#[test]
fn the_document_explains_every_condition_type() {
    let in_code: BTreeSet<&str> = ConditionType::VARIANTS.iter().map(|condition| condition.as_str()).collect();
    assert_eq!(conditions_explained(), in_code);
}

#[test]
fn the_document_explains_every_reason() {
    let in_code: BTreeSet<&str> = Reason::VARIANTS.iter().map(|reason| reason.as_str()).collect();
    assert_eq!(reasons_explained(), in_code);
}

#[test]
fn every_explained_reason_says_what_it_means_and_what_to_do() {
    for row in DOCUMENT.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").map(str::trim).collect();
        assert_eq!(cells.len(), 3, "{row}");
        assert!(cells.iter().skip(1).all(|cell| cell.ends_with(['.', ')'])), "{row}");
    }
}

/// The cells of each row of reasons, by heading.
type Tables = BTreeMap<&'static str, Vec<Vec<&'static str>>>;

/// The tables of reasons below the headings of a page with this prefix.
fn tables(page: &'static str, prefix: &str) -> Tables {
    let mut tables = Tables::new();
    let mut heading = "";
    for line in page.lines() {
        if line.starts_with('#') {
            heading = line.strip_prefix(prefix).unwrap_or_default();
        } else if line.starts_with("| `") && !heading.is_empty() {
            let cells = line.trim_matches('|').split(" | ").map(str::trim).collect();
            tables.entry(heading).or_default().push(cells);
        }
    }
    tables
}

/// The reasons in the first cells, without those in [`GOOD`].
fn bad_reasons(rows: &[Vec<&'static str>]) -> BTreeSet<&'static str> {
    let is_good = |reason: &str| GOOD.iter().any(|good| good.as_str() == reason);
    let first_cells = rows.iter().filter_map(|cells| cells.first());
    let all = first_cells.flat_map(|cell| cell.split(", "));
    all.map(|reason| reason.trim_matches('`')).filter(|reason| !is_good(reason)).collect()
}

/// The tables of docs/troubleshooting.md about conditions.
fn remedies() -> Tables {
    let mut tables = tables(TROUBLESHOOTING, "## ");
    tables.retain(|heading, _| heading.ends_with(" is False") || heading.ends_with(" is True"));
    tables
}

#[test]
fn every_bad_reason_of_a_condition_has_a_remedy() {
    let (explained, remedies) = (tables(DOCUMENT, "### "), remedies());
    let of = |tables: &Tables, heading: &str| bad_reasons(tables.get(heading).map_or(&[], Vec::as_slice));
    // `Ready` repeats the reasons of the other conditions.
    for condition in ConditionType::VARIANTS.iter().filter(|one| **one != ConditionType::Ready) {
        let bad_status = if *condition == ConditionType::Paused { "True" } else { "False" };
        let expected = of(&explained, &format!("`{condition}`"));
        assert!(!expected.is_empty(), "{condition}");
        let found = of(&remedies, &format!("{condition} is {bad_status}"));
        assert_eq!(found, expected, "{condition}");
    }
    let all: BTreeSet<&str> = remedies.values().flat_map(|rows| bad_reasons(rows)).collect();
    let in_code = Reason::VARIANTS.iter().filter(|reason| !GOOD.contains(reason));
    assert_eq!(all, in_code.map(|reason| reason.as_str()).collect());
}

#[test]
fn every_remedy_has_a_cause_and_ends_with_a_full_stop() {
    for (heading, rows) in remedies() {
        for cells in rows {
            assert_eq!(cells.len(), 3, "{heading}: {cells:?}");
            let sentences = cells.iter().skip(1);
            assert!(sentences.into_iter().all(|cell| cell.ends_with('.')), "{heading}: {cells:?}");
        }
    }
}
