//! The targets of an account's load balancers, whose health checks and draining moto does not simulate: a target is
//! `healthy` as long as its instance runs and serves, and `draining` for the deregistration delay of its group.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use super::super::instances::{Instances, RUNNING, STOPPED, STOPPING};

/// The load balancer object that targets are registered with.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Group {
    /// A target group, by its ARN.
    TargetGroup(String),
    /// A classic load balancer, by region and name.
    Classic(String, String),
}

/// A registered target: an instance or an address, and a port.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct TargetId {
    /// Instance id or IPv4 address.
    pub(super) id: String,
    /// The port; zero for a classic load balancer, where the listeners define the ports.
    pub(super) port: u16,
}

/// The health of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Health {
    /// The target passes its health checks and receives traffic.
    Healthy,
    /// The instance of the target does not serve.
    Unhealthy,
    /// The target is deregistered, and its open connections may complete.
    Draining,
    /// The instance of the target is stopped.
    Stopped,
    /// No load balancer uses the target's group.
    NotInUse,
    /// The target is not registered.
    NotRegistered,
}

/// The properties of a target's group.
#[derive(Clone, Copy, Debug)]
pub(super) struct GroupFacts<'a> {
    /// The VPC that addresses belong to.
    pub(super) vpc_id: &'a str,
    /// Whether a load balancer forwards traffic to the group.
    pub(super) in_use: bool,
}

/// The targets of one account, and the settings that determine their health.
#[derive(Debug, Default)]
pub(in crate::aws_proxy) struct Targets {
    /// The targets of each group, with the end of draining of those that are deregistered.
    groups: BTreeMap<Group, BTreeMap<TargetId, Option<Instant>>>,
    /// Whether targets drain for ever.
    pub(in crate::aws_proxy) stuck: bool,
    serving: Serving,
}

/// The instances that serve their ports.
#[derive(Debug, Default)]
struct Serving {
    /// Whether only the named instances serve; otherwise all running instances do.
    reported: bool,
    named: BTreeSet<String>,
}

impl Targets {
    /// Sets whether only the instances that [`Targets::set_serving`] names serve, or all running instances.
    pub(in crate::aws_proxy) fn set_reported(&mut self, reported: bool) {
        self.serving.reported = reported;
    }

    pub(in crate::aws_proxy) fn set_serving(&mut self, instance: &str, serves: bool) {
        if serves {
            self.serving.named.insert(instance.to_owned());
        } else {
            self.serving.named.remove(instance);
        }
    }

    /// Registers a target. A registered target keeps its state; a draining one starts anew.
    pub(super) fn register(&mut self, group: &Group, target: TargetId, now: Instant) {
        self.forget_drained(now);
        self.groups.entry(group.clone()).or_default().insert(target, None);
    }

    /// Deregisters a target, which then drains for `delay`. A target that is not registered stays so.
    pub(super) fn deregister(&mut self, group: &Group, target: &TargetId, delay: Duration, now: Instant) {
        if let Some(drained) = self.groups.get_mut(group).and_then(|targets| targets.get_mut(target)) {
            drained.get_or_insert(now + delay);
        }
        self.forget_drained(now);
    }

    /// The targets of a group that are registered or draining.
    pub(super) fn of(&mut self, group: &Group, instances: &Instances, now: Instant) -> Vec<TargetId> {
        self.forget_drained(now);
        self.drop_terminated(group, instances, now);
        let targets = self.groups.get(group);
        targets.map(|targets| targets.keys().cloned().collect()).unwrap_or_default()
    }

    /// The health of a target of a group.
    pub(super) fn health(
        &mut self,
        group: &Group,
        facts: GroupFacts<'_>,
        target: &TargetId,
        instances: &Instances,
        now: Instant,
    ) -> Health {
        self.forget_drained(now);
        self.drop_terminated(group, instances, now);
        match self.groups.get(group).and_then(|targets| targets.get(target)) {
            None => return Health::NotRegistered,
            Some(Some(_)) => return Health::Draining,
            Some(None) => {}
        }
        if !facts.in_use {
            return Health::NotInUse;
        }
        let instance = instance_of(target, facts.vpc_id, instances, now);
        let state = instance.as_deref().map(|instance| instances.state(instance, now));
        if is_instance(target) && [Some(STOPPING), Some(STOPPED)].contains(&state) {
            return Health::Stopped;
        }
        let serves = instance.is_some_and(|instance| self.serving.is(&instance));
        if serves && state == Some(RUNNING) { Health::Healthy } else { Health::Unhealthy }
    }

    fn forget_drained(&mut self, now: Instant) {
        if self.stuck {
            return;
        }
        for targets in self.groups.values_mut() {
            targets.retain(|_, drained| drained.is_none_or(|until| now < until));
        }
    }

