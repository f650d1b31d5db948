//! Networks that documents of a file describe, read as the manager would read the objects. For commands that need no
//! management cluster. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use capa_api::common::MachineRole;
use capa_api::contract::Cluster;
use capa_api::machine::AWSMachineSpec;
use capa_api::meta;
use capa_api::network_mapping::AWSNetworkMapping;
use capa_api::selector;
use capa_network::{Description, Mapping, Merged, merge};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::core::SelectorExt;
use serde::Deserialize as _;
use serde_json::Value;

use crate::kubernetes_api::{SourceObjects, SourceOutcome, SourceRead, SourceRequest, check_kind};
use crate::launching::network_sources::{NamedBy, from_read, from_spec, requests};

/// The network of the machines of a template. A file does not show which CRDs have the label of the network contract,
/// so an object with `status.network` counts as an object of such a kind.
pub fn network_in_documents(
    documents: &[Value],
    cluster: &Cluster,
    template: &str,
    spec: &AWSMachineSpec,
    role: MachineRole,
) -> Merged {
    let mut sources = vec![from_spec(template.to_owned(), spec)];
    for (named_by, request) in requests(spec, Some(role), cluster) {
        let selector = match named_by {
            NamedBy::Cluster => None,
            NamedBy::Entry(index) => spec.network_sources.get(index).and_then(|entry| entry.selector.as_ref()),
        };
        let read = read(documents, &request, selector);
        sources.push(from_read(named_by, &request, read));
    }
    merge(&sources)
}

fn read(documents: &[Value], request: &SourceRequest, selector: Option<&LabelSelector>) -> SourceRead {
    let by_mapping = match described_by_mapping(documents, request) {
        Ok(description) => description,
        Err(outcome) => return SourceRead::of_unknown_mapping(outcome),
    };
    let kind = &request.kind;
    let objects: Vec<Value> = of_kind(documents, &kind.group, &kind.kind)
        .filter(|object| is_requested(object, request, selector))
        .cloned()
        .collect();
    let publishes_network = objects.iter().any(|object| object.pointer("/status/network").is_some());
    let Some(description) = by_mapping.or_else(|| kind.built_in(publishes_network)) else {
        return SourceRead::of_unknown_shape(request, SourceOutcome::Undescribed);
    };
    if objects.is_empty() {
        return SourceRead::described_by(&description, request, SourceOutcome::NotFound);
    }
    let (name, network) = description.network(kind, &objects, request.role);
    let network = network.map(|network| network.map(Box::new));
    SourceRead::described_by(&description, request, SourceOutcome::Described { name, network })
}

/// The description by a mapping among the documents; `None` if there is none for the request.
fn described_by_mapping(documents: &[Value], request: &SourceRequest) -> Result<Option<Description>, SourceOutcome> {
    let name = request.mapping.clone().unwrap_or_else(|| request.kind.mapping_name());
    let mut mappings = of_kind(documents, meta::GROUP, "AWSNetworkMapping");
    let Some(mapping) = mappings.find(|mapping| text(mapping, "/metadata/name") == name) else {
        return match request.mapping {
            Some(_) => Err(SourceOutcome::NoMapping),
            None => Ok(None),
        };
    };
    let unusable = || SourceOutcome::UnusableMapping { name: name.clone(), reads: None };
    let mapping = AWSNetworkMapping::deserialize(mapping).map_err(|_| unusable())?;
    check_kind(&mapping, request)?;
    let compiled = Mapping::compile(&name, &mapping.spec).map_err(|_| unusable())?;
    Ok(Some(Description::Mapping(Arc::new(compiled))))
}

fn of_kind<'a>(documents: &'a [Value], group: &str, kind: &str) -> impl Iterator<Item = &'a Value> {
    documents.iter().filter(move |document| {
        let version = text(document, "/apiVersion");
        let group_of_document = version.split_once('/').map_or("", |(group, _)| group);
        text(document, "/kind") == kind && group_of_document == group
    })
}

fn is_requested(object: &Value, request: &SourceRequest, selector: Option<&LabelSelector>) -> bool {
    match (&request.objects, selector) {
        (SourceObjects::Named(name), _) => text(object, "/metadata/name") == name,
        (SourceObjects::Selected(_), Some(selector)) => {
            let labels = object.pointer("/metadata/labels").and_then(Value::as_object);
            let labels = labels.into_iter().flatten();
            let labels: BTreeMap<String, String> =
                labels.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect();
            selector::parsed(selector).is_some_and(|selector| selector.matches(&labels))
        }
        (SourceObjects::Selected(_), None) => false,
    }
}

