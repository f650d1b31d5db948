//! Types that several kinds share.

use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::json;
use strum::{Display, EnumString, IntoStaticStr};

/// AWS tags or Kubernetes labels and annotations: key to value.
pub type Tags = BTreeMap<String, String>;

/// Schema of a map of AWS tags: at most 50 (AWS's limit for a resource), values of at most 256 characters.
///
/// The bounds also keep the cost of the validation rules on tags within the API server's budget.
pub fn tags_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "maxProperties": 50,
        "additionalProperties": { "type": "string", "maxLength": 256 },
    })
}

/// Schema of the tags that a user requests: the bounds of [`tags_schema`], and the characters that AWS accepts in a key
/// or value.
///
/// Do not use this schema for tags that are read from AWS into a spec, because AWS's own tags are among them.
pub fn additional_tags_schema(generator: &mut SchemaGenerator) -> Schema {
    let mut schema = tags_schema(generator);
    schema.insert(
        "x-kubernetes-validations".to_owned(),
        json!([
            {
                "rule": "self.all(key, size(key) <= 128 && key.matches('^[a-zA-Z0-9 _.:=+@/-]+$'))",
                "message": "a tag key has 1 to 128 letters, digits, spaces and _ . : = + - @ /",
            },
            {
                "rule": "self.all(key, !key.lowerAscii().startsWith('aws:'))",
                "message": "tag keys that begin with aws: belong to AWS: choose another key",
            },
            {
                "rule": "self.all(key, self[key].matches('^[a-zA-Z0-9 _.:=+@/-]*$'))",
                "message": "a tag value has letters, digits, spaces and _ . : = + - @ / only",
            },
        ]),
    );
    schema
}

/// One filter of a describe call to EC2. An object matches the filter if it matches any of the values.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Filter {
    /// Name of the filter as EC2 spells it: `vpc-id`, `availability-zone`, `tag:Name`, `tag-key`.
    #[schemars(length(max = 255))]
    pub name: String,
    /// Values of the filter, one of which must match. `*` and `?` are wildcards. At most 20.
    #[schemars(length(max = 20), inner(length(max = 255)))]
    pub values: Vec<String>,
}

/// Reference to an AWS object: by `id`, by `filters` for a lookup, or by both.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceReference {
    /// Id of the object, for example `subnet-0123456789abcdef0` or `sg-0123456789abcdef0`. With `filters` as well, the
    /// object must match the id and the filters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Filters, all of which the object must match. At most 20.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20))]
    pub filters: Vec<Filter>,
}

impl ResourceReference {
    /// The id, if there is one.
    pub fn given_id(&self) -> Option<&String> {
        self.id.as_ref().filter(|id| !id.is_empty())
    }

    /// Whether the reference has neither an id nor filters.
    pub fn is_empty(&self) -> bool {
        self.given_id().is_none() && self.filters.is_empty()
    }
}

/// Kind of an identity object, cluster-scoped in the group `infrastructure.cluster.x-k8s.io`.
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
pub enum IdentityKind {
    /// The manager's own credentials.
    AWSClusterControllerIdentity,
    /// A role that is assumed through STS.
    AWSClusterRoleIdentity,
    /// An access key kept in a Secret.
    AWSClusterStaticIdentity,
}

/// Reference to the identity that provides the AWS credentials.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct IdentityReference {
    /// Kind of the identity object: AWSClusterControllerIdentity (the manager's own credentials),
    /// AWSClusterRoleIdentity (a role assumed through STS) or AWSClusterStaticIdentity (an access key in a Secret).
    pub kind: IdentityKind,
    /// Name of the identity object. Identities have no namespace; an AWSClusterControllerIdentity is always `default`.
    #[schemars(length(min = 1))]
    pub name: String,
}

impl IdentityReference {
    /// The only valid name of an AWSClusterControllerIdentity.
    pub const CONTROLLER_IDENTITY_NAME: &str = "default";

