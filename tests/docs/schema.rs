//! Objects against the schemas in `config/crd`: types, unknown and missing fields, and bounds. Patterns and rules in
//! CEL are left to the API server.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::{names_in, read};

/// The API group of our kinds.
pub(crate) const GROUP: &str = "infrastructure.cluster.x-k8s.io";

/// Schemas by `apiVersion` and kind.
pub(crate) struct Schemas(BTreeMap<(String, String), Value>);

impl Schemas {
    /// Reads `config/crd`.
    pub(crate) fn read() -> Self {
        let files = names_in("config/crd").into_iter();
        let definitions = files.filter(|name| name.starts_with(GROUP)).map(|name| {
            let definition: Value = serde_saphyr::from_str(&read(format!("config/crd/{name}"))).unwrap();
            let version = &definition["spec"]["versions"][0];
            let api_version = format!("{GROUP}/{}", version["name"].as_str().unwrap());
            let kind = definition["spec"]["names"]["kind"].as_str().unwrap().to_owned();
            ((api_version, kind), version["schema"]["openAPIV3Schema"].clone())
        });
        Self(definitions.collect())
    }

    /// The schema of a kind.
    pub(crate) fn of(&self, version: &str, kind: &str) -> &Value {
        let schema = self.0.get(&(format!("{GROUP}/{version}"), kind.to_owned()));
        schema.unwrap_or_else(|| panic!("{version} has no kind {kind}"))
    }

    /// What is wrong with an object of one of our kinds.
    pub(crate) fn problems(&self, object: &Value) -> Vec<String> {
        let text = |field: &str| object[field].as_str().unwrap_or_default().to_owned();
        let Some(schema) = self.0.get(&(text("apiVersion"), text("kind"))) else {
            return vec![format!("{} has no kind {}", text("apiVersion"), text("kind"))];
        };
        let mut own = object.clone();
        for of_kubernetes in ["apiVersion", "kind", "metadata"] {
            own.as_object_mut().unwrap().remove(of_kubernetes);
        }
        let mut problems = Vec::new();
        check(&own, schema, "", &mut problems);
        problems
    }
}

fn check(value: &Value, schema: &Value, path: &str, problems: &mut Vec<String>) {
    if value.is_null() && schema["nullable"] == true {
        return;
    }
    if !has_type(value, schema) {
        problems.push(format!("{path} is no {}", schema["type"]));
    }
    if let Some(allowed) = schema["enum"].as_array()
        && !allowed.contains(value)
    {
        problems.push(format!("{path} is none of {}", schema["enum"]));
    }
    if !is_within(value, schema) {
        problems.push(format!("{path} is out of its bounds"));
    }
    match value {
        Value::Object(fields) => {
            for name in schema["required"].as_array().into_iter().flatten() {
                if !fields.contains_key(name.as_str().unwrap()) {
                    problems.push(format!("{path} lacks {name}"));
                }
            }
            for (name, value) in fields {
                let path = format!("{path}.{name}");
                match field(schema, name) {
                    Some(schema) => check(value, schema, &path, problems),
                    None if schema["x-kubernetes-preserve-unknown-fields"] == true => {}
                    None => problems.push(format!("{path} is no field")),
                }
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                check(item, &schema["items"], &format!("{path}[{index}]"), problems);
            }
        }
        _ => {}
    }
}

/// The schema of a field.
pub(crate) fn field<'a>(schema: &'a Value, name: &str) -> Option<&'a Value> {
    let named = schema["properties"].get(name);
    named.or_else(|| schema.get("additionalProperties").filter(|schema| schema.is_object()))
}

fn has_type(value: &Value, schema: &Value) -> bool {
    if schema["x-kubernetes-int-or-string"] == true {
        return value.is_string() || value.is_i64();
    }
    match schema["type"].as_str() {
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("integer") => value.is_i64() || value.is_u64(),
        Some("number") => value.is_number(),
        Some("boolean") => value.is_boolean(),
        _ => true,
    }
}

fn is_within(value: &Value, schema: &Value) -> bool {
    let bound = |name: &str| schema[name].as_f64();
    let (size, least, most) = match value {
        Value::String(text) => (text.chars().count(), "minLength", "maxLength"),
        Value::Array(items) => (items.len(), "minItems", "maxItems"),
        Value::Object(fields) => (fields.len(), "minProperties", "maxProperties"),
        Value::Number(number) => {
            let number = number.as_f64().unwrap();
            let above = bound("minimum").is_none_or(|least| number >= least);
            return above && bound("maximum").is_none_or(|most| number <= most);
        }
        _ => return true,
    };
    let size = f64::from(u32::try_from(size).unwrap());
    bound(least).is_none_or(|least| size >= least) && bound(most).is_none_or(|most| size <= most)
}

#[test]
fn mistakes_in_objects_are_noticed() {
    let schemas = Schemas::read();
    let machine = |spec: &str| {
        let head = format!("apiVersion: {GROUP}/v1beta2\nkind: AWSMachine\nmetadata: {{name: a, labels: {{b: c}}}}\n");
        schemas.problems(&serde_saphyr::from_str(&format!("{head}spec: {spec}")).unwrap())
    };
    assert_eq!(machine("{instanceType: t3.large}"), Vec::<String>::new());
    for (spec, problem) in [
        ("{}", ".spec lacks \"instanceType\""),
        ("{instanceType: 3}", ".spec.instanceType is no \"string\""),
        ("{instanceType: t3.large, amy: {}}", ".spec.amy is no field"),
        ("{instanceType: t3.large, tenancy: b}", ".spec.tenancy is none of"),
        ("{instanceType: t3.large, rootVolume: {size: 1}}", ".spec.rootVolume.size is out of its bounds"),
    ] {
        let problems = machine(spec);
        assert!(problems[0].starts_with(problem), "{problems:?}");
    }
}
