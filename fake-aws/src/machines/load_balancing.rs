//! Targets of load balancers, as the API reference of Elastic Load Balancing describes them
//! (<https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_DeregisterTargets.html>): the health
//! check of a target begins some time after its registration, and the target drains for the delay of its group after
//! its deregistration.

use std::collections::BTreeMap;
use std::time::Duration;

use capa_api::common::Tags;
use capa_api::machine::InstanceState;
use jiff::Timestamp;

use capa_cloud::CloudError;
use capa_cloud::targets::{Group, GroupAnswer, GroupCall, GroupRequest, Health, Target, TargetKind, TargetState};

use super::audit::Change;
use super::instances::LaunchedInstance;
use super::region::Region;
use super::target_group::{Registration, TargetGroup};
use super::time::after;

/// Time after a registration before the first health check of the target.
const INITIAL: Duration = Duration::from_secs(20);

impl Region {
    /// Adds a target group or a Classic Load Balancer, whose targets drain for `delay`.
    pub fn target_group(&mut self, group: Group, kind: TargetKind, delay: Duration) -> &mut Self {
        let new = TargetGroup { kind, delay, targets: BTreeMap::new(), tags: Tags::new(), vpc_id: None };
        self.groups.insert(group, new);
        self
    }

    /// Sets the VPC of a target group. A new group belongs to no VPC, as one of Lambda functions.
    pub fn place_group(&mut self, group: &Group, vpc_id: &str) -> &mut Self {
        if let Some(group) = self.groups.get_mut(group) {
            group.vpc_id = Some(vpc_id.to_owned());
        }
        self
    }

    /// The kinds of the targets of all target groups of a VPC, by ARN.
    pub(super) fn target_kinds_in(&self, vpc_id: &str) -> Vec<(String, TargetKind)> {
        let groups = self.groups.iter();
        let of_vpc = groups.filter_map(|(group, state)| match group {
            Group::TargetGroup(arn) if state.vpc_id.as_deref() == Some(vpc_id) => {
                Some((arn.clone(), state.kind.clone()))
            }
            _ => None,
        });
        of_vpc.collect()
    }

    /// The tags of target groups, by ARN; `None` if one of the groups does not exist.
    pub(super) fn target_group_tags(&self, arns: &[String]) -> Option<Vec<(String, Tags)>> {
        let tags = |arn: &String| {
            let group = self.groups.get(&Group::TargetGroup(arn.clone()))?;
            Some((arn.clone(), group.tags.clone()))
        };
        arns.iter().map(tags).collect()
    }

    /// The kind of the targets of a target group.
    pub(super) fn target_kind(&self, arn: &str) -> Option<TargetKind> {
        let group = self.groups.get(&Group::TargetGroup(arn.to_owned()))?;
        Some(group.kind.clone())
    }

    /// Tags a group.
    pub fn tag_group(&mut self, group: &Group, key: &str, value: &str) -> &mut Self {
        if let Some(group) = self.groups.get_mut(group) {
            group.tags.insert(key.to_owned(), value.to_owned());
        }
        self
    }

    /// Takes a tag off a group.
    pub fn untag_group(&mut self, group: &Group, key: &str) -> &mut Self {
        if let Some(group) = self.groups.get_mut(group) {
            group.tags.remove(key);
        }
        self
    }

    /// Makes an instance fail the health checks of all groups from now on.
    pub fn fail_health_checks(&mut self, id: &str) -> &mut Self {
        self.unhealthy.insert(id.to_owned());
        self
    }

    /// The ids of the registered and draining targets of a group.
    pub fn targets_of(&mut self, now: Timestamp, group: &Group) -> Vec<String> {
        self.let_go(now);
        let group = self.groups.get(group);
        let targets = group.into_iter().flat_map(|group| group.targets.keys());
        targets.map(|target| target.id.clone()).collect()
    }

    /// The groups from which an instance still gets traffic, each with the time of the deregistration, if any, and the
    /// duration of the draining.
    pub fn traffic_of(&mut self, now: Timestamp, id: &str) -> Vec<(Group, Option<Timestamp>, Duration)> {
        // Ended instances are not removed here, because the call in question may have ended them.
        let address = self.instances.get(id).map(LaunchedInstance::private_address);
        let of_it = |target: &Target| target.id == id || Some(&target.id) == address.as_ref();
        let mut traffic = Vec::new();
        for (group, state) in &mut self.groups {
            state.forget_drained(now);
            let found = state.targets.iter().find(|(target, _)| of_it(target));
            traffic.extend(found.map(|(_, registration)| (group.clone(), registration.deregistered, state.delay)));
        }
        traffic
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
        let missing = || {
            let code = match call.group {
                Group::TargetGroup(_) => "TargetGroupNotFound",
                Group::Classic(_) => "LoadBalancerNotFound",
            };
            CloudError::answered(call.action(), code, "One or more target groups not found")
        };
        if let GroupRequest::Register(targets) = &call.request {
            self.check_targets(now, call.action(), targets)?;
        }
        let health = match &call.request {
            GroupRequest::Health => self.health(now, &call.group),
            _ => Vec::new(),
        };
        let group = self.groups.get_mut(&call.group).ok_or_else(missing)?;
        let answer = match &call.request {
            GroupRequest::Facts => GroupAnswer::Facts(group.facts()),
            GroupRequest::Tags => GroupAnswer::Tags(group.tags.clone().into_iter().collect()),
            GroupRequest::Health => GroupAnswer::Health(health),
            GroupRequest::Delay => GroupAnswer::Delay(group.delay),
            GroupRequest::Register(targets) => {
                for target in targets {
                    let fresh = Registration { since: now, deregistered: None };
                    let known = group.targets.entry(target.clone()).or_insert(fresh);
                    if known.deregistered.is_some() {
                        *known = fresh;
                    }
                }
                GroupAnswer::Done
            }
            GroupRequest::Deregister(targets) => {
                for target in targets {
                    if let Some(known) = group.targets.get_mut(target) {
                        known.deregistered.get_or_insert(now);
                    }
                }
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
        let instances = &self.instances;
        for group in self.groups.values_mut() {
            group.forget_drained(now);
            group.targets.retain(|target, registration| {
                let instance = instances.get(&target.id);
                registration.deregistered.is_some() || instance.is_none_or(|instance| instance.is_live(now))
            });
        }
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
        let Some(group) = self.groups.get(group) else {
            return Vec::new();
        };
        let targets = group.targets.iter().map(|(target, registration)| {
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
