//! Facts about regions, zones and DHCP options.

use aws_sdk_ec2::types;
use capa_cloud::{CloudError, Query};
use capa_preflight::facts::{DhcpOptions, Region, Zone};

use super::super::{Ec2Calls, PAGE_SIZE, filters, text};
use crate::sdk::pages::Page;

impl Ec2Calls {
    /// The region with this name; empty if AWS has no such region. The answer also contains a region that the account
    /// has not enabled.
    pub(crate) async fn region_facts(&self, name: &str) -> Result<Vec<Region>, CloudError> {
        let query = &Query::filter("region-name", [name]);
        self.runner
            .describe("DescribeRegions", query, |permit, _| async move {
                let request = self.client.describe_regions().all_regions(true).set_filters(filters(query));
                let answer = self.runner.call(permit, request.send()).await?;
                let regions = answer.regions().iter().map(|region| Region {
                    name: text(region.region_name()),
                    opt_in_status: text(region.opt_in_status()),
                });
                Ok(Page::only(regions))
            })
            .await
    }

    /// All zones of the region that the account can use.
    pub(crate) async fn zone_facts(&self) -> Result<Vec<Zone>, CloudError> {
        self.zones_as(&Query::default(), zone).await
    }

    /// The DHCP options with this id; `None` if they do not exist.
    pub(crate) async fn dhcp_options_facts(&self, id: &str) -> Result<Option<DhcpOptions>, CloudError> {
        let query = &Query::filter("dhcp-options-id", [id]);
        let options = self.runner.describe("DescribeDhcpOptions", query, |permit, token| async move {
            let request = self.client.describe_dhcp_options().set_filters(filters(query)).max_results(PAGE_SIZE);
            let answer = self.runner.call(permit, request.set_next_token(token).send()).await?;
            Ok(Page { items: answer.dhcp_options().iter().map(dhcp_options).collect(), next: answer.next_token })
        });
        Ok(options.await?.into_iter().find(|options| options.id == id))
    }
}

fn zone(zone: &types::AvailabilityZone) -> Zone {
    Zone {
        name: text(zone.zone_name()),
        zone_type: text(zone.zone_type()),
        state: text(zone.state().map(types::AvailabilityZoneState::as_str)),
    }
}

fn dhcp_options(options: &types::DhcpOptions) -> DhcpOptions {
    let values = |key: &str| {
        let configurations = options.dhcp_configurations().iter();
        let values = configurations.filter(|of| of.key() == Some(key)).flat_map(types::DhcpConfiguration::values);
        values.map(|value| text(value.value())).collect()
    };
    DhcpOptions {
        id: text(options.dhcp_options_id()),
        domain_names: values("domain-name"),
        domain_name_servers: values("domain-name-servers"),
    }
}
