//! The state of one session.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::informer::{Epoch, InstanceInformer};
use crate::targets::{Access, Desired, RegistrationState, TargetInstance, TargetRequest};
use crate::{CloudError, Instance, MachineKey, Observation, Timing};

use super::account::AccountCache;
use super::calls::{EndedCall, SessionCall, SessionReport};
use super::moment::Moment;

/// A session by the key of its identity and its region.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionKey {
    /// [`ResolvedIdentity::key`](crate::ResolvedIdentity::key).
    pub identity: String,
    /// Region.
    pub region: String,
}

/// What one session knows: the account of its credentials, and what its informer has seen of instances and targets.
pub struct SessionState {
    /// The account of the credentials.
    pub account: AccountCache,
    informer: InstanceInformer,
}

impl SessionState {
    /// The state of an unused session. It wants no call until a machine uses it.
    pub fn new(timing: Timing) -> Self {
        Self {
            account: AccountCache::new(&timing),
            informer: InstanceInformer::new(timing),
        }
    }

    /// The informer, to be read.
    pub fn informer(&self) -> &InstanceInformer {
        &self.informer
    }

    /// The next call that is due. Call it until it gives none.
    pub fn next_call(&mut self, now: Duration) -> Option<SessionCall> {
        if let Some(read) = self.informer.next_read(now) {
            return Some(SessionCall::Read(read));
        }
        if let Some(batch) = self.informer.next_termination(now) {
            return Some(SessionCall::Terminate(batch));
        }
        self.informer.next_target_call(now).map(SessionCall::Targets)
    }

    /// The answer to such a call, and what is to be logged of it.
    pub fn call_ended(&mut self, ended: EndedCall, now: Duration) -> Vec<SessionReport> {
        match ended {
            EndedCall::Read(read, answer) => {
                let reports = self.informer.read_ended(read, answer, now);
                reports.into_iter().map(SessionReport::Instances).collect()
            }
            EndedCall::Terminate(batch, answer) => {
                self.informer.termination_ended(batch, answer);
                Vec::new()
            }
            EndedCall::Targets(call, answer) => {
                let report = self.informer.target_call_ended(&call, answer, now);
                report.map(SessionReport::Targets).into_iter().collect()
            }
        }
    }

    /// When [`SessionState::next_call`] will have a call if nothing happens before; a time in the past means now.
    pub fn next_due(&self) -> Option<Duration> {
        self.informer.next_due()
    }

    /// The machines to wake since the last call of this function.
    pub fn take_woken(&mut self) -> BTreeSet<MachineKey> {
        self.informer.take_woken()
    }

    /// Ends the session's interest for a machine.
    pub fn forget(&mut self, machine: &MachineKey) {
        self.informer.forget(machine);
    }

    pub(super) fn belongs_to(&mut self, account: &str) {
        self.informer.belongs_to(account);
    }

    pub(super) fn lookup_began(&mut self) -> Epoch {
        self.informer.lookup_began()
    }

    /// What a lookup found also enters the informer, so that an adopted instance is known at once.
    pub(super) fn lookup_ended(&mut self, began: Epoch, found: &[Instance]) {
        self.informer.lookup_ended(began, found);
    }

    /// What is known of an instance. From the first call on the machine is woken whenever that changes.
    pub fn observe(&mut self, machine: &MachineKey, id: &str, at: Moment) -> Observation {
        self.informer.credentials_replaced(at.replacements);
        self.informer.watch(machine, id)
    }

    pub(super) fn launched(&mut self, machine: &MachineKey, instance: &Instance, at: Moment) {
        self.informer.launched(instance);
        self.observe(machine, &instance.id, at);
    }

    pub(super) fn terminate(&mut self, machine: &MachineKey, id: &str, at: Moment) -> Result<(), CloudError> {
        self.informer.terminate(machine, id, at.now)
    }

    pub(super) fn want_targets(
        &mut self,
        machine: &MachineKey,
        instance: &TargetInstance,
        targets: &[TargetRequest],
        desired: Desired,
        at: Moment,
    ) -> Vec<RegistrationState> {
        self.informer.credentials_replaced(at.replacements);
        self.informer.want_targets(machine, instance, targets, desired, at.now)
    }

    pub(super) fn ask_for_targets(
        &mut self,
        machine: &MachineKey,
        targets: &[TargetRequest],
        at: Moment,
    ) -> Vec<Access> {
        self.informer.credentials_replaced(at.replacements);
        self.informer.ask_for_targets(machine, targets, at.now)
    }

    pub(super) fn forget_targets(&mut self, machine: &MachineKey) {
        self.informer.forget_targets(machine);
    }
}
