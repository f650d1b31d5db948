//! Differences between two tables, and the list of intended differences.

use std::collections::BTreeSet;
use std::fmt;

use crate::rows::{FieldPath, Row};

/// One difference between the table and our schemas.
#[derive(Clone, Debug)]
pub(crate) struct Difference {
    pub(crate) field_path: FieldPath,
    /// `absent` (only they have the field), `added` (only we have it), or the column that differs.
    pub(crate) column: &'static str,
    theirs: String,
    /// Our value of the column; for `bounds` only what differs, with `+` and `-` in front.
    ours: String,
}

impl Difference {
    pub(crate) fn absent(field_path: &FieldPath) -> Self {
        Self::new(field_path, "absent", "", "")
    }

    pub(crate) fn added(field_path: &FieldPath) -> Self {
        Self::new(field_path, "added", "", "")
    }

    fn new(field_path: &FieldPath, column: &'static str, theirs: impl Into<String>, ours: impl Into<String>) -> Self {
        Self { field_path: field_path.clone(), column, theirs: theirs.into(), ours: ours.into() }
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { field_path, column, theirs, ours } = self;
        write!(formatter, "{}\t{}\t{column}\t{ours}\t(theirs: {theirs})", field_path.kind, field_path.path)
    }
}

/// The differences between two rows of one field, one per column.
pub(crate) fn between(field_path: &FieldPath, theirs: &Row, ours: &Row) -> Vec<Difference> {
    let yes = |required: bool| if required { "yes" } else { "no" };
    let joined = |values: &BTreeSet<String>| values.iter().cloned().collect::<Vec<_>>().join(",");
    let columns = [
        ("type", theirs.data_type.clone(), ours.data_type.clone()),
        ("required", yes(theirs.required).to_owned(), yes(ours.required).to_owned()),
        ("default", theirs.default.clone(), ours.default.clone()),
        ("enum", joined(&theirs.values), joined(&ours.values)),
        ("list", theirs.list.clone(), ours.list.clone()),
    ];
    let mut found: Vec<Difference> = columns
        .into_iter()
        .filter(|(_, theirs, ours)| theirs != ours)
        .map(|(column, theirs, ours)| Difference::new(field_path, column, theirs, ours))
        .collect();
    let gained = ours.bounds.difference(&theirs.bounds).map(|bound| format!("+{bound}"));
    let lost = theirs.bounds.difference(&ours.bounds).map(|bound| format!("-{bound}"));
    let changed: Vec<String> = gained.chain(lost).collect();
    if !changed.is_empty() {
        found.push(Difference::new(field_path, "bounds", "", changed.join("; ")));
    }
    found
}

/// An intended difference.
#[derive(Debug)]
pub(crate) struct Allowed {
    kinds: Vec<String>,
    path: String,
    column: String,
    ours: String,
    pub(crate) used: bool,
}

/// Reads the list: kinds, path, column, our value, reason. The entries of a kind also apply to its template, below
/// `spec.template`. A path that ends in `.**` applies to the field and all fields below it.
pub(crate) fn parse(list: &str) -> Vec<Allowed> {
    list.lines().filter(|line| !line.starts_with('#') && !line.is_empty()).map(allowed_of_line).collect()
}

fn allowed_of_line(line: &str) -> Allowed {
    let columns: Vec<&str> = line.split('\t').collect();
    let [kinds, path, column, ours, reason] = columns[..] else {
        panic!("5 columns expected: {line:?}");
    };
    assert!(reason.len() > 10, "a reason is expected: {line:?}");
    Allowed {
        kinds: kinds.split(',').map(str::to_owned).collect(),
        path: path.to_owned(),
        column: column.to_owned(),
        ours: ours.to_owned(),
        used: false,
    }
}

impl Allowed {
    pub(crate) fn covers(&self, difference: &Difference) -> bool {
        let FieldPath { kind, path } = &difference.field_path;
        let as_written = self.kinds.contains(kind) && self.covers_path(path);
        let in_template =
            kind.strip_suffix("Template").zip(path.strip_prefix("spec.template.")).is_some_and(|(kind, path)| {
                path != "spec" && self.kinds.iter().any(|entry| entry == kind) && self.covers_path(path)
            });
        (as_written || in_template) && self.column == difference.column && self.ours == difference.ours
    }

    fn covers_path(&self, path: &str) -> bool {
        match self.path.strip_suffix(".**") {
            Some(top) => {
                path.strip_prefix(top).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[', '{']))
            }
            None => self.path == path,
        }
    }
}

impl fmt::Display for Allowed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}\t{}\t{}\t{}", self.kinds.join(","), self.path, self.column, self.ours)
    }
}
