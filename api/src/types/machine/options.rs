//! Types of the launch options in the spec of an AWSMachine.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::{Display, EnumString, IntoStaticStr};

use crate::common::{HostnameType, Tags, tags_schema};

/// Machine image of an instance.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AmiReference {
    /// Id of the image in the machine's region, for example `ami-0123456789abcdef0`. Absent: the image that AWS
    /// recommends for `eksLookupType`, or else the newest image that the lookup by name finds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Family of the images that AWS publishes for EKS nodes. The machine launches the image that AWS recommends for
    /// the Kubernetes version of the Machine and the architecture of the instance type. The field has no effect if `id`
    /// is set, or if the machine or its network sets `imageLookupFormat`, `imageLookupOrg` or `imageLookupBaseOS`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eks_lookup_type: Option<EksLookupType>,
}

/// Family of the images that AWS publishes for EKS nodes.
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

/// An EC2 setting that is either on or off.
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

/// Options of the instance metadata service. Inside the block, the defaults are EC2's own, which do not require session
/// tokens. Leave out the whole block to require session tokens and to allow 2 hops.
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
    /// Maximum number of network hops of an answer, 1 to 64. Containers with their own network need 2.
    #[serde(default = "one_hop")]
    #[schemars(range(min = 1, max = 64))]
    pub http_put_response_hop_limit: i64,
    /// Whether session tokens (IMDSv2) are `required` or `optional`. Without required tokens, every process that can
    /// send a request from the instance can obtain the instance's credentials.
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
    /// The values of an empty block in a spec.
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

impl InstanceMetadataOptions {
    /// These options, made as strict as `wanted` where they are less strict. EC2 accepts no other options while the
    /// endpoint is disabled.
    #[must_use]
    pub fn tightened(&self, wanted: &Self) -> Self {
        if self.http_endpoint == Switch::Disabled {
            return self.clone();
        }
        let switch = |actual, wanted| if wanted == Switch::Disabled { wanted } else { actual };
        let is_wanted = wanted.http_tokens == HttpTokens::Required;
        Self {
            http_endpoint: self.http_endpoint,
            http_tokens: if is_wanted { HttpTokens::Required } else { self.http_tokens },
            http_put_response_hop_limit: self.http_put_response_hop_limit.min(wanted.http_put_response_hop_limit),
            http_protocol_ipv6: switch(self.http_protocol_ipv6, wanted.http_protocol_ipv6),
            instance_metadata_tags: switch(self.instance_metadata_tags, wanted.instance_metadata_tags),
        }
    }
}

/// Whether the metadata service requires session tokens.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize, JsonSchema, EnumString, IntoStaticStr,
)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum HttpTokens {
    /// IMDSv1 and IMDSv2.
    #[default]
    Optional,
    /// IMDSv2 only.
    Required,
}

/// Options for Spot instances. If the block is set, the instance is a Spot instance.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SpotMarketOptions {
    /// Maximum price in US dollars per hour, for example `"0.05"`. Absent or empty: the on-demand price.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_price: Option<String>,
}

/// Market of an instance's capacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize, Serialize, JsonSchema, Display)]
pub enum MarketType {
    /// Capacity at the on-demand price until the instance is terminated.
    OnDemand,
    /// Spare capacity that AWS can take back.
    Spot,
    /// Capacity reserved for a future time span.
    CapacityBlock,
}

/// Use of capacity reservations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize, Serialize, JsonSchema)]
pub enum CapacityReservationPreference {
    /// No preference.
    #[serde(rename = "")]
    Unspecified,
    /// No reservation is used.
    None,
    /// The instance is launched only into a reservation.
    CapacityReservationsOnly,
    /// Any open reservation that fits is used.
    Open,
}

/// Tenancy of the hardware of an instance.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize, JsonSchema, EnumString, IntoStaticStr,
)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Tenancy {
    /// The instance shares hardware with instances of other accounts.
    #[default]
    Default,
    /// The instance shares hardware only with instances of the same account.
    Dedicated,
    /// The instance runs on a Dedicated Host.
    Host,
}

/// Affinity of an instance to its Dedicated Host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize, JsonSchema, IntoStaticStr)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum HostAffinity {
    /// A stopped instance starts again on any suitable host.
    #[default]
    Default,
    /// A stopped instance starts again on the same host.
    Host,
}

/// A Dedicated Host that the provider allocates for the machine and releases after the machine is deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DynamicHostAllocation {
    /// AWS tags of the allocated host, in addition to the tags of the machine.
    #[serde(default, skip_serializing_if = "Tags::is_empty")]
    #[schemars(schema_with = "tags_schema")]
    pub tags: Tags,
}

/// Type of an instance's first network interface.
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
    /// Form of the host name: `ip-name` contains the private IPv4 address, `resource-name` the instance id. Absent: the
    /// setting of the subnet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hostname_type: Option<HostnameType>,
    /// Whether the resource-based name resolves to the IPv4 address. Absent: the setting of the subnet at launch.
    /// Mutable; removing the field keeps the DNS record as it is.
    #[serde(default, rename = "enableResourceNameDnsARecord", skip_serializing_if = "Option::is_none")]
    pub enable_resource_name_dns_a_record: Option<bool>,
    /// Whether the resource-based name resolves to the IPv6 address. Absent: the setting of the subnet at launch.
    /// Mutable; removing the field keeps the DNS record as it is.
    #[serde(default, rename = "enableResourceNameDnsAAAARecord", skip_serializing_if = "Option::is_none")]
    pub enable_resource_name_dns_aaaa_record: Option<bool>,
}

/// Features of the processor. At least one field must be set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct CpuOptions {
    /// Encryption of the instance's memory: `AMDEncryptedVirtualizationNestedPaging` for AMD SEV-SNP, on instance types
    /// that support it, or `Disabled`. Absent: EC2's default, no encryption.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidential_compute: Option<ConfidentialCompute>,
    /// Whether virtual machines can run inside the instance, on instance types that support nested virtualization.
    /// Absent: EC2's default, disabled.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_options_are_tightened_and_never_loosened() {
        let options = |text: &str| {
            let [endpoint, tokens, hops, ipv6, tags] =
                <[&str; 5]>::try_from(text.split(' ').collect::<Vec<_>>()).unwrap();
            let switch = |text: &str| if text == "+" { Switch::Enabled } else { Switch::Disabled };
            InstanceMetadataOptions {
                http_endpoint: switch(endpoint),
                http_tokens: tokens.parse().unwrap(),
                http_put_response_hop_limit: hops.parse().unwrap(),
                http_protocol_ipv6: switch(ipv6),
                instance_metadata_tags: switch(tags),
            }
        };
        for (actual, wanted, expected) in [
            ("+ optional 9 + +", "+ required 2 - -", "+ required 2 - -"),
            ("+ required 1 - -", "+ optional 2 + +", "+ required 1 - -"),
            ("+ optional 1 - -", "- optional 1 - -", "+ optional 1 - -"),
            ("- optional 9 + +", "+ required 1 - -", "- optional 9 + +"),
        ] {
            assert_eq!(options(actual).tightened(&options(wanted)), options(expected), "{actual}");
        }
    }
}
