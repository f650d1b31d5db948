//! Targets of load balancers: the desired registrations of instances, their actual registrations and their health.
//!
//! [`Targets`] is the whole logic for one identity in one region, without clock, calls or tasks. A machine states the
//! desired state of its instance ([`Targets::want`]) and is woken when the registration state changes. The driver takes
//! the calls that are due ([`Targets::begin`]), makes them, and passes in their answers ([`Targets::ended`]).
//!
//! Each group is read once per `Timing::target_interval` for all machines together, and a lost registration is made
//! again. A group is read more often only while a registration or deregistration is in progress.

mod access;
mod group;
mod member;
mod model;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

pub use access::{GroupTags, Refusal, TargetAccess, TargetPolicy, TargetRequest, TargetUser};
use group::GroupState;
pub use model::{
    Desired, Group, GroupAnswer, GroupCall, GroupFacts, GroupReport, GroupRequest, Health, RegistrationState, Target,
    TargetInstance, TargetState,
};

use crate::{CloudError, ErrorClass, MachineKey, Timing};

/// The target groups and Classic Load Balancers of all machines. The time is an argument, counted from any fixed
/// origin.
pub struct Targets {
    timing: Timing,
    groups: BTreeMap<Group, GroupState>,
    woken: BTreeSet<MachineKey>,
    /// The time until which a registration of a caller that is gone may still take effect. At the start, that caller is
    /// a previous process.
    late_until: Option<Duration>,
}

impl Targets {
    /// A set without groups. No call is due until a machine states a desired state.
    pub fn new(timing: Timing) -> Self {
        Self { timing, groups: BTreeMap::new(), woken: BTreeSet::new(), late_until: None }
    }

    /// Sets the desired state of a machine's instance in each of `targets`, and returns the registration states in the
    /// order of `targets`. From the first call on, the machine is woken whenever a state changes, until
    /// [`Targets::forget`].
    pub fn want(
        &mut self,
        machine: &MachineKey,
        instance: &TargetInstance,
        targets: &[TargetRequest],
        desired: Desired,
        now: Duration,
    ) -> Vec<RegistrationState> {
        self.drop_unnamed(machine, targets);
        let timing = self.timing;
        let want = |(request, state): (&TargetRequest, &mut GroupState)| {
            state.want(machine, instance, request, desired, &timing, now)
        };
        self.named(targets, now, want)
    }

    /// Asks whether the control plane of a machine that has no instance yet may use each of `targets`, and returns the
    /// answers in the order of `targets`. The machine is woken when an answer that did not grant access changes, until
    /// [`Targets::want`] or [`Targets::forget`].
    pub fn ask(&mut self, machine: &MachineKey, targets: &[TargetRequest], now: Duration) -> Vec<TargetAccess> {
        self.drop_unnamed(machine, targets);
        let timing = self.timing;
        let ask = |(request, state): (&TargetRequest, &mut GroupState)| state.ask(machine, &request.user, &timing, now);
        self.named(targets, now, ask)
    }

    /// Applies `act` to the group of each target.
    fn named<T>(
        &mut self,
        targets: &[TargetRequest],
        now: Duration,
        mut act: impl FnMut((&TargetRequest, &mut GroupState)) -> T,
    ) -> Vec<T> {
        let late_until = *self.late_until.get_or_insert(now + self.timing.late_registration);
        let groups = &mut self.groups;
        let act = |request: &TargetRequest| {
            let group = Group::of(&request.target)?;
            let new = || GroupState::new(&group, late_until);
            Some(act((request, groups.entry(group.clone()).or_insert_with(new))))
        };
        targets.iter().filter_map(act).collect()
    }

    /// Ends a machine's interest in the groups and ports that its spec no longer names.
    fn drop_unnamed(&mut self, machine: &MachineKey, targets: &[TargetRequest]) {
        for (group, state) in &mut self.groups {
            let of_group = targets.iter().filter(|request| Group::of(&request.target).as_ref() == Some(group));
            let ports = of_group.map(|request| request.target.port).collect();
            state.keep(machine, &ports);
        }
        self.groups.retain(|_, state| state.busy || !state.is_empty());
    }

    /// Ends a machine's interest in all groups. Its targets stay registered.
    pub fn forget(&mut self, machine: &MachineKey) {
        self.woken.remove(machine);
        for state in self.groups.values_mut() {
            state.forget(machine);
        }
        self.groups.retain(|_, state| state.busy || !state.is_empty());
    }

    /// Forgets the answers of AWS about all groups, and discards the answers to calls that are under way: other
    /// credentials may have made the calls.
    pub fn forget_answers(&mut self) {
        for state in self.groups.values_mut() {
            state.forget_answers();
        }
    }

    /// The next call that is due. The call counts as under way until [`Targets::ended`]. The driver repeats this until
    /// no call is due.
    pub fn begin(&mut self, now: Duration) -> Option<GroupCall> {
        for (group, state) in &mut self.groups {
            if state.due.is_none_or(|due| now < due) {
                continue;
            }
            self.woken.extend(state.news(&self.timing, now));
            if let Some(request) = state.begin(&self.timing, now) {
                return Some(GroupCall {
                    group: group.clone(),
                    request,
                    urgent: state.is_urgent(),
                    cluster: state.cluster(),
                });
            }
        }
        None
    }

    /// The time at which [`Targets::begin`] next has a call if nothing happens before; a time in the past means now.
    pub fn next_due(&self) -> Option<Duration> {
        let idle = self.groups.values().filter(|state| !state.busy);
        idle.filter_map(|state| state.due).min()
    }

    /// Applies the answer to a call, and returns the log entry for the answer.
    pub fn ended(
        &mut self,
        call: &GroupCall,
        answer: Result<GroupAnswer, CloudError>,
        now: Duration,
    ) -> Option<GroupReport> {
        let unanswered = answer.as_ref().is_err_and(|error| error.class == ErrorClass::NoAnswer);
        if unanswered && matches!(call.request, GroupRequest::Register(_)) {
            // The new limit applies also to a group that is forgotten now and added again later.
            self.late_until = Some(now + self.timing.late_registration);
        }
        let state = self.groups.get_mut(&call.group)?;
        let report = state.report(call, &answer);
        state.ended(&call.request, answer, &self.timing, now);
        self.woken.extend(state.news(&self.timing, now));
        if state.is_empty() {
            self.groups.remove(&call.group);
        }
        report
    }

    /// Number of kept machines and groups.
    pub fn entries(&self) -> usize {
        self.woken.len() + self.groups.values().map(|state| 1 + state.members()).sum::<usize>()
    }

    /// The machines whose registration states changed since the last call of this function.
    pub fn take_woken(&mut self) -> BTreeSet<MachineKey> {
        std::mem::take(&mut self.woken)
    }
}
