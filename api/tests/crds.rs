//! What Cluster API's contract and readers of `kubectl explain` require of the generated CRDs.

#![allow(clippy::indexing_slicing, clippy::panic, clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::collections::{BTreeMap, BTreeSet};

use capa_api::crd::{crds, definition_hash, manifest};
use capa_api::meta;
use serde_json::{Map, Value, json};

const CLUSTER: &str = "AWSCluster";
const MACHINE: &str = "AWSMachine";

fn manifests() -> BTreeMap<String, Value> {
    let written = crds().unwrap().iter().map(|crd| manifest(crd).unwrap()).collect::<Vec<_>>();
    written.into_iter().map(|crd| (crd["spec"]["names"]["kind"].as_str().unwrap().to_owned(), crd)).collect()
}

fn root(crd: &Value) -> &Value {
    &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
}

/// The schema at a path like `status.conditions`, through the properties of objects.
fn at<'a>(crd: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(root(crd), |schema, name| schema["properties"].get(name))
}

fn expected(crd: &Value, path: &str) -> Value {
    at(crd, path).unwrap_or_else(|| panic!("{path} is missing")).clone()
}

/// Visits every schema that is a field of an object: path, field name, properties of the object, schema of the field.
fn fields<'a>(path: &str, schema: &'a Value, visit: &mut impl FnMut(&str, &'a str, &'a Map<String, Value>, &'a Value)) {
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let path = format!("{path}.{name}");
        visit(&path, name, schema["properties"].as_object().unwrap(), field);
        fields(&path, field, visit);
    }
    for below in ["items", "additionalProperties"] {
        if let Some(inner) = schema.get(below) {
            fields(&format!("{path}[]"), inner, visit);
        }
    }
}

#[test]
fn names_and_scopes_are_those_that_cluster_api_derives() {
    let wanted = [
        ("AWSCluster", "awsclusters", "Namespaced"),
        ("AWSClusterControllerIdentity", "awsclustercontrolleridentities", "Cluster"),
        ("AWSClusterRoleIdentity", "awsclusterroleidentities", "Cluster"),
        ("AWSClusterStaticIdentity", "awsclusterstaticidentities", "Cluster"),
        ("AWSClusterTemplate", "awsclustertemplates", "Namespaced"),
        ("AWSMachine", "awsmachines", "Namespaced"),
        ("AWSMachineTemplate", "awsmachinetemplates", "Namespaced"),
        ("AWSNetworkMapping", "awsnetworkmappings", "Cluster"),
    ];
    let crds = manifests();
    assert_eq!(crds.keys().map(String::as_str).collect::<Vec<_>>(), wanted.map(|(kind, ..)| kind));
    for (kind, plural, scope) in wanted {
        let crd = &crds[kind];
        assert_eq!(crd["metadata"]["name"], format!("{plural}.infrastructure.cluster.x-k8s.io"));
        assert_eq!(crd["spec"]["names"]["plural"], plural);
        assert_eq!(crd["spec"]["names"]["listKind"], format!("{kind}List"));
        assert_eq!(crd["spec"]["names"]["categories"], json!(["cluster-api"]));
        assert_eq!(crd["spec"]["scope"], scope);
        assert_eq!(crd["spec"]["conversion"], json!({"strategy": "None"}));
    }
}

#[test]
fn short_names_are_unique() {
    let crds = manifests();
    let names = crds.values().flat_map(|crd| crd["spec"]["names"]["shortNames"].as_array().unwrap());
    let names: Vec<&str> = names.map(|name| name.as_str().unwrap()).collect();
    assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
    assert_eq!(crds[MACHINE]["spec"]["names"]["shortNames"], json!(["awsm"]));
    assert_eq!(crds[CLUSTER]["spec"]["names"]["shortNames"], json!(["awsc"]));
}

