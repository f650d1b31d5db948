//! Zones.

use aws_sdk_ec2::types::{self, AvailabilityZoneOptInStatus, AvailabilityZoneState};
use capa_cloud::ec2::Zone;
use capa_cloud::{CloudError, Query};

use super::{Ec2Calls, filters, text};
use crate::sdk::pages::Page;

/// The type of zones that are neither Local Zones nor Wavelength Zones.
const AVAILABILITY_ZONE: &str = "availability-zone";

impl Ec2Calls {
    /// The names of the availability zones that the account can use without opting in, sorted.
    pub(crate) async fn zone_names(&self) -> Result<Vec<String>, CloudError> {
        let query = Query::filter("state", ["available"])
            .and("opt-in-status", ["opt-in-not-required"])
            .and("zone-type", [AVAILABILITY_ZONE]);
        let zones = self.zones_as(&query, |zone| is_usable(zone).then(|| text(zone.zone_name())));
        let mut names: Vec<String> = zones.await?.into_iter().flatten().collect();
        names.sort_unstable();
        Ok(names)
    }

    /// All zones of the region that the account can use.
    pub(crate) async fn zones(&self) -> Result<Vec<Zone>, CloudError> {
        self.zones_as(&Query::default(), zone).await
    }

    /// The zones of a query, converted by `convert`.
    async fn zones_as<T>(
        &self,
        query: &Query,
        convert: fn(&types::AvailabilityZone) -> T,
    ) -> Result<Vec<T>, CloudError> {
        self.runner
            .describe("DescribeAvailabilityZones", query, |permit, _| async move {
                // AWS answers with all zones at once.
                let request = self.client.describe_availability_zones().set_filters(filters(query));
                let answer = self.runner.call(permit, request.send()).await?;
                Ok(Page::only(answer.availability_zones().iter().map(convert)))
            })
            .await
    }
}

fn zone(zone: &types::AvailabilityZone) -> Zone {
    Zone {
        name: text(zone.zone_name()),
        zone_type: zone.zone_type().and_then(|zone_type| zone_type.parse().ok()),
        state: zone.state().map_or("", AvailabilityZoneState::as_str).into(),
    }
}

/// Whether nothing in the answer makes a zone unusable.
fn is_usable(zone: &types::AvailabilityZone) -> bool {
    let (state, opt_in) = (zone.state(), zone.opt_in_status());
    state.is_none_or(|state| *state == AvailabilityZoneState::Available)
        && opt_in.is_none_or(|status| *status == AvailabilityZoneOptInStatus::OptInNotRequired)
        && zone.zone_type().is_none_or(|kind| kind == AVAILABILITY_ZONE)
}