    /// The default identity: `AWSClusterControllerIdentity/default`.
    pub fn controller_default() -> Self {
        Self { kind: IdentityKind::AWSClusterControllerIdentity, name: Self::CONTROLLER_IDENTITY_NAME.to_owned() }
    }
}

/// An EBS volume that is created with the instance and deleted with it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Volume {
    /// Device name under which the volume is attached, for example `/dev/sdb`. Required for every volume except the
    /// root volume, which always has the root device of the image, whatever is named here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_name: Option<String>,
    /// Size in GiB, at least 8. A root volume must not be smaller than the snapshot of its image.
    #[schemars(range(min = 8))]
    pub size: i64,
    /// Volume type as EC2 names it: `gp3`, `gp2`, `io2`, `io1`, `st1`, `sc1`. Absent or empty: EC2's default, which is
    /// the type in the image or `gp2`.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub volume_type: Option<String>,
    /// Provisioned I/O operations per second. Required for `io1` and `io2`, optional for `gp3`, refused by EC2 for
    /// other types. Absent or 0: EC2's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iops: Option<i64>,
    /// Provisioned throughput in MiB/s, 125 to 2000; for `gp3` only. Absent or 0: EC2's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throughput: Option<i64>,
    /// Whether the volume is encrypted. Absent: the image and the default of the AWS account decide. A volume with
    /// `encryptionKey` is always encrypted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encrypted: Option<bool>,
    /// KMS key of the encryption: id, ARN or alias. Absent: the account's default EBS key, if the volume is encrypted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encryption_key: Option<String>,
}

impl Volume {
    /// Whether to request encryption from EC2. A key implies encryption. `None`: the image and the AWS account decide.
    pub fn effective_encrypted(&self) -> Option<bool> {
        match self.encryption_key.as_deref() {
            Some(key) if !key.is_empty() => Some(true),
            _ => self.encrypted,
        }
    }
}

/// A load balancer target in which control plane instances are registered: a target group, the target groups behind a
/// Network or Application Load Balancer, or a Classic Load Balancer.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "[has(self.targetGroupARN), has(self.loadBalancerName), has(self.classicLoadBalancerName)]\
                 .exists_one(set, set)",
        "message": "exactly one of targetGroupARN, loadBalancerName and classicLoadBalancerName must be set",
    },
    {
        "rule": "!has(self.port) || !has(self.classicLoadBalancerName)",
        "message": "port needs targetGroupARN or loadBalancerName",
    },
]))]
pub struct ControlPlaneTarget {
    /// ARN of the target group (target type `instance` or `ip`) of a Network or Application Load Balancer, in the
    /// region and account of the machine. You bring the load balancer and its listeners; the provider only registers
    /// and deregisters targets.
    #[serde(default, rename = "targetGroupARN", skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 256))]
    pub target_group_arn: Option<String>,
    /// Name of a Network or Application Load Balancer in the region and account of the machine. Instances are
    /// registered in the target groups to which its listener on `port` forwards. The target groups are looked up before
    /// the launch; the machine keeps them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 32))]
    pub load_balancer_name: Option<String>,
    /// With `targetGroupARN`: the port under which instances are registered in the target group. Absent: the target
    /// group's own port. With `loadBalancerName`: the port of the listener. Absent: 6443. If the load balancer has only
    /// one listener, the provider uses that listener regardless of its port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65535))]
    pub port: Option<i32>,
    /// Name of a Classic Load Balancer. Its listeners determine the instance port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 32))]
    pub classic_load_balancer_name: Option<String>,
}

impl ControlPlaneTarget {
    /// Maximum number of targets of a control plane. The schemas of all kinds repeat the value.
    pub const MAX_COUNT: usize = 8;

    /// Default port of the API server.
    pub const API_PORT: i32 = 6443;

    /// The target group with this ARN, with the target group's own port.
    pub fn target_group(arn: &str) -> Self {
        Self { target_group_arn: Some(arn.to_owned()), ..Self::default() }
    }
}

