//! Spec fields that have no effect yet: one table, from which the admission policy, the sentences of `kubectl explain`,
//! docs/fields-without-effect.md and the conditions of stored objects are made.
//!
//! A field leaves the table in the change that gives it its effect.

mod document;
mod explain;
mod fields;
mod policy;

use std::fmt;

use serde::Serialize;
use serde_json::Value;

use crate::conditions::{ConditionType, Reason};

pub use document::document;
pub use explain::NoSuchField;
pub(crate) use explain::explain;
pub use policy::{binding, policy};

/// A field without effect yet, or a block of which no field has any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Kind that has it. What is said of it holds for the kind's template too, below `spec.template.spec`.
    pub kind: &'static str,
    /// Path below `spec`; `[]` is an item of a list.
    pub path: &'static str,
    /// Values that ask for what happens anyway, as JSON. A schema default is always among them: the API server fills it
    /// in before anybody can tell that the user did not write it.
    pub neutral: &'static [&'static str],
    /// When it has no effect.
    pub when: When,
    /// What happens to an object that has it nevertheless.
    pub consequence: Consequence,
    /// What the user does instead.
    pub instead: &'static str,
}

/// When a field has no effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Wherever it is set to a value that is not neutral: it may not be introduced.
    Set,
    /// Where it is changed on an object that exists; what it says at creation has its effect. The change is refused. A
    /// template is not meant: its change is one of machines that are still to be made.
    Changed,
    /// It belongs to the managed mode of an AWSCluster, which is not there yet: such a cluster says `NotManagedYet`. An
    /// unmanaged one ignores the field by design and names it; it may be there, for instance because the cluster was
    /// managed by another provider before.
    Managed,
}

/// What happens to a stored object that has a field without effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Consequence {
    /// The condition that is False for it, and why; none where the object does not show it.
    pub condition: Option<(ConditionType, Reason)>,
    /// In words, after "no effect yet:".
    pub what: &'static str,
}

/// A field without effect that a spec sets to a value that is not neutral.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// The row of the table.
    pub field: &'static Field,
    value: Value,
}

impl fmt::Display for Found {
    /// The path, and the value where another one would be neutral.
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

/// The fields without effect that the spec of a kind sets. Null, empty text and an empty list are not set; an empty
/// block is.
pub fn found(kind: &str, spec: &impl Serialize) -> Vec<Found> {
    // A spec is read from JSON and can be written as JSON.
    let spec = serde_json::to_value(spec).unwrap_or_default();
    let of_kind = fields().iter().filter(|field| field.kind == kind);
    of_kind
        .filter_map(|field| {
            Some(Found {
                field,
                value: first_set(&spec, field.path, field.neutral)?.clone(),
            })
        })
        .collect()
}

/// Names of fields, as conditions show them.
pub fn names<'a>(found: impl IntoIterator<Item = &'a Found>) -> String {
    let names: Vec<String> = found.into_iter().map(ToString::to_string).collect();
    names.join(", ")
}

/// The first value at the path that says something and is not neutral.
fn first_set<'a>(value: &'a Value, path: &str, neutral: &[&str]) -> Option<&'a Value> {
    let (segment, rest) = path
        .split_once('.')
        .map_or((path, None), |(segment, rest)| (segment, Some(rest)));
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
