//! `spec.network.subnets[]`: the subnets a cluster uses (brought by the user) or asks for (managed).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::common::{Tags, tags_schema};
use crate::network::ZoneType;

/// Tag that keeps nodes out of a subnet whose addresses are for pods; its value is `secondary`.
const ASSOCIATION_TAG: &str = "sigs.k8s.io/cluster-api-provider-aws/association";

/// One subnet: an existing one by its AWS id, or, in a managed VPC, one to be created.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SubnetSpec {
    /// For an existing subnet its AWS id, e.g. `subnet-0a1b2c3d`. For a subnet that is to be created, a name of your
    /// choice, which becomes its Name tag; it must not begin with `subnet-`. Unique within the list.
    pub id: String,

    /// AWS id of the subnet behind a name in `id`, as another controller recorded it. Default: `id`, where that is
    /// an AWS id itself (`effective_resource_id`). We read it and never write it.
    #[serde(rename = "resourceID", default, skip_serializing_if = "Option::is_none")]
    pub resource_id: Option<String>,

    /// IPv4 range of a subnet to be created, inside a range of the VPC, e.g. `10.0.64.0/18`. An existing subnet keeps
    /// the range it has. No effect in unmanaged mode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 18))]
    pub cidr_block: Option<String>,

    /// IPv6 range of a subnet to be created, a /64 inside the range of the VPC, e.g. `2001:db8:1234:1a00::/64`.
    /// Absent with `isIpv6: true`: the next free one. No effect in unmanaged mode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 43))]
    pub ipv6_cidr_block: Option<String>,

    /// Zone of the subnet, e.g. `eu-west-1a`: the failure domain of the machines placed in it. May be left out for
    /// an existing subnet: it is then looked up in AWS, except with `preflight.mode: Disabled`, where a subnet
    /// without a zone makes no failure domain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub availability_zone: Option<String>,

    /// Whether the default route leads to an internet gateway. Machines with `publicIP: true` are placed in public
    /// subnets and all others in private ones. Absent: read from the subnet's route table where AWS may be asked;
    /// a subnet of which it is not known serves both.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_public: Option<bool>,

    /// Whether the subnet has an IPv6 range. A managed subnet then gets one, and its instances an address from it at
    /// launch; it needs `vpc.ipv6`. Local and Wavelength Zones have no IPv6. Absent: as AWS shows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_ipv6: Option<bool>,

    /// Route table of the subnet, e.g. `rtb-0a1b2c3d`, as another controller observed it. Read only to recognise
    /// what that controller made; never needed as an input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub route_table_id: Option<String>,

    /// NAT gateway that serves the private subnets of this zone, e.g. `nat-0a1b2c3d`, as another controller observed
    /// it. A hint for recognising resources; setting it changes no route.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nat_gateway_id: Option<String>,

    /// Tags of the subnet. A managed subnet gets them in AWS; one that you brought is never tagged.
    /// `sigs.k8s.io/cluster-api-provider-aws/association: secondary` keeps nodes out of it: its addresses are for pods.
    #[serde(default, skip_serializing_if = "Tags::is_empty")]
    #[schemars(schema_with = "tags_schema")]
    pub tags: Tags,

    /// Kind of the zone. Edge zones (`local-zone`, `wavelength-zone`) are no failure domains, and a machine is placed
    /// in one only when it names the subnet. Absent: as AWS shows it, or an ordinary zone where AWS is not asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone_type: Option<ZoneType>,

    /// The zone of the region that an edge zone hangs on, e.g. `us-east-1a` for `us-east-1-nyc-1a`: private edge
    /// subnets use that zone's NAT gateway. Meaningless for ordinary zones and in unmanaged mode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_zone_name: Option<String>,
}

impl SubnetSpec {
    /// The AWS id: `resourceID`, else `id` where it has the form of one. `None`: the subnet is still to be created.
    pub fn effective_resource_id(&self) -> Option<&str> {
        self.resource_id
            .as_deref()
            .filter(|id| !id.is_empty())
            .or_else(|| Some(self.id.as_str()).filter(|id| id.starts_with("subnet-")))
    }

    /// Whether the spec says that the subnet is in a Local or Wavelength Zone.
    pub fn is_edge(&self) -> bool {
        self.zone_type.is_some_and(ZoneType::is_edge)
    }

    /// Whether the subnet is marked as one for pods, where no node is ever placed.
    pub fn is_for_pods_only(&self) -> bool {
        self.tags.get(ASSOCIATION_TAG).is_some_and(|value| value == "secondary")
    }
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
