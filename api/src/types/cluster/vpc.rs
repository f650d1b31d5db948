//! `spec.network.vpc`: the VPC a cluster lives in (brought by the user) or asks for (managed).

use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};

use crate::common::{ElasticIpPool, HostnameType, Tags, tags_schema};

/// IPv4 range of a new VPC when nothing is said about it.
const DEFAULT_CIDR_BLOCK: &str = "10.0.0.0/16";
/// Zones that default subnets are laid out in; also in the schema, where a constant cannot be named.
const DEFAULT_ZONE_LIMIT: i64 = 3;
/// Prefix length that is asked of an IPv4 address pool.
const DEFAULT_IPV4_NETMASK_LENGTH: i64 = 16;
/// Prefix length that is asked of an IPv6 address pool: the only one that Amazon's own ranges come in.
const DEFAULT_IPV6_NETMASK_LENGTH: i64 = 56;

/// Which zones of the region default subnets are laid out in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum AvailabilityZoneSelection {
    /// The first ones by name.
    #[default]
    Ordered,
    /// Drawn at random.
    Random,
}

/// Which subnets get the larger share of a new VPC.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum SubnetSchema {
    /// Large private subnets, small public ones.
    #[default]
    PreferPrivate,
    /// Large public subnets, small private ones.
    PreferPublic,
}

/// The VPC of a cluster: an existing one by its id, or the shape of the one to be created.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VpcSpec {
    /// AWS id of a VPC that you bring, e.g. `vpc-0a1b2c3d`; nothing in it is changed that is not this cluster's own.
    /// Absent: managed mode creates a VPC. Immutable once set in managed mode. In unmanaged mode it is optional, is
    /// checked against the subnets, and may be corrected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,

    /// Primary IPv4 range of a VPC to be created, /16 to /28, e.g. `10.20.0.0/16`. Choose it apart from the networks
    /// that it will be peered with. Excludes `ipamPool`. Default: `10.0.0.0/16` (`effective_cidr_block`). No effect on
    /// an existing VPC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 18))]
    pub cidr_block: Option<String>,

    /// Further IPv4 ranges of a managed VPC, e.g. `100.64.0.0/16` for pods. A range that is added here is added in AWS;
    /// none is taken away before the cluster is deleted. No effect in unmanaged mode.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secondary_cidr_blocks: Vec<SecondaryCidrBlock>,

    /// Address pool of Amazon VPC IPAM from which a VPC to be created gets its primary IPv4 range, in place of
    /// `cidrBlock`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ipam_pool: Option<IpamPool>,

    /// Give the cluster IPv6 next to IPv4. `{}` asks for an Amazon-provided /56. Absent: IPv4 only. Choose when the
    /// cluster is created: an IPv4 cluster is not converted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ipv6: Option<VpcIpv6>,

    /// Internet gateway of the VPC, e.g. `igw-0a1b2c3d`, as another controller observed it. Read only to recognise what
    /// belongs to the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub internet_gateway_id: Option<String>,

    /// Carrier gateway of the VPC for Wavelength Zones, `cagw-` and an id, as another controller observed it. A hint
    /// for recognising it, never needed as an input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = [{
    "rule": "self.startsWith('cagw-')",
    "message": "a carrier gateway id begins with cagw-",
}]))]
    pub carrier_gateway_id: Option<String>,

    /// Tags of a managed VPC. For a cluster taken over from another controller, the tags it observed: only a VPC that
    /// is tagged as owned by the cluster, here and in AWS, is ever changed or deleted. Do not put that tag on a VPC
    /// that you bring.
    #[serde(default, skip_serializing_if = "Tags::is_empty")]
    #[schemars(schema_with = "tags_schema")]
    pub tags: Tags,

    /// In how many zones default subnets are laid out, when `subnets` is empty in a managed VPC: at least 1; regions
    /// with fewer zones use what they have. Read when the subnets are created. Default: 3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1), extend("default" = 3), transform = without_format)]
    pub availability_zone_usage_limit: Option<i64>,

    /// Which zones default subnets are laid out in when the region has more than `availabilityZoneUsageLimit`: the
    /// first by name (`Ordered`) or some drawn by chance (`Random`), which spreads many clusters over a region.
    /// Default: `Ordered`.
    #[serde(default)]
    pub availability_zone_selection: AvailabilityZoneSelection,

    /// Take all rules out of the managed VPC's group `default`, so that an instance that falls into it reaches nothing.
    /// Security benchmarks ask for it. Default: false. No effect on a VPC that you bring.
    #[serde(
        rename = "emptyRoutesDefaultVPCSecurityGroup",
        default,
        skip_serializing_if = "std::ops::Not::not"
    )]
    pub empty_routes_default_vpc_security_group: bool,

    /// Form of the private host names in managed subnets: `ip-name`, e.g. `ip-10-0-1-2.ec2.internal`, or
    /// `resource-name`, from the instance id. Read when a subnet is created. Absent: what EC2 chooses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub private_dns_hostname_type_on_launch: Option<HostnameType>,

    /// Pool of your own public IPv4 addresses for the Elastic IPs of a managed cluster: NAT gateways and the API's load
    /// balancer. Absent: Amazon's addresses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elastic_ip_pool: Option<ElasticIpPool>,

    /// How default subnets divide a managed VPC: `PreferPrivate` gives the private ones the most addresses,
    /// `PreferPublic` the public ones. Read when the subnets are created. Default: `PreferPrivate`.
    #[serde(default)]
    pub subnet_schema: SubnetSchema,
}

