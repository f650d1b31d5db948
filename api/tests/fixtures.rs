//! Objects as users write them, and as the provider stores them, are read without loss.

#![allow(clippy::indexing_slicing, clippy::panic, clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::fmt::Debug;

use capa_api::cluster::AWSCluster;
use capa_api::machine::AWSMachine;
use capa_api::machine::template::AWSMachineTemplate;
use capa_api::meta;
use capa_api::network_mapping::AWSNetworkMapping;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

const FIXTURES: [(&str, &str); 4] = [
    ("foreign-infrastructure.yaml", include_str!("fixtures/foreign-infrastructure.yaml")),
    ("managed-awscluster.yaml", include_str!("fixtures/managed-awscluster.yaml")),
    ("network-mappings.yaml", include_str!("fixtures/network-mappings.yaml")),
    ("unmanaged-awscluster.yaml", include_str!("fixtures/unmanaged-awscluster.yaml")),
];
#[test]
fn fixtures_survive_a_round_trip() {
    for (file, text) in FIXTURES {
        let documents: Vec<Value> = serde_saphyr::from_multiple(text).unwrap();
        let api_version = format!("{}/{}", meta::GROUP, meta::VERSION);
        let ours = documents.iter().filter(|document| document["apiVersion"] == api_version);
        for document in ours {
            let kind = document["kind"].as_str().unwrap();
            let lost = match kind {
                "AWSCluster" => loss::<AWSCluster>(document),
                "AWSMachine" => loss::<AWSMachine>(document),
                "AWSMachineTemplate" => loss::<AWSMachineTemplate>(document),
                "AWSNetworkMapping" => loss::<AWSNetworkMapping>(document),
                _ => panic!("{file}: no kind of ours: {kind}"),
            };
            assert_eq!(lost, None, "{file}: {kind}/{} loses", document["metadata"]["name"]);
        }
    }
}

/// The path of the first value that reading as `K` and writing back loses.
fn loss<K>(document: &Value) -> Option<String>
where
    K: Serialize + DeserializeOwned + PartialEq + Debug,
{
    let object: K = serde_json::from_value(document.clone()).unwrap();
    let written = serde_json::to_value(&object).unwrap();
    let lost = first_loss("", document, &written);
    assert_eq!(serde_json::from_value::<K>(written).unwrap(), object);
    lost.map(|path| path.trim_start_matches('.').to_owned())
}

/// The first value of the document that the written form lacks; the written form may have additional defaults.
fn first_loss(path: &str, document: &Value, written: &Value) -> Option<String> {
    match (document, written) {
        (Value::Object(document), Value::Object(written)) => document.iter().find_map(|(key, value)| {
            first_loss(&format!("{path}.{key}"), value, written.get(key).unwrap_or(&Value::Null))
        }),
        (Value::Array(document), Value::Array(written)) if document.len() == written.len() => document
            .iter()
            .zip(written)
            .enumerate()
            .find_map(|(index, (value, written))| first_loss(&format!("{path}[{index}]"), value, written)),
        _ => (document != written).then(|| path.to_owned()),
    }
}
