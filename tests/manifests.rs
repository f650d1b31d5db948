//! The manifests in this repository against the code they belong to.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "all of this is test code, where a panic is a failed test"
)]

use std::fs;
use std::path::PathBuf;

use capa_api::meta;
use capa_api::schema;
use serde_json::Value;

fn repository(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn read(path: &str) -> String {
    let file = repository(path);
    fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

fn documents(path: &str) -> Vec<Value> {
    serde_saphyr::from_multiple(&read(path)).unwrap()
}

fn rules(role: &Value) -> Vec<&Value> {
    role["rules"]
        .as_array()
        .map(|rules| rules.iter().collect())
        .unwrap_or_default()
}

fn mentions(list: &Value, word: &str) -> bool {
    list.as_array()
        .is_some_and(|words| words.iter().any(|entry| entry == word))
}

#[test]
fn config_crd_holds_what_the_types_generate() {
    let kustomization = read("config/crd/kustomization.yaml");
    for definition in schema::crds().unwrap() {
        let names = &definition.spec.names;
        let file = format!("{}_{}.yaml", definition.spec.group, names.plural);
        let generated = serde_saphyr::to_string(&schema::manifest(&definition).unwrap()).unwrap();
        assert!(
            read(&format!("config/crd/{file}")) == generated,
            "config/crd/{file} differs from the types of {}: run `make generate`",
            names.kind
        );
        assert!(
            kustomization.contains(&file),
            "config/crd/kustomization.yaml does not list {file}"
        );
    }
    let files = fs::read_dir(repository("config/crd")).unwrap();
    let definitions = files
        .filter(|file| file.as_ref().unwrap().file_name() != "kustomization.yaml")
        .count();
    assert_eq!(
        definitions,
        schema::crds().unwrap().len(),
        "a file of a kind that is no more"
    );
}

#[test]
fn the_contract_of_the_release_is_the_one_on_the_crds() {
    let metadata = &documents("metadata.yaml")[0];
    let contract = metadata["releaseSeries"][0]["contract"].as_str().unwrap();
    assert_eq!(format!("{}/{contract}", meta::CORE_GROUP), meta::CONTRACT_LABEL);
}

#[test]
fn the_manager_may_do_no_more_than_it_does() {
    let folder = fs::read_dir(repository("config/rbac")).unwrap();
    let files = folder.map(|file| format!("config/rbac/{}", file.unwrap().file_name().to_string_lossy()));
    for document in files.flat_map(|file| documents(&file)) {
        let name = document["metadata"]["name"].as_str().unwrap_or_default();
        for rule in rules(&document) {
            for part in ["apiGroups", "resources", "verbs"] {
                assert!(!mentions(&rule[part], "*"), "{name}: {rule}");
            }
            let reads_only = ["list", "watch", "create", "delete", "patch"]
                .iter()
                .all(|verb| !mentions(&rule["verbs"], verb));
            let secretive = mentions(&rule["resources"], "secrets") || mentions(&rule["resources"], "configmaps");
            assert!(!secretive || reads_only, "{name}: {rule}");
            let updates_secrets = mentions(&rule["resources"], "secrets") && mentions(&rule["verbs"], "update");
            assert!(
                !updates_secrets || document["kind"] == "Role",
                "{name}: only in the identity namespace"
            );
        }
    }
}
