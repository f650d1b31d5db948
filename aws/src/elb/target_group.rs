//! Target groups.

use std::collections::BTreeMap;
use std::time::Duration;

use aws_sdk_elasticloadbalancingv2 as elb;
use aws_sdk_elasticloadbalancingv2::config::retry::RetryConfig;
use aws_sdk_elasticloadbalancingv2::types::{TargetGroupIpAddressTypeEnum, TargetHealthStateEnum, TargetTypeEnum};
use capa_api::cluster::load_balancer::HealthCheckTiming;
use capa_cloud::elb::{AddressFamily, HealthCheck, Protocol, TargetGroup, TargetType};
use capa_cloud::limits::CallRequest;
use capa_cloud::managed::Seen;
use capa_cloud::session::Permit;
use capa_cloud::targets::{GroupAnswer, GroupFacts, GroupRequest, GroupTags, Health, Target, TargetState};
use capa_cloud::{CloudError, ErrorClass, MAX_TAGGED};

use super::{ElbCalls, PAGE_SIZE, UNKNOWN, USUAL_DELAY, protocol, text};
use crate::sdk::pages::Page;

const DELAY_ATTRIBUTE: &str = "deregistration_delay.timeout_seconds";

impl ElbCalls {
    pub(super) async fn target_group_call(
        &self,
        permit: Permit,
        arn: &str,
        request: &GroupRequest,
    ) -> Result<GroupAnswer, CloudError> {
        match request {
            GroupRequest::Facts => self.target_group(permit, arn).await.map(GroupAnswer::Facts),
            GroupRequest::Tags => self.tags_of_target_group(permit, arn).await.map(GroupAnswer::Tags),
            GroupRequest::Health => self.target_health(permit, arn).await.map(GroupAnswer::Health),
            GroupRequest::Delay => self.deregistration_delay(permit, arn).await.map(GroupAnswer::Delay),
            GroupRequest::Register(targets) => {
                let request = self.client.register_targets().target_group_arn(arn);
                let request = request.set_targets(Some(descriptions(targets)));
                let request = request.customize().config_override(once());
                self.runner.call(permit, request.send()).await.map(|_| GroupAnswer::Done)
            }
            GroupRequest::Deregister(targets) => {
                let request = self.client.deregister_targets().target_group_arn(arn);
                let request = request.set_targets(Some(descriptions(targets)));
                let request = request.customize().config_override(once());
                self.runner.call(permit, request.send()).await.map(|_| GroupAnswer::Done)
            }
        }
    }

    async fn target_group(&self, permit: Permit, arn: &str) -> Result<GroupFacts, CloudError> {
        let action = permit.action;
        let request = self.client.describe_target_groups();
        let answer = self.runner.call(permit, request.target_group_arns(arn).send()).await?;
        let group = shown(answer.target_groups(), arn);
        let group = group.ok_or_else(|| CloudError::answered(action, "TargetGroupNotFound", "it is not listed"))?;
        Ok(GroupFacts { target_type: target_type(group), port: group.port() })
    }

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

    /// The tags of target groups, or of load balancers and listeners of the second generation, by ARN. Each call for
    /// [`MAX_TAGGED`] of them counts as a page, whose token is the number of the ARNs before it.
    pub(crate) async fn tags_by_arn(
        &self,
        arns: &[String],
    ) -> Result<Vec<(String, BTreeMap<String, String>)>, CloudError> {
        if arns.is_empty() {
            return Ok(vec![]);
        }
        let turn = CallRequest::target_group_tags(self.runner.flow(), arns);
        let permit = self.runner.permit(&turn).await?;
        let fetch = |permit, token: Option<String>| async move {
            let before: usize = token.and_then(|token| token.parse().ok()).unwrap_or_default();
            let end = before + MAX_TAGGED;
            let asked = arns.iter().skip(before).take(MAX_TAGGED).cloned();
            let request = self.client.describe_tags().set_resource_arns(Some(asked.collect()));
            let answer = self.runner.call(permit, request.send()).await?;
            let described = answer.tag_descriptions().iter();
            Ok(Page {
                items: described
                    .filter_map(|described| Some((described.resource_arn()?.to_owned(), tags(described))))
                    .collect(),
                next: (end < arns.len()).then(|| end.to_string()),
            })
        };
        self.runner.pages(permit, &turn, fetch).await
    }

