//! `spec.network.vpc`: the VPC of a cluster, brought by the user or created by the provider.

use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};

use crate::common::{ElasticIpPool, HostnameType, Tags, tags_schema};

/// IPv4 range of a new VPC if the spec names no range.
const DEFAULT_CIDR_BLOCK: &str = "10.0.0.0/16";
/// Number of zones for default subnets. The schema repeats the value, because the attribute cannot name a constant.
const DEFAULT_ZONE_LIMIT: i64 = 3;
/// Selection of the zones of the region for default subnets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum AvailabilityZoneSelection {
    /// The first zones by name.
    #[default]
    Ordered,
    /// Zones at random.
    Random,
}

/// Division of a new VPC into private and public subnets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum SubnetSchema {
    /// Large private subnets, small public ones.
    #[default]
    PreferPrivate,
    /// Large public subnets, small private ones.
    PreferPublic,
}

/// The VPC of a cluster: an existing VPC by its id, or the properties of the VPC to create.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VpcSpec {
    /// AWS id of a VPC that you bring, e.g. `vpc-0a1b2c3d`. In this VPC the provider changes only resources that this
    /// cluster owns. Absent: managed mode creates a VPC. Immutable once set in managed mode. In unmanaged mode the id
    /// is optional and can be corrected, and the provider checks it against the subnets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,

    /// Primary IPv4 range of a VPC to create, /16 to /28, e.g. `10.20.0.0/16`. The range must not overlap with networks
    /// with which the VPC will be peered. Excludes `ipamPool`. Default: `10.0.0.0/16`. An existing VPC keeps its range.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 18))]
    pub cidr_block: Option<String>,

    /// Further IPv4 ranges of a managed VPC, e.g. `100.64.0.0/16` for pods. The provider adds the ranges of the list to
    /// the VPC, and removes ranges only when the cluster is deleted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secondary_cidr_blocks: Vec<SecondaryCidrBlock>,

    /// Address pool of Amazon VPC IPAM from which a VPC to create gets its primary IPv4 range. Excludes `cidrBlock`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ipam_pool: Option<IpamPool>,

    /// Settings of IPv6, which the cluster then uses in addition to IPv4. `{}` requests an Amazon-provided /56. Absent:
    /// IPv4 only. Set the field when you create the cluster: an IPv4 cluster is not converted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ipv6: Option<VpcIpv6>,

    /// Internet gateway of the VPC, e.g. `igw-0a1b2c3d`, as CAPA recorded it. The provider accepts the field and does
    /// not read it: it finds the internet gateway of a cluster in AWS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub internet_gateway_id: Option<String>,

    /// Carrier gateway of the VPC for Wavelength Zones, `cagw-` and an id, as another controller observed it. The
    /// provider uses the field only to recognise the gateway; the field is never required.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = [{
    "rule": "self.startsWith('cagw-')",
    "message": "a carrier gateway id begins with cagw-",
}]))]
    pub carrier_gateway_id: Option<String>,

    /// Tags of a managed VPC. For a cluster that CAPA managed before: the tags that CAPA recorded with the `id` of the
    /// VPC. The provider takes over, changes and deletes such a VPC only if both this field and AWS have the tag by
    /// which the cluster owns the VPC. Do not set that tag on a VPC that you bring.
    #[serde(default, skip_serializing_if = "Tags::is_empty")]
    #[schemars(schema_with = "tags_schema")]
    pub tags: Tags,

    /// Number of zones in which default subnets are created if `subnets` is empty in a managed VPC: at least 1. In a
    /// region with fewer zones, all zones are used. The provider reads the field when it creates the subnets. Default:
    /// 3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1), extend("default" = 3), transform = without_format)]
    pub availability_zone_usage_limit: Option<i64>,

    /// Selection of the zones for default subnets if the region has more than `availabilityZoneUsageLimit` zones: the
    /// first zones by name (`Ordered`), or zones at random (`Random`), which spreads many clusters over a region.
    /// Default: `Ordered`.
    #[serde(default)]
    pub availability_zone_selection: AvailabilityZoneSelection,

    /// Whether the provider removes the rules that AWS has made in the security group `default` of the managed VPC, so
    /// that an instance in this group has no network access. Security benchmarks require this. Rules that you add stay.
    /// Default: false. A VPC that you bring keeps its rules.
    #[serde(rename = "emptyRoutesDefaultVPCSecurityGroup", default, skip_serializing_if = "std::ops::Not::not")]
    pub empty_routes_default_vpc_security_group: bool,

    /// Form of the private host names in managed subnets: `ip-name`, e.g. `ip-10-0-1-2.ec2.internal`, or
    /// `resource-name`, from the instance id. The provider reads the field when it creates a subnet. Absent: EC2's
    /// default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub private_dns_hostname_type_on_launch: Option<HostnameType>,

    /// Pool of your own public IPv4 addresses for the Elastic IPs of a managed cluster, that is, of NAT gateways and of
    /// internet-facing network load balancers of the Kubernetes API. The provider reads the field when it allocates an
    /// address. Absent: Amazon's addresses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elastic_ip_pool: Option<ElasticIpPool>,

    /// Division of a managed VPC into default subnets: `PreferPrivate` gives most addresses to private subnets,
    /// `PreferPublic` to public subnets. The provider reads the field when it creates the subnets. Default:
    /// `PreferPrivate`.
    #[serde(default)]
    pub subnet_schema: SubnetSchema,
}

