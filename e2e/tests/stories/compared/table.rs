//! The table of differences in `docs/comparison.md`, and the differences that a run has found.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use capa_e2e::inventory::Fact;

/// The heading of the table.
const HEADING: &str = "## What both build from the same spec";

/// A field of a resource that is not the same in both accounts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Difference {
    spec: String,
    resource: String,
    field: String,
    /// What CAPA's account has and ours has not; empty if nothing.
    capa: String,
    /// What our account has and CAPA's has not.
    here: String,
}

/// The differences of two accounts. Where each has one value of a field that the other one has not, they are one
/// difference.
pub(super) fn differences(spec: &str, capa: &BTreeSet<Fact>, here: &BTreeSet<Fact>) -> Vec<Difference> {
    let mut by_field: BTreeMap<(&str, &str), [Vec<&Fact>; 2]> = BTreeMap::new();
    for (side, facts) in [capa.difference(here), here.difference(capa)].into_iter().enumerate() {
        for fact in facts {
            by_field.entry((&fact.resource, &fact.field)).or_default()[side].push(fact);
        }
    }
    let mut found = Vec::new();
    for [theirs, ours] in by_field.into_values() {
        if let ([theirs], [ours]) = (&theirs[..], &ours[..]) {
            found.push(difference(spec, theirs, &theirs.value, &ours.value));
            continue;
        }
        found.extend(theirs.into_iter().map(|fact| difference(spec, fact, &fact.value, "")));
        found.extend(ours.into_iter().map(|fact| difference(spec, fact, "", &fact.value)));
    }
    found
}

fn difference(spec: &str, fact: &Fact, capa: &str, here: &str) -> Difference {
    Difference {
        spec: spec.to_owned(),
        resource: fact.resource.clone(),
        field: fact.field.clone(),
        capa: capa.to_owned(),
        here: here.to_owned(),
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { spec, resource, field, capa, here } = self;
        write!(formatter, "| {spec} | {resource} | `{field}` | {capa} | {here} |")
    }
}

/// A row of the table: in each cell `*` stands for any text.
#[derive(Debug)]
pub(super) struct Row {
    cells: Vec<String>,
}

/// The rows of the first table below the heading in a document.
pub(super) fn rows(document: &str) -> Vec<Row> {
    let section = document.split_once(HEADING).map_or("", |(_, section)| section);
    let before = section.lines().skip_while(|line| !line.starts_with('|'));
    // The first two lines are the head.
    let lines = before.take_while(|line| line.starts_with('|')).skip(2);
    let cells = |line: &str| {
        let cells = line.trim_matches('|').split('|');
        cells.map(|cell| cell.trim().replace('`', "")).collect()
    };
    lines.map(|line| Row { cells: cells(line) }).collect()
}

impl Row {
    pub(super) fn explains(&self, difference: &Difference) -> bool {
        let Difference { spec, resource, field, capa, here } = difference;
        let values = [spec, resource, field, capa, here];
        self.cells.len() > values.len() && self.cells.iter().zip(values).all(|(cell, value)| is_like(value, cell))
    }
}

/// Whether a value is like a pattern, in which `*` stands for any text.
fn is_like(value: &str, pattern: &str) -> bool {
    match pattern.split_once('*') {
        None => value == pattern,
        Some((begin, rest)) => value.strip_prefix(begin).is_some_and(|value| {
            let ends = value.char_indices().map(|(place, _)| place).chain([value.len()]);
            ends.into_iter().any(|place| is_like(value.get(place..).unwrap_or_default(), rest))
        }),
    }
}
