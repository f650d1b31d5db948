//! The calls of machines about targets of load balancers. The health check of a target begins some time after its
//! registration.

use std::time::Duration;

use capa_api::machine::InstanceState;
use jiff::Timestamp;

use capa_cloud::CloudError;
use capa_cloud::targets::{Group, GroupAnswer, GroupCall, GroupRequest, Health, Target, TargetState};

use super::audit::Change;
use super::instances::LaunchedInstance;
use super::region::Region;
use super::time::after;
use crate::elb::Registration;

/// Time after a registration before the first health check of the target.
const INITIAL: Duration = Duration::from_secs(20);

impl Region {
    /// Makes an instance fail the health checks of all groups from now on.
    pub fn fail_health_checks(&mut self, id: &str) -> &mut Self {
        self.unhealthy.insert(id.to_owned());
        self
    }

    /// The ids of the registered and draining targets of a group.
    pub fn targets_of(&mut self, now: Timestamp, group: &Group) -> Vec<String> {
        self.let_go(now);
        let elb = self.network.elb();
        elb.targets_of(group).map(|(target, _)| target.id.clone()).collect()
    }

    /// The groups from which an instance still gets traffic, each with the time of the deregistration, if any, and the
    /// duration of the draining.
    pub fn traffic_of(&mut self, now: Timestamp, id: &str) -> Vec<(Group, Option<Timestamp>, Duration)> {
        // Ended instances are not removed here, because the call in question may have ended them.
        let address = self.instances.get(id).map(LaunchedInstance::private_address);
        let of_it = |target: &Target| target.id == id || Some(&target.id) == address.as_ref();
        let mut elb = self.network.elb();
        elb.remove_targets(now, |_| false);
        let registration = |group: &Group| elb.targets_of(group).find(|(target, _)| of_it(target));
        let traffic = elb.groups().filter_map(|group| {
            let (_, registration) = registration(group)?;
            Some((group.clone(), registration.deregistered, elb.delay_of(group)))
        });
        traffic.collect()
    }

    /// The groups in which an instance or its former address is registered and not draining.
    pub fn registered_in(&mut self, now: Timestamp, id: &str) -> Vec<Group> {
        self.let_go(now);
        let traffic = self.traffic_of(now, id).into_iter();
        let stays = traffic.filter(|(_, deregistered, _)| deregistered.is_none());
        stays.map(|(group, ..)| group).collect()
    }

    pub(super) fn group_call(
        &mut self,
        now: Timestamp,
        access_key: &str,
        call: &GroupCall,
    ) -> Result<GroupAnswer, CloudError> {
        self.let_go(now);
        if let GroupRequest::Register(targets) = &call.request {
            self.check_targets(now, call.action(), targets)?;
        }
        let facts = self.network.elb().known_group(call.action(), &call.group)?;
        let answer = match &call.request {
            GroupRequest::Facts => GroupAnswer::Facts(facts),
            GroupRequest::Tags => {
                let tags = self.network.elb().tags_mut(call.group.id()).cloned();
                GroupAnswer::Tags(tags.unwrap_or_default().into_iter().collect())
            }
            GroupRequest::Health => GroupAnswer::Health(self.health(now, &call.group)),
            GroupRequest::Delay => GroupAnswer::Delay(self.network.elb().delay_of(&call.group)),
            GroupRequest::Register(targets) => {
                self.network.elb().register(now, &call.group, targets);
                GroupAnswer::Done
            }
            GroupRequest::Deregister(targets) => {
                self.network.elb().deregister(now, &call.group, targets);
                GroupAnswer::Done
            }
        };
        self.record_targets(now, access_key, &call.request);
        Ok(answer)
    }

    /// Records which instances a call has registered or taken out.
    fn record_targets(&mut self, now: Timestamp, access_key: &str, request: &GroupRequest) {
        let (targets, change) = match request {
            GroupRequest::Register(targets) => (targets, Change::Registered),
            GroupRequest::Deregister(targets) => (targets, Change::Deregistered),
            GroupRequest::Facts | GroupRequest::Health | GroupRequest::Delay | GroupRequest::Tags => return,
        };
        for target in targets {
            if let Some(id) = self.instance_of(target).map(|instance| instance.id.clone()) {
                self.record(now, access_key, &id, change);
            }
        }
    }

    /// The instance that a target names by its id or its address.
    fn instance_of(&self, target: &Target) -> Option<&LaunchedInstance> {
        let by_address = || self.instances.values().find(|instance| instance.private_address() == target.id);
        self.instances.get(&target.id).or_else(by_address)
    }

    /// Removes drained targets and the targets of ended instances. Targets by address stay.
    fn let_go(&mut self, now: Timestamp) {
        let has_ended = |target: &Target| self.instances.get(&target.id).is_some_and(|instance| !instance.is_live(now));
        self.network.elb().remove_targets(now, has_ended);
    }

    /// Refuses targets other than running instances.
    fn check_targets(&self, now: Timestamp, action: &'static str, targets: &[Target]) -> Result<(), CloudError> {
        let by_id = targets.iter().filter(|target| target.id.starts_with("i-"));
        for target in by_id {
            let instance = self.instances.get(&target.id);
            if !instance.is_some_and(|instance| instance.state(now) == InstanceState::Running) {
                let message = format!("{} is not in a running state and cannot be registered", target.id);
                return Err(CloudError::answered(action, "InvalidTarget", &message));
            }
        }
        Ok(())
    }

    fn health(&self, now: Timestamp, group: &Group) -> Vec<(Target, Health)> {
        let elb = self.network.elb();
        let targets = elb.targets_of(group).map(|(target, registration): (&Target, &Registration)| {
            let instance = self.instance_of(target);
            let answers = instance.is_some_and(|instance| {
                instance.state(now) == InstanceState::Running && !self.unhealthy.contains(&instance.id)
            });
            let state = match registration.deregistered {
                Some(_) => TargetState::Draining,
                None if now < after(registration.since, INITIAL) => TargetState::Initial,
                None if answers => TargetState::Healthy,
                None => TargetState::Unhealthy,
            };
            let reason = (state == TargetState::Unhealthy).then(|| "Target.FailedHealthChecks".to_owned());
            (target.clone(), Health { state, reason })
        });
        targets.collect()
    }
}
