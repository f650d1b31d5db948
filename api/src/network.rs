//! The network contract: the data about the network of a cluster that the launch of a machine needs.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::{Display, EnumString, IntoStaticStr};

use crate::cluster::security_group::SecurityGroupRole;
use crate::common::{ControlPlaneTarget, IdentityReference, ImageLookup, MachineRole, Tags, tags_schema};

/// The network that an infrastructure object publishes for machines in `status.network`. Every field is optional: a
/// machine takes each field from the first source that has the field.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MachineNetwork {
    /// AWS region of the machines, for example `eu-west-1`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 32))]
    pub region: Option<String>,
    /// Subnets in which machines may be launched. The provider selects a subnet by the machine's zone, role and
    /// `publicIP`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 200),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["id"])
    )]
    pub subnets: Vec<NetworkSubnet>,
    /// Security groups of instances, by role.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub security_groups: Option<NetworkSecurityGroups>,
    /// VPC of the subnets. Filters of `additionalSecurityGroups` find security groups of this VPC only, and the checks
    /// of the infrastructure use the field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vpc: Option<NetworkVpc>,
    /// AWS tags of instances, their volumes and network interfaces. Tags in the spec of the machine take precedence.
    /// Keys by which the provider recognises its resources are refused.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "tags_schema")]
    pub additional_tags: Tags,
    /// Cluster name in the keys of AWS tags (`kubernetes.io/cluster/<name>`). Absent: the name of the Cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 100))]
    pub cluster_tag: Option<String>,
    /// Name of the EC2 key pair of machines without a key pair in their spec.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 255))]
    pub ssh_key_name: Option<String>,
    /// Image lookup of machines with neither an image nor a lookup in their spec.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_lookup: Option<ImageLookup>,
    /// Load balancer targets in which control plane instances are registered.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8), extend("x-kubernetes-list-type" = "atomic"))]
    pub control_plane_targets: Vec<ControlPlaneTarget>,
    /// Source of load balancer targets that the provider has not read yet, for example `load balancer api`. While this
    /// field is set and `controlPlaneTargets` is not, the provider launches worker machines and no control plane
    /// machines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 255))]
    pub pending_control_plane_targets: Option<String>,
    /// Identity with which the provider launches and terminates instances.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity_ref: Option<IdentityReference>,
    /// IAM instance profiles of machines without an instance profile in their spec.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance_profiles: Option<NetworkInstanceProfiles>,
    /// Storage for bootstrap data that is too large for user data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bootstrap_storage: Option<NetworkBootstrapStorage>,
}

/// A field of the contract with a value that is longer than the contract allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Oversized {
    /// Path of the field in the contract, for example `imageLookup.org`.
    pub field: &'static str,
    /// Maximum number of characters of the field.
    pub limit: usize,
}

/// Maximum length of the name of a region, in characters.
pub const REGION_LENGTH: usize = 32;

/// Maximum length of an AWS id in the contract, in characters.
pub const ID_LENGTH: usize = 64;

/// Whether a text has more than `limit` characters.
pub fn is_longer(text: &str, limit: usize) -> bool {
    text.chars().count() > limit
}

impl MachineNetwork {
    /// Whether the network says that its cluster uses IPv6: it has IPv6 ranges of its VPC, or a subnet with IPv6.
    pub fn uses_ipv6(&self) -> bool {
        let has_range = self.vpc.as_ref().is_some_and(|vpc| !vpc.ipv6_cidr_blocks.is_empty());
        has_range || self.subnets.iter().any(|subnet| subnet.ipv6 == Some(true))
    }

    /// The S3 bucket for bootstrap data.
    pub fn bootstrap_bucket(&self) -> Option<&NetworkBootstrapBucket> {
        self.bootstrap_storage.as_ref()?.s3.as_ref()
    }

    fn bootstrap_bucket_mut(&mut self) -> Option<&mut NetworkBootstrapBucket> {
        self.bootstrap_storage.as_mut()?.s3.as_mut()
    }

