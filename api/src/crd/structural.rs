//! The conversion of a Rust type's JSON schema into the structural schema of a CRD.

use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema};
use serde_json::{Map, Value, json};

/// Structural schema of a kind, or of a part of one.
///
/// kube generates a structural schema as well, but shows the description of an enum in place of the optional field's,
/// and marks every optional field as nullable.
pub(crate) fn schema_of<K: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12()
        .with(|settings| {
            settings.inline_subschemas = true;
            settings.meta_schema = None;
        })
        .with_transform(RecursiveTransform(structural));
    settings.into_generator().into_root_schema_for::<K>().to_value()
}

/// Turns floats without a fraction into integers, everywhere.
pub(super) fn whole_numbers(value: &mut Value) {
    match value {
        Value::Array(entries) => entries.iter_mut().for_each(whole_numbers),
        Value::Object(entries) => entries.values_mut().for_each(whole_numbers),
        Value::Number(number) => {
            if let Some(whole) = number.as_f64().filter(|_| number.is_f64()).and_then(whole) {
                *value = whole.into();
            }
        }
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

/// The integer that equals the float; bounds in schemas are far below the floats that lose precision.
fn whole(float: f64) -> Option<i64> {
    format!("{float}").parse().ok()
}

fn structural(schema: &mut Schema) {
    let Some(object) = schema.as_object_mut() else {
        return;
    };
    object.remove("title");
    drop_null_type(object);
    drop_null_alternative(object);
    merge_constants(object);
    join_lines(object);
}

/// `type: [T, null]` is the schema of an optional field of a plain type; absent fields need no null.
fn drop_null_type(object: &mut Map<String, Value>) {
    let Some(Value::Array(types)) = object.get("type") else {
        return;
    };
    let mut types = types.iter().filter(|name| *name != "null");
    if let (Some(only), None) = (types.next().cloned(), types.next()) {
        object.insert("type".to_owned(), only);
    }
}

/// `anyOf: [X, null]` is the schema of an optional field of another type. The field's own description replaces that of
/// X.
fn drop_null_alternative(object: &mut Map<String, Value>) {
    let Some(Value::Array(alternatives)) = object.get("anyOf") else {
        return;
    };
    let null = json!({ "type": "null" });
    let mut present = alternatives.iter().filter(|alternative| **alternative != null);
    let (Some(Value::Object(only)), None) = (present.next().cloned(), present.next()) else {
        return;
    };
    object.remove("anyOf");
    for (key, value) in only {
        object.entry(key).or_insert(value);
    }
}

/// `oneOf: [{const: A}, {enum: [B, C]}]` is the schema of an enum with documented variants; a CRD needs one list.
fn merge_constants(object: &mut Map<String, Value>) {
    let Some(Value::Array(alternatives)) = object.get("oneOf") else {
        return;
    };
    let values: Option<Vec<Vec<Value>>> = alternatives.iter().map(constants).collect();
    if let Some(values) = values {
        object.remove("oneOf");
        object.insert("type".to_owned(), "string".into());
        object.insert("enum".to_owned(), values.concat().into());
    }
}

fn constants(alternative: &Value) -> Option<Vec<Value>> {
    let single = alternative.get("const").map(|value| vec![value.clone()]);
    single.or_else(|| alternative.get("enum")?.as_array().cloned())
}

/// Joins the lines of doc comments, which break where the source does: `kubectl explain` shows paragraphs.
fn join_lines(object: &mut Map<String, Value>) {
    if let Some(Value::String(description)) = object.get_mut("description") {
        let paragraphs: Vec<String> = description.split("\n\n").map(|paragraph| paragraph.replace('\n', " ")).collect();
        *description = paragraphs.join("\n\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn transformed(schema: Value) -> Value {
        let mut schema = Schema::try_from(schema).unwrap();
        structural(&mut schema);
        schema.to_value()
    }

    #[test]
    fn optional_fields_are_not_nullable() {
        assert_eq!(
            transformed(json!({"type": ["string", "null"], "maxLength": 3})),
            json!({"type": "string", "maxLength": 3})
        );
        let explicit = json!({"type": ["object", "null"], "nullable": true});
        assert_eq!(transformed(explicit), json!({"type": "object", "nullable": true}));
    }

    #[test]
    fn an_optional_enum_keeps_the_description_of_its_field() {
        let schema = json!({
            "description": "of the\nfield",
            "anyOf": [
                {
                    "description": "of the type",
                    "oneOf": [{"const": "A", "type": "string"}, {"enum": ["B"], "type": "string"}],
                },
                {"type": "null"},
            ],
        });
        assert_eq!(transformed(schema), json!({"description": "of the field", "type": "string", "enum": ["A", "B"]}));
    }

    #[test]
    fn alternatives_that_are_no_constants_stay() {
        let union = json!({"oneOf": [{"required": ["a"]}, {"required": ["b"]}]});
        assert_eq!(transformed(union.clone()), union);
        let int_or_string = json!({"anyOf": [{"type": "integer"}, {"type": "string"}]});
        assert_eq!(transformed(int_or_string.clone()), int_or_string);
    }

    #[test]
    fn whole_floats_become_integers_and_others_stay() {
        let mut value = json!({"minimum": 8.0, "list": [-1.0, 0.5, 7, "8.0"]});
        whole_numbers(&mut value);
        assert_eq!(value.to_string(), r#"{"list":[-1,0.5,7,"8.0"],"minimum":8}"#);
    }
}
