//! The load balancer targets of the machines of an informer. They use the informer's lifetime and its wake-ups.

use std::time::Duration;

use super::InstanceInformer;
use crate::targets::{
    Desired, GroupAnswer, GroupCall, GroupReport, RegistrationState, TargetAccess, TargetInstance, TargetRequest,
};
use crate::{CloudError, MachineKey};

impl InstanceInformer {
    /// As [`Targets::want`](crate::targets::Targets::want).
    pub fn want_targets(
        &mut self,
        machine: &MachineKey,
        instance: &TargetInstance,
        targets: &[TargetRequest],
        desired: Desired,
        now: Duration,
    ) -> Vec<RegistrationState> {
        self.targets.want(machine, instance, targets, desired, now)
    }

    /// As [`Targets::ask`](crate::targets::Targets::ask).
    pub fn ask_for_targets(
        &mut self,
        machine: &MachineKey,
        targets: &[TargetRequest],
        now: Duration,
    ) -> Vec<TargetAccess> {
        self.targets.ask(machine, targets, now)
    }

    /// Forgets the targets of a machine, but not its instance. Registered targets stay registered.
    pub fn forget_targets(&mut self, machine: &MachineKey) {
        self.targets.forget(machine);
    }

    /// The next call about targets that is due. Call this function until it returns `None`.
    pub fn next_target_call(&mut self, now: Duration) -> Option<GroupCall> {
        self.targets.begin(now)
    }

    /// Processes the answer of a call about targets. Returns the reports for the log.
    pub fn target_call_ended(
        &mut self,
        call: &GroupCall,
        answer: Result<GroupAnswer, CloudError>,
        now: Duration,
    ) -> Option<GroupReport> {
        self.targets.ended(call, answer, now)
    }
}
