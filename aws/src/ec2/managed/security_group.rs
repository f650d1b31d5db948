//! Security groups of managed clusters.

use std::collections::BTreeMap;

use aws_sdk_ec2::types::{IpPermission, IpRange, Ipv6Range, PrefixListId, ResourceType, UserIdGroupPair};
use capa_cloud::ec2::SecurityGroup;
use capa_cloud::ec2::security_group::{Call, Rule, Source, Traffic};
use capa_cloud::managed::ChangeAnswer;
use capa_cloud::session::Permit;
use capa_cloud::{CloudError, Query};

use super::super::{Ec2Calls, some_text};
use super::{made, tag_specification};

impl Ec2Calls {
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
