//! Targets of load balancers: which instances are to be registered, whether they are, and how healthy they are.
//!
//! [`Targets`] is the whole logic without time, calls or tasks of its own, for one identity in one region. Machines say
//! what they want of their instance ([`Targets::want`]) and are woken when something new is known. The driver asks for
//! the calls that are due ([`Targets::begin`]), makes them, and tells their answers ([`Targets::ended`]).
//!
//! A group is looked at once in `Timing::target_interval` for all machines together, and what was lost is registered
//! again; more often only while something is on its way.

mod access;
mod group;
mod member;
mod model;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

pub use access::{Access, GroupTags, Refusal, TargetPolicy, TargetRequest, TargetUser};
use group::GroupState;
pub use model::{
    Desired, Group, GroupAnswer, GroupCall, GroupFacts, GroupReport, GroupRequest, Health, RegistrationState, Target,
    TargetInstance, TargetKind, TargetState,
};

use crate::{CloudError, ErrorClass, MachineKey, Timing};

/// The groups that machines have targets in. Time is passed in, counted from any fixed origin.
pub struct Targets {
    timing: Timing,
    groups: BTreeMap<Group, GroupState>,
    woken: BTreeSet<MachineKey>,
    /// Until then registrations may take effect whose caller is gone: at first those of another process.
    late_until: Option<Duration>,
}

impl Targets {
    /// No groups. It wants no call until a machine wants something.
    pub fn new(timing: Timing) -> Self {
        Self {
            timing,
            groups: BTreeMap::new(),
            woken: BTreeSet::new(),
            late_until: None,
        }
    }

    /// Says what a machine wants of its instance in each of `targets`, and gives how it stands there, in their order.
    /// From the first call on the machine is woken whenever that changes, until [`Targets::forget`].
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

    /// Asks whether the control plane of a machine that has no instance yet may use each of `targets`, and gives the
    /// answers, in their order. The machine is woken when an answer that did not grant it changes, until
    /// [`Targets::want`] or [`Targets::forget`].
    pub fn ask(&mut self, machine: &MachineKey, targets: &[TargetRequest], now: Duration) -> Vec<Access> {
        self.drop_unnamed(machine, targets);
        let timing = self.timing;
        let ask = |(request, state): (&TargetRequest, &mut GroupState)| state.ask(machine, &request.user, &timing, now);
        self.named(targets, now, ask)
    }

    /// Does something with the group of each target.
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

    /// Ends a machine's interest in what it no longer names.
    fn drop_unnamed(&mut self, machine: &MachineKey, targets: &[TargetRequest]) {
        for (group, state) in &mut self.groups {
            let of_group = targets
                .iter()
                .filter(|request| Group::of(&request.target).as_ref() == Some(group));
            let ports = of_group.map(|request| request.target.port).collect();
            state.keep(machine, &ports);
        }
        self.groups.retain(|_, state| state.busy || !state.is_empty());
    }

    /// Ends a machine's interest. What is registered stays so.
    pub fn forget(&mut self, machine: &MachineKey) {
        self.woken.remove(machine);
        for state in self.groups.values_mut() {
            state.forget(machine);
        }
        self.groups.retain(|_, state| state.busy || !state.is_empty());
    }

    /// Forgets what AWS said of all groups, and what it is about to say: it may have been said to somebody else.
    pub fn forget_answers(&mut self) {
        for state in self.groups.values_mut() {
            state.forget_answers();
        }
    }

    /// The next call that is due; it counts as under way until [`Targets::ended`]. Call it until it gives none.
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
                });
            }
        }
        None
    }

    /// When [`Targets::begin`] will have something to do if nothing happens before; a time in the past means now.
    pub fn next_due(&self) -> Option<Duration> {
        let idle = self.groups.values().filter(|state| !state.busy);
        idle.filter_map(|state| state.due).min()
    }

    /// The answer to a call, and what is to be logged of it.
    pub fn ended(
        &mut self,
        call: &GroupCall,
        answer: Result<GroupAnswer, CloudError>,
        now: Duration,
    ) -> Option<GroupReport> {
        let unanswered = answer.as_ref().is_err_and(|error| error.class == ErrorClass::NoAnswer);
        if unanswered && matches!(call.request, GroupRequest::Register(_)) {
            // Also where its machine and its group are forgotten, and begin anew.
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

    /// The machines to wake since the last call of this function.
    pub fn take_woken(&mut self) -> BTreeSet<MachineKey> {
        std::mem::take(&mut self.woken)
    }
}
