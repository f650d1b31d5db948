//! The instances of Classic Load Balancers: their registration, their health, and how long they drain.

use std::time::Duration;

use aws_sdk_elasticloadbalancing as classic;
use aws_sdk_elasticloadbalancing::config::retry::RetryConfig;
use capa_cloud::CloudError;
use capa_cloud::elb::TargetType;
use capa_cloud::session::Permit;
use capa_cloud::targets::{GroupAnswer, GroupFacts, GroupRequest, GroupTags, Health, Target, TargetState};

use super::{ElbCalls, USUAL_DELAY};

/// The description of a draining instance of a classic load balancer, whose state is still `InService`.
const CLASSIC_DRAINING: &str = "deregistration currently in progress";

impl ElbCalls {
    pub(super) async fn classic_call(
        &self,
        permit: Permit,
        name: &str,
        request: &GroupRequest,
    ) -> Result<GroupAnswer, CloudError> {
        let client = &self.classic;
        match request {
            GroupRequest::Facts => Ok(GroupAnswer::Facts(GroupFacts { target_type: TargetType::Instance, port: None })),
            GroupRequest::Tags => self.classic_tags(permit, name).await.map(GroupAnswer::Tags),
            GroupRequest::Health => {
                let request = client.describe_instance_health().load_balancer_name(name);
                let answer = self.runner.call(permit, request.send()).await?;
                let states = answer.instance_states().iter().filter_map(instance_health);
                Ok(GroupAnswer::Health(states.collect()))
            }
            GroupRequest::Delay => {
                let request = client.describe_load_balancer_attributes().load_balancer_name(name);
                let answer = self.runner.call(permit, request.send()).await?;
                let attributes = answer.load_balancer_attributes();
                let draining = attributes.and_then(|attributes| attributes.connection_draining());
                let draining = draining.filter(|draining| draining.enabled());
                let seconds = draining.map_or(Some(0), classic::types::ConnectionDraining::timeout);
                let seconds = seconds.and_then(|seconds| u64::try_from(seconds).ok());
                Ok(GroupAnswer::Delay(seconds.map_or(USUAL_DELAY, Duration::from_secs)))
            }
            GroupRequest::Register(targets) => {
                let once = classic::config::Config::builder().retry_config(RetryConfig::disabled());
                let request = client.register_instances_with_load_balancer().load_balancer_name(name);
                let request = request.set_instances(Some(instances(targets)));
                let request = request.customize().config_override(once);
                self.runner.call(permit, request.send()).await.map(|_| GroupAnswer::Done)
            }
            GroupRequest::Deregister(targets) => {
                let request = client.deregister_instances_from_load_balancer().load_balancer_name(name);
                let request = request.set_instances(Some(instances(targets)));
                self.runner.call(permit, request.send()).await.map(|_| GroupAnswer::Done)
            }
        }
    }

    async fn classic_tags(&self, permit: Permit, name: &str) -> Result<GroupTags, CloudError> {
        let action = permit.action;
        let request = self.classic.describe_tags().load_balancer_names(name);
        let answer = self.runner.call(permit, request.send()).await?;
        let described = answer.tag_descriptions().first();
        let described = described
            .ok_or_else(|| CloudError::answered(action, "LoadBalancerNotFound", "its tags are not described"))?;
        let tags = described.tags().iter();
        let tags = tags.map(|tag| (tag.key().to_owned(), tag.value().unwrap_or_default().to_owned()));
        Ok(tags.collect())
    }
}

fn instances(targets: &[Target]) -> Vec<classic::types::Instance> {
    let instance = |target: &Target| classic::types::Instance::builder().instance_id(&target.id).build();
    targets.iter().map(instance).collect()
}

/// Converts the state of an instance. `OutOfService` has several causes, which the reason code distinguishes.
fn instance_health(shown: &classic::types::InstanceState) -> Option<(Target, Health)> {
    let target = Target { id: shown.instance_id()?.to_owned(), port: None };
    let drains = shown.description().is_some_and(|description| description.contains(CLASSIC_DRAINING));
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
    fn a_classic_instance_state_is_read_from_its_description() {
        let registering = "Instance registration is still in progress.";
        let draining = "Instance deregistration currently in progress.";
        let table = [
            ("InService", "N/A", "N/A", TargetState::Healthy, None),
            ("InService", "N/A", draining, TargetState::Draining, None),
            ("OutOfService", "ELB", registering, TargetState::Initial, Some("ELB")),
            ("OutOfService", "Instance", "failed", TargetState::Unhealthy, Some("Instance")),
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
            assert_eq!((health.state, health.reason.as_deref()), (expected, reason), "{state} {description}");
        }
    }
}
