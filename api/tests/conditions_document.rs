//! docs/conditions.md has every condition and reason that the code has, and no others.

#![allow(
    clippy::panic,
    reason = "all of this is test code, where a panic is a failed test with a place and a reason"
)]

use std::collections::BTreeSet;

use capa_api::conditions::{ConditionType, Reason};
use strum::VariantArray;

const DOCUMENT: &str = include_str!("../../docs/conditions.md");

/// The document in two: what objects show, and the names kept for later.
fn parts() -> (&'static str, &'static str) {
    let parts = DOCUMENT.split_once("\n## Words kept for later\n");
    parts.unwrap_or_else(|| panic!("the document has lost its last section"))
}

/// The names between backquotes of a line that consists of nothing else.
fn listed(line: &str) -> Option<Vec<&str>> {
    let words = line.trim_end_matches(',').split(", ");
    words.map(|word| word.strip_prefix('`')?.strip_suffix('`')).collect()
}

/// Names kept for later, the conditions and the reasons.
fn kept() -> [BTreeSet<&'static str>; 2] {
    let names = parts().1.lines().filter_map(listed).flatten();
    names.partition(|name| name.parse::<ConditionType>().is_ok()).into()
}

fn conditions_explained() -> BTreeSet<&'static str> {
    let headings = parts().0.lines().filter_map(|line| line.strip_prefix("### `"));
    headings.filter_map(|heading| heading.strip_suffix('`')).collect()
}

fn reasons_explained() -> BTreeSet<&'static str> {
    let rows = parts().0.lines().filter_map(|line| line.strip_prefix("| `"));
    rows.filter_map(|row| row.split_once("` |"))
        .map(|(reason, _)| reason)
        .collect()
}

fn assert_complete(explained: &BTreeSet<&str>, kept: &BTreeSet<&str>, in_code: &BTreeSet<&str>) {
    let documented: BTreeSet<&str> = explained.union(kept).copied().collect();
    let missing: Vec<_> = in_code.difference(&documented).collect();
    assert!(missing.is_empty(), "docs/conditions.md lacks {missing:?}");
    let unknown: Vec<_> = documented.difference(in_code).collect();
    assert!(
        unknown.is_empty(),
        "docs/conditions.md has {unknown:?}, which the code does not"
    );
    let both: Vec<_> = explained.intersection(kept).collect();
    assert!(both.is_empty(), "{both:?} are explained and yet kept for later");
}

#[test]
fn every_condition_type_is_explained_or_kept_for_later() {
    let in_code = ConditionType::VARIANTS.iter().map(|condition| condition.as_str());
    let [kept, _] = kept();
    assert_complete(&conditions_explained(), &kept, &in_code.collect());
}

#[test]
fn every_reason_is_explained_or_kept_for_later() {
    let in_code = Reason::VARIANTS.iter().map(|reason| reason.as_str());
    let [_, kept] = kept();
    assert_complete(&reasons_explained(), &kept, &in_code.collect());
}

#[test]
fn every_explained_reason_says_what_it_means_and_what_to_do() {
    for row in parts().0.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").map(str::trim).collect();
        assert_eq!(cells.len(), 3, "{row}");
        assert!(cells.iter().skip(1).all(|cell| cell.ends_with(['.', ')'])), "{row}");
    }
}
