//! Options of the launch that have a shape of their own.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::{Display, EnumString, IntoStaticStr};

use crate::common::{HostnameType, Tags, tags_schema};

/// Machine image of an instance.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AmiReference {
    /// Id of the image in the machine's region, for example `ami-0123456789abcdef0`. Absent: the newest image that the
    /// lookup by name finds for the machine's Kubernetes version. Looking up is not possible yet: without an id the
    /// machine is not launched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Family of AWS's own EKS images to look up; for nodes of EKS clusters only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eks_lookup_type: Option<EksLookupType>,
}

/// Family of EKS images.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize, Serialize, JsonSchema)]
pub enum EksLookupType {
    /// Amazon Linux 2.
    AmazonLinux,
    /// Amazon Linux 2 with GPU drivers.
    AmazonLinuxGPU,
    /// Amazon Linux 2023.
    AmazonLinux2023,
    /// Amazon Linux 2023 with GPU drivers.
    AmazonLinux2023GPU,
}

/// Something that EC2 has on or off.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize, Serialize, JsonSchema, Display, EnumString, IntoStaticStr,
)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Switch {
    /// On.
    Enabled,
    /// Off.
    Disabled,
}

impl Switch {
    const fn enabled() -> Self {
        Self::Enabled
    }

    const fn disabled() -> Self {
        Self::Disabled
    }
}

/// Options of the instance metadata service. Inside the block the defaults are EC2's loosest; leave the whole block out
/// to get the safe ones.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InstanceMetadataOptions {
    /// Whether the instance can reach the metadata service at all. Kubernetes nodes need it for cloud providers and
    /// for bootstrap data.
    #[serde(default = "Switch::enabled")]
    pub http_endpoint: Switch,
    /// Whether the metadata service also answers over IPv6.
    #[serde(default = "Switch::disabled")]
    pub http_protocol_ipv6: Switch,
    /// Number of network hops an answer may take, 1 to 64. Containers with a network of their own need 2.
    #[serde(default = "one_hop")]
    #[schemars(range(min = 1, max = 64))]
    pub http_put_response_hop_limit: i64,
    /// Whether session tokens (IMDSv2) are `required` or `optional`. Without them anything that can make a request
    /// from the instance gets at its credentials.
    #[serde(default)]
    pub http_tokens: HttpTokens,
    /// Whether the instance's tags can be read from the metadata service.
    #[serde(default = "Switch::disabled")]
    pub instance_metadata_tags: Switch,
}

const fn one_hop() -> i64 {
    1
}

impl Default for InstanceMetadataOptions {
    /// The defaults of an empty block in a spec.
    fn default() -> Self {
        Self {
            http_endpoint: Switch::Enabled,
            http_protocol_ipv6: Switch::Disabled,
            http_put_response_hop_limit: one_hop(),
            http_tokens: HttpTokens::Optional,
            instance_metadata_tags: Switch::Disabled,
        }
    }
}

/// Whether the metadata service asks for session tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize, JsonSchema, IntoStaticStr)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum HttpTokens {
    /// IMDSv1 and IMDSv2.
    #[default]
    Optional,
    /// IMDSv2 only.
    Required,
}

/// Options for Spot instances; with the block present the instance is a Spot instance.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SpotMarketOptions {
    /// Highest price to pay, in US dollars an hour, for example `"0.05"`. Absent or empty: the on-demand price.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_price: Option<String>,
}

/// Market that capacity is bought on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize, Serialize, JsonSchema, Display)]
pub enum MarketType {
    /// Pay by the second, kept until terminated.
    OnDemand,
    /// Spare capacity that AWS can take back.
    Spot,
    /// Capacity reserved for a future time span.
    CapacityBlock,
}

/// Use of capacity reservations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize, Serialize, JsonSchema)]
pub enum CapacityReservationPreference {
    /// Says nothing.
    #[serde(rename = "")]
    Unspecified,
    /// No reservation is used.
    None,
    /// Launched into a reservation or not at all.
    CapacityReservationsOnly,
    /// Any open reservation that fits is used.
    Open,
}

/// What hardware an instance shares with others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize, Serialize, JsonSchema, IntoStaticStr)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Tenancy {
    /// Shared with other accounts.
    Default,
    /// Shared only within the account.
    Dedicated,
    /// On a Dedicated Host.
    Host,
}

/// Tie of an instance to its Dedicated Host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize, JsonSchema, IntoStaticStr)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum HostAffinity {
    /// Started again on any suitable host.
    #[default]
    Default,
    /// Started again on the same host.
    Host,
}

/// A Dedicated Host that is allocated for the machine and released with it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DynamicHostAllocation {
    /// AWS tags of the allocated host, besides those of the machine.
    #[serde(default, skip_serializing_if = "Tags::is_empty")]
    #[schemars(schema_with = "tags_schema")]
    pub tags: Tags,
}

/// Kind of an instance's first network interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize, Serialize, JsonSchema, IntoStaticStr)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum NetworkInterfaceType {
    /// An ordinary interface.
    Interface,
    /// Elastic Fabric Adapter.
    Efa,
}

/// DNS names of the instance inside the VPC.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PrivateDnsName {
    /// What the host name is made of: `ip-name` the private IPv4 address, `resource-name` the instance id. Absent: as
    /// the subnet says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hostname_type: Option<HostnameType>,
    /// Whether the resource-based name resolves to the IPv4 address. Mutable.
    #[serde(
        default,
        rename = "enableResourceNameDnsARecord",
        skip_serializing_if = "Option::is_none"
    )]
    pub enable_resource_name_dns_a_record: Option<bool>,
    /// Whether the resource-based name resolves to the IPv6 address. Mutable.
    #[serde(
        default,
        rename = "enableResourceNameDnsAAAARecord",
        skip_serializing_if = "Option::is_none"
    )]
    pub enable_resource_name_dns_aaaa_record: Option<bool>,
}

/// Features of the processor, of which at least one must be set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct CpuOptions {
    /// Encryption of the instance's memory: `AMDEncryptedVirtualizationNestedPaging` is AMD SEV-SNP, for instance types
    /// that have it; `Disabled` is none. Absent: EC2's default, none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidential_compute: Option<ConfidentialCompute>,
    /// Whether virtual machines can run inside the instance, for instance types that have it. Absent: EC2's default,
    /// no.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nested_virtualization: Option<Switch>,
}

/// Memory encryption.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize, Serialize, JsonSchema)]
pub enum ConfidentialCompute {
    /// None.
    Disabled,
    /// AMD SEV-SNP.
    AMDEncryptedVirtualizationNestedPaging,
}
