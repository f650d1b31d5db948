//! Status of an AWSCluster.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::{Display, EnumString, IntoStaticStr};

use crate::common::{Initialization, Tags};
use crate::network::MachineNetwork;
use crate::{conditions, lenient};

/// Observed state of an AWSCluster. Only the provider writes the status, and each write replaces the whole status.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AWSClusterStatus {
    /// Copy of `initialization.provisioned` for tools that know only the older contract of Cluster API.
    #[serde(default, deserialize_with = "lenient::field", skip_serializing_if = "Option::is_none")]
    pub ready: Option<bool>,
    /// Milestones of the cluster's infrastructure.
    #[serde(default, deserialize_with = "lenient::field", skip_serializing_if = "Option::is_none")]
    pub initialization: Option<Initialization>,
    /// Address of the Kubernetes API: the address in the spec, or else the address in the Cluster. Absent until one of
    /// them has both host and port.
    #[serde(default, deserialize_with = "lenient::field", skip_serializing_if = "Option::is_none")]
    pub control_plane_endpoint: Option<PublishedEndpoint>,
    /// Zones over which machines can be spread. Each entry says whether control plane machines may use the zone.
    #[serde(default, deserialize_with = "lenient::list", skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 100),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub failure_domains: Vec<FailureDomain>,
    /// Network into which machines of the cluster are launched, from the spec and from lookups in AWS.
    #[serde(default, deserialize_with = "lenient::field", skip_serializing_if = "Option::is_none")]
    pub network: Option<MachineNetwork>,
    /// The last complete search for `spec.discovery` that the annotation
    /// `infrastructure.cluster.x-k8s.io/preflight-requested` requested. Absent if there was no such search.
    #[serde(default, deserialize_with = "lenient::field", skip_serializing_if = "Option::is_none")]
    pub discovery: Option<DiscoveryStatus>,
    /// AWS resources that the cluster uses, and whether the cluster owns them. The provider rebuilds the list from AWS
    /// before it changes a resource.
    #[serde(default, deserialize_with = "lenient::list", skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 1000),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type", "name"])
    )]
    pub resources: Vec<ClusterResource>,
    /// Zones of the default subnets of a managed cluster, in the order in which the subnets are laid out. The provider
    /// chooses the zones when it creates the VPC, and does not choose again.
    #[serde(default, deserialize_with = "lenient::list", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100), inner(length(min = 1, max = 256)))]
    pub zones: Vec<String>,
    /// AWS account in which the resources of a managed cluster are. With credentials of another account the provider
    /// makes no call for the cluster.
    #[serde(
        rename = "accountID",
        default,
        deserialize_with = "lenient::field",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(length(min = 1, max = 12))]
    pub account_id: Option<String>,
    /// Description of what the provider would do for a managed cluster with the annotation
    /// `infrastructure.cluster.x-k8s.io/plan-only`, cut after 100,000 characters.
    #[serde(default, deserialize_with = "lenient::field", skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 100_000))]
    pub plan: Option<String>,
    /// Results of the checks of the infrastructure.
    #[serde(default, deserialize_with = "lenient::field", skip_serializing_if = "Option::is_none")]
    pub preflight: Option<PreflightStatus>,
    /// Network state in the form in which other providers write it to an AWSCluster. The provider reads the field if
    /// another controller manages the cluster (annotation `cluster.x-k8s.io/managed-by`), and never writes it.
    #[serde(default, deserialize_with = "lenient::field", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "opaque_object")]
    pub network_status: Option<serde_json::Map<String, serde_json::Value>>,
    /// Conditions of the cluster's infrastructure. `Ready` summarises the other conditions.
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

/// Address of a Kubernetes API that the provider publishes.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PublishedEndpoint {
    /// Host name or IP address of the Kubernetes API.
    #[schemars(length(min = 1, max = 512))]
    pub host: String,
    /// TCP port of the Kubernetes API.
    #[schemars(range(min = 1, max = 65535))]
    pub port: i32,
}

/// A zone in which machines can be placed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FailureDomain {
    /// Name of the zone, for example `eu-west-1a`.
    #[schemars(length(min = 1, max = 256))]
    pub name: String,
    /// Whether control plane machines may be placed in the zone. Absent: false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control_plane: Option<bool>,
    /// Further attributes of the zone.
    #[serde(default, skip_serializing_if = "Tags::is_empty")]
    pub attributes: Tags,
}

/// The last complete search for the infrastructure that `spec.discovery` describes. Its results are in `network`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DiscoveryStatus {
    /// The first 256 characters of the value that the annotation `infrastructure.cluster.x-k8s.io/preflight-requested`
    /// had at the search. Another value of the annotation repeats the search.
    #[schemars(length(min = 1, max = 256))]
    pub observed_request: String,
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
    /// Id or ARN of the resource in AWS. Absent until AWS has answered the call that creates the resource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512))]
    pub id: Option<String>,
    /// `Owned`: the provider changes the resource and deletes it with the cluster. `Shared`: the cluster only uses the
    /// resource.
    pub lifecycle: Lifecycle,
    /// Time just before the provider called AWS to create the resource. Absent once AWS shows the resource, which can
    /// take some seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requested_at: Option<Time>,
    /// Client token of the call that creates the resource, if the call has one. A repeated call with the same token
    /// does not create a second resource. Absent once AWS has answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64))]
    pub client_token: Option<String>,
    /// Keys of the tags that the provider has set on the resource, except the tags by which the provider finds the
    /// resource. The provider removes a tag that the spec no longer has.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100), inner(length(min = 1, max = 128)))]
    pub tag_keys: Vec<String>,
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
    /// The resource was created for this cluster and is deleted with it.
    Owned,
    /// The resource belongs to another owner.
    Shared,
}

/// Result of the infrastructure checks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PreflightStatus {
    /// Generation of the AWSCluster for which the checks ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub observed_generation: Option<i64>,
    /// The first 256 characters of the value that the annotation `infrastructure.cluster.x-k8s.io/preflight-requested`
    /// had at the last checks.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 256))]
    pub observed_request: String,
    /// Time of the first checks with this result. The provider repeats the checks after an hour if the infrastructure
    /// breaks rules or rules could not be checked, and after a day otherwise. A repetition with the same result does
    /// not change the time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checked_at: Option<Time>,
    /// Ids of rules that could not be checked, because AWS refused or did not answer a call.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 100),
        inner(length(max = 3), regex(pattern = r"^[A-Z][0-9]{1,2}$")),
        extend("x-kubernetes-list-type" = "set")
    )]
    pub unchecked_rules: Vec<String>,
    /// Rules that the infrastructure breaks. Empty: the infrastructure breaks no rule.
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
    /// Id of the broken rule, for example `G8`; `spec.preflight.skipRules` takes the same ids.
    #[schemars(length(max = 3), regex(pattern = r"^[A-Z][0-9]{1,2}$"))]
    pub rule: String,
    /// `Blocking`: machines will not become nodes. `Warning`: machines will become nodes, but the infrastructure has a
    /// weakness.
    pub severity: FindingSeverity,
    /// Id of the AWS object that breaks the rule.
    #[schemars(length(min = 1, max = 256))]
    pub object: String,
    /// Description of the problem.
    #[schemars(length(max = 1024))]
    pub message: String,
    /// Corrective action for the problem.
    #[schemars(length(max = 1024))]
    pub fix: String,
}

/// Severity of a finding.
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
    /// Machines will become nodes, but the infrastructure has a weakness.
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