impl VpcSpec {
    /// Primary IPv4 range of a VPC to be created; `None` where it comes from an address pool.
    pub fn effective_cidr_block(&self) -> Option<&str> {
        match self.cidr_block.as_deref() {
            Some(cidr_block) if !cidr_block.is_empty() => Some(cidr_block),
            _ if self.ipam_pool.is_some() => None,
            _ => Some(DEFAULT_CIDR_BLOCK),
        }
    }

    /// In how many zones default subnets are laid out.
    pub fn effective_availability_zone_usage_limit(&self) -> i64 {
        self.availability_zone_usage_limit.unwrap_or(DEFAULT_ZONE_LIMIT)
    }
}

/// One more IPv4 range of a VPC.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecondaryCidrBlock {
    /// The range, /16 to /28, e.g. `100.64.0.0/16`; not the primary one.
    #[schemars(length(min = 1, max = 18))]
    pub ipv4_cidr_block: String,
}

/// An address pool of Amazon VPC IPAM, by id or name; one of the two is needed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct IpamPool {
    /// Id of the pool, e.g. `ipam-pool-0a1b2c3d`. Wins over `name`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,

    /// Name tag of the pool, looked up in the cluster's region.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,

    /// Prefix length of the range to take from the pool. Default: 16 for IPv4 (`effective_ipv4_netmask_length`), 56 for
    /// IPv6 (`effective_ipv6_netmask_length`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub netmask_length: Option<i64>,
}

impl IpamPool {
    /// Prefix length to ask of an IPv4 pool; 0 counts as absent.
    pub fn effective_ipv4_netmask_length(&self) -> i64 {
        self.given_netmask_length().unwrap_or(DEFAULT_IPV4_NETMASK_LENGTH)
    }

    /// Prefix length to ask of an IPv6 pool; 0 counts as absent.
    pub fn effective_ipv6_netmask_length(&self) -> i64 {
        self.given_netmask_length().unwrap_or(DEFAULT_IPV6_NETMASK_LENGTH)
    }

    fn given_netmask_length(&self) -> Option<i64> {
        self.netmask_length.filter(|length| *length != 0)
    }
}

/// Where the IPv6 range of a VPC comes from.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VpcIpv6 {
    /// IPv6 range of a VPC to be created, out of `poolId`, e.g. `2001:db8:1234:1a00::/56`. Absent: one is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 43))]
    pub cidr_block: Option<String>,

    /// Pool of your own IPv6 addresses (BYOIP) that the range comes from, e.g. `ipv6pool-ec2-0a1b2c3d`. Needed with
    /// `cidrBlock`; excludes `ipamPool`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool_id: Option<String>,

    /// Egress-only internet gateway, e.g. `eigw-0a1b2c3d`, by which private subnets reach IPv6 destinations, as another
    /// controller observed it. A hint, never an input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub egress_only_internet_gateway_id: Option<String>,

    /// Address pool of Amazon VPC IPAM from which the VPC gets its IPv6 range. Excludes `poolId`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ipam_pool: Option<IpamPool>,
}

/// Takes the format off an integer that the API has always declared without one.
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
            (
                "{cidrBlock: 10.20.0.0/16, ipamPool: {name: prod}}",
                Some("10.20.0.0/16"),
            ),
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
        assert_eq!(
            vpc("{availabilityZoneUsageLimit: 2}").effective_availability_zone_usage_limit(),
            2
        );
    }

    #[test]
    fn the_netmask_defaults_by_address_family() {
        let cases = [
            ("{}", 16, 56),
            ("{netmaskLength: 0}", 16, 56),
            ("{netmaskLength: 20}", 20, 20),
        ];
        for (yaml, ipv4, ipv6) in cases {
            let pool: IpamPool = serde_saphyr::from_str(yaml).expect("a pool");
            assert_eq!(pool.effective_ipv4_netmask_length(), ipv4, "{yaml}");
            assert_eq!(pool.effective_ipv6_netmask_length(), ipv6, "{yaml}");
        }
    }

    #[test]
    fn empty_ipv6_still_asks_for_ipv6() {
        assert_eq!(vpc("{ipv6: {}}").ipv6, Some(VpcIpv6::default()));
        assert_eq!(vpc("{}").ipv6, None);
    }
}
