//! AWSMachineTemplate: the template of AWSMachines.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::AWSMachineSpec;
use crate::common::TemplateMetadata;
use crate::{conditions, lenient};

/// Desired state of an AWSMachineTemplate.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema, CustomResource)]
#[kube(
    group = "infrastructure.cluster.x-k8s.io",
    version = "v1beta2",
    kind = "AWSMachineTemplate",
    plural = "awsmachinetemplates",
    shortname = "awsmt",
    category = "cluster-api",
    namespaced,
    status = "AWSMachineTemplateStatus",
    derive = "PartialEq",
    doc = "A template from which Cluster API creates AWSMachines. To change machines, refer to a new template.",
    printcolumn = r#"{"name": "Cluster", "type": "string",
        "jsonPath": ".metadata.ownerReferences[?(@.kind==\"Cluster\")].name",
        "description": "Cluster that owns the template"}"#,
    printcolumn = r#"{"name": "Type", "type": "string", "jsonPath": ".spec.template.spec.instanceType",
        "description": "EC2 instance type of the machines"}"#,
    printcolumn = r#"{"name": "Ready", "type": "string",
        "jsonPath": ".status.conditions[?(@.type==\"CapacityReady\")].status",
        "description": "Whether the instance type and the image were found, so that the capacity of a node is known"}"#,
    printcolumn = r#"{"name": "Reason", "type": "string",
        "jsonPath": ".status.conditions[?(@.type==\"CapacityReady\")].reason",
        "description": "Reason of the condition CapacityReady"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp",
        "description": "Time since the template was created"}"#,
    printcolumn = r#"{"name": "Message", "type": "string", "priority": 1,
        "jsonPath": ".status.conditions[?(@.type==\"CapacityReady\")].message",
        "description": "Message of the condition CapacityReady"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct AWSMachineTemplateSpec {
    /// Metadata and spec of the AWSMachines that Cluster API creates from this template. The spec is immutable: all
    /// machines of one template have the same spec.
    pub template: AWSMachineTemplateResource,
}

/// The AWSMachine that a template describes.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AWSMachineTemplateResource {
    /// Labels and annotations of AWSMachines that are created from the template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<TemplateMetadata>,
    /// Spec of AWSMachines that are created from the template.
    pub spec: AWSMachineSpec,
}

/// Observed state of an AWSMachineTemplate: the capacity of the template's machines, with which the cluster autoscaler
/// can scale from zero.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AWSMachineTemplateStatus {
    /// Capacity of a node of the template, for example `cpu: "2"` and `memory: 8Gi`.
    #[serde(default, deserialize_with = "lenient::field", skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "quantities")]
    pub capacity: BTreeMap<String, Quantity>,
    /// Architecture and operating system of a node of the template.
    #[serde(default, deserialize_with = "lenient::field", skip_serializing_if = "Option::is_none")]
    pub node_info: Option<NodeInfo>,
    /// Conditions of the template. `CapacityReady` is true if the template's capacity is known.
    #[serde(default, deserialize_with = "lenient::list", skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "conditions::schema")]
    pub conditions: Vec<Condition>,
}

/// Architecture and operating system of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeInfo {
    /// Processor architecture: `amd64` or `arm64`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub architecture: Option<Architecture>,
    /// Operating system: `linux` or `windows`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operating_system: Option<OperatingSystem>,
}

/// Processor architecture, in Go's spelling.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Architecture {
    /// 64-bit x86.
    Amd64,
    /// 64-bit ARM.
    Arm64,
}

/// Operating system, in Go's spelling.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OperatingSystem {
    /// Linux.
    Linux,
    /// Windows.
    Windows,
}

fn quantities(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "additionalProperties": {
            "x-kubernetes-int-or-string": true,
            "anyOf": [{ "type": "integer" }, { "type": "string" }],
            "pattern": concat!(
                r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))",
                r"(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$",
            ),
        },
    })
}
