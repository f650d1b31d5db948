//! Security groups.

use aws_sdk_ec2::types;
use capa_cloud::ec2::security_group::{Rule, Source, Traffic};
use capa_cloud::ec2::{IpProtocol, SecurityGroup};
use capa_cloud::{CloudError, Query};

use super::{Ec2Calls, PAGE_SIZE, filters, some_text, tags, text};
use crate::sdk::pages::Page;

impl Ec2Calls {
    pub(crate) async fn security_groups(&self, query: &Query) -> Result<Vec<SecurityGroup>, CloudError> {
        self.runner
            .describe("DescribeSecurityGroups", query, |permit, token| async move {
                let request = self.client.describe_security_groups().set_filters(filters(query)).max_results(PAGE_SIZE);
                let answer = self.runner.call(permit, request.set_next_token(token).send()).await?;
                Ok(Page {
                    items: answer.security_groups().iter().map(security_group).collect(),
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
        owner_id: text(group.owner_id()),
        ingress: group.ip_permissions().iter().flat_map(rules).collect(),
        egress: group.ip_permissions_egress().iter().flat_map(rules).collect(),
        tags: tags(group.tags()),
    }
}

/// One rule for each source of a permission.
fn rules(permission: &types::IpPermission) -> Vec<Rule<String>> {
    let port = |port: Option<i32>| port.map_or(-1, i64::from);
    let protocol = IpProtocol::of_answer(permission.ip_protocol().unwrap_or_default());
    let traffic = Traffic::new(protocol, port(permission.from_port()), port(permission.to_port()));
    let rule = |source: fn(String) -> Source<String>, of: Option<&str>, description: Option<&str>| {
        Some(Rule { traffic, source: source(some_text(of)?), description: text(description) })
    };
    let ranges = permission.ip_ranges().iter();
    let ranges = ranges.map(|range| rule(Source::Cidr, range.cidr_ip(), range.description()));
    let ipv6_ranges = permission.ipv6_ranges().iter();
    let ipv6_ranges = ipv6_ranges.map(|range| rule(Source::Ipv6Cidr, range.cidr_ipv6(), range.description()));
    let lists = permission.prefix_list_ids().iter();
    let lists = lists.map(|list| rule(Source::PrefixList, list.prefix_list_id(), list.description()));
    let groups = permission.user_id_group_pairs().iter();
    let groups = groups.map(|group| rule(Source::Group, group.group_id(), group.description()));
    ranges.chain(ipv6_ranges).chain(lists).chain(groups).flatten().collect()
}
