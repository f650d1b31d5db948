//! Target groups: those that users name, and those of managed clusters.

use std::collections::BTreeMap;

use aws_sdk_elasticloadbalancingv2 as elb;
use aws_sdk_elasticloadbalancingv2::types::{
    ProtocolEnum, TargetGroupAttribute, TargetGroupIpAddressTypeEnum, TargetTypeEnum,
};
use capa_api::cluster::load_balancer::HealthCheckTiming;
use capa_cloud::elb::target_group::{Call, PREFIXES};
use capa_cloud::elb::{AddressFamily, HealthCheck, Protocol, TargetGroup, TargetType};
use capa_cloud::limits::CallRequest;
use capa_cloud::managed::{ChangeAnswer, Details, Seen};
use capa_cloud::session::Permit;
use capa_cloud::{CloudError, ErrorClass, Query};
use futures::FutureExt;
use futures::future::ready;

use super::managed::{answers_of, made, number, sdk_tags};
use super::{ElbCalls, PAGE_SIZE, UNKNOWN, protocol, text};
use crate::ec2::is_owned;
use crate::sdk::pages::Page;

impl ElbCalls {
    pub(crate) async fn target_group_attributes(&self, arn: &str) -> Result<BTreeMap<String, String>, CloudError> {
        let request = self.client.describe_target_group_attributes().target_group_arn(arn);
        let answer = self.runner.ask("DescribeTargetGroupAttributes", arn, request.send()).await?;
        let attributes = answer.attributes().iter();
        Ok(attributes.filter_map(|of| Some((of.key()?.to_owned(), of.value()?.to_owned()))).collect())
    }

    /// The target groups with these ARNs; `None` if one of them does not exist.
    pub(crate) async fn target_groups(&self, arns: &[String]) -> Result<Option<Vec<TargetGroup>>, CloudError> {
        let turn = CallRequest::target_groups(self.runner.flow(), arns);
        let permit = self.runner.permit(&turn).await?;
        let request = self.client.describe_target_groups();
        let request = request.set_target_group_arns(Some(arns.to_vec()));
        let answer = match self.runner.call(permit, request.send()).await {
            Err(error) if error.class == ErrorClass::NotFound => return Ok(None),
            answer => answer?,
        };
        Ok(arns.iter().map(|arn| shown(answer.target_groups(), arn).map(target_group)).collect())
    }

    /// All target groups of a VPC. The call has no filter for the VPC.
    pub(crate) async fn target_groups_in(&self, vpc_id: &str) -> Result<Vec<TargetGroup>, CloudError> {
        let turn = CallRequest::target_groups_in(self.runner.flow(), vpc_id);
        let permit = self.runner.permit(&turn).await?;
        let fetch = |permit, token| async move {
            let request = self.client.describe_target_groups().page_size(PAGE_SIZE).set_marker(token);
            let answer = self.runner.call(permit, request.send()).await?;
            let groups = answer.target_groups().iter();
            let of_vpc = groups.filter(|group| group.vpc_id() == Some(vpc_id));
            Ok(Page { items: of_vpc.map(target_group).collect(), next: answer.next_marker })
        };
        self.runner.pages(permit, &turn, fetch).await
    }

    /// The target groups of a VPC, and the target groups elsewhere that have one of these names. Groups of the VPC
    /// whose names look like those of a managed cluster have their tags, and groups that the cluster owns also have
    /// their attributes.
    pub(super) async fn observe_target_groups(
        &self,
        vpc: &str,
        names: &[String],
        tag: &str,
        known: &Details,
    ) -> Result<Vec<TargetGroup>, CloudError> {
        let mut groups = self.all_target_groups(vpc).await?;
        groups.retain(|group| group.vpc_id == vpc || names.contains(&group.name));
        let of_clusters = groups.iter().filter(|group| {
            let mut prefixes = PREFIXES.iter();
            group.vpc_id == vpc && prefixes.any(|prefix| group.name.starts_with(prefix))
        });
        let arns: Vec<String> = of_clusters.map(|group| group.arn.clone()).collect();
        let mut tags = self.all_tags(&arns, known).await?;
        for group in &mut groups {
            group.tags = tags.remove(&group.arn).unwrap_or_default();
        }
        let mut owned: Vec<&mut TargetGroup> = groups.iter_mut().filter(|group| is_owned(&group.tags, tag)).collect();
        let arns: Vec<String> = owned.iter().map(|group| group.arn.clone()).collect();
        let following = self.following();
        let attributes = arns.iter().map(|arn| match known.attributes.get(arn) {
            Some(attributes) => ready(Ok(attributes.clone())).boxed(),
            None => following.target_group_attributes(arn).boxed(),
        });
        let attributes = answers_of(attributes).await;
        for (group, attributes) in owned.iter_mut().zip(attributes) {
            group.attributes = attributes.into();
        }
        Ok(groups)
    }

