//! The values of ConfigMaps and Secrets.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use capa_api::network::MachineNetwork;
use serde_json::{Map, Value};

use crate::parse::{WrongType, parse};

/// The keys that contain the whole document of the contract.
const DOCUMENTS: [&str; 2] = ["network.yaml", "network.json"];

/// Suffix of the keys that tofu-controller writes beside each output, with the type of the output.
const TYPE_SUFFIX: &str = "__type";

/// The values of a ConfigMap or Secret. A text that is a JSON list or object is parsed; other texts stay unchanged.
/// Values that are not text are left out. A Secret that has not been applied yet may have plain values in `stringData`,
/// which take precedence.
pub(crate) fn data(kind: &str, object: &Value) -> Value {
    let is_secret = kind == "Secret";
    let entries = object.get("data").and_then(Value::as_object).into_iter().flatten();
    let shown = entries.filter(|(key, _)| !key.ends_with(TYPE_SUFFIX));
    let values = shown.filter_map(|(key, value)| {
        let text = value.as_str()?;
        let text = if is_secret { decoded(text)? } else { text.to_owned() };
        Some((key.clone(), parsed(text)))
    });
    let plain = object.get("stringData").filter(|_| is_secret);
    let plain = plain.and_then(Value::as_object).into_iter().flatten();
    let plain = plain.filter(|(key, _)| !key.ends_with(TYPE_SUFFIX));
    let plain = plain.filter_map(|(key, value)| Some((key.clone(), parsed(value.as_str()?.to_owned()))));
    values.chain(plain).collect::<Map<_, _>>().into()
}

fn decoded(text: &str) -> Option<String> {
    String::from_utf8(BASE64_STANDARD.decode(text).ok()?).ok()
}

fn parsed(text: String) -> Value {
    if text.trim_start().starts_with(['[', '{'])
        && let Ok(value) = serde_json::from_str(&text)
    {
        return value;
    }
    Value::String(text)
}

/// The network of a ConfigMap or Secret without a mapping: the document of the contract under one key, or else one key
/// for each field of the contract.
pub(crate) fn network(kind: &str, object: &Value) -> Result<MachineNetwork, WrongType> {
    let data = data(kind, object);
    let document = DOCUMENTS.iter().find_map(|key| Some((*key, data.get(key)?)));
    let Some((key, document)) = document else {
        return parse(&data).map_err(|wrong| below("data", wrong));
    };
    let read = match document {
        // The error of the parser is dropped, because it may quote the text.
        Value::String(text) => serde_saphyr::from_str::<Value>(text)
            .map_err(|_| WrongType { path: String::new(), expected: "a YAML document".to_owned() }),
        read => Ok(read.clone()),
    };
    read.and_then(|document| parse(&document)).map_err(|wrong| below(key, wrong))
}

/// The path of a wrong type in the object.
fn below(top: &str, wrong: WrongType) -> WrongType {
    let path = match wrong.path.as_str() {
        "" => top.to_owned(),
        path => format!("{top}.{path}"),
    };
    WrongType { path, ..wrong }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn secret(entries: &[(&str, &str)]) -> Value {
        let data: Map<_, _> =
            entries.iter().map(|(key, value)| ((*key).to_owned(), BASE64_STANDARD.encode(value).into())).collect();
        json!({ "data": data })
    }

    #[test]
    fn outputs_of_tofu_controller_are_decoded_and_parsed() {
        let outputs = secret(&[
            ("vpc_id", "vpc-0a1b2c3d"),
            ("private_subnet_ids", "[\"subnet-0000000a\"]"),
            ("private_subnet_ids__type", "[\"list\",\"string\"]"),
            ("tags", "{\"a\": \"b\"}"),
            ("count", "3"),
            ("odd", "[not json"),
        ]);
        let expected = json!({
            "vpc_id": "vpc-0a1b2c3d", "private_subnet_ids": ["subnet-0000000a"], "tags": {"a": "b"}, "count": "3",
            "odd": "[not json",
        });
        assert_eq!(data("Secret", &outputs), expected);
        let binary = json!({"data": {"a": "gICA", "b": "!"}});
        assert_eq!(data("Secret", &binary), json!({}));
        assert_eq!(data("ConfigMap", &json!({})), json!({}));
    }

    #[test]
    fn a_document_or_flat_keys_hold_the_network() {
        let flat = json!({"data": {
            "region": "eu-west-1", "subnets": "[{\"id\": \"subnet-0000000a\"}]",
            "securityGroups": "{\"all\": [\"sg-0000000a\"]}", "other": "ignored",
        }});
        let yaml = json!({"data": {"network.yaml": "region: eu-west-1\nsubnets: [{id: subnet-0000000a}]\n\
            securityGroups: {all: [sg-0000000a]}\n", "region": "ignored"}});
        let json = json!({"data": {"network.json": "{\"region\": \"eu-west-1\", \"subnets\": [{\"id\": \
            \"subnet-0000000a\"}], \"securityGroups\": {\"all\": [\"sg-0000000a\"]}}"}});
        for object in [flat, yaml, json] {
            let network = network("ConfigMap", &object).unwrap();
            assert_eq!(network.region.as_deref(), Some("eu-west-1"));
            assert_eq!(network.subnets[0].id, "subnet-0000000a");
            assert_eq!(network.security_groups.unwrap().all, ["sg-0000000a"]);
        }
    }

    #[test]
    fn a_wrong_type_is_named_by_its_key() {
        let table = [
            (json!({"subnets": "hunter2"}), "data.subnets", "a list of objects with id"),
            (json!({"network.yaml": "region: [hunter2]"}), "network.yaml.region", "a string"),
            (json!({"network.json": "[hunter2"}), "network.json", "a YAML document"),
            (json!({"network.yaml": "hunter2"}), "network.yaml", "an object"),
        ];
        for (data, path, expected) in table {
            let wrong = network("ConfigMap", &json!({ "data": data })).unwrap_err();
            assert_eq!((wrong.path.as_str(), wrong.expected.as_str()), (path, expected));
        }
    }

    #[test]
    fn a_document_with_nested_aliases_is_refused() {
        let levels = (1..30).map(|level| format!("b{level}: &b{level} [*b{before}, *b{before}]\n", before = level - 1));
        let bomb = format!("b0: &b0 [x, x]\n{}", levels.collect::<String>());
        assert!(network("ConfigMap", &json!({"data": {"network.yaml": bomb}})).is_err());
    }
}
