//! The text of `kubectl explain` about a field without effect: a sentence after the field's own description.

use serde_json::Value;

use super::{Field, When, fields};

/// A field of the table that the schema of its kind does not have, or not with a description: an error of this program.
#[derive(Debug, thiserror::Error)]
#[error("the schema of {kind} has no field {path} with a description, which unsupported::fields names")]
pub struct NoSuchField {
    /// Kind of the schema.
    kind: String,
    /// Path of the field.
    path: String,
}

impl Field {
    /// The sentence.
    pub(super) fn sentence(&self) -> String {
        let what = self.consequence.what;
        match (self.when, self.neutral) {
            (When::Managed, _) => format!("No effect yet: {what}, and an unmanaged cluster ignores it."),
            (When::Set, []) => format!("No effect yet: {what}; {}.", self.instead),
            (When::Set, neutral) => {
                let neutral: Vec<String> = neutral.iter().map(|value| format!("`{}`", plain(value))).collect();
                let neutral = neutral.join(" and ");
                format!("No effect yet except with {neutral}: {what}; {}.", self.instead)
            }
        }
    }
}

/// A JSON value as users write it in YAML.
pub(super) fn plain(json: &str) -> &str {
    match json {
        r#""""# => json,
        _ => json.trim_matches('"'),
    }
}

/// Adds the sentences of a kind, or of the kind that it is a template of, to its schema.
pub(crate) fn explain(kind: &str, schema: &mut Value) -> Result<(), NoSuchField> {
    let (of, below) = match kind.strip_suffix("Template") {
        Some(of) => (of, "spec.template.spec."),
        None => (kind, "spec."),
    };
    for field in fields().iter().filter(|field| field.kind == of) {
        let path = format!("{below}{}", field.path);
        let description = at(schema, &path)
            .and_then(|schema| schema.get_mut("description"))
            .and_then(|description| match description {
                Value::String(text) => Some(text),
                _ => None,
            });
        let Some(description) = description else {
            return Err(NoSuchField {
                kind: kind.to_owned(),
                path,
            });
        };
        description.push(' ');
        description.push_str(&field.sentence());
    }
    Ok(())
}

fn at<'a>(schema: &'a mut Value, path: &str) -> Option<&'a mut Value> {
    path.split('.').try_fold(schema, |schema, segment| {
        let (name, in_list) = segment.strip_suffix("[]").map_or((segment, false), |name| (name, true));
        let field = schema.get_mut("properties")?.get_mut(name)?;
        if in_list { field.get_mut("items") } else { Some(field) }
    })
}
