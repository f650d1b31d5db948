//! The types of the fields of the network contract in words, from the schema of the CRD.

use std::sync::LazyLock;

use serde_json::Value;

use crate::crd::schema_of;
use crate::network::MachineNetwork;

/// One step of a path in `status.network`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step<'a> {
    /// The field of an object, or the key of a map.
    Field(&'a str),
    /// An item of a list.
    Item,
}

static SCHEMA: LazyLock<Value> = LazyLock::new(schema_of::<MachineNetwork>);

/// The type of the field at a path of the contract, for example `a list of strings`. If the contract does not have the
/// path, the type of the last field of the path that the contract has.
pub fn expected_type<'a>(path: impl IntoIterator<Item = Step<'a>>) -> String {
    let mut schema = &*SCHEMA;
    for step in path {
        let below = match step {
            Step::Item => schema.get("items"),
            Step::Field(name) => {
                let field = schema.get("properties").and_then(|fields| fields.get(name));
                field.or_else(|| schema.get("additionalProperties"))
            }
        };
        match below {
            Some(below) => schema = below,
            None => break,
        }
    }
    described(schema)
}

fn described(schema: &Value) -> String {
    if let Some(values) = texts(schema, "enum") {
        return format!("one of {values}");
    }
    match kind(schema) {
        "array" => match schema.get("items") {
            Some(items) => format!("a list of {}", plural(items)),
            None => "a list".to_owned(),
        },
        "string" => "a string".to_owned(),
        "boolean" => "true or false".to_owned(),
        "integer" => "a whole number".to_owned(),
        "number" => "a number".to_owned(),
        _ => match texts(schema, "required") {
            Some(fields) => format!("an object with {fields}"),
            None => "an object".to_owned(),
        },
    }
}

fn plural(items: &Value) -> String {
    if let Some(values) = texts(items, "enum") {
        return values;
    }
    match (kind(items), texts(items, "required")) {
        ("string", _) => "strings".to_owned(),
        (_, Some(fields)) => format!("objects with {fields}"),
        _ => "objects".to_owned(),
    }
}

fn kind(schema: &Value) -> &str {
    schema.get("type").and_then(Value::as_str).unwrap_or_default()
}

/// The texts of a list in a schema, joined; `None` without the list.
fn texts(schema: &Value, list: &str) -> Option<String> {
    let texts = schema.get(list)?.as_array()?.iter();
    let texts: Vec<&str> = texts.filter_map(Value::as_str).collect();
    Some(texts.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_field_has_its_type_in_words() {
        use Step::{Field, Item};
        let table: [(&[Step<'_>], &str); 9] = [
            (&[], "an object"),
            (&[Field("region")], "a string"),
            (&[Field("subnets")], "a list of objects with id"),
            (&[Field("subnets"), Item], "an object with id"),
            (&[Field("subnets"), Item, Field("ipv6")], "true or false"),
            (&[Field("subnets"), Item, Field("roles")], "a list of ControlPlane, Worker"),
            (&[Field("controlPlaneTargets"), Item, Field("port")], "a whole number"),
            (&[Field("additionalTags"), Field("team")], "a string"),
            (&[Field("region"), Field("unheard-of")], "a string"),
        ];
        for (path, expected) in table {
            assert_eq!(expected_type(path.iter().copied()), expected, "{path:?}");
        }
    }
}
