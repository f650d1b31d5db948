//! The samples of network sources: each object yields exactly the network in its folder.

#![allow(clippy::indexing_slicing, clippy::panic, clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use capa_api::network_mapping::AWSNetworkMapping;
use capa_network::{Description, Mapping, SourceKind};
use serde_json::Value;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../config/samples")
}

fn documents(file: &Path) -> Vec<Value> {
    let text = fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    serde_saphyr::from_multiple(&text).unwrap()
}

fn kind_of(object: &Value) -> SourceKind {
    let version = object["apiVersion"].as_str().unwrap();
    SourceKind {
        group: version.split_once('/').map_or("", |(group, _)| group).to_owned(),
        kind: object["kind"].as_str().unwrap().to_owned(),
    }
}

/// The description from the sample's mapping, or else the provider's own description of the kind.
fn description(sample: &Path, kind: &SourceKind) -> Description {
    let file = sample.join("mapping.yaml");
    if !file.exists() {
        return kind.built_in(true).unwrap();
    }
    let mapping: AWSNetworkMapping = serde_json::from_value(documents(&file).remove(0)).unwrap();
    let source = &mapping.spec.source;
    assert_eq!((&source.api_group, &source.kind), (&kind.group, &kind.kind), "{}", sample.display());
    let name = mapping.metadata.name.as_deref().unwrap();
    let compiled = Mapping::compile(name, &mapping.spec);
    Description::Mapping(Arc::new(compiled.unwrap_or_else(|error| panic!("{}: {error:?}", file.display()))))
}

#[test]
fn each_sample_results_in_its_expected_network() {
    let mut samples = 0;
    for entry in fs::read_dir(folder()).unwrap() {
        let sample = entry.unwrap().path();
        if !sample.join("expected.yaml").exists() {
            continue;
        }
        let objects = documents(&sample.join("object.yaml"));
        let kind = kind_of(&objects[0]);
        let (name, network) = description(&sample, &kind).network(&kind, &objects, None);
        let network = network.unwrap_or_else(|problem| panic!("{}: {name}: {problem:?}", sample.display()));
        let network = serde_json::to_value(network.unwrap()).unwrap();
        let expected = documents(&sample.join("expected.yaml")).remove(0);
        assert_eq!(network, expected, "{}", sample.display());
        samples += 1;
    }
    assert!(samples >= 9, "{samples} samples");
}