    /// Removes values that are longer than the contract allows, and returns each affected field once. The API server
    /// would refuse a whole status because of one such value.
    pub fn take_oversized(&mut self) -> Vec<Oversized> {
        let mut taken: Vec<Oversized> = Vec::new();
        let mut take = |field, limit, text: &mut Option<String>| {
            if text.take_if(|text| is_longer(text, limit)).is_some() {
                taken.push(Oversized { field, limit });
            }
        };
        take("region", REGION_LENGTH, &mut self.region);
        take("clusterTag", 100, &mut self.cluster_tag);
        take("sshKeyName", 255, &mut self.ssh_key_name);
        if let Some(lookup) = &mut self.image_lookup {
            take("imageLookup.format", 256, &mut lookup.format);
            take("imageLookup.org", 64, &mut lookup.org);
            take("imageLookup.baseOS", 64, &mut lookup.base_os);
        }
        if let Some(bucket) = self.bootstrap_bucket_mut() {
            take("bootstrapStorage.s3.presignedURLDuration", 64, &mut bucket.presigned_url_duration);
        }
        for subnet in &mut self.subnets {
            take("subnets[].availabilityZone", 64, &mut subnet.availability_zone);
        }
        let subnets = self.subnets.len();
        self.subnets.retain(|subnet| !is_longer(&subnet.id, ID_LENGTH));
        let mut ids = vec![("subnets[].id", subnets > self.subnets.len())];
        if let Some(groups) = &mut self.security_groups {
            for (field, groups) in [
                ("securityGroups.all", &mut groups.all),
                ("securityGroups.controlPlane", &mut groups.control_plane),
                ("securityGroups.worker", &mut groups.worker),
            ] {
                let before = groups.len();
                groups.retain(|id| !is_longer(id, ID_LENGTH));
                ids.push((field, before > groups.len()));
            }
        }
        let limit = ID_LENGTH;
        taken.extend(ids.into_iter().filter(|(_, any)| *any).map(|(field, _)| Oversized { field, limit }));
        taken.dedup();
        taken
    }
}

/// A subnet in which machines may be launched.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NetworkSubnet {
    /// Id of the subnet, for example `subnet-0123456789abcdef0`.
    #[schemars(length(max = 64), regex(pattern = r"^subnet-[0-9a-f]{8,}$"))]
    pub id: String,
    /// Zone of the subnet, for example `eu-west-1a`. Absent: the zone is unknown, and the subnet serves no failure
    /// domain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64))]
    pub availability_zone: Option<String>,
    /// Whether the subnet's default route leads to an internet gateway. Absent: unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub public: Option<bool>,
    /// Whether the subnet has an IPv6 range; with `true` instances get a primary IPv6 address unless their machine says
    /// otherwise. Absent: unknown, and instances get none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ipv6: Option<bool>,
    /// Type of the subnet's zone. Local and Wavelength Zones are edge zones: a machine is launched in an edge zone only
    /// if the machine's spec names the subnet. Absent: an ordinary availability zone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone_type: Option<ZoneType>,
    /// Roles of the machines that may be launched in the subnet. Absent: both roles.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 2), extend("x-kubernetes-list-type" = "set"))]
    pub roles: Vec<MachineRole>,
}

impl NetworkSubnet {
    /// Whether the subnet is in a Local or Wavelength Zone. A machine is placed in such a zone only if its spec names
    /// the subnet.
    pub fn is_edge(&self) -> bool {
        self.zone_type.is_some_and(ZoneType::is_edge)
    }

    /// Whether machines of `role` may be launched in the subnet.
    pub fn serves(&self, role: MachineRole) -> bool {
        self.roles.is_empty() || self.roles.contains(&role)
    }
}

/// Type of an AWS zone, in EC2's spelling.
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
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum ZoneType {
    /// An ordinary zone of the region.
    AvailabilityZone,
    /// A Local Zone.
    LocalZone,
    /// A Wavelength Zone inside a carrier's network.
    WavelengthZone,
}

impl ZoneType {
    /// Whether the zone is outside the region's data centres.
    pub const fn is_edge(self) -> bool {
        matches!(self, Self::LocalZone | Self::WavelengthZone)
    }
}

