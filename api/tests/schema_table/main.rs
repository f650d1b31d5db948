//! Compares the schemas of our CRDs with those of cluster-api-provider-aws v2.13.0, field by field and in both
//! directions.
//!
//! `tests/data/capa-v1beta2.tsv` contains the schemas of that release as facts. Every difference is listed, with its
//! reason, in `tests/data/differences.tsv`; an entry that no longer describes a difference fails the test as well.
//! Every field of a spec is either in the table of fields without effect, or in `tests/data/effects.tsv` with its
//! effect, or with the test that shows its effect.

#![allow(clippy::indexing_slicing, clippy::panic, clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod differences;
mod effects;
mod rows;

use std::collections::BTreeMap;

use capa_api::crd::{crds, manifest};
use differences::{Allowed, Difference};
use rows::{FieldPath, Row};

const TABLE: &str = include_str!("../data/capa-v1beta2.tsv");
const DIFFERENCES: &str = include_str!("../data/differences.tsv");

fn our_rows() -> BTreeMap<FieldPath, Row> {
    let mut all = BTreeMap::new();
    for crd in crds().unwrap() {
        rows::of_manifest(&manifest(&crd).unwrap(), &mut all);
    }
    all
}

fn compare(theirs: &BTreeMap<FieldPath, Row>, ours: &BTreeMap<FieldPath, Row>) -> Vec<Difference> {
    let mut found = Vec::new();
    for (field_path, row) in theirs {
        match ours.get(field_path) {
            Some(our) => found.extend(differences::between(field_path, row, our)),
            None => found.push(Difference::absent(field_path)),
        }
    }
    found.extend(ours.keys().filter(|field_path| !theirs.contains_key(field_path)).map(Difference::added));
    found
}

#[test]
fn differences_from_the_schema_table_equal_the_listed_ones() {
    let found = compare(&rows::of_table(TABLE), &our_rows());
    let mut allowed: Vec<Allowed> = differences::parse(DIFFERENCES);

    let mut unlisted = Vec::new();
    for difference in &found {
        let mut listed = false;
        // All matching entries are marked, so that a narrow entry beside a wide one does not count as stale.
        for entry in allowed.iter_mut().filter(|entry| entry.covers(difference)) {
            entry.used = true;
            listed = true;
        }
        if !listed {
            unlisted.push(difference.to_string());
        }
    }
    let stale: Vec<String> = allowed.iter().filter(|entry| !entry.used).map(ToString::to_string).collect();

    assert!(unlisted.is_empty(), "{} differences are not listed:\n{}", unlisted.len(), unlisted.join("\n"));
    assert!(stale.is_empty(), "{} listed differences do not exist:\n{}", stale.len(), stale.join("\n"));
}

#[test]
fn a_changed_field_is_noticed_in_every_column() {
    let theirs = rows::of_table("AWSMachine\tspec.a\tinteger\tyes\t1\t\tminimum=1; format=int64\t\n");
    let changed = [
        ("AWSMachine\tspec.a\tstring\tyes\t1\t\tminimum=1; format=int64\t\n", "type"),
        ("AWSMachine\tspec.a\tinteger\t\t1\t\tminimum=1; format=int64\t\n", "required"),
        ("AWSMachine\tspec.a\tinteger\tyes\t2\t\tminimum=1; format=int64\t\n", "default"),
        ("AWSMachine\tspec.a\tinteger\tyes\t1\tx\tminimum=1; format=int64\t\n", "enum"),
        ("AWSMachine\tspec.a\tinteger\tyes\t1\t\tminimum=2; format=int64\t\n", "bounds"),
        ("AWSMachine\tspec.a\tinteger\tyes\t1\t\tminimum=1; format=int64\tatomic\n", "list"),
        ("", "absent"),
    ];
    for (ours, column) in changed {
        let found = compare(&theirs, &rows::of_table(ours));
        assert_eq!(found.iter().map(|difference| difference.column).collect::<Vec<_>>(), [column]);
    }
    let found = compare(&BTreeMap::new(), &theirs);
    assert_eq!(found.iter().map(|difference| difference.column).collect::<Vec<_>>(), ["added"]);
}
