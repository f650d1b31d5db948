//! AWSNetworkMapping: how the objects of a foreign kind describe the network of machines.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{conditions, lenient};

/// Desired state of an AWSNetworkMapping.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema, CustomResource)]
#[kube(
    group = "infrastructure.cluster.x-k8s.io",
    version = "v1beta2",
    kind = "AWSNetworkMapping",
    plural = "awsnetworkmappings",
    shortname = "awsnm",
    category = "cluster-api",
    status = "AWSNetworkMappingStatus",
    derive = "PartialEq",
    doc = "Describes how machines read their network from the objects of another kind, one CEL expression for each \
           field. A mapping named `<kind in lower case>.<API group, or core>` applies to all objects of its kind; any \
           mapping applies to the sources that name it in spec.networkSources[].mapping.",
    printcolumn = r#"{"name": "Kind", "type": "string", "jsonPath": ".spec.source.kind",
        "description": "Kind of the objects that the mapping reads"}"#,
    printcolumn = r#"{"name": "Group", "type": "string", "jsonPath": ".spec.source.apiGroup",
        "description": "API group of the objects; empty for the core group"}"#,
    printcolumn = r#"{"name": "Ready", "type": "string",
        "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status",
        "description": "Whether all expressions compile"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp",
        "description": "Time since the mapping was created"}"#,
    printcolumn = r#"{"name": "Authority", "type": "string", "priority": 1, "jsonPath": ".spec.authority",
        "description": "Whether the objects may supply identities, instance profiles, bootstrap storage and targets"}"#,
    printcolumn = r#"{"name": "Message", "type": "string", "priority": 1,
        "jsonPath": ".status.conditions[?(@.type==\"Ready\")].message",
        "description": "The invalid expression, if there is one"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct AWSNetworkMappingSpec {
    /// Kind of the objects that the mapping reads.
    pub source: MappedKind,
    /// Whether the objects may supply the fields `identityRef`, `instanceProfiles`, `bootstrapStorage` and
    /// `controlPlaneTargets`. With `Allowed`, everybody who can write the objects chooses the AWS identity, IAM role,
    /// bucket and target groups of the machines in the namespace. Absent: `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authority: Option<MappingAuthority>,
    /// CEL expression that yields whether an object is complete, for example
    /// `self.status.conditions.exists(c, c.type == 'Ready' && c.status == 'True')`. Machines wait until the value is
    /// true. An object that lacks a key of the expression is not complete. Absent: every object is complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 2048))]
    pub ready_when: Option<String>,
    /// CEL expressions, one for each field of the network that the objects supply. `self` is the object. `data`
    /// contains the values of a ConfigMap or Secret; values that are JSON lists or objects are parsed. A field whose
    /// expression reads a missing key is absent.
    pub fields: MappedFields,
}

impl AWSNetworkMappingSpec {
    /// Whether the objects may supply authority fields.
    pub fn effective_authority(&self) -> MappingAuthority {
        self.authority.unwrap_or_default()
    }
}

/// A kind that a mapping reads.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MappedKind {
    /// API group of the kind, for example `platform.example.org`. Empty: the core group.
    #[serde(default)]
    #[schemars(
        length(max = 253),
        regex(pattern = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*)?$")
    )]
    pub api_group: String,
    /// The kind, for example `XAWSNetwork`.
    #[schemars(length(min = 1, max = 63), regex(pattern = r"^[A-Za-z]([-A-Za-z0-9]*[A-Za-z0-9])?$"))]
    pub kind: String,
}

/// Whether the objects of a mapped kind may supply the authority fields: `identityRef`, `instanceProfiles`,
/// `bootstrapStorage` and `controlPlaneTargets`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum MappingAuthority {
    /// The objects may supply only the other fields. The provider does not launch a machine whose source supplies an
    /// authority field.
    #[default]
    None,
    /// The objects may supply authority fields.
    Allowed,
}

/// CEL expressions for the fields of the network. At least one is set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct MappedFields {
    /// Expression for the AWS region: a string, for example `self.spec.region`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 2048))]
    pub region: Option<String>,
    /// Expression for the subnets: a list of objects with `id` and, optionally, `availabilityZone`, `public`, `ipv6`,
    /// `zoneType` and `roles`, for example `self.status.subnets.map(s, {'id': s.id, 'availabilityZone': s.zone})`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 2048))]
    pub subnets: Option<String>,
    /// Expressions for the security groups by role.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub security_groups: Option<MappedSecurityGroups>,
    /// Expressions for the VPC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vpc: Option<MappedVpc>,
    /// Expression for the AWS tags of instances: an object with string values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 2048))]
    pub additional_tags: Option<String>,
    /// Expression for the cluster name in AWS tags: a string.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 2048))]
    pub cluster_tag: Option<String>,
    /// Expression for the name of the EC2 key pair: a string.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 2048))]
    pub ssh_key_name: Option<String>,
    /// Expression for the image lookup: an object with `format`, `org` and `baseOS`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 2048))]
    pub image_lookup: Option<String>,
    /// Expression for the load balancer targets of control plane machines: a list of objects with `targetGroupARN`,
    /// `loadBalancerName` or `classicLoadBalancerName`. Needs `authority: Allowed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 2048))]
    pub control_plane_targets: Option<String>,
    /// Expression for the identity: an object with `kind` and `name`. Needs `authority: Allowed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 2048))]
    pub identity_ref: Option<String>,
    /// Expression for the IAM instance profiles: an object with `controlPlane` and `worker`. Needs
    /// `authority: Allowed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 2048))]
    pub instance_profiles: Option<String>,
    /// Expression for the storage of bootstrap data: an object with `s3`. Needs `authority: Allowed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 2048))]
    pub bootstrap_storage: Option<String>,
}

/// CEL expressions for security groups, each a list of ids.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct MappedSecurityGroups {
    /// Expression for the security groups of every instance, for example `[self.status.securityGroups.node]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 2048))]
    pub all: Option<String>,
    /// Expression for the additional security groups of control plane instances.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 2048))]
    pub control_plane: Option<String>,
    /// Expression for the additional security groups of worker instances.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 2048))]
    pub worker: Option<String>,
}

/// CEL expressions for a VPC.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MappedVpc {
    /// Expression for the id of the VPC: a string, for example `self.status.vpcId`.
    #[schemars(length(min = 1, max = 2048))]
    pub id: String,
    /// Expression for the IPv4 ranges: a list of strings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 2048))]
    pub cidr_blocks: Option<String>,
    /// Expression for the IPv6 ranges: a list of strings.
    #[serde(default, rename = "ipv6CidrBlocks", skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 2048))]
    pub ipv6_cidr_blocks: Option<String>,
}

/// Observed state of an AWSNetworkMapping. Only the provider writes the status, and each write replaces the whole
/// status.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AWSNetworkMappingStatus {
    /// Conditions of the mapping. `Ready` is true if all expressions compile.
    #[serde(default, deserialize_with = "lenient::list", skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "conditions::schema")]
    pub conditions: Vec<Condition>,
}
