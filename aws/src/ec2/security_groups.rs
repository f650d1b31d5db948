//! Security groups.

use aws_sdk_ec2::types;
use capa_cloud::{CloudError, Query, SecurityGroup};

use super::{Ec2Calls, PAGE_SIZE, filters, tags, text};
use crate::sdk::pages::Page;

impl Ec2Calls {
    pub(crate) async fn security_groups(&self, query: &Query) -> Result<Vec<SecurityGroup>, CloudError> {
        self.security_groups_as(query, security_group).await
    }

    /// The same security groups in the form that `convert` gives them.
    pub(super) async fn security_groups_as<T>(
        &self,
        query: &Query,
        convert: fn(&types::SecurityGroup) -> T,
    ) -> Result<Vec<T>, CloudError> {
        self.runner
            .describe("DescribeSecurityGroups", query, |permit, token| async move {
                let request = self
                    .client
                    .describe_security_groups()
                    .set_filters(filters(query))
                    .max_results(PAGE_SIZE);
                let answer = self.runner.call(permit, request.set_next_token(token).send()).await?;
                Ok(Page {
                    items: answer.security_groups().iter().map(convert).collect(),
                    next: answer.next_token,
                })
            })
            .await
    }
}

fn security_group(group: &types::SecurityGroup) -> SecurityGroup {
    SecurityGroup {
        id: text(group.group_id()),
        vpc_id: text(group.vpc_id()),
        name: text(group.group_name()),
        tags: tags(group.tags()),
    }
}