#[test]
fn crd_labels_name_the_contract_and_the_provider_only() {
    for (kind, crd) in manifests() {
        let mut labels = crd["metadata"]["labels"].as_object().unwrap().clone();
        assert_eq!(labels.remove("cluster.x-k8s.io/v1beta2"), Some(json!("v1beta2")), "{kind}");
        assert_eq!(labels.remove("cluster.x-k8s.io/provider"), Some(json!("infrastructure-aws-rs")), "{kind}");
        let network = labels.remove("infrastructure.cluster.x-k8s.io/machine-network");
        assert_eq!(network, (kind == CLUSTER).then(|| json!("v1")), "{kind}");
        let hierarchy = labels.remove("clusterctl.cluster.x-k8s.io/move-hierarchy");
        assert_eq!(hierarchy, kind.ends_with("Identity").then(|| json!("")), "{kind}");
        let moved = labels.remove("clusterctl.cluster.x-k8s.io/move");
        assert_eq!(moved, (kind == "AWSNetworkMapping").then(|| json!("")), "{kind}");
        assert!(labels.is_empty(), "{kind}: {labels:?}");
        let served: Vec<_> =
            crd["spec"]["versions"].as_array().unwrap().iter().map(|version| &version["name"]).collect();
        assert_eq!(served, ["v1beta2"], "{kind}");
    }
}

#[test]
fn status_is_a_subresource_wherever_there_is_one() {
    for (kind, crd) in manifests() {
        let subresource = crd["spec"]["versions"][0]["subresources"].get("status").is_some();
        assert_eq!(at(&crd, "status").is_some(), subresource, "{kind}");
    }
    for kind in manifests().keys() {
        let has_status = kind != "AWSClusterTemplate";
        assert_eq!(at(&manifests()[kind], "status").is_some(), has_status, "{kind}");
    }
}

#[test]
fn the_endpoint_is_optional_and_bounded() {
    let crds = manifests();
    let endpoint = expected(&crds[CLUSTER], "spec.controlPlaneEndpoint");
    assert_eq!((&endpoint["minProperties"], endpoint.get("required")), (&json!(1), None));
    assert_eq!(endpoint["properties"]["host"]["maxLength"], 512);
    assert_eq!(endpoint["properties"]["port"]["maximum"], 65535);
}

#[test]
fn status_has_provisioned_and_no_terminal_failures() {
    let crds = manifests();
    for kind in [CLUSTER, MACHINE] {
        let initialization = expected(&crds[kind], "status.initialization");
        assert_eq!(initialization["minProperties"], 1);
        assert_eq!(initialization["properties"]["provisioned"]["type"], "boolean");
    }
    for crd in crds.values() {
        assert_eq!(at(crd, "status.failureReason"), None);
        assert_eq!(at(crd, "status.failureMessage"), None);
    }
}

#[test]
fn a_machine_has_its_failure_domain_in_the_status_only() {
    let machine = &manifests()[MACHINE];
    assert_eq!(at(machine, "spec.failureDomain"), None);
    assert_eq!(expected(machine, "status.failureDomain")["type"], "string");
    let provider_id = expected(machine, "spec.providerID");
    assert_eq!((&provider_id["minLength"], &provider_id["maxLength"]), (&json!(1), &json!(512)));
    let types = &expected(machine, "status.addresses")["items"]["properties"]["type"]["enum"];
    assert_eq!(*types, json!(["Hostname", "ExternalIP", "InternalIP", "ExternalDNS", "InternalDNS"]));
}

#[test]
fn lists_with_several_writers_are_maps() {
    let crds = manifests();
    let list = |kind: &str, path: &str| {
        let list = expected(&crds[kind], path);
        (list["x-kubernetes-list-type"].clone(), list["x-kubernetes-list-map-keys"].clone())
    };
    let map = |keys: &[&str]| (json!("map"), json!(keys));
    for kind in [CLUSTER, MACHINE, "AWSMachineTemplate"] {
        assert_eq!(list(kind, "status.conditions"), map(&["type"]), "{kind}");
    }
    assert_eq!(list(CLUSTER, "status.failureDomains"), map(&["name"]));
    assert_eq!(list(CLUSTER, "status.network.subnets"), map(&["id"]));
    assert_eq!(list(CLUSTER, "status.resources"), map(&["type", "name"]));
    assert_eq!(list(CLUSTER, "status.preflight.findings"), map(&["rule", "object"]));
    assert_eq!(list(CLUSTER, "spec.network.subnets"), map(&["id"]));
    assert_eq!(list(CLUSTER, "spec.controlPlaneLoadBalancer.additionalListeners"), map(&["port"]));
}