    /// All target groups of the region, because the call has no filter for the VPC.
    async fn all_target_groups(&self, vpc: &str) -> Result<Vec<TargetGroup>, CloudError> {
        let query = Query::filter("vpc-id", [vpc]);
        self.runner
            .describe("DescribeTargetGroups", &query, |permit, token| async move {
                let request = self.client.describe_target_groups().page_size(PAGE_SIZE);
                let answer = self.runner.call(permit, request.set_marker(token).send()).await?;
                Ok(Page { items: answer.target_groups().iter().map(target_group).collect(), next: answer.next_marker })
            })
            .await
    }

    pub(super) async fn target_group_change(
        &self,
        permit: Permit,
        call: &Call<String>,
    ) -> Result<ChangeAnswer, CloudError> {
        let action = permit.action;
        match call {
            Call::CreateTargetGroup { vpc, name, port, health_check, tags } => {
                let HealthCheck { timing, .. } = health_check;
                let request = self.client.create_target_group().name(name).vpc_id(vpc).port(*port);
                let request = request
                    .protocol(ProtocolEnum::Tcp)
                    .target_type(TargetTypeEnum::Instance)
                    .ip_address_type(TargetGroupIpAddressTypeEnum::Ipv4)
                    .health_check_protocol(health_check.protocol.to_string().as_str().into())
                    .health_check_port(&health_check.port)
                    .set_health_check_path(health_check.path.clone())
                    .health_check_interval_seconds(number(timing.interval_seconds))
                    .health_check_timeout_seconds(number(timing.timeout_seconds))
                    .healthy_threshold_count(number(timing.threshold_count))
                    .unhealthy_threshold_count(number(timing.unhealthy_threshold_count))
                    .set_tags(Some(sdk_tags(tags)));
                let answer = self.runner.call(permit, request.send()).await?;
                let shown = answer.target_groups().first();
                return made(action, shown.and_then(|shown| shown.target_group_arn()));
            }
            Call::ModifyTargetGroup { group, health_check } => {
                let HealthCheck { timing, .. } = health_check;
                let request = self.client.modify_target_group().target_group_arn(group);
                let request = request
                    .health_check_protocol(health_check.protocol.to_string().as_str().into())
                    .health_check_port(&health_check.port)
                    .set_health_check_path(health_check.path.clone())
                    .health_check_interval_seconds(number(timing.interval_seconds))
                    .health_check_timeout_seconds(number(timing.timeout_seconds))
                    .healthy_threshold_count(number(timing.threshold_count))
                    .unhealthy_threshold_count(number(timing.unhealthy_threshold_count));
                self.runner.call(permit, request.send()).await?;
            }
            Call::ModifyTargetGroupAttributes { group, attributes } => {
                let attributes = attributes.iter();
                let attributes =
                    attributes.map(|(key, value)| TargetGroupAttribute::builder().key(*key).value(value).build());
                let request = self.client.modify_target_group_attributes().target_group_arn(group);
                let request = request.set_attributes(Some(attributes.collect()));
                self.runner.call(permit, request.send()).await?;
            }
            Call::DeleteTargetGroup { group } => {
                let request = self.client.delete_target_group().target_group_arn(group);
                self.runner.call(permit, request.send()).await?;
            }
        }
        Ok(ChangeAnswer::Done)
    }
}

/// A target group without its tags and attributes, which the describe does not return.
fn target_group(group: &elb::types::TargetGroup) -> TargetGroup {
    let timing = HealthCheckTiming {
        interval_seconds: group.health_check_interval_seconds().unwrap_or_default().into(),
        timeout_seconds: group.health_check_timeout_seconds().unwrap_or_default().into(),
        threshold_count: group.healthy_threshold_count().unwrap_or_default().into(),
        unhealthy_threshold_count: group.unhealthy_threshold_count().unwrap_or_default().into(),
    };
    let check_protocol = protocol(group.health_check_protocol());
    // AWS may still show the path of an earlier health check.
    let path = group.health_check_path().filter(|path| !path.is_empty() && check_protocol != Protocol::Tcp);
    TargetGroup {
        arn: text(group.target_group_arn()),
        name: text(group.target_group_name()),
        vpc_id: text(group.vpc_id()),
        protocol: protocol(group.protocol()),
        port: group.port().unwrap_or_default(),
        target_type: target_type(group),
        health_check: HealthCheck {
            path: path.map(str::to_owned),
            protocol: check_protocol,
            port: text(group.health_check_port()),
            timing,
        },
        load_balancer_arns: group.load_balancer_arns().to_vec(),
        attributes: Seen::NotAsked,
        tags: [].into(),
    }
}

/// The target group with this ARN.
pub(super) fn shown<'a>(groups: &'a [elb::types::TargetGroup], arn: &str) -> Option<&'a elb::types::TargetGroup> {
    groups.iter().find(|group| group.target_group_arn() == Some(arn))
}

pub(super) fn target_type(group: &elb::types::TargetGroup) -> TargetType {
    match group.target_type() {
        Some(TargetTypeEnum::Instance) => TargetType::Instance,
        Some(TargetTypeEnum::Ip) => TargetType::Ip(match group.ip_address_type() {
            Some(TargetGroupIpAddressTypeEnum::Ipv6) => AddressFamily::Ipv6,
            _ => AddressFamily::Ipv4,
        }),
        other => TargetType::Other(other.map_or(UNKNOWN, TargetTypeEnum::as_str).to_owned()),
    }
}