/// The text at a path of a document; empty where there is none.
fn text<'a>(document: &'a Value, path: &str) -> &'a str {
    document.pointer(path).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use capa_api::conditions::Reason;

    use super::*;
    use crate::testing::read as parsed;

    const CLUSTER: &str = "{apiVersion: cluster.x-k8s.io/v1beta2, kind: Cluster, metadata: {name: dev}, spec: {\
        infrastructureRef: {apiGroup: example.org, kind: Land, name: dev}}}";

    fn merged(documents: &[&str], sources: &str) -> Merged {
        let documents: Vec<Value> = documents.iter().map(|document| parsed(document)).collect();
        let spec = parsed(&format!("{{instanceType: t3.large, networkSources: {sources}}}"));
        network_in_documents(&documents, &parsed(CLUSTER), "AWSMachineTemplate/md", &spec, MachineRole::Worker)
    }

    #[test]
    fn each_way_to_describe_a_network_is_read_from_documents() {
        let network = "{region: eu-west-1, subnets: [{id: subnet-0000000a}]}";
        let map = format!(
            "{{apiVersion: v1, kind: ConfigMap, metadata: {{name: net}}, data: {{network.yaml: '{network}'}}}}"
        );
        let secret = "{apiVersion: v1, kind: Secret, metadata: {name: net, labels: {\
            infrastructure.cluster.x-k8s.io/network-source: 'true'}}, stringData: {region: eu-west-1, \
            subnets: '[{\"id\": \"subnet-0000000a\"}]'}}";
        let subnet = "{apiVersion: ec2.services.k8s.aws/v1alpha1, kind: Subnet, metadata: {name: s, labels: {a: b}}, \
            spec: {availabilityZone: eu-west-1a}, status: {subnetID: subnet-0000000a, \
            ackResourceMetadata: {region: eu-west-1}, conditions: [{type: ACK.ResourceSynced, status: 'True'}]}}";
        let labelled = format!(
            "{{apiVersion: example.org/v1, kind: Land, metadata: {{name: dev}}, status: {{network: {network}}}}}"
        );
        let composite = "{apiVersion: example.org/v1, kind: Land, metadata: {name: dev}, spec: {region: eu-west-1, \
            subnet: subnet-0000000a}}";
        let mapping = "{apiVersion: infrastructure.cluster.x-k8s.io/v1beta2, kind: AWSNetworkMapping, \
            metadata: {name: land.example.org}, spec: {source: {apiGroup: example.org, kind: Land}, fields: {\
            region: self.spec.region, subnets: \"[{'id': self.spec.subnet}]\"}}}";
        for (documents, sources, winner) in [
            (vec![map.as_str()], "[{kind: ConfigMap, name: net}]", "ConfigMap/net"),
            (vec![secret], "[{kind: Secret, name: net}]", "Secret/net"),
            (
                vec![subnet],
                "[{apiGroup: ec2.services.k8s.aws, kind: Subnet, selector: {matchLabels: {a: b}}}]",
                "Subnet/s",
            ),
            (vec![labelled.as_str()], "[]", "Land/dev"),
            (vec![composite, mapping], "[]", "Land/dev"),
        ] {
            let merged = merged(&documents, sources);
            assert_eq!(merged.problem, None, "{winner}");
            assert_eq!(merged.network.region.as_deref(), Some("eu-west-1"), "{winner}");
            assert_eq!(merged.winners.get("subnets").map(String::as_str), Some(winner));
        }
    }

    #[test]
    fn what_is_missing_in_the_file_is_named() {
        let source = "[{kind: ConfigMap, name: net}]";
        for (documents, sources, reason, part) in [
            (vec![], source, Reason::NotFound, "ConfigMap/net"),
            (vec![], "[{kind: ConfigMap, name: net, mapping: m}]", Reason::NotFound, "AWSNetworkMapping/m"),
            (
                vec!["{apiVersion: v1, kind: Secret, metadata: {name: net}, stringData: {region: hunter2}}"],
                "[{kind: Secret, name: net}]",
                Reason::NotAllowed,
                "network-source",
            ),
            (
                vec!["{apiVersion: v1, kind: ConfigMap, metadata: {name: net}, data: {subnets: hunter2}}"],
                source,
                Reason::WrongType,
                "subnets",
            ),
        ] {
            let problem = merged(&documents, sources).problem.unwrap();
            assert_eq!(problem.reason, reason, "{}", problem.message);
            assert!(problem.message.contains(part), "{}", problem.message);
            assert!(!problem.message.contains("hunter2"), "{}", problem.message);
        }
    }
}