    /// Drops the instance ids of terminated instances, as AWS does by itself; addresses stay registered.
    fn drop_terminated(&mut self, group: &Group, instances: &Instances, now: Instant) {
        if let Some(targets) = self.groups.get_mut(group) {
            targets.retain(|target, drained| {
                drained.is_some() || !is_instance(target) || !instances.is_over(&target.id, now)
            });
        }
    }
}

impl Serving {
    fn is(&self, instance: &str) -> bool {
        !self.reported || self.named.contains(instance)
    }
}

/// The instance behind a target.
pub(super) fn instance_of(target: &TargetId, vpc_id: &str, instances: &Instances, now: Instant) -> Option<String> {
    if is_instance(target) {
        return Some(target.id.clone());
    }
    instances.at_address(vpc_id, &target.id, now)
}

/// Whether a target is named by an instance's id rather than by an address.
pub(super) fn is_instance(target: &TargetId) -> bool {
    target.id.starts_with("i-")
}

#[cfg(test)]
mod tests {
    use super::super::super::instances::Address;
    use super::*;

    const HOUR: Duration = Duration::from_hours(1);
    const USED: GroupFacts<'_> = GroupFacts { vpc_id: "vpc-1", in_use: true };

    fn group() -> Group {
        Group::TargetGroup("arn".into())
    }

    fn target(id: &str) -> TargetId {
        TargetId { id: id.into(), port: 6443 }
    }

    fn running(now: Instant) -> Instances {
        let mut instances = Instances::default();
        instances.launched("i-1", "eu-west-1", None, now);
        let address = Address { vpc_id: "vpc-1".into(), private_ip: "10.0.0.7".into() };
        instances.addressed("i-1", address);
        instances
    }

    fn health(targets: &mut Targets, id: &str, instances: &Instances, now: Instant) -> Health {
        targets.health(&group(), USED, &target(id), instances, now)
    }

    #[test]
    fn a_target_is_as_healthy_as_its_instance() {
        let start = Instant::now();
        for id in ["i-1", "10.0.0.7"] {
            let mut instances = running(start);
            let mut targets = Targets::default();
            assert_eq!(health(&mut targets, id, &instances, start), Health::NotRegistered);
            targets.register(&group(), target(id), start);
            let later = start + HOUR;
            assert_eq!(health(&mut targets, id, &instances, later), Health::Healthy);
            targets.set_reported(true);
            assert_eq!(health(&mut targets, id, &instances, later), Health::Unhealthy);
            targets.set_serving("i-1", true);
            assert_eq!(health(&mut targets, id, &instances, later), Health::Healthy);
            instances.stopped("i-1", later);
            let stopped = if id == "i-1" { Health::Stopped } else { Health::Unhealthy };
            assert_eq!(health(&mut targets, id, &instances, later), stopped);
        }
    }

    #[test]
    fn a_group_that_nothing_uses_has_no_healthy_targets() {
        let start = Instant::now();
        let mut targets = Targets::default();
        targets.register(&group(), target("i-1"), start);
        let unused = GroupFacts { in_use: false, ..USED };
        let found = targets.health(&group(), unused, &target("i-1"), &running(start), start);
        assert_eq!(found, Health::NotInUse);
    }

    #[test]
    fn a_deregistered_target_drains_for_its_delay_unless_stuck() {
        let start = Instant::now();
        let instances = running(start);
        let mut targets = Targets::default();
        targets.register(&group(), target("i-1"), start);
        targets.deregister(&group(), &target("i-1"), HOUR, start);
        targets.deregister(&group(), &target("i-1"), HOUR, start + HOUR / 2);
        assert_eq!(health(&mut targets, "i-1", &instances, start), Health::Draining);
        targets.stuck = true;
        assert_eq!(health(&mut targets, "i-1", &instances, start + HOUR), Health::Draining);
        assert_eq!(targets.of(&group(), &instances, start + HOUR), [target("i-1")]);
        targets.stuck = false;
        assert_eq!(health(&mut targets, "i-1", &instances, start + HOUR), Health::NotRegistered);
        targets.register(&group(), target("i-1"), start);
        targets.deregister(&group(), &target("i-1"), HOUR, start);
        targets.register(&group(), target("i-1"), start);
        assert_eq!(health(&mut targets, "i-1", &instances, start + HOUR), Health::Healthy);
    }

    #[test]
    fn a_terminated_instance_leaves_its_group_and_an_address_stays() {
        let start = Instant::now();
        let mut instances = running(start);
        let mut targets = Targets::default();
        for id in ["i-1", "10.0.0.7"] {
            targets.register(&group(), target(id), start);
        }
        instances.terminated("i-1", start);
        assert_eq!(targets.of(&group(), &instances, start), [target("10.0.0.7")]);
        assert_eq!(health(&mut targets, "10.0.0.7", &instances, start), Health::Unhealthy);
    }
}
