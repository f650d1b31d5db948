//! Every field of a spec has an effect that a test shows, or is on the list of fields without effect. The same applies
//! to every field of the AWSMachine's status that CAPA has as well.

use std::collections::{BTreeMap, BTreeSet};

use capa_api::unsupported;

use crate::rows::{self, FieldPath, Row};
use crate::{TABLE, our_rows};

const EFFECTS: &str = include_str!("../data/effects.tsv");

/// The fields with an effect, and the test that shows it, unless the table has the effect itself.
fn effects(table: &str) -> BTreeMap<FieldPath, Option<String>> {
    let mut effects = BTreeMap::new();
    for line in table.lines().filter(|line| !line.starts_with('#')) {
        let columns: Vec<&str> = line.split('\t').collect();
        let (kinds, path, test) = match columns[..] {
            [kinds, path, test] => (kinds, path, Some(test.to_owned())),
            [kinds, path, _set, _pointer, _becomes] => (kinds, path, None),
            _ => panic!("3 or 5 columns expected: {line:?}"),
        };
        for kind in kinds.split(',') {
            let twice = effects.insert(field_path(kind, path), test.clone());
            assert_eq!(twice, None, "{kind} {path} is listed twice");
        }
    }
    effects
}

fn field_path(kind: &str, path: &str) -> FieldPath {
    FieldPath { kind: kind.to_owned(), path: path.to_owned() }
}

/// Whether `path` is `top` or below it.
fn is_within(top: &str, path: &str) -> bool {
    let rest = path.strip_prefix(top);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[', '{']))
}

/// The fields of specs that hold a value themselves, and the spec that a template has instead of fields of its own.
fn wanted(rows: &BTreeMap<FieldPath, Row>) -> BTreeSet<FieldPath> {
    let in_template = "spec.template.spec";
    let of_template =
        |field_path: &FieldPath| field_path.kind.ends_with("Template") && is_within(in_template, &field_path.path);
    let has_parts = |field_path: &FieldPath| {
        let same_kind = rows.keys().filter(|other| other.kind == field_path.kind);
        same_kind.into_iter().any(|other| other.path != field_path.path && is_within(&field_path.path, &other.path))
    };
    let spec = rows.keys().filter(|field_path| is_within("spec", &field_path.path));
    let own =
        spec.filter(
            |field_path| {
                if of_template(field_path) { field_path.path == in_template } else { !has_parts(field_path) }
            },
        );
    own.cloned().collect()
}

/// The status of the kind whose fields in CAPA's table are in the list as well.
const SHOWN_STATUS: (&str, &str) = ("AWSMachine", "status");

/// A field of that status that shows the result of a field of the spec.
const FOLLOWS: (&str, &str) = ("status.dedicatedHost.id", "spec.dynamicHostAllocation");

/// The fields of the AWSMachine's status that hold a value themselves, and that CAPA has as well.
fn wanted_of_status() -> BTreeSet<FieldPath> {
    let (kind, top) = SHOWN_STATUS;
    let (ours, theirs) = (our_rows(), rows::of_table(TABLE));
    let shared = theirs.keys().filter(|row| row.kind == kind && is_within(top, &row.path));
    let shared: Vec<&FieldPath> = shared.filter(|row| ours.contains_key(*row)).collect();
    let has_parts = |path: &str| shared.iter().any(|other| other.path != path && is_within(path, &other.path));
    let own = shared.iter().filter(|row| !has_parts(&row.path));
    own.map(|row| (*row).clone()).collect()
}

/// The row of the list that applies to a field, if there is one.
fn without_effect(field_path: &FieldPath) -> Option<&'static unsupported::Field> {
    let path = if field_path.path == FOLLOWS.0 { FOLLOWS.1 } else { &field_path.path };
    let mut fields = unsupported::without_effect().filter(|_| field_path.kind == "AWSCluster");
    fields.find(|field| is_within(&format!("spec.{}", field.path), path))
}

#[test]
fn every_field_has_a_test_of_its_effect_or_is_listed_without() {
    let mut wanted = wanted(&our_rows());
    wanted.extend(wanted_of_status());
    let effects = effects(EFFECTS);
    let mut wrong = Vec::new();
    for field_path in &wanted {
        let FieldPath { kind, path } = field_path;
        match (effects.get(field_path), without_effect(field_path)) {
            (None, None) => wrong.push(format!("{kind} {path}: neither on the list nor in effects.tsv")),
            // Some of its values, or what it says at creation, have an effect nevertheless.
            (Some(_), Some(field)) if field.neutral.is_empty() => {
                wrong.push(format!("{kind} {path}: on the list as without effect, and in effects.tsv"));
            }
            _ => {}
        }
    }
    let unknown = effects.keys().filter(|field_path| !wanted.contains(field_path));
    wrong.extend(unknown.map(|FieldPath { kind, path }| format!("{kind} {path}: in effects.tsv, but no such field")));
    assert!(wrong.is_empty(), "{} fields:\n{}", wrong.len(), wrong.join("\n"));
}

/// CAPA's table has a row for each of them: objects and lists are covered by their fields.
#[test]
fn all_rows_of_capas_awsmachine_are_covered() {
    let (ours, effects) = (our_rows(), effects(EFFECTS));
    let theirs = rows::of_table(TABLE);
    let theirs: Vec<&FieldPath> = theirs.keys().filter(|row| row.kind == "AWSMachine").collect();
    assert_eq!(theirs.len(), 119);
    let is_covered = |row: &FieldPath| {
        let mut below = effects.keys().filter(|effect| effect.kind == row.kind);
        below.any(|effect| is_within(&row.path, &effect.path))
    };
    let uncovered = theirs.into_iter().filter(|row| {
        // A row that is not ours is explained in the list of differences.
        let is_known = !ours.contains_key(*row) || without_effect(row).is_some() || is_within(&row.path, FOLLOWS.0);
        !is_known && !is_covered(row)
    });
    let uncovered: Vec<&str> = uncovered.map(|row| row.path.as_str()).collect();
    assert_eq!(uncovered, [""; 0]);
}

#[test]
fn tests_of_effects_exist() {
    for (FieldPath { kind, path }, test) in effects(EFFECTS) {
        let Some(test) = test else { continue };
        let (file, name) = test.split_once("::").expect("file::test");
        let source = std::fs::read_to_string(format!("{}/../{file}", env!("CARGO_MANIFEST_DIR")));
        let has_test = source.is_ok_and(|source| source.contains(&format!("fn {name}()")));
        assert!(has_test, "{kind} {path}: {file} has no test {name}");
    }
}

#[test]
fn a_template_has_the_fields_of_its_kind_and_no_others() {
    let rows = our_rows();
    for kind in ["AWSCluster", "AWSMachine"] {
        let template = format!("{kind}Template");
        let of = |kind: &str, top: &str| -> BTreeMap<String, Row> {
            let rows = rows.iter().filter(|(field_path, _)| field_path.kind == kind);
            rows.filter_map(|(field_path, row)| Some((field_path.path.strip_prefix(top)?.to_owned(), row.clone())))
                .collect()
        };
        let fields = of(kind, "spec.");
        assert!(fields.len() > 90, "{kind} has {} fields", fields.len());
        assert_eq!(of(&template, "spec.template.spec."), fields, "{template}");
    }
}