#[test]
fn conditions_have_the_shape_of_kubernetes() {
    for kind in [CLUSTER, MACHINE, "AWSMachineTemplate"] {
        let conditions = expected(&manifests()[kind], "status.conditions");
        let condition = &conditions["items"];
        assert_eq!(condition["required"], json!(["lastTransitionTime", "message", "reason", "status", "type"]));
        assert_eq!(condition["properties"]["status"]["enum"], json!(["True", "False", "Unknown"]));
        assert_eq!(conditions["maxItems"], 32);
    }
}

#[test]
fn no_schema_rule_compares_with_the_old_object() {
    for (kind, crd) in manifests() {
        assert!(!crd.to_string().contains("oldSelf"), "{kind}");
    }
}

#[test]
fn only_the_identities_namespaces_are_nullable() {
    for (kind, crd) in manifests() {
        let mut nullable = Vec::new();
        fields("", root(&crd), &mut |path, _, _, field| {
            if field.get("nullable").is_some() {
                nullable.push(path.to_owned());
            }
        });
        let identity: &[&str] = &[".spec.allowedNamespaces", ".spec.allowedNamespaces.list"];
        let wanted = if kind.ends_with("Identity") { identity } else { &[] };
        assert_eq!(nullable, wanted, "{kind}");
    }
}

#[test]
fn bounds_are_whole_numbers() {
    for (kind, crd) in manifests() {
        assert!(!crd.to_string().contains(".0,") && !crd.to_string().contains(".0}"), "{kind}");
    }
}

/// The columns of a kind, as `kubectl get` and `kubectl get -o wide` order them.
fn columns(crd: &Value) -> Vec<Value> {
    let columns = crd["spec"]["versions"][0]["additionalPrinterColumns"].as_array();
    columns.cloned().unwrap_or_default()
}

#[test]
fn every_kind_is_listed_in_these_columns() {
    let wanted = [
        ("AWSCluster", "Cluster Ready Reason VPC Endpoint Age", "Message"),
        ("AWSClusterControllerIdentity", "Ready Reason Age", "Message"),
        ("AWSClusterRoleIdentity", "Role Ready Reason Age", "Message"),
        ("AWSClusterStaticIdentity", "Secret Ready Reason Age", "Message"),
        ("AWSClusterTemplate", "Age", ""),
        ("AWSMachine", "Cluster Ready Reason Instance Type Zone Age", "Machine Message"),
        ("AWSMachineTemplate", "Cluster Type Ready Reason Age", "Message"),
    ];
    let crds = manifests();
    for (kind, always, wide) in wanted {
        let columns = columns(&crds[kind]);
        let named = |is_wide: bool| {
            let of_view = columns.iter().filter(|column| (column["priority"] == 1) == is_wide);
            let names: Vec<&str> = of_view.map(|column| column["name"].as_str().unwrap()).collect();
            names.join(" ")
        };
        assert_eq!((named(false).as_str(), named(true).as_str()), (always, wide), "{kind}");
    }
}

#[test]
fn every_column_shows_a_field_of_the_schema() {
    for (kind, crd) in manifests() {
        for column in columns(&crd) {
            let path = column["jsonPath"].as_str().unwrap();
            let name = path.rsplit(['.', ']']).next().unwrap();
            let mut found = path.starts_with(".metadata.");
            fields("", root(&crd), &mut |_, field, _, _| found |= field == name);
            assert!(found, "{kind}: {path}");
            let of_condition = path.contains("status.conditions[?");
            assert_eq!(
                of_condition,
                ["Ready", "Reason", "Message"].contains(&column["name"].as_str().unwrap()),
                "{kind}: {path}"
            );
        }
    }
}

