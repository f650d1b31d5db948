//! The spec fields of the managed mode of an AWSCluster: one table, from which the sentences of `kubectl explain`,
//! docs/fields-without-effect.md and the conditions of stored objects are generated. An unmanaged cluster ignores these
//! fields by design and names them in a condition. Some of them have no effect yet in managed clusters, too.

mod document;
mod explain;
mod fields;

use std::fmt;

use serde::Serialize;
use serde_json::Value;

pub use document::document;
pub use explain::NoSuchField;
pub(crate) use explain::explain;

/// A field of managed AWSClusters, or a block that contains only such fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Path below `spec`; `[]` is an item of a list. The row also applies to AWSClusterTemplates, below
    /// `spec.template.spec`.
    pub path: &'static str,
    /// The values, as JSON, that request what the provider does anyway. A schema default is always one of them: the API
    /// server sets it before admission, so that the provider cannot distinguish it from a value of the user.
    pub neutral: &'static [&'static str],
    /// The alternative for the user.
    pub alternative: &'static str,
    /// Whether the field has an effect in a managed cluster.
    pub has_effect: bool,
}

/// A field of the managed mode in a spec, with a value that is not neutral.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// The row of the table.
    pub field: &'static Field,
    value: Value,
}

impl fmt::Display for Found {
    /// Writes the path, and also the value if the field has neutral values.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.value {
            Value::String(text) if !self.field.neutral.is_empty() => write!(formatter, "{}: {text}", self.field.path),
            Value::Bool(value) if !self.field.neutral.is_empty() => write!(formatter, "{}: {value}", self.field.path),
            _ => formatter.write_str(self.field.path),
        }
    }
}

/// The whole table, in the order in which objects name the fields.
pub const fn fields() -> &'static [Field] {
    fields::FIELDS
}

/// The rows of the table that have no effect in any cluster.
pub fn without_effect() -> impl Iterator<Item = &'static Field> {
    fields().iter().filter(|field| !field.has_effect)
}

/// The fields of the managed mode that the spec of an AWSCluster sets. Null, an empty text and an empty list do not
/// count as set; an empty block does.
pub fn found(spec: &impl Serialize) -> Vec<Found> {
    // A spec that was read from JSON can be written as JSON.
    let spec = serde_json::to_value(spec).unwrap_or_default();
    let fields = fields().iter();
    fields
        .filter_map(|field| Some(Found { field, value: first_set(&spec, field.path, field.neutral)?.clone() }))
        .collect()
}

/// The names of fields in the form of conditions.
pub fn names<'a>(found: impl IntoIterator<Item = &'a Found>) -> String {
    let names: Vec<String> = found.into_iter().map(ToString::to_string).collect();
    names.join(", ")
}

/// The first value at the path that is neither empty nor neutral.
fn first_set<'a>(value: &'a Value, path: &str, neutral: &[&str]) -> Option<&'a Value> {
    let (segment, rest) = path.split_once('.').map_or((path, None), |(segment, rest)| (segment, Some(rest)));
    let (name, in_list) = segment.strip_suffix("[]").map_or((segment, false), |name| (name, true));
    let inner = value.get(name)?;
    match rest {
        Some(rest) if in_list => inner.as_array()?.iter().find_map(|item| first_set(item, rest, neutral)),
        Some(rest) => first_set(inner, rest, neutral),
        None => says_something(inner, neutral).then_some(inner),
    }
}

fn says_something(value: &Value, neutral: &[&str]) -> bool {
    let silent = match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::Object(_) => false,
    };
    !silent && !neutral.contains(&value.to_string().as_str())
}

#[cfg(test)]
mod tests;