    async fn tags_of_target_group(&self, permit: Permit, arn: &str) -> Result<GroupTags, CloudError> {
        let action = permit.action;
        let request = self.client.describe_tags().resource_arns(arn);
        let answer = self.runner.call(permit, request.send()).await?;
        let mut described = answer.tag_descriptions().iter();
        let described = described.find(|described| described.resource_arn() == Some(arn));
        let described = described
            .ok_or_else(|| CloudError::answered(action, "TargetGroupNotFound", "its tags are not described"))?;
        Ok(tags(described).into_iter().collect())
    }

    async fn target_health(&self, permit: Permit, arn: &str) -> Result<Vec<(Target, Health)>, CloudError> {
        let request = self.client.describe_target_health();
        let answer = self.runner.call(permit, request.target_group_arn(arn).send()).await?;
        let shown = answer.target_health_descriptions().iter();
        let targets = shown.filter_map(|shown| {
            let target = shown.target()?;
            let target = Target { id: target.id()?.to_owned(), port: target.port() };
            let health = shown.target_health()?;
            let health = Health {
                state: state(health.state()?),
                reason: health.reason().map(|reason| reason.as_str().to_owned()),
            };
            Some((target, health))
        });
        Ok(targets.collect())
    }

    async fn deregistration_delay(&self, permit: Permit, arn: &str) -> Result<Duration, CloudError> {
        let request = self.client.describe_target_group_attributes();
        let answer = self.runner.call(permit, request.target_group_arn(arn).send()).await?;
        let delay = answer.attributes().iter().find(|attribute| attribute.key() == Some(DELAY_ATTRIBUTE));
        let seconds = delay.and_then(|delay| delay.value()?.parse().ok());
        Ok(seconds.map_or(USUAL_DELAY, Duration::from_secs))
    }
}

/// A target group without its tags and attributes, which the describe does not return.
pub(super) fn target_group(group: &elb::types::TargetGroup) -> TargetGroup {
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
fn shown<'a>(groups: &'a [elb::types::TargetGroup], arn: &str) -> Option<&'a elb::types::TargetGroup> {
    groups.iter().find(|group| group.target_group_arn() == Some(arn))
}

fn target_type(group: &elb::types::TargetGroup) -> TargetType {
    match group.target_type() {
        Some(TargetTypeEnum::Instance) => TargetType::Instance,
        Some(TargetTypeEnum::Ip) => TargetType::Ip(match group.ip_address_type() {
            Some(TargetGroupIpAddressTypeEnum::Ipv6) => AddressFamily::Ipv6,
            _ => AddressFamily::Ipv4,
        }),
        other => TargetType::Other(other.map_or(UNKNOWN, TargetTypeEnum::as_str).to_owned()),
    }
}

fn tags(described: &elb::types::TagDescription) -> BTreeMap<String, String> {
    let tags = described.tags().iter();
    let tags = tags.filter_map(|tag| Some((tag.key()?.to_owned(), tag.value().unwrap_or_default().to_owned())));
    tags.collect()
}

/// A client configuration without the SDK's own retries.
fn once() -> elb::config::Builder {
    elb::config::Config::builder().retry_config(RetryConfig::disabled())
}

fn descriptions(targets: &[Target]) -> Vec<elb::types::TargetDescription> {
    let describe =
        |target: &Target| elb::types::TargetDescription::builder().id(&target.id).set_port(target.port).build();
    targets.iter().map(describe).collect()
}

fn state(state: &TargetHealthStateEnum) -> TargetState {
    match state {
        // A target without health checks is `unavailable` and still receives traffic.
        TargetHealthStateEnum::Healthy | TargetHealthStateEnum::Unavailable => TargetState::Healthy,
        TargetHealthStateEnum::Initial => TargetState::Initial,
        TargetHealthStateEnum::Draining => TargetState::Draining,
        TargetHealthStateEnum::Unused => TargetState::Unused,
        _ => TargetState::Unhealthy,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_without_checks_is_healthy_an_unknown_state_is_not() {
        for (shown, expected) in [
            ("unavailable", TargetState::Healthy),
            ("unused", TargetState::Unused),
            ("draining", TargetState::Draining),
            ("unhealthy.draining", TargetState::Unhealthy),
            ("something-new", TargetState::Unhealthy),
        ] {
            assert_eq!(state(&TargetHealthStateEnum::from(shown)), expected, "{shown}");
        }
    }
}