/// Lookup of a machine image by name, for machines without an image id.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImageLookup {
    /// Template of the image's name, in which `{{.BaseOS}}` and `{{.K8sVersion}}` are replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub format: Option<String>,
    /// AWS account id of the image's owner, for example `099720109477`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub org: Option<String>,
    /// Operating system that replaces `{{.BaseOS}}` in the format, for example `ubuntu-24.04`.
    #[serde(default, rename = "baseOS", skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub base_os: Option<String>,
}

/// A pool of public IPv4 addresses that were brought to AWS (BYOIP).
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ElasticIpPool {
    /// Id of the public IPv4 pool, for example `ipv4pool-ec2-0123456789abcdef0`. Set it together with
    /// `publicIpv4PoolFallbackOrder`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 30))]
    pub public_ipv4_pool: Option<String>,
    /// Behaviour if the pool has no free address. `amazon-pool`: use one of Amazon's addresses. `none`: fail, and
    /// report the failure in a condition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = [{
        "rule": "self in ['none','amazon-pool']",
        "message": "publicIpv4PoolFallbackOrder must be none or amazon-pool",
    }]))]
    pub public_ipv4_pool_fallback_order: Option<ElasticIpPoolFallback>,
}

/// Source of a public IPv4 address if the pool has no free address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ElasticIpPoolFallback {
    /// Amazon's addresses.
    AmazonPool,
    /// No other source: the allocation fails.
    None,
}

/// Form of the private host name of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize, Serialize, JsonSchema, IntoStaticStr)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum HostnameType {
    /// The host name contains the private IPv4 address.
    IpName,
    /// The host name contains the instance id.
    ResourceName,
}

/// Role of a machine in its cluster.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
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
pub enum MachineRole {
    /// The machine runs the Kubernetes control plane.
    ControlPlane,
    /// The machine runs workloads.
    #[default]
    Worker,
}

/// Labels and annotations of objects that are created from a template.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TemplateMetadata {
    /// Labels that Cluster API adds to every object of the template, besides Cluster API's own labels.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: Tags,
    /// Annotations that Cluster API adds to every object of the template, besides Cluster API's own annotations.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: Tags,
}

/// Milestones that Cluster API reads. A reached milestone is never reverted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct Initialization {
    /// Whether the infrastructure has ever been fully provisioned. True is never reverted; conditions report later
    /// problems.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provisioned: Option<bool>,
}

/// Address of a machine or host as Cluster API lists it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, Serialize, JsonSchema)]
pub struct MachineAddress {
    /// Type of the address: Hostname, ExternalIP, InternalIP, ExternalDNS or InternalDNS.
    #[serde(rename = "type")]
    pub address_type: MachineAddressType,
    /// The IP address or DNS name itself, for example `10.0.2.17`.
    #[schemars(length(min = 1, max = 256))]
    pub address: String,
}

/// The types of addresses in Cluster API.
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
pub enum MachineAddressType {
    /// Host name.
    Hostname,
    /// Public IP address.
    ExternalIP,
    /// IP address inside the VPC.
    InternalIP,
    /// Public DNS name.
    ExternalDNS,
    /// DNS name inside the VPC.
    InternalDNS,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn naming_an_encryption_key_implies_encryption() {
        let volume = |encrypted, key: Option<&str>| Volume {
            encrypted,
            encryption_key: key.map(str::to_owned),
            ..Volume::default()
        };
        assert_eq!(volume(None, None).effective_encrypted(), None);
        assert_eq!(volume(Some(false), None).effective_encrypted(), Some(false));
        assert_eq!(volume(Some(false), Some("")).effective_encrypted(), Some(false));
        assert_eq!(volume(Some(false), Some("alias/disk")).effective_encrypted(), Some(true));
    }

    #[test]
    fn kinds_and_roles_are_spelled_as_on_the_wire() {
        assert_eq!(IdentityKind::AWSClusterRoleIdentity.to_string(), "AWSClusterRoleIdentity");
        assert_eq!(serde_json::to_value(MachineRole::ControlPlane).unwrap(), "ControlPlane");
        assert_eq!("Worker".parse(), Ok(MachineRole::Worker));
    }
}
