//! docs/conditions.md has every condition and reason that the code has, and no others.

#![allow(
    clippy::panic,
    reason = "all of this is test code, where a panic is a failed test with a place and a reason"
)]

use std::collections::BTreeSet;

use capa_api::conditions::{ConditionType, Reason};
use strum::VariantArray;

const DOCUMENT: &str = include_str!("../../docs/conditions.md");

fn conditions_explained() -> BTreeSet<&'static str> {
    let headings = DOCUMENT.lines().filter_map(|line| line.strip_prefix("### `"));
    headings.filter_map(|heading| heading.strip_suffix('`')).collect()
}

fn reasons_explained() -> BTreeSet<&'static str> {
    let rows = DOCUMENT.lines().filter_map(|line| line.strip_prefix("| `"));
    rows.filter_map(|row| row.split_once("` |"))
        .map(|(reason, _)| reason)
        .collect()
}

#[test]
fn the_document_explains_every_condition_type() {
    let in_code: BTreeSet<&str> = ConditionType::VARIANTS
        .iter()
        .map(|condition| condition.as_str())
        .collect();
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
