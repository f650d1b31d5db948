//! Objects as users write them, and as the provider leaves them: they are read, and nothing in them is lost.

#![allow(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "helpers of tests fail as tests do"
)]

use std::fmt::Debug;

use capa_api::cluster::AWSCluster;
use capa_api::machine::AWSMachine;
use capa_api::machine_template::AWSMachineTemplate;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

const FIXTURES: [(&str, &str); 3] = [
    (
        "foreign-infrastructure.yaml",
        include_str!("fixtures/foreign-infrastructure.yaml"),
    ),
    (
        "managed-awscluster.yaml",
        include_str!("fixtures/managed-awscluster.yaml"),
    ),
    (
        "unmanaged-awscluster.yaml",
        include_str!("fixtures/unmanaged-awscluster.yaml"),
    ),
];

#[test]
fn objects_as_written_are_read_and_written_back_without_loss() {
    for (name, text) in FIXTURES {
        let documents: Vec<Value> = serde_saphyr::from_multiple(text).unwrap();
        assert!(!documents.is_empty(), "{name}");
        for document in documents {
            match document["kind"].as_str().unwrap() {
                "AWSCluster" => keeps_everything::<AWSCluster>(name, &document),
                "AWSMachine" => keeps_everything::<AWSMachine>(name, &document),
                "AWSMachineTemplate" => keeps_everything::<AWSMachineTemplate>(name, &document),
                other => panic!("{name}: no type for kind {other}"),
            }
        }
    }
}

fn keeps_everything<K>(name: &str, document: &Value)
where
    K: Serialize + DeserializeOwned + PartialEq + Debug,
{
    let object: K = serde_json::from_value(document.clone()).unwrap();
    let written = serde_json::to_value(&object).unwrap();
    if let Some(lost) = first_loss("", document, &written) {
        panic!("{name}: {lost} is lost");
    }
    assert_eq!(serde_json::from_value::<K>(written).unwrap(), object, "{name}");
}

/// The first value of the document that the written form lacks; defaults may come on top.
fn first_loss(path: &str, document: &Value, written: &Value) -> Option<String> {
    match (document, written) {
        (Value::Object(document), Value::Object(written)) => document.iter().find_map(|(key, value)| {
            first_loss(
                &format!("{path}.{key}"),
                value,
                written.get(key).unwrap_or(&Value::Null),
            )
        }),
        (Value::Array(document), Value::Array(written)) if document.len() == written.len() => document
            .iter()
            .zip(written)
            .enumerate()
            .find_map(|(index, (value, written))| first_loss(&format!("{path}[{index}]"), value, written)),
        _ => (document != written).then(|| path.to_owned()),
    }
}