/// The text that `kubectl explain` shows of each kind and field, by kind and path.
fn descriptions() -> BTreeMap<String, String> {
    let mut descriptions = BTreeMap::new();
    for (kind, crd) in manifests() {
        let mut add = |path: &str, field: &Value| {
            let text = field["description"].as_str().unwrap_or_default();
            descriptions.insert(format!("{kind}{path}"), text.to_owned());
        };
        add("", root(&crd));
        fields("", root(&crd), &mut |path, _, _, field| add(path, field));
    }
    descriptions
}

#[test]
fn descriptions_have_no_rust_names() {
    // `2600:1f14:e00::/56` is an address.
    let is_rust = |word: &str| {
        let words = word.trim_matches(|letter: char| !letter.is_alphanumeric());
        let snake = words.contains('_') && words.chars().all(|letter| letter.is_ascii_lowercase() || letter == '_');
        snake
            || words.contains("effective_")
            || words.split("::").skip(1).any(|rest| rest.starts_with(char::is_alphabetic))
    };
    for (path, text) in descriptions() {
        let rust: Vec<&str> = text.split_whitespace().filter(|word| is_rust(word)).collect();
        assert!(rust.is_empty(), "{path}: {rust:?}");
    }
}

#[test]
fn descriptions_say_everything_once() {
    for (path, text) in descriptions() {
        let text = text.to_lowercase();
        let sentences = text.split(". ").map(|sentence| sentence.trim_end_matches('.'));
        let mut sentences: Vec<&str> = sentences.collect();
        let count = sentences.len();
        sentences.sort_unstable();
        sentences.dedup();
        assert_eq!(sentences.len(), count, "{path}: {text}");
        let without_effect = text.matches("no effect").count() + text.matches("without effect").count();
        assert!(without_effect <= 1, "{path}: {text}");
    }
}

#[test]
fn a_definition_is_marked_with_its_own_hash() {
    let hash = |crd: &Value| crd["metadata"]["annotations"][meta::DEFINITION_ANNOTATION].clone();
    let crds = manifests();
    let hashes: BTreeSet<String> = crds.values().map(|crd| hash(crd).to_string()).collect();
    assert_eq!(hashes.len(), crds.len());
    for (kind, crd) in &crds {
        let mut unmarked = crd.clone();
        let marks = unmarked["metadata"].as_object_mut().unwrap().remove("annotations").unwrap();
        assert_eq!(marks.as_object().unwrap().len(), 1, "{kind}");
        assert_eq!(hash(crd), definition_hash(&unmarked.to_string()), "{kind}");
        unmarked["spec"]["scope"] = "Elsewhere".into();
        assert_ne!(hash(crd), definition_hash(&unmarked.to_string()), "{kind}");
    }
}

#[test]
fn every_field_is_described() {
    for (kind, crd) in manifests() {
        assert!(root(&crd)["description"].as_str().is_some_and(|text| !text.contains("Auto-generated")), "{kind}");
        fields("", root(&crd), &mut |path, _, _, field| {
            let text = field["description"].as_str().unwrap_or_default();
            assert!(text.len() > 10 && text.ends_with('.'), "{kind}{path}: {text:?}");
        });
    }
}

/// A field of a Rust type appears wherever the type is used, each time with the same name and the same neighbours.
#[test]
fn fields_of_different_types_have_different_descriptions() {
    let crds = manifests();
    let mut owners: BTreeMap<&str, (&str, Vec<&String>, String)> = BTreeMap::new();
    for (kind, crd) in &crds {
        fields(kind, root(crd), &mut |path, name, neighbours, field| {
            let text = field["description"].as_str().unwrap_or_default();
            let neighbours: Vec<&String> = neighbours.keys().collect();
            let (first_name, first_neighbours, first_path) =
                owners.entry(text).or_insert_with(|| (name, neighbours.clone(), path.to_owned()));
            let same = *first_name == name && *first_neighbours == neighbours;
            assert!(same, "{path} is described in the words of {first_path}: {text}");
        });
    }
}
