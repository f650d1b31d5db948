use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use super::*;
use crate::cluster::AWSClusterSpec;
use crate::crd::{crds, manifest};

/// The schema of `spec` for the AWSCluster or AWSMachine of a kind or of a template.
fn specs() -> BTreeMap<String, Value> {
    let manifests = crds().unwrap().into_iter().map(|crd| manifest(&crd).unwrap());
    let specs = manifests.map(|crd| {
        let kind = crd["spec"]["names"]["kind"].as_str().unwrap().to_owned();
        let mut spec = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
        if kind.ends_with("Template") {
            spec = &spec["properties"]["template"]["properties"]["spec"];
        }
        (kind, spec.clone())
    });
    specs.collect()
}

/// Path and schema of every field below a schema.
fn below(path: &str, schema: &Value, all: &mut Vec<(String, Value)>) {
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        all.push((path.clone(), field.clone()));
        below(&path, field, all);
        below(&format!("{path}[]"), &field["items"], all);
    }
}

#[test]
fn only_fields_of_the_table_are_described_as_without_effect() {
    for (kind, spec) in specs() {
        let mut all = Vec::new();
        below("", &spec, &mut all);
        let says = all.into_iter().filter(|(_, field)| {
            let description = field["description"].as_str().unwrap_or_default();
            description.to_lowercase().contains("no effect yet")
        });
        let says: BTreeSet<String> = says.map(|(path, _)| path).collect();
        let is_cluster = kind.strip_suffix("Template").unwrap_or(&kind) == "AWSCluster";
        let of_table = without_effect().filter(|_| is_cluster);
        let of_table: BTreeSet<String> = of_table.map(|field| field.path.to_owned()).collect();
        assert_eq!(says, of_table, "{kind}");
    }
}

#[test]
fn no_row_is_repeated_or_below_another() {
    for field in fields() {
        let others = fields().iter().filter(|other| !std::ptr::eq(*other, field));
        for other in others {
            let below =
                other.path.strip_prefix(field.path).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']));
            assert!(!below, "{} covers {}", field.path, other.path);
        }
    }
}

#[test]
fn a_schema_default_is_neutral() {
    let specs = specs();
    for field in fields() {
        let mut all = Vec::new();
        below("", &specs["AWSCluster"], &mut all);
        let (_, schema) = all.into_iter().find(|(path, _)| path == field.path).unwrap();
        if let Some(default) = schema.get("default") {
            let neutral = field.neutral.iter().any(|value| serde_json::from_str::<Value>(value).unwrap() == *default);
            assert!(neutral, "{}: {default}", field.path);
        }
    }
}

#[test]
fn a_field_is_found_by_its_highest_parent_unless_neutral() {
    let subnets = json!([{"id": "a"}, {"id": "b", "cidrBlock": "10.0.0.0/24"}]);
    let cases = [
        (json!({}), ""),
        (json!({"partition": null, "secondaryControlPlaneLoadBalancer": null}), ""),
        (json!({"partition": ""}), ""),
        (json!({"bastion": {}}), "bastion"),
        (json!({"controlPlaneLoadBalancer": {"scheme": "internet-facing", "subnets": []}}), ""),
        (json!({"controlPlaneLoadBalancer": {"scheme": "internal"}}), "controlPlaneLoadBalancer.scheme: internal"),
        (json!({"network": {"subnets": subnets}}), "network.subnets[].cidrBlock"),
    ];
    for (spec, expected) in cases {
        assert_eq!(names(&found(&spec)), expected, "{spec}");
    }
}

#[test]
fn defaults_of_the_types_are_never_found() {
    let cluster =
        json!({"region": "r", "unmanaged": true, "preflight": {}, "network": {"vpc": {"id": "vpc-00000001"}}});
    let cluster: AWSClusterSpec = serde_json::from_value(cluster).unwrap();
    assert_eq!(found(&cluster), []);
}
