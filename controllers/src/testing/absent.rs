//! Values that should be equivalent to an absent field, generated from the schema of a kind.

use capa_api::crd::zero_value;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::fields::{inner, laid_over};
use super::read;

/// A value of an optional scalar field.
pub(crate) struct NeutralValue {
    /// Path of the field below `spec`; `[]` is an item of a list.
    pub(crate) path: String,
    /// The value.
    pub(crate) value: Value,
    /// The spec that sets the value, in the form between the braces of a spec.
    pub(crate) with: String,
    /// The same spec without the field.
    pub(crate) without: String,
}

/// The zero value and the schema's default of each optional scalar field of a kind's spec, as far as the schema allows
/// the value. They are merged into `smallest`. `parents` has the YAML of the blocks and lists that have required
/// fields, by their path; other blocks are empty.
pub(crate) fn neutral_values<S: DeserializeOwned>(
    kind: &str,
    smallest: &str,
    parents: &[(&str, &str)],
) -> Vec<NeutralValue> {
    let crds = capa_api::crd::crds().expect("the kinds have definitions");
    let crd = crds.into_iter().find(|crd| crd.spec.names.kind == kind);
    let crd = serde_json::to_value(crd).expect("a definition is JSON");
    let spec = crd.pointer("/spec/versions/0/schema/openAPIV3Schema/properties/spec");
    let mut scalars = Vec::new();
    collect(spec.expect("the kind has a spec"), "", &mut scalars);
    let laid = scalars.into_iter().map(|(path, value)| {
        let (parent, field) = path.rsplit_once('.').unwrap_or(("", &path));
        let set = parents.iter().find(|(of, _)| *of == parent);
        let set = set.map_or_else(|| inner(&empty(parent)), |(_, yaml)| (*yaml).to_owned());
        let mut without: Value = read(&format!("{{{}}}", laid_over(smallest, &set)));
        let mut with = without.clone();
        if let (Some(with), Some(without)) = (at_mut(&mut with, parent), at_mut(&mut without, parent)) {
            with.insert(field.to_owned(), value.clone());
            without.remove(field);
        }
        NeutralValue { value, with: inner(&with), without: inner(&without), path }
    });
    let is_allowed = |neutral: &NeutralValue| {
        let spec: Value = read(&format!("{{{}}}", neutral.with));
        serde_json::from_value::<S>(spec).is_ok()
    };
    laid.filter(is_allowed).collect()
}

/// Adds the optional scalar fields of a schema below `path`, each with its zero value and its default.
fn collect(schema: &Value, path: &str, scalars: &mut Vec<(String, Value)>) {
    let required: Vec<&str> = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let properties = schema["properties"].as_object().into_iter().flatten();
    for (name, property) in properties {
        let path = match path {
            "" => name.clone(),
            path => format!("{path}.{name}"),
        };
        match property["type"].as_str() {
            Some("object") => collect(property, &path, scalars),
            Some("array") => collect(&property["items"], &format!("{path}[]"), scalars),
            _ if required.contains(&name.as_str()) => {}
            _ => {
                let zero = zero_value(property);
                let default = property.get("default").cloned().filter(|default| Some(default) != zero.as_ref());
                scalars.extend(zero.into_iter().chain(default).map(|value| (path.clone(), value)));
            }
        }
    }
}

/// The empty block or list item at a path.
fn empty(path: &str) -> Value {
    let segments = path.split('.').filter(|segment| !segment.is_empty());
    segments.rev().fold(json!({}), |inner, segment| match segment.strip_suffix("[]") {
        Some(list) => json!({list: [inner]}),
        None => json!({segment: inner}),
    })
}

/// The fields of the block, or of the first list item, at a path.
fn at_mut<'a>(value: &'a mut Value, path: &str) -> Option<&'a mut serde_json::Map<String, Value>> {
    let mut segments = path.split('.').filter(|segment| !segment.is_empty());
    let found = segments.try_fold(value, |value, segment| match segment.strip_suffix("[]") {
        Some(list) => value.get_mut(list)?.get_mut(0),
        None => value.get_mut(segment),
    });
    found?.as_object_mut()
}
