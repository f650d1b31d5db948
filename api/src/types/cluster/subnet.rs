//! `spec.network.subnets[]`: the subnets of a cluster, brought by the user or created by the provider.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::common::{Tags, tags_schema};
use crate::forms::IdKind;
use crate::network::ZoneType;

/// Tag that keeps nodes out of a subnet whose addresses are for pods; its value is `secondary`.
pub const ASSOCIATION_TAG: &str = "sigs.k8s.io/cluster-api-provider-aws/association";

/// Prefix of the AWS ids of subnets. No name of a subnet begins with it.
const PREFIX: &str = IdKind::Subnet.prefix();

/// One subnet of the cluster: an existing subnet by its AWS id, or, in a managed VPC, a subnet to create.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SubnetSpec {
    /// For an existing subnet its AWS id, e.g. `subnet-0a1b2c3d`. For a subnet to create, a name of your choice, which
    /// becomes the Name tag of the subnet and must not begin with `subnet-`. The id is unique within the list.
    pub id: String,

    /// AWS id of the subnet that `id` names, as another controller recorded it. Default: `id`, if `id` is an AWS id.
    /// The provider reads the field and never writes it.
    #[serde(rename = "resourceID", default, skip_serializing_if = "Option::is_none")]
    pub resource_id: Option<String>,

    /// IPv4 range of a subnet to create, inside a range of the VPC, e.g. `10.0.64.0/18`. An existing subnet keeps its
    /// range.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 18))]
    pub cidr_block: Option<String>,

    /// IPv6 range of a subnet to create, a /64 inside the range of the VPC, e.g. `2001:db8:1234:1a00::/64`. Absent with
    /// `isIpv6: true`: the next free range.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 43))]
    pub ipv6_cidr_block: Option<String>,

    /// Zone of the subnet, e.g. `eu-west-1a`. The zone is the failure domain of the machines in the subnet. Optional
    /// for an existing subnet: the provider then looks up the zone in AWS. With `preflight.mode: Disabled` there is no
    /// lookup, and a subnet without a zone adds no failure domain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub availability_zone: Option<String>,

    /// Whether the default route of the subnet leads to an internet gateway. Machines with `publicIP: true` are placed
    /// in public subnets and all other machines in private subnets. Absent: the provider reads the subnet's route
    /// table, except with `preflight.mode: Disabled`. If neither the field nor AWS gives a value, the subnet serves
    /// both kinds of machines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_public: Option<bool>,

    /// Whether the subnet has an IPv6 range. With `true` a managed subnet gets an IPv6 range, and its instances get an
    /// address of the range at launch; this needs `vpc.ipv6`. Local and Wavelength Zones have no IPv6. In unmanaged
    /// mode `true` also means that the cluster uses IPv6: its machines get a primary IPv6 address in every subnet with
    /// an IPv6 range. Absent: in a cluster that uses IPv6, the value that AWS shows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_ipv6: Option<bool>,

    /// Route table of the subnet, e.g. `rtb-0a1b2c3d`, as CAPA recorded it. The provider accepts the field and does not
    /// read it: it finds the route tables of a cluster in AWS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub route_table_id: Option<String>,

    /// NAT gateway in the subnet, e.g. `nat-0a1b2c3d`, as CAPA recorded it. The provider accepts the field and does not
    /// read it: it finds the NAT gateways of a cluster in AWS. Setting the field changes no route.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nat_gateway_id: Option<String>,

    /// Tags of the subnet. The provider adds them to a managed subnet in AWS and never tags a subnet that you bring.
    /// With the tag `sigs.k8s.io/cluster-api-provider-aws/association: secondary` the addresses of the subnet are for
    /// pods, and no node is placed in the subnet.
    #[serde(default, skip_serializing_if = "Tags::is_empty")]
    #[schemars(schema_with = "tags_schema")]
    pub tags: Tags,

    /// Type of the subnet's zone. Edge zones (`local-zone`, `wavelength-zone`) are not failure domains, and a machine
    /// is placed in an edge zone only if its spec names the subnet. Absent: the type that AWS shows; without a lookup
    /// in AWS, an ordinary availability zone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone_type: Option<ZoneType>,

    /// Parent zone of an edge zone, e.g. `us-east-1a` for `us-east-1-nyc-1a`. Private edge subnets use the NAT gateway
    /// of the parent zone. Ordinary zones have no parent zone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_zone_name: Option<String>,
}

impl SubnetSpec {
    /// The AWS id of the subnet: `resourceID`, or else `id` if `id` has the form of an AWS id. `None`: the subnet does
    /// not exist yet.
    pub fn effective_resource_id(&self) -> Option<&str> {
        self.resource_id
            .as_deref()
            .filter(|id| !id.is_empty())
            .or_else(|| Some(self.id.as_str()).filter(|id| id.starts_with(PREFIX)))
    }

    /// The name of the subnet; `None` if `id` has the form of an AWS id.
    pub fn name(&self) -> Option<&str> {
        Some(self.id.as_str()).filter(|id| !id.starts_with(PREFIX))
    }

    /// Whether the spec says that the subnet is in a Local or Wavelength Zone.
    pub fn is_edge(&self) -> bool {
        self.zone_type.is_some_and(ZoneType::is_edge)
    }

    /// Whether the tags reserve the subnet for pods. No node is placed in such a subnet.
    pub fn is_for_pods_only(&self) -> bool {
        is_for_pods_only(&self.tags)
    }
}

/// Whether the tags of a subnet reserve it for pods.
pub fn is_for_pods_only(tags: &Tags) -> bool {
    tags.get(ASSOCIATION_TAG).is_some_and(|value| value == "secondary")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subnet(yaml: &str) -> SubnetSpec {
        serde_saphyr::from_str(yaml).expect("a subnet")
    }

    #[test]
    fn the_aws_id_is_the_recorded_one_or_an_id_of_that_form() {
        let cases = [
            ("{id: subnet-0a}", Some("subnet-0a")),
            ("{id: private-a, resourceID: subnet-0b}", Some("subnet-0b")),
            ("{id: subnet-0a, resourceID: ''}", Some("subnet-0a")),
            ("{id: private-a}", None),
        ];
        for (yaml, expected) in cases {
            assert_eq!(subnet(yaml).effective_resource_id(), expected, "{yaml}");
        }
    }

    #[test]
    fn an_aws_id_is_no_name() {
        assert_eq!(subnet("{id: private-a, resourceID: subnet-0b}").name(), Some("private-a"));
        assert_eq!(subnet("{id: subnet-0a}").name(), None);
    }

    #[test]
    fn only_local_and_wavelength_zones_are_edge() {
        let cases = [
            ("{id: s}", false),
            ("{id: s, zoneType: availability-zone}", false),
            ("{id: s, zoneType: local-zone}", true),
            ("{id: s, zoneType: wavelength-zone}", true),
        ];
        for (yaml, expected) in cases {
            assert_eq!(subnet(yaml).is_edge(), expected, "{yaml}");
        }
    }

    #[test]
    fn the_association_tag_marks_a_subnet_for_pods() {
        let tagged = "{id: s, tags: {sigs.k8s.io/cluster-api-provider-aws/association: secondary}}";
        assert!(subnet(tagged).is_for_pods_only());
        assert!(!subnet("{id: s, tags: {team: a}}").is_for_pods_only());
    }

    #[test]
    fn an_unknown_publicness_is_not_private() {
        assert_eq!(subnet("{id: s}").is_public, None);
        assert_eq!(subnet("{id: s, isPublic: false}").is_public, Some(false));
    }
}