/// Security groups by role. The three lists are separate fields of the contract, and each list may come from a
/// different source.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NetworkSecurityGroups {
    /// Ids of the security groups of every instance.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 16),
        inner(length(max = 64), regex(pattern = r"^sg-[0-9a-f]{8,}$")),
        extend("x-kubernetes-list-type" = "atomic")
    )]
    pub all: Vec<String>,
    /// Ids of the security groups of control plane instances, in addition to `all`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 16),
        inner(length(max = 64), regex(pattern = r"^sg-[0-9a-f]{8,}$")),
        extend("x-kubernetes-list-type" = "atomic")
    )]
    pub control_plane: Vec<String>,
    /// Ids of the security groups of worker instances, in addition to `all`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 16),
        inner(length(max = 64), regex(pattern = r"^sg-[0-9a-f]{8,}$")),
        extend("x-kubernetes-list-type" = "atomic")
    )]
    pub worker: Vec<String>,
}

impl NetworkSecurityGroups {
    /// The security groups of `securityGroupOverrides`. As in CAPA, every machine gets `node` and `lb`, and control
    /// plane machines also get `controlplane`. An empty id counts as absent. The result leaves out other roles, which
    /// do not apply to machines, and unknown roles, which the caller must report.
    pub fn from_overrides(overrides: &BTreeMap<String, String>) -> Self {
        let id = |role: SecurityGroupRole| overrides.get(role.as_str()).filter(|id| !id.is_empty()).cloned();
        Self {
            all: [SecurityGroupRole::Node, SecurityGroupRole::Lb].into_iter().filter_map(id).collect(),
            control_plane: id(SecurityGroupRole::ControlPlane).into_iter().collect(),
            worker: vec![],
        }
    }

    /// The security groups of a machine of `role`.
    pub fn of_machine(&self, role: MachineRole) -> impl Iterator<Item = &String> {
        self.all.iter().chain(self.of_role(role))
    }

    /// The security groups of machines of `role`, in addition to `all`.
    pub fn of_role(&self, role: MachineRole) -> &[String] {
        match role {
            MachineRole::ControlPlane => &self.control_plane,
            MachineRole::Worker => &self.worker,
        }
    }
}

/// A VPC and its address ranges.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NetworkVpc {
    /// Id of the VPC, for example `vpc-0123456789abcdef0`.
    #[schemars(length(max = 64), regex(pattern = r"^vpc-[0-9a-f]{8,}$"))]
    pub id: String,
    /// IPv4 ranges of the VPC, with the primary range first, for example `10.0.0.0/16`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 50), inner(length(max = 18)), extend("x-kubernetes-list-type" = "atomic"))]
    pub cidr_blocks: Vec<String>,
    /// IPv6 ranges of the VPC, for example `2600:1f14:e00::/56`. If the VPC has such ranges, an instance in a subnet
    /// that its machine names gets a primary IPv6 address if the subnet has IPv6.
    #[serde(default, rename = "ipv6CidrBlocks", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 50), inner(length(max = 43)), extend("x-kubernetes-list-type" = "atomic"))]
    pub ipv6_cidr_blocks: Vec<String>,
}

/// IAM instance profiles by role.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NetworkInstanceProfiles {
    /// Name of the instance profile of control plane machines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128))]
    pub control_plane: Option<String>,
    /// Name of the instance profile of worker machines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128))]
    pub worker: Option<String>,
}

/// Storage for bootstrap data.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NetworkBootstrapStorage {
    /// S3 bucket to which the provider writes bootstrap data and from which instances read it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub s3: Option<NetworkBootstrapBucket>,
}

/// An S3 bucket for bootstrap data.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NetworkBootstrapBucket {
    /// Name of the bucket.
    #[schemars(length(min = 3, max = 63))]
    pub bucket: String,
    /// Prefix of the keys in the bucket, without a leading slash. Absent: no prefix.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub prefix: Option<String>,
    /// Validity of presigned URLs, as a duration in Go's notation, for example `30m`: at least a second, at most seven
    /// days (`168h`). Instances then read their bootstrap data by such a URL, without permissions of their own. Absent:
    /// no presigned URLs.
    #[serde(rename = "presignedURLDuration", default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub presigned_url_duration: Option<String>,
    /// Whether the deletion of a machine continues if AWS does not allow the deletion of the machine's object, which
    /// then stays in the bucket. Absent: the deletion waits.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub best_effort_delete_objects: bool,
}

