//! Tables of spec fields. Each row sets one field and contains the expected effect.

use serde_json::{Map, Value};

use super::read;

/// A field as a path below `spec` (`[]` is an item of a list, `{}` a value of a map), the YAML that sets the field, the
/// JSON pointer to its effect, and the expected value there.
pub(crate) type Row = (&'static str, &'static str, &'static str, Value);

/// The rows about the spec of a kind, from the file with the effects of all fields.
pub(crate) fn effects(kind: &str) -> Vec<Row> {
    const EFFECTS: &str = include_str!("../../../api/tests/data/effects.tsv");
    let rows = EFFECTS.lines().filter_map(|line| {
        let columns: Vec<&str> = line.split('\t').collect();
        let [of, path, set, pointer, becomes] = columns[..] else {
            return None;
        };
        let field = path.strip_prefix("spec.").filter(|_| of == kind)?;
        Some((field, set, pointer, read(becomes)))
    });
    rows.collect()
}

/// The spec `smallest` merged with the fields of the row, in the form between the braces of a spec.
pub(crate) fn spec_with(smallest: &str, row: &Row) -> String {
    let (field, set, ..) = row;
    let fields: Value = read(&format!("{{{set}}}"));
    assert!(at(&fields, field).is_some(), "{set} does not set {field}");
    laid_over(smallest, set)
}

/// The spec `smallest` merged with the fields `set`, in the form between the braces of a spec.
pub(crate) fn laid_over(smallest: &str, set: &str) -> String {
    let mut spec: Value = read(&format!("{{{smallest}}}"));
    overlay(&mut spec, read(&format!("{{{set}}}")));
    inner(&spec)
}

/// A spec in the form between its braces.
pub(crate) fn inner(spec: &Value) -> String {
    let text = spec.to_string();
    let inner = text.strip_prefix('{').and_then(|text| text.strip_suffix('}'));
    inner.expect("a spec is an object").to_owned()
}

/// Asserts that the row's field has the expected effect.
pub(crate) fn assert_effect(row: &Row, without: &Value, with: &Value) {
    let (field, set, pointer, becomes) = row;
    let before = without.pointer(pointer);
    assert_ne!(before, Some(becomes), "{field}: it is so anyway, without {set}");
    let after = with.pointer(pointer);
    assert_eq!(after, Some(becomes), "{field}: {pointer} with {set}, in {with:#}");
}

/// The first value at a path.
fn at<'a>(spec: &'a Value, field: &str) -> Option<&'a Value> {
    field.split('.').try_fold(spec, |value, segment| {
        if let Some(name) = segment.strip_suffix("[]") {
            value.get(name)?.as_array()?.first()
        } else if let Some(name) = segment.strip_suffix("{}") {
            value.get(name)?.as_object()?.values().next()
        } else {
            value.get(segment)
        }
    })
}

/// Objects are merged, everything else is replaced.
fn overlay(base: &mut Value, over: Value) {
    match (base, over) {
        (Value::Object(base), Value::Object(over)) => {
            for (key, value) in over {
                overlay(base.entry(key).or_insert_with(|| Map::new().into()), value);
            }
        }
        (base, over) => *base = over,
    }
}