impl VpcSpec {
    /// Primary IPv4 range of a VPC to create; `None` if the range comes from an address pool.
    pub fn effective_cidr_block(&self) -> Option<&str> {
        match self.cidr_block.as_deref() {
            Some(cidr_block) if !cidr_block.is_empty() => Some(cidr_block),
            _ if self.ipam_pool.is_some() => None,
            _ => Some(DEFAULT_CIDR_BLOCK),
        }
    }

    /// Number of zones for default subnets.
    pub fn effective_availability_zone_usage_limit(&self) -> i64 {
        self.availability_zone_usage_limit.unwrap_or(DEFAULT_ZONE_LIMIT)
    }
}

/// A secondary IPv4 range of a VPC.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecondaryCidrBlock {
    /// The range, /16 to /28, e.g. `100.64.0.0/16`. The range must differ from the primary range.
    #[schemars(length(min = 1, max = 18))]
    pub ipv4_cidr_block: String,
}

/// An address pool of Amazon VPC IPAM, by id or by name. One of the two fields is required.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct IpamPool {
    /// Id of the pool, e.g. `ipam-pool-0a1b2c3d`. Takes precedence over `name`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,

    /// Name tag of the pool. The provider looks up the pool in the cluster's region.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,

    /// Prefix length of the range to request from the pool. Default: 16 for IPv4, 56 for IPv6.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub netmask_length: Option<i64>,
}

/// The source of the IPv6 range of a VPC.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VpcIpv6 {
    /// IPv6 range of a VPC to create, from the pool `poolId`, e.g. `2001:db8:1234:1a00::/56`. Absent: AWS chooses the
    /// range.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 43))]
    pub cidr_block: Option<String>,

    /// Id of the pool of your own IPv6 addresses (BYOIP) from which the range is taken, e.g. `ipv6pool-ec2-0a1b2c3d`.
    /// Required with `cidrBlock`; excludes `ipamPool`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool_id: Option<String>,

    /// Egress-only internet gateway, e.g. `eigw-0a1b2c3d`, through which private subnets reach IPv6 destinations, as
    /// another controller observed it. The provider uses the field only to recognise the gateway; the field is never
    /// required.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub egress_only_internet_gateway_id: Option<String>,

    /// Address pool of Amazon VPC IPAM from which the VPC gets its IPv6 range. Excludes `poolId`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ipam_pool: Option<IpamPool>,
}

/// Removes the format from the schema of an integer, because the API has always declared the integer without a format.
fn without_format(schema: &mut Schema) {
    schema.remove("format");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vpc(yaml: &str) -> VpcSpec {
        serde_saphyr::from_str(yaml).expect("a VPC")
    }

    #[test]
    fn the_range_is_given_defaulted_or_left_to_the_pool() {
        let cases = [
            ("{}", Some("10.0.0.0/16")),
            ("{cidrBlock: ''}", Some("10.0.0.0/16")),
            ("{cidrBlock: 10.20.0.0/16}", Some("10.20.0.0/16")),
            ("{ipamPool: {name: prod}}", None),
            ("{cidrBlock: 10.20.0.0/16, ipamPool: {name: prod}}", Some("10.20.0.0/16")),
        ];
        for (yaml, expected) in cases {
            assert_eq!(vpc(yaml).effective_cidr_block(), expected, "{yaml}");
        }
    }

    #[test]
    fn schema_defaults_apply_to_objects_that_lack_them() {
        let empty = vpc("{}");
        assert_eq!(empty.effective_availability_zone_usage_limit(), 3);
        assert_eq!(empty.availability_zone_selection, AvailabilityZoneSelection::Ordered);
        assert_eq!(empty.subnet_schema, SubnetSchema::PreferPrivate);
        assert_eq!(vpc("{availabilityZoneUsageLimit: 2}").effective_availability_zone_usage_limit(), 2);
    }

    #[test]
    fn empty_ipv6_still_asks_for_ipv6() {
        assert_eq!(vpc("{ipv6: {}}").ipv6, Some(VpcIpv6::default()));
        assert_eq!(vpc("{}").ipv6, None);
    }
}
