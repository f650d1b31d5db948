//! Elastic Load Balancing calls, both generations.

use std::time::Duration;

use aws_sdk_elasticloadbalancing as classic;
use aws_sdk_elasticloadbalancingv2 as elbv2;
use aws_sdk_elasticloadbalancingv2::config::retry::RetryConfig;
use aws_sdk_elasticloadbalancingv2::types::{TargetHealthStateEnum, TargetTypeEnum};
use capa_cloud::limits::{Caller, Priority, Turn};
use capa_cloud::targets::{
    Group, GroupAnswer, GroupCall, GroupFacts, Health, Question, Target, TargetKind, TargetState,
};
use capa_cloud::{ApiLoadBalancer, CloudError, ErrorClass};

use crate::api::Api;
use crate::limits::Permit;

/// How long the targets of a group drain that says nothing of it.
const USUAL_DELAY: Duration = Duration::from_secs(300);
const DELAY_ATTRIBUTE: &str = "deregistration_delay.timeout_seconds";
/// How a classic load balancer describes an instance that drains; its state is that of one in service.
const CLASSIC_DRAINING: &str = "deregistration currently in progress";

/// The clients of one identity in one region.
#[derive(Clone)]
pub(crate) struct LoadBalancing {
    pub(crate) classic: classic::Client,
    pub(crate) version_2: elbv2::Client,
}

impl Api {
    /// Makes a call about targets, which waits for its turn. The SDK does not repeat writes: after a while they may be wrong,
    /// an address may be somebody else's, and whoever asked for them repeats them.
    pub(crate) async fn group_call(&self, call: &GroupCall) -> Result<GroupAnswer, CloudError> {
        let permit = self.gate().wait(&call.turn()).await;
        if matches!(call.question, Question::Register(_) | Question::Deregister(_)) {
            self.lead().await;
        }
        match &call.group {
            Group::TargetGroup(arn) => self.target_group_call(permit, arn, &call.question).await,
            Group::Classic(name) => self.classic_call(permit, name, &call.question).await,
        }
    }

    async fn target_group_call(
        &self,
        permit: Permit,
        arn: &str,
        question: &Question,
    ) -> Result<GroupAnswer, CloudError> {
        match question {
            Question::Facts => self.target_group(permit, arn).await.map(GroupAnswer::Facts),
            Question::Health => self.target_health(permit, arn).await.map(GroupAnswer::Health),
            Question::Delay => self.deregistration_delay(permit, arn).await.map(GroupAnswer::Delay),
            Question::Register(targets) => {
                let request = self.load_balancing().version_2.register_targets().target_group_arn(arn);
                let request = request.set_targets(Some(descriptions(targets)));
                let request = request.customize().config_override(once());
                self.call(permit, request.send()).await.map(|_| GroupAnswer::Done)
            }
            Question::Deregister(targets) => {
                let request = self
                    .load_balancing()
                    .version_2
                    .deregister_targets()
                    .target_group_arn(arn);
                let request = request.set_targets(Some(descriptions(targets)));
                let request = request.customize().config_override(once());
                self.call(permit, request.send()).await.map(|_| GroupAnswer::Done)
            }
        }
    }

    async fn target_group(&self, permit: Permit, arn: &str) -> Result<GroupFacts, CloudError> {
        let action = permit.action;
        let request = self.load_balancing().version_2.describe_target_groups();
        let answer = self.call(permit, request.target_group_arns(arn).send()).await?;
        let group = answer.target_groups().first();
        let group = group.ok_or_else(|| CloudError::answered(action, "TargetGroupNotFound", "it is not listed"))?;
        let kind = match group.target_type() {
            Some(TargetTypeEnum::Instance) => TargetKind::Instance,
            Some(TargetTypeEnum::Ip) => TargetKind::Address,
            other => TargetKind::Other(other.map_or("unknown", TargetTypeEnum::as_str).to_owned()),
        };
        Ok(GroupFacts {
            kind,
            port: group.port(),
        })
    }

