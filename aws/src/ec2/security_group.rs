//! Security groups.

use std::collections::BTreeMap;

use aws_sdk_ec2::types;
use aws_sdk_ec2::types::{IpPermission, IpRange, Ipv6Range, PrefixListId, ResourceType, UserIdGroupPair};
use capa_cloud::ec2::security_group::{Call, Rule, Source, Traffic};
use capa_cloud::ec2::{IpProtocol, SecurityGroup};
use capa_cloud::managed::ChangeAnswer;
use capa_cloud::session::Permit;
use capa_cloud::{CloudError, Query};

use super::managed::{made, tag_specification};
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

    /// The security groups of a VPC.
    pub(super) async fn security_groups_in(&self, vpc: &str) -> Result<Vec<SecurityGroup>, CloudError> {
        let query = Query::filter("vpc-id", [vpc]);
        let mut shown = self.security_groups(&query).await?;
        shown.retain(|group| group.vpc_id == vpc);
        Ok(shown)
    }

    pub(super) async fn security_group_call(
        &self,
        permit: Permit,
        call: &Call<String>,
    ) -> Result<ChangeAnswer, CloudError> {
        let action = permit.action;
        match call {
            Call::CreateSecurityGroup { vpc, name, description, tags } => {
                let request = self.client.create_security_group().vpc_id(vpc).group_name(name);
                let tags = tag_specification(ResourceType::SecurityGroup, tags);
                let request = request.description(description).tag_specifications(tags);
                let answer = self.runner.call(permit, request.send()).await?;
                return made(action, answer.group_id());
            }
            Call::AuthorizeSecurityGroupIngress { group, rules } => {
                let request = self.client.authorize_security_group_ingress().group_id(group);
                let request = request.set_ip_permissions(Some(permissions(rules)));
                self.runner.call(permit, request.send()).await?;
            }
            Call::RevokeSecurityGroupIngress { group, rules } => {
                let request = self.client.revoke_security_group_ingress().group_id(group);
                let request = request.set_ip_permissions(Some(without_descriptions(rules)));
                self.runner.call(permit, request.send()).await?;
            }
            Call::RevokeSecurityGroupEgress { group, rules } => {
                let request = self.client.revoke_security_group_egress().group_id(group);
                let request = request.set_ip_permissions(Some(without_descriptions(rules)));
                self.runner.call(permit, request.send()).await?;
            }
            Call::DeleteSecurityGroup { group } => {
                let request = self.client.delete_security_group().group_id(group);
                self.runner.call(permit, request.send()).await?;
            }
        }
        Ok(ChangeAnswer::Done)
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

/// The rules in the form that a call uses to remove them. Traffic and source identify a rule.
fn without_descriptions(rules: &[Rule<String>]) -> Vec<IpPermission> {
    let rules = rules.iter().map(|rule| Rule { description: String::new(), ..rule.clone() });
    permissions(&rules.collect::<Vec<_>>())
}

/// One permission for each kind of traffic with the sources that are groups, and one with the other sources, because
/// EC2 does not accept groups and ranges together.
fn permissions(rules: &[Rule<String>]) -> Vec<IpPermission> {
    let mut by_traffic: BTreeMap<(Traffic, bool), Vec<&Rule<String>>> = BTreeMap::new();
    for rule in rules {
        let is_group = matches!(rule.source, Source::Group(_));
        by_traffic.entry((rule.traffic, is_group)).or_default().push(rule);
    }
    let permissions = by_traffic.into_iter();
    permissions.map(|((traffic, _), rules)| permission(traffic, &rules)).collect()
}

fn permission(traffic: Traffic, rules: &[&Rule<String>]) -> IpPermission {
    let (from_port, to_port) = traffic.ports.unzip();
    let permission = IpPermission::builder().ip_protocol(traffic.protocol.to_string());
    let mut permission = permission.set_from_port(from_port).set_to_port(to_port);
    for rule in rules {
        let description = some_text(Some(&rule.description));
        permission = match &rule.source {
            Source::Cidr(range) => {
                let range = IpRange::builder().cidr_ip(range);
                permission.ip_ranges(range.set_description(description).build())
            }
            Source::Ipv6Cidr(range) => {
                let range = Ipv6Range::builder().cidr_ipv6(range);
                permission.ipv6_ranges(range.set_description(description).build())
            }
            Source::PrefixList(list) => {
                let list = PrefixListId::builder().prefix_list_id(list);
                permission.prefix_list_ids(list.set_description(description).build())
            }
            Source::Group(group) => {
                let group = UserIdGroupPair::builder().group_id(group);
                permission.user_id_group_pairs(group.set_description(description).build())
            }
        };
    }
    permission.build()
}
