//! Security groups.

use aws_sdk_ec2::types;
use capa_cloud::{CloudError, Query, SecurityGroup, SecurityGroupRule};

use super::{Ec2Calls, PAGE_SIZE, filters, tags, text};
use crate::sdk::pages::Page;

impl Ec2Calls {
    pub(crate) async fn security_groups(&self, query: &Query) -> Result<Vec<SecurityGroup>, CloudError> {
        self.security_groups_as(query, security_group).await
    }

    /// The security groups of a query, converted by `convert`.
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
        name: text(group.group_name()),
        vpc_id: text(group.vpc_id()),
        owner_id: text(group.owner_id()),
        tags: tags(group.tags()),
        ingress: group.ip_permissions().iter().map(rule).collect(),
        egress: group.ip_permissions_egress().iter().map(rule).collect(),
    }
}

fn rule(permission: &types::IpPermission) -> SecurityGroupRule {
    let blocks = permission.ip_ranges().iter().filter_map(types::IpRange::cidr_ip);
    let ipv6_blocks = permission.ipv6_ranges().iter().filter_map(types::Ipv6Range::cidr_ipv6);
    let groups = permission
        .user_id_group_pairs()
        .iter()
        .filter_map(types::UserIdGroupPair::group_id);
    let lists = permission
        .prefix_list_ids()
        .iter()
        .filter_map(types::PrefixListId::prefix_list_id);
    SecurityGroupRule {
        protocol: text(permission.ip_protocol()),
        ports: permission.from_port().zip(permission.to_port()),
        cidr_blocks: blocks.chain(ipv6_blocks).map(str::to_owned).collect(),
        group_ids: groups.map(str::to_owned).collect(),
        prefix_list_ids: lists.map(str::to_owned).collect(),
    }
}
