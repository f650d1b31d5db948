//! The text of `kubectl explain` about a field without effect: a sentence after the field's own description.

use serde_json::Value;

use super::without_effect;

/// A field of the table that the schema of its kind lacks or does not describe: a bug in this program.
#[derive(Debug, thiserror::Error)]
#[error("the schema of {kind} has no field {path} with a description, which unsupported::fields names")]
pub struct NoSuchField {
    /// Kind of the schema.
    kind: String,
    /// Path of the field.
    path: String,
}

/// The sentence that follows the description of a field without effect.
const SENTENCE: &str =
    "No effect yet: managed clusters, to which it belongs, do not have this part, and an unmanaged cluster ignores it.";

/// A JSON value as users write it in YAML.
pub(super) fn plain(json: &str) -> &str {
    match json {
        r#""""# => json,
        _ => json.trim_matches('"'),
    }
}

/// Adds the sentences to the schema of an AWSCluster or of its template.
pub(crate) fn explain(kind: &str, schema: &mut Value) -> Result<(), NoSuchField> {
    let below = match kind {
        "AWSCluster" => "spec.",
        "AWSClusterTemplate" => "spec.template.spec.",
        _ => return Ok(()),
    };
    for field in without_effect() {
        let path = format!("{below}{}", field.path);
        let description =
            at(schema, &path).and_then(|schema| schema.get_mut("description")).and_then(
                |description| match description {
                    Value::String(text) => Some(text),
                    _ => None,
                },
            );
        let Some(description) = description else {
            return Err(NoSuchField { kind: kind.to_owned(), path });
        };
        description.push(' ');
        description.push_str(SENTENCE);
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
