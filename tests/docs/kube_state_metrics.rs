//! The configuration of kube-state-metrics against the CRDs: a path that is none gives no series, and no error.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::read;

/// The API group of our kinds.
const GROUP: &str = "infrastructure.cluster.x-k8s.io";
const FOLDER: &str = "config/kube-state-metrics";

/// Fields of the metadata of each object, which no CRD has a schema of.
const METADATA: [&str; 8] =
    ["annotations", "creationTimestamp", "deletionTimestamp", "labels", "name", "namespace", "ownerReferences", "uid"];

fn resources() -> Vec<Value> {
    let configuration: Value = serde_saphyr::from_str(&read(format!("{FOLDER}/custom_resource_state.yaml"))).unwrap();
    configuration["spec"]["resources"].as_array().unwrap().clone()
}

/// The name of a kind in URLs.
fn plural(kind: &str) -> String {
    let kind = kind.to_lowercase();
    match kind.strip_suffix('y') {
        Some(stem) => format!("{stem}ies"),
        None => format!("{kind}s"),
    }
}

fn words(path: &Value) -> Vec<&str> {
    let words = path.as_array().unwrap_or_else(|| panic!("{path} is no path")).iter();
    words.map(|word| word.as_str().unwrap()).collect()
}

/// The schema of a field.
fn field<'a>(schema: &'a Value, name: &str) -> Option<&'a Value> {
    let named = schema["properties"].get(name);
    named.or_else(|| schema.get("additionalProperties").filter(|schema| schema.is_object()))
}

/// The schema at a path, that of the items for a list; `None` within the metadata, whose first field is checked only.
fn at<'a>(schema: &'a Value, path: &[&str]) -> Option<&'a Value> {
    if let ["metadata", name, ..] = path {
        assert!(METADATA.contains(name), "metadata has no field {name}");
        return None;
    }
    let mut schema = schema;
    for name in path {
        schema = field(schema, name).unwrap_or_else(|| panic!("{path:?}: {name} is no field"));
    }
    Some(if schema["type"] == "array" { &schema["items"] } else { schema })
}

fn check(resource: &Value, schema: &Value) {
    let labels = |block: &Value, schema: &Value| {
        for path in block["labelsFromPath"].as_object().into_iter().flat_map(|labels| labels.values()) {
            at(schema, &words(path));
        }
    };
    labels(resource, schema);
    for metric in resource["metrics"].as_array().unwrap() {
        let each = &metric["each"];
        let kind = each["type"].as_str().unwrap();
        let block = match kind {
            "Info" => &each["info"],
            "Gauge" => &each["gauge"],
            "StateSet" => &each["stateSet"],
            other => panic!("{other} is no type of metric"),
        };
        assert!(block.is_object(), "{metric}");
        let found = match &block["path"] {
            Value::Null => Some(schema),
            path => at(schema, &words(path)),
        };
        if let Some(schema) = found {
            labels(block, schema);
            if !block["valueFrom"].is_null() {
                at(schema, &words(&block["valueFrom"]));
            }
        }
    }
}

#[test]
fn every_path_of_kube_state_metrics_is_a_field() {
    for resource in resources() {
        let kind = &resource["groupVersionKind"];
        assert_eq!(kind["group"], GROUP);
        let plural = plural(kind["kind"].as_str().unwrap());
        let definition: Value = serde_saphyr::from_str(&read(format!("config/crd/{GROUP}_{plural}.yaml"))).unwrap();
        let version = &definition["spec"]["versions"][0];
        assert_eq!(version["name"], kind["version"]);
        check(&resource, &version["schema"]["openAPIV3Schema"]);
    }
}

#[test]
fn kube_state_metrics_may_list_the_kinds_that_it_shows() {
    let role: Value = serde_saphyr::from_str(&read(format!("{FOLDER}/cluster_role.yaml"))).unwrap();
    let rules = role["rules"].as_array().unwrap().iter();
    let ours = rules.clone().find(|rule| rule["apiGroups"][0] == GROUP).unwrap();
    let allowed: BTreeSet<String> = words(&ours["resources"]).into_iter().map(str::to_owned).collect();
    let shown = resources().into_iter();
    let shown = shown.map(|resource| {
        let kind = resource["groupVersionKind"]["kind"].as_str().unwrap();
        assert_eq!(resource["metricNamePrefix"], format!("capi_{}", kind.to_lowercase()));
        plural(kind)
    });
    assert_eq!(allowed, shown.collect());
}
