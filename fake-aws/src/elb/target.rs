//! The targets of target groups and Classic Load Balancers, as the API reference of Elastic Load Balancing describes
//! them (<https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_DeregisterTargets.html>): a target
//! drains for the delay of its group after its deregistration.

use std::collections::BTreeMap;
use std::time::Duration;

use capa_api::common::Tags;
use capa_cloud::CloudError;
use capa_cloud::elb::{TargetGroup, TargetType};
use capa_cloud::managed::Seen;
use capa_cloud::targets::{Group, GroupFacts, Target};
use jiff::{SignedDuration, Timestamp};

use super::Elb;

/// The attribute of a target group for the time for which its targets drain, in seconds.
pub(crate) const DELAY: &str = "deregistration_delay.timeout_seconds";

/// What a group has besides its settings.
#[derive(Clone, Debug, Default)]
pub(super) struct Targets {
    /// The connection draining of a Classic Load Balancer, which a new one does not have.
    pub(super) draining: Duration,
    /// The targets until they have drained.
    registered: BTreeMap<Target, Registration>,
}

/// A target of a group, from its registration until it has drained.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Registration {
    pub(crate) since: Timestamp,
    pub(crate) deregistered: Option<Timestamp>,
}

impl Elb {
    /// The immutable attributes of a group, if it exists.
    pub(crate) fn facts_of(&self, group: &Group) -> Option<GroupFacts> {
        match group {
            Group::TargetGroup(arn) => {
                let TargetGroup { target_type, port, .. } = &self.target_groups.get(arn)?.body;
                Some(GroupFacts { target_type: target_type.clone(), port: Some(*port) })
            }
            Group::Classic(name) => {
                let facts = GroupFacts { target_type: TargetType::Instance, port: None };
                self.classic_load_balancers.get(name).map(|_| facts)
            }
        }
    }

    /// The group that a call names.
    pub(crate) fn known_group(&self, action: &'static str, group: &Group) -> Result<GroupFacts, CloudError> {
        self.facts_of(group).ok_or_else(|| {
            let code = match group {
                Group::TargetGroup(_) => "TargetGroupNotFound",
                Group::Classic(_) => "LoadBalancerNotFound",
            };
            CloudError::answered(action, code, "One or more target groups not found")
        })
    }

    /// The tags of target groups, by ARN; `None` if one of the groups does not exist.
    pub(crate) fn target_group_tags(&self, arns: &[String]) -> Option<Vec<(String, Tags)>> {
        let tags = |arn: &String| Some((arn.clone(), self.target_groups.get(arn)?.body.tags.clone()));
        arns.iter().map(tags).collect()
    }

    /// The time for which a target drains.
    pub(crate) fn delay_of(&self, group: &Group) -> Duration {
        match group {
            Group::TargetGroup(arn) => match self.target_groups.get(arn).map(|known| &known.body.attributes) {
                Some(Seen::Shown(attributes)) => {
                    let seconds = attributes.get(DELAY).and_then(|seconds| seconds.parse().ok());
                    Duration::from_secs(seconds.unwrap_or_default())
                }
                _ => Duration::ZERO,
            },
            Group::Classic(_) => self.targets.get(group).map_or(Duration::ZERO, |targets| targets.draining),
        }
    }

    /// Registers targets with a group that exists. A draining target does not drain any more.
    pub(crate) fn register(&mut self, now: Timestamp, group: &Group, targets: &[Target]) {
        let fresh = Registration { since: now, deregistered: None };
        let registered = &mut self.targets.entry(group.clone()).or_default().registered;
        for target in targets {
            let known = registered.entry(target.clone()).or_insert(fresh);
            if known.deregistered.is_some() {
                *known = fresh;
            }
        }
    }

    /// Begins to drain targets.
    pub(crate) fn deregister(&mut self, now: Timestamp, group: &Group, targets: &[Target]) {
        let Some(known) = self.targets.get_mut(group) else {
            return;
        };
        for target in targets {
            if let Some(registration) = known.registered.get_mut(target) {
                registration.deregistered.get_or_insert(now);
            }
        }
    }

    /// Removes the targets that have drained, and those that are registered and that `is_gone`.
    pub(crate) fn remove_targets(&mut self, now: Timestamp, is_gone: impl Fn(&Target) -> bool) {
        let delays: BTreeMap<Group, Duration> =
            self.targets.keys().map(|group| (group.clone(), self.delay_of(group))).collect();
        for (group, targets) in &mut self.targets {
            let delay = delays.get(group).copied().unwrap_or_default();
            targets.registered.retain(|target, registration| match registration.deregistered {
                Some(at) => since(at, now) < delay,
                None => !is_gone(target),
            });
        }
    }

    /// The targets of a group that are registered or drain.
    pub(crate) fn targets_of(&self, group: &Group) -> impl Iterator<Item = (&Target, &Registration)> {
        self.targets.get(group).into_iter().flat_map(|targets| &targets.registered)
    }

    /// The groups that have had targets.
    pub(crate) fn groups(&self) -> impl Iterator<Item = &Group> {
        self.targets.keys()
    }
}

/// The time from one moment to a later one.
fn since(at: Timestamp, now: Timestamp) -> Duration {
    let passed: SignedDuration = now.duration_since(at);
    Duration::try_from(passed).unwrap_or_default()
}
