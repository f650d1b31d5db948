//! The targets of target groups: their registration, their health, and how long they drain.

use std::time::Duration;

use aws_sdk_elasticloadbalancingv2 as elb;
use aws_sdk_elasticloadbalancingv2::config::retry::RetryConfig;
use aws_sdk_elasticloadbalancingv2::types::TargetHealthStateEnum;
use capa_cloud::CloudError;
use capa_cloud::session::Permit;
use capa_cloud::targets::{GroupAnswer, GroupFacts, GroupRequest, GroupTags, Health, Target, TargetState};

use super::tag::tags;
use super::target_group::{shown, target_type};
use super::{ElbCalls, USUAL_DELAY};

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
