//! Zones.

use capa_api::network::ZoneType;
use serde::{Deserialize, Serialize};

use super::availability::Availability;

/// A zone of the region.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Zone {
    /// Name, for example `eu-west-1a`.
    pub name: String,
    /// Type of the zone; absent if this version does not know the type.
    pub zone_type: Option<ZoneType>,
    /// State of the zone; another state is, for example, `impaired`.
    pub state: Availability,
}

/// The type of a zone by its name: in the name of an edge zone, a dash follows the region. AWS defines these names
/// (<https://docs.aws.amazon.com/global-infrastructure/latest/regions/aws-availability-zones.html>).
pub fn zone_type(region: &str, zone: &str) -> ZoneType {
    match zone.strip_prefix(region) {
        Some(rest) if rest.starts_with("-wl") => ZoneType::WavelengthZone,
        Some(rest) if rest.starts_with('-') => ZoneType::LocalZone,
        _ => ZoneType::AvailabilityZone,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edge_zones_are_recognized_by_their_names() {
        assert_eq!(zone_type("eu-west-1", "eu-west-1b"), ZoneType::AvailabilityZone);
        assert_eq!(zone_type("eu-west-1", "us-east-1b"), ZoneType::AvailabilityZone);
        assert_eq!(zone_type("us-west-2", "us-west-2-lax-1a"), ZoneType::LocalZone);
        assert_eq!(zone_type("us-east-1", "us-east-1-wl1-bos-wlz-1"), ZoneType::WavelengthZone);
    }
}
