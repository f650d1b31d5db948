//! Placement groups.

use aws_sdk_ec2::types;
use capa_cloud::ec2::PlacementGroup;
use capa_cloud::{CloudError, Query};

use super::{Ec2Calls, filters, text};
use crate::sdk::pages::Page;

impl Ec2Calls {
    /// The placement groups with these names.
    pub(crate) async fn placement_groups(&self, names: Vec<String>) -> Result<Vec<PlacementGroup>, CloudError> {
        let query = &Query::filter("group-name", names);
        self.runner
            .describe("DescribePlacementGroups", query, |permit, _| async move {
                let request = self.client.describe_placement_groups().set_filters(filters(query));
                let answer = self.runner.call(permit, request.send()).await?;
                Ok(Page::only(answer.placement_groups().iter().map(|group| PlacementGroup {
                    name: text(group.group_name()),
                    state: group.state().map_or("", types::PlacementGroupState::as_str).into(),
                    partitions: group.partition_count(),
                })))
            })
            .await
    }
}
