//! Regions.

use capa_cloud::ec2::Region;
use capa_cloud::{CloudError, Query};

use super::{Ec2Calls, filters, text};
use crate::sdk::pages::Page;

impl Ec2Calls {
    /// The region with this name; empty if AWS has no such region. The answer also contains a region that the account
    /// has not enabled.
    pub(crate) async fn regions(&self, name: &str) -> Result<Vec<Region>, CloudError> {
        let query = &Query::filter("region-name", [name]);
        self.runner
            .describe("DescribeRegions", query, |permit, _| async move {
                let request = self.client.describe_regions().all_regions(true).set_filters(filters(query));
                let answer = self.runner.call(permit, request.send()).await?;
                let regions = answer.regions().iter().map(|region| Region {
                    name: text(region.region_name()),
                    opt_in_status: region.opt_in_status().unwrap_or_default().into(),
                });
                Ok(Page::only(regions))
            })
            .await
    }
}