    async fn target_health(&self, permit: Permit, arn: &str) -> Result<Vec<(Target, Health)>, CloudError> {
        let request = self.load_balancing().version_2.describe_target_health();
        let answer = self.call(permit, request.target_group_arn(arn).send()).await?;
        let shown = answer.target_health_descriptions().iter();
        let targets = shown.filter_map(|shown| {
            let target = shown.target()?;
            let target = Target {
                id: target.id()?.to_owned(),
                port: target.port(),
            };
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
        let request = self.load_balancing().version_2.describe_target_group_attributes();
        let answer = self.call(permit, request.target_group_arn(arn).send()).await?;
        let delay = answer
            .attributes()
            .iter()
            .find(|attribute| attribute.key() == Some(DELAY_ATTRIBUTE));
        let seconds = delay.and_then(|delay| delay.value()?.parse().ok());
        Ok(seconds.map_or(USUAL_DELAY, Duration::from_secs))
    }

    async fn classic_call(&self, permit: Permit, name: &str, question: &Question) -> Result<GroupAnswer, CloudError> {
        let client = &self.load_balancing().classic;
        match question {
            Question::Facts => Ok(GroupAnswer::Facts(GroupFacts {
                kind: TargetKind::Instance,
                port: None,
            })),
            Question::Health => {
                let request = client.describe_instance_health().load_balancer_name(name);
                let answer = self.call(permit, request.send()).await?;
                let states = answer.instance_states().iter().filter_map(instance_health);
                Ok(GroupAnswer::Health(states.collect()))
            }
            Question::Delay => {
                let request = client.describe_load_balancer_attributes().load_balancer_name(name);
                let answer = self.call(permit, request.send()).await?;
                let attributes = answer.load_balancer_attributes();
                let draining = attributes.and_then(|attributes| attributes.connection_draining());
                let draining = draining.filter(|draining| draining.enabled());
                let seconds = draining.map_or(Some(0), classic::types::ConnectionDraining::timeout);
                let seconds = seconds.and_then(|seconds| u64::try_from(seconds).ok());
                Ok(GroupAnswer::Delay(seconds.map_or(USUAL_DELAY, Duration::from_secs)))
            }
            Question::Register(targets) => {
                let once = classic::config::Config::builder().retry_config(RetryConfig::disabled());
                let request = client.register_instances_with_load_balancer().load_balancer_name(name);
                let request = request.set_instances(Some(instances(targets)));
                let request = request.customize().config_override(once);
                self.call(permit, request.send()).await.map(|_| GroupAnswer::Done)
            }
            Question::Deregister(targets) => {
                let request = client
                    .deregister_instances_from_load_balancer()
                    .load_balancer_name(name);
                let request = request.set_instances(Some(instances(targets)));
                self.call(permit, request.send()).await.map(|_| GroupAnswer::Done)
            }
        }
    }

    /// Looks a load balancer of the second generation up by name; none where there is none.
    pub(crate) async fn load_balancer(&self, name: &str) -> Result<Option<ApiLoadBalancer>, CloudError> {
        let client = &self.load_balancing().version_2;
        let permit = self.gate().pass(&turn(name))?;
        let answer = self
            .call(permit, client.describe_load_balancers().names(name).send())
            .await;
        let answer = match answer {
            Err(error) if error.class == ErrorClass::NotFound => return Ok(None),
            answer => answer?,
        };
        let Some(found) = answer.load_balancers().first() else {
            return Ok(None);
        };
        let permit = self.gate().go_on("DescribeListeners");
        let request = client
            .describe_listeners()
            .set_load_balancer_arn(found.load_balancer_arn.clone());
        let answer = self.call(permit, request.send()).await?;
        let listeners = answer.listeners().iter();
        let listeners = listeners.filter_map(|listener| Some((listener.port()?, forwarded_to(listener))));
        Ok(Some(ApiLoadBalancer {
            kind: found.r#type().map_or("unknown", |kind| kind.as_str()).to_owned(),
            listeners: listeners.collect(),
        }))
    }

    /// Whether there is a classic load balancer of this name.
    pub(crate) async fn classic_load_balancer(&self, name: &str) -> Result<bool, CloudError> {
        let permit = self.gate().pass(&turn(name))?;
        let request = self.load_balancing().classic.describe_load_balancers();
        let answer = self.call(permit, request.load_balancer_names(name).send()).await;
        match answer {
            Err(error) if error.class == ErrorClass::NotFound => Ok(false),
            answer => Ok(!answer?.load_balancer_descriptions().is_empty()),
        }
    }
}

/// Without the SDK's own repetitions.
fn once() -> elbv2::config::Builder {
    elbv2::config::Config::builder().retry_config(RetryConfig::disabled())
}

/// The target groups that a listener sends what no rule concerns to, each once.
fn forwarded_to(listener: &elbv2::types::Listener) -> Vec<String> {
    let mut arns = Vec::new();
    for action in listener.default_actions() {
        let several = action
            .forward_config()
            .map(elbv2::types::ForwardActionConfig::target_groups);
        let several = several.unwrap_or_default().iter();
        let several = several.filter_map(|group| group.target_group_arn());
        for arn in action.target_group_arn().into_iter().chain(several) {
            if !arns.iter().any(|known| known == arn) {
                arns.push(arn.to_owned());
            }
        }
    }
    arns
}

/// To look a load balancer up by name.
fn turn(name: &str) -> Turn {
    Turn {
        action: "DescribeLoadBalancers",
        caller: Caller::Task(name.to_owned()),
        priority: Priority::Describe,
        instances: 0,
    }
}

fn descriptions(targets: &[Target]) -> Vec<elbv2::types::TargetDescription> {
    let describe = |target: &Target| {
        elbv2::types::TargetDescription::builder()
            .id(&target.id)
            .set_port(target.port)
            .build()
    };
    targets.iter().map(describe).collect()
}

fn instances(targets: &[Target]) -> Vec<classic::types::Instance> {
    let instance = |target: &Target| classic::types::Instance::builder().instance_id(&target.id).build();
    targets.iter().map(instance).collect()
}

fn state(state: &TargetHealthStateEnum) -> TargetState {
    match state {
        // Where health checks are turned off it is `unavailable`, and gets traffic all the same.
        TargetHealthStateEnum::Healthy | TargetHealthStateEnum::Unavailable => TargetState::Healthy,
        TargetHealthStateEnum::Initial => TargetState::Initial,
        TargetHealthStateEnum::Draining => TargetState::Draining,
        TargetHealthStateEnum::Unused => TargetState::Unused,
        _ => TargetState::Unhealthy,
    }
}

/// In classic words `OutOfService` has several causes, told apart by the code of the reason.
fn instance_health(shown: &classic::types::InstanceState) -> Option<(Target, Health)> {
    let target = Target {
        id: shown.instance_id()?.to_owned(),
        port: None,
    };
    let drains = shown
        .description()
        .is_some_and(|description| description.contains(CLASSIC_DRAINING));
    let reason = shown.reason_code().filter(|code| *code != "N/A");
    let state = match (shown.state()?, reason) {
        _ if drains => TargetState::Draining,
        ("InService", _) => TargetState::Healthy,
        ("OutOfService", Some("ELB")) => TargetState::Initial,
        _ => TargetState::Unhealthy,
    };
    let reason = reason.filter(|_| state != TargetState::Healthy).map(str::to_owned);
    Some((target, Health { state, reason }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instance_of_a_classic_load_balancer_is_in_the_state_that_its_words_mean() {
        let registering = "Instance registration is still in progress.";
        let draining = "Instance deregistration currently in progress.";
        let table = [
            ("InService", "N/A", "N/A", TargetState::Healthy, None),
            ("InService", "N/A", draining, TargetState::Draining, None),
            ("OutOfService", "ELB", registering, TargetState::Initial, Some("ELB")),
            (
                "OutOfService",
                "Instance",
                "failed",
                TargetState::Unhealthy,
                Some("Instance"),
            ),
            ("Unknown", "ELB", "transient error", TargetState::Unhealthy, Some("ELB")),
        ];
        for (state, code, description, expected, reason) in table {
            let shown = classic::types::InstanceState::builder()
                .instance_id("i-1")
                .state(state)
                .reason_code(code)
                .description(description)
                .build();
            let (target, health) = instance_health(&shown).unwrap();
            assert_eq!((target.id.as_str(), target.port), ("i-1", None));
            assert_eq!(
                (health.state, health.reason.as_deref()),
                (expected, reason),
                "{state} {description}"
            );
        }
    }

    #[test]
    fn a_target_whose_checks_are_turned_off_gets_traffic_and_an_unknown_state_none() {
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
