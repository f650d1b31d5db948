//! `spec.networkSources` of an AWSMachine: the objects that a machine takes its network from.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::common::MachineRole;
use crate::selector;

/// An object, or all objects of a kind that a selector matches, in the namespace of the machine. Kinds outside the
/// provider's own permissions need a ClusterRole with the label
/// `infrastructure.cluster.x-k8s.io/aggregate-to-capa-rs: "true"`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "has(self.name) != has(self.selector)",
        "message": "a network source has either a name or a selector: set one of them",
    },
    {
        "rule": "!has(self.selector) || self.kind != 'Secret' || (has(self.apiGroup) && self.apiGroup != '')",
        "message": "Secrets are read by name only: set name instead of selector",
    },
    {
        "rule": "!has(self.selector) || (has(self.selector.matchLabels) && size(self.selector.matchLabels) > 0) || \
                 (has(self.selector.matchExpressions) && size(self.selector.matchExpressions) > 0)",
        "message": "an empty selector would match every object of the kind: set matchLabels or matchExpressions",
    },
]))]
pub struct NetworkSource {
    /// API group of the object, for example `ec2.services.k8s.aws`. Absent or empty: the core group, which has
    /// ConfigMaps and Secrets. The provider takes the version from the API server's discovery.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(max = 253),
        regex(pattern = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*)?$")
    )]
    pub api_group: Option<String>,
    /// Kind of the object, for example `ConfigMap`. The kind must be namespaced. A Secret needs the label
    /// `infrastructure.cluster.x-k8s.io/network-source: "true"`.
    #[schemars(length(min = 1, max = 63), regex(pattern = r"^[A-Za-z]([-A-Za-z0-9]*[A-Za-z0-9])?$"))]
    pub kind: String,
    /// Name of the object. Either `name` or `selector` is set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(min = 1, max = 253),
        regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")
    )]
    pub name: Option<String>,
    /// Labels of the objects. The lists of all matching objects are concatenated in the order of the objects' names.
    /// Either `name` or `selector` is set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "selector::schema")]
    pub selector: Option<LabelSelector>,
    /// Role of the machines that use the source. An ACK SecurityGroup supplies the security groups of this role.
    /// Absent: machines of both roles use the source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<MachineRole>,
    /// Name of the AWSNetworkMapping that reads the object. Absent: the AWSNetworkMapping named
    /// `<kind in lower case>.<API group, or core>`, or else the provider's own mapping of the kind, or else the
    /// `status.network` of the object if the CRD of the kind has the label
    /// `infrastructure.cluster.x-k8s.io/machine-network: v1`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(min = 1, max = 253),
        regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")
    )]
    pub mapping: Option<String>,
}

impl NetworkSource {
    /// API group of the object. The core group is empty.
    pub fn effective_api_group(&self) -> &str {
        self.api_group.as_deref().unwrap_or_default()
    }

    /// Whether machines of `role` use the source.
    pub fn serves(&self, role: MachineRole) -> bool {
        self.role.is_none_or(|own| own == role)
    }
}
