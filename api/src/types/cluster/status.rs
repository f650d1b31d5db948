//! Status of an AWSCluster.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::{Display, EnumString, IntoStaticStr};

use crate::common::{Initialization, Tags};
use crate::network::MachineNetwork;
use crate::{conditions, lenient};

/// Observed state of an AWSCluster. Written by the provider alone, and whole each time.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AWSClusterStatus {
    /// Mirror of `initialization.provisioned` for tools that know only the older contract of Cluster API.
    #[serde(
        default,
        deserialize_with = "lenient::field",
        skip_serializing_if = "Option::is_none"
    )]
    pub ready: Option<bool>,
    /// Milestones of the cluster's infrastructure.
    #[serde(
        default,
        deserialize_with = "lenient::field",
        skip_serializing_if = "Option::is_none"
    )]
    pub initialization: Option<Initialization>,
    /// Zones that machines can be spread over, with those that control plane machines may use marked.
    #[serde(default, deserialize_with = "lenient::list", skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 100),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub failure_domains: Vec<FailureDomain>,
    /// Network that machines of the cluster are launched into, as found in AWS and declared in the spec.
    #[serde(
        default,
        deserialize_with = "lenient::field",
        skip_serializing_if = "Option::is_none"
    )]
    pub network: Option<MachineNetwork>,
    /// AWS resources that the cluster uses, and whether it owns them. Rebuilt from AWS before anything is changed.
    #[serde(default, deserialize_with = "lenient::list", skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 1000),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type", "name"])
    )]
    pub resources: Vec<ClusterResource>,
    /// What the checks of the infrastructure found.
    #[serde(
        default,
        deserialize_with = "lenient::field",
        skip_serializing_if = "Option::is_none"
    )]
    pub preflight: Option<PreflightStatus>,
    /// Network state in the form that other providers of this kind write. Read where the cluster is managed by another
    /// controller (annotation `cluster.x-k8s.io/managed-by`); never written here.
    #[serde(
        default,
        deserialize_with = "lenient::field",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(schema_with = "opaque_object")]
    pub network_status: Option<serde_json::Map<String, serde_json::Value>>,
    /// State of the cluster's infrastructure, aspect by aspect. `Ready` sums it up.
    #[serde(default, deserialize_with = "lenient::list", skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "conditions::schema")]
    pub conditions: Vec<Condition>,
}

impl AWSClusterStatus {
    /// Whether the infrastructure has been reported as provisioned.
    pub fn provisioned(&self) -> bool {
        self.initialization.as_ref().and_then(|reached| reached.provisioned) == Some(true)
    }
}

/// A zone that machines can be placed in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FailureDomain {
    /// Name of the zone, for example `eu-west-1a`.
    #[schemars(length(min = 1, max = 256))]
    pub name: String,
    /// Whether control plane machines may be placed in the zone. Absent: no.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control_plane: Option<bool>,
    /// Further facts about the zone.
    #[serde(default, skip_serializing_if = "Tags::is_empty")]
    pub attributes: Tags,
}

/// An AWS resource that the cluster uses.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterResource {
    /// Kind of the resource, for example `Vpc`, `Subnet`, `NatGateway` or `LoadBalancer`.
    #[serde(rename = "type")]
    #[schemars(length(min = 1, max = 64))]
    pub resource_type: String,
    /// Name of the resource within its kind, for example `dev-subnet-private-eu-west-1a`.
    #[schemars(length(min = 1, max = 256))]
    pub name: String,
    /// Id or ARN of the resource in AWS.
    #[schemars(length(min = 1, max = 512))]
    pub id: String,
    /// Owned resources are changed, and deleted together with the cluster; Shared ones are only used.
    pub lifecycle: Lifecycle,
}

/// Who is responsible for a resource.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Deserialize,
    Serialize,
    JsonSchema,
    Display,
    EnumString,
    IntoStaticStr,
)]
pub enum Lifecycle {
    /// Made for this cluster, and goes with it.
    Owned,
    /// Somebody else's.
    Shared,
}

/// Result of the infrastructure checks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PreflightStatus {
    /// Generation of the AWSCluster that the checks were made for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub observed_generation: Option<i64>,
    /// Rules that do not hold; empty when all do.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 200),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["rule", "object"])
    )]
    pub findings: Vec<PreflightFinding>,
}

/// A rule that an object in AWS breaks.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PreflightFinding {
    /// Rule that does not hold, for example `G8`; `spec.preflight.skipRules` takes the same names.
    #[schemars(length(max = 3), regex(pattern = r"^[A-Z][0-9]{1,2}$"))]
    pub rule: String,
    /// Blocking: machines will not become nodes. Warning: they will, with a weakness.
    pub severity: FindingSeverity,
    /// Id of the AWS object that breaks the rule.
    #[schemars(length(min = 1, max = 256))]
    pub object: String,
    /// What is wrong.
    #[schemars(length(max = 1024))]
    pub message: String,
    /// What to do about it.
    #[schemars(length(max = 1024))]
    pub fix: String,
}

/// How bad a finding is.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Deserialize,
    Serialize,
    JsonSchema,
    Display,
    EnumString,
    IntoStaticStr,
)]
pub enum FindingSeverity {
    /// Machines will not become nodes.
    Blocking,
    /// Machines will become nodes, with a weakness.
    Warning,
}

fn opaque_object(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_status_of_another_provider_is_read_as_far_as_it_fits() {
        let status: AWSClusterStatus = serde_json::from_value(json!({
            "ready": true,
            "failureDomains": {"eu-west-1a": {"controlPlane": true}},
            "network": "10.0.0.0/8",
            "networkStatus": {"securityGroups": {"node": {"id": "sg-0000000a", "name": "node"}}},
            "conditions": [
                {
                    "type": "VpcReady", "status": "True", "severity": "Info",
                    "lastTransitionTime": "2026-01-01T00:00:00Z",
                },
                {"type": "Broken"},
            ],
        }))
        .unwrap();
        assert_eq!(status.ready, Some(true));
        assert!(!status.provisioned());
        assert_eq!(status.failure_domains, []);
        assert_eq!(status.network, None);
        assert!(status.network_status.unwrap().contains_key("securityGroups"));
        assert_eq!(status.conditions.len(), 1);
    }
}
