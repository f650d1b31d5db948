//! Target groups of managed clusters.

use aws_sdk_elasticloadbalancingv2::types::{
    ProtocolEnum, TargetGroupAttribute, TargetGroupIpAddressTypeEnum, TargetTypeEnum,
};
use capa_cloud::elb::target_group::{Call, PREFIXES};
use capa_cloud::elb::{HealthCheck, TargetGroup};
use capa_cloud::managed::{ChangeAnswer, Details};
use capa_cloud::session::Permit;
use capa_cloud::{CloudError, Query};
use futures::FutureExt;
use futures::future::ready;

use super::super::target_group::target_group;
use super::super::{ElbCalls, PAGE_SIZE};
use super::{answers_of, made, number, sdk_tags};
use crate::ec2::is_owned;
use crate::sdk::pages::Page;

impl ElbCalls {
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
