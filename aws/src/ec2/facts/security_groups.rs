//! Facts about security groups and their rules.

use aws_sdk_ec2::types;
use capa_cloud::{CloudError, Query};
use capa_preflight::facts::{SecurityGroup, SecurityGroupRule};

use super::super::{Ec2Calls, tags, text};

impl Ec2Calls {
    /// The security groups with these ids that exist.
    pub(crate) async fn security_group_facts(&self, ids: Vec<String>) -> Result<Vec<SecurityGroup>, CloudError> {
        if ids.is_empty() {
            return Ok(vec![]);
        }
        let query = Query::filter("group-id", ids);
        self.security_groups_as(&query, security_group).await
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