impl NetworkBootstrapBucket {
    /// The prefix of the keys, without slashes around it; empty for none.
    pub fn effective_prefix(&self) -> &str {
        self.prefix.as_deref().unwrap_or_default().trim_matches('/')
    }

    /// The bucket and the prefix of the keys: `bucket/prefix`, or `bucket`.
    pub fn place(&self) -> String {
        match self.effective_prefix() {
            "" => self.bucket.clone(),
            prefix => format!("{}/{prefix}", self.bucket),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_local_and_wavelength_zones_are_edge_zones() {
        let subnet = |zone_type| NetworkSubnet { zone_type, ..NetworkSubnet::default() };
        assert!(subnet(Some(ZoneType::LocalZone)).is_edge());
        assert!(subnet(Some(ZoneType::WavelengthZone)).is_edge());
        assert!(!subnet(Some(ZoneType::AvailabilityZone)).is_edge());
        assert!(!subnet(None).is_edge());
    }

    #[test]
    fn overrides_are_found_by_role_and_an_empty_one_is_none() {
        let groups = |overrides: [(&str, &str); 3]| {
            let named = overrides.map(|(role, id)| (role.to_owned(), id.to_owned()));
            NetworkSecurityGroups::from_overrides(&named.into())
        };
        let found = groups([("node", "sg-0a"), ("lb", "sg-0b"), ("controlplane", "sg-0c")]);
        assert_eq!(found.all, ["sg-0a", "sg-0b"]);
        assert_eq!(found.control_plane, ["sg-0c"]);
        assert_eq!(found.worker, [""; 0]);
        let nothing = groups([("node", ""), ("bastion", "sg-0a"), ("unheard-of", "sg-0b")]);
        assert_eq!(nothing, NetworkSecurityGroups::default());
    }

    #[test]
    fn a_subnet_without_roles_serves_both() {
        let everyone = NetworkSubnet::default();
        let workers = NetworkSubnet { roles: vec![MachineRole::Worker], ..NetworkSubnet::default() };
        assert!(everyone.serves(MachineRole::ControlPlane) && everyone.serves(MachineRole::Worker));
        assert!(!workers.serves(MachineRole::ControlPlane) && workers.serves(MachineRole::Worker));
    }

    #[test]
    fn zone_types_are_spelled_as_ec2_does() {
        assert_eq!(serde_json::to_value(ZoneType::WavelengthZone).unwrap(), "wavelength-zone");
        assert_eq!(ZoneType::LocalZone.to_string(), "local-zone");
    }

    #[test]
    fn oversized_texts_are_removed_and_named() {
        let full = |more: usize| -> MachineNetwork {
            let text = |length: usize| "ü".repeat(length + more);
            let network = serde_json::json!({
                "region": text(32),
                "clusterTag": text(100),
                "sshKeyName": text(255),
                "imageLookup": {"format": text(256), "org": text(64), "baseOS": text(64)},
                "subnets": [
                    {"id": "a", "availabilityZone": text(64)},
                    {"id": "b", "availabilityZone": text(64)},
                    {"id": text(64)},
                ],
                "securityGroups": {"all": [text(64), "sg-1"], "controlPlane": [text(64)], "worker": [text(64)]},
            });
            serde_json::from_value(network).unwrap()
        };
        let mut fits = full(0);
        assert_eq!(fits.take_oversized(), []);
        assert_eq!(fits, full(0));
        let mut network = full(1);
        let fields: Vec<_> = network.take_oversized().into_iter().map(|one| one.field).collect();
        let expected = [
            "region",
            "clusterTag",
            "sshKeyName",
            "imageLookup.format",
            "imageLookup.org",
            "imageLookup.baseOS",
            "subnets[].availabilityZone",
            "subnets[].id",
            "securityGroups.all",
            "securityGroups.controlPlane",
            "securityGroups.worker",
        ];
        assert_eq!(fields, expected);
        let left = serde_json::json!({
            "imageLookup": {},
            "subnets": [{"id": "a"}, {"id": "b"}],
            "securityGroups": {"all": ["sg-1"]},
        });
        assert_eq!(serde_json::to_value(&network).unwrap(), left);
    }
}
