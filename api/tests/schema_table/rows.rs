//! A schema as a flat table: one row per field.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

/// Keywords of the column `bounds`, in the spelling of OpenAPI.
const BOUNDS: [&str; 13] = [
    "minLength",
    "maxLength",
    "minimum",
    "maximum",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
    "pattern",
    "format",
    "nullable",
    "allOf",
    "anyOf",
];

/// Kind and path of a field; `[]` is a list item, `{}` a map value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FieldPath {
    pub(crate) kind: String,
    pub(crate) path: String,
}

/// What a schema says about a field.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) data_type: String,
    pub(crate) required: bool,
    pub(crate) default: String,
    pub(crate) values: BTreeSet<String>,
    pub(crate) bounds: BTreeSet<String>,
    pub(crate) list: String,
}

/// Rows of a tab-separated table: kind, path, type, required, default, enum, bounds, list.
pub(crate) fn of_table(table: &str) -> BTreeMap<FieldPath, Row> {
    table.lines().filter(|line| !line.starts_with('#') && !line.starts_with("kind\t")).map(row_of_line).collect()
}

fn row_of_line(line: &str) -> (FieldPath, Row) {
    let columns: Vec<&str> = line.split('\t').collect();
    let [kind, path, data_type, required, default, values, bounds, list] = columns[..] else {
        panic!("8 columns expected: {line:?}");
    };
    let row = Row {
        data_type: data_type.to_owned(),
        required: required == "yes",
        default: default.to_owned(),
        values: values.split(',').filter(|value| !value.is_empty()).map(str::to_owned).collect(),
        bounds: split_bounds(bounds),
        list: list.to_owned(),
    };
    (FieldPath { kind: kind.to_owned(), path: path.to_owned() }, row)
}

/// Splits `minimum=1; cel=a; b` where a keyword begins, because rules and patterns may hold semicolons themselves.
fn split_bounds(bounds: &str) -> BTreeSet<String> {
    let mut split: Vec<String> = Vec::new();
    for piece in bounds.split("; ").filter(|piece| !piece.is_empty()) {
        let keyword = piece.split_once('=').map_or("", |(keyword, _)| keyword);
        match split.last_mut() {
            Some(last) if keyword != "cel" && !BOUNDS.contains(&keyword) => {
                last.push_str("; ");
                last.push_str(piece);
            }
            _ => split.push(piece.replace("=True", "=true")),
        }
    }
    split.into_iter().collect()
}

/// Adds the rows of a CRD.
pub(crate) fn of_manifest(crd: &Value, rows: &mut BTreeMap<FieldPath, Row>) {
    let kind = crd["spec"]["names"]["kind"].as_str().unwrap();
    let root = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    properties(kind, "", root.as_object().unwrap(), rows);
}

fn properties(kind: &str, path: &str, parent: &Map<String, Value>, rows: &mut BTreeMap<FieldPath, Row>) {
    let required = parent.get("required").and_then(Value::as_array);
    for (name, schema) in parent.get("properties").and_then(Value::as_object).into_iter().flatten() {
        let required = required.is_some_and(|names| names.iter().any(|entry| entry == name));
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        field(kind, &path, schema, required, rows);
    }
}

fn field(kind: &str, path: &str, schema: &Value, required: bool, rows: &mut BTreeMap<FieldPath, Row>) {
    let object = schema.as_object().unwrap();
    rows.insert(FieldPath { kind: kind.to_owned(), path: path.to_owned() }, row_of_schema(object, required));
    properties(kind, path, object, rows);
    if let Some(items) = object.get("items") {
        field(kind, &format!("{path}[]"), items, false, rows);
    }
    if let Some(values) = object.get("additionalProperties") {
        field(kind, &format!("{path}{{}}"), values, false, rows);
    }
}

fn row_of_schema(object: &Map<String, Value>, required: bool) -> Row {
    let int_or_string = object.contains_key("x-kubernetes-int-or-string").then_some("int-or-string");
    let mut bounds: BTreeSet<String> = BOUNDS
        .iter()
        .filter_map(|keyword| object.get(*keyword).map(|value| format!("{keyword}={}", plain(value))))
        .collect();
    let rules = object.get("x-kubernetes-validations").and_then(Value::as_array);
    bounds.extend(rules.into_iter().flatten().map(|rule| format!("cel={}", plain(&rule["rule"]))));
    Row {
        data_type: int_or_string.or_else(|| object.get("type").and_then(Value::as_str)).unwrap_or_default().to_owned(),
        required,
        default: object.get("default").map(Value::to_string).unwrap_or_default(),
        values: object.get("enum").and_then(Value::as_array).into_iter().flatten().map(plain).collect(),
        bounds,
        list: list_type(object),
    }
}

fn list_type(object: &Map<String, Value>) -> String {
    let kind = object.get("x-kubernetes-list-type").and_then(Value::as_str).unwrap_or_default();
    let keys: Vec<String> =
        object.get("x-kubernetes-list-map-keys").and_then(Value::as_array).into_iter().flatten().map(plain).collect();
    if keys.is_empty() { kind.to_owned() } else { format!("{kind}:{}", keys.join(",")) }
}

/// Text as it is, anything else as JSON with a space after commas and colons, as the table has it.
fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string().replace("\",\"", "\", \"").replace("\":\"", "\": \"").replace("},{", "}, {"),
    }
}
