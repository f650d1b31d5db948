//! The context of the AWSMachine reconciler, and what this process knows of a machine in addition to its status: the
//! progress of the recorded attempt and the permanent errors of its calls, with the waits and records that follow.

use std::sync::Arc;

use capa_api::conditions::{ConditionType, ConditionUpdate, Reason};
use capa_cloud::targets::TargetPolicy;
use capa_cloud::{Instance, MachineClouds, Timing};
use capa_runtime::reconcile::Next;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::launch::protocol::{IllegalTransition, LaunchEvent};
use super::scope::MachineScope;
use crate::blocked::Blocked;
use crate::call_fingerprint::CallFingerprint;
use crate::kubernetes_api::MachineKubernetes;
use crate::launch_memory::progress::Progress;
use crate::launch_memory::{Attempts, LaunchKind, LaunchMemory, RememberedAttempt};
use crate::time::{Moment, age};

/// The context of the AWSMachine reconciler: its clients, memory and settings.
#[derive(Clone)]
pub struct MachineContext {
    /// Kubernetes.
    pub kubernetes: Arc<dyn MachineKubernetes>,
    /// AWS.
    pub clouds: Arc<dyn MachineClouds>,
    /// Launches of this process.
    pub memory: LaunchMemory,
    /// Periods and ages.
    pub timing: Timing,
    /// Namespace of the Secrets of static identities.
    pub identity_namespace: String,
    /// Which target groups and classic load balancers machines may name.
    pub target_policy: TargetPolicy,
}

impl MachineContext {
    /// The current moment.
    pub(super) fn now(&self) -> Moment {
        Moment { time: self.kubernetes.now(), uptime: self.kubernetes.uptime() }
    }

    /// Whether AWS may not show yet what a request at this time created.
    pub(super) fn may_be_hidden(&self, requested_at: Option<&Time>) -> bool {
        requested_at.is_some_and(|at| age(at.0, self.kubernetes.now()) < self.timing.visibility_age)
    }

    /// What this process knows of the recorded attempt with this token.
    pub(super) fn remembered(&self, scope: &MachineScope, client_token: &str) -> RememberedAttempt {
        self.memory.launches().recorded_by(scope.uid(), client_token, scope.holder())
    }

    /// The answer to the call of the recorded attempt, if the answer could not be recorded yet. The answer to an
    /// earlier attempt does not count: a lookup by tags finds the instance of that attempt.
    pub(super) fn unrecorded_answer(&self, scope: &MachineScope) -> Option<Instance> {
        let answer = self.memory.answer(scope.uid())?;
        (answer.client_token.as_deref() == scope.open_token()).then_some(answer)
    }

    /// Records an answer that this process could not record before, and returns its instance. The record then contains
    /// the launch time of the instance, which may be much younger than the attempt, because a call without an answer is
    /// repeated.
    pub(super) fn record_known_answer(&self, scope: &mut MachineScope) -> Result<Option<Instance>, IllegalTransition> {
        let answer = self.unrecorded_answer(scope);
        if let Some(instance) = &answer {
            scope.record_launch(LaunchEvent::answered(instance))?;
        }
        Ok(answer)
    }

    /// Records a refusal that this process could not record before. A refused attempt has launched nothing, so its
    /// record must not prevent the use of a corrected identity or region. A deletion treats an attempt whose call this
    /// process has never made like a refused one, because an instance that the record does not name may exist in
    /// another account.
    pub(super) fn record_known_refusal(&self, scope: &mut MachineScope) -> Result<(), IllegalTransition> {
        let is_deleted = scope.machine.metadata.deletion_timestamp.is_some();
        let progress = scope.open_token().map(|token| self.remembered(scope, token).progress);
        if progress == Some(Progress::Refused) || (is_deleted && progress == Some(Progress::Recorded)) {
            scope.record_launch(LaunchEvent::Refused)?;
        }
        Ok(())
    }

    /// Waits, in a deletion, for the proof that an attempt with this token has created nothing. `holder` is the process
    /// that its record names, and `message` says what may have been created.
    ///
    /// # Errors
    /// The absence is not proven yet.
    pub(super) fn await_absence(
        &self,
        attempts: &Attempts,
        scope: &MachineScope,
        token: &str,
        holder: Option<&str>,
        message: impl Into<String>,
    ) -> Result<(), Blocked> {
        let now = self.kubernetes.uptime();
        let Some(remaining) = attempts.absence_proven_in(scope.uid(), token, holder, now, &self.timing) else {
            return Ok(());
        };
        let unconfirmed = ConditionType::InstanceReady.is_false(Reason::LaunchUnconfirmed, message);
        Err(Blocked::new(unconfirmed, Next::Requeue(remaining.min(self.timing.absence_interval()))))
    }

    /// Sets the inputs of the following calls of the pass.
    ///
    /// # Errors
    /// The permanent error of an earlier call with these inputs, until the time of the next call.
    pub(super) fn await_change(&self, scope: &mut MachineScope, inputs: CallFingerprint) -> Result<(), Blocked> {
        scope.inputs = Some(inputs);
        self.await_next_call(scope, inputs)
    }

    /// Ends the pass of a machine that has recently shown the refusal of its kind. Such a machine looks up its instance
    /// as often as a single machine would ask EC2.
    ///
    /// # Errors
    /// The refusal, unless EC2 accepts launches of the kind by now.
    pub(super) fn await_kind(&self, scope: &MachineScope, kind: LaunchKind) -> Result<(), Blocked> {
        if self.memory.kinds().is_accepted(kind) { Ok(()) } else { self.await_next_call(scope, of_kind(kind)) }
    }

    fn await_next_call(&self, scope: &MachineScope, inputs: CallFingerprint) -> Result<(), Blocked> {
        let (refusals, now) = (self.memory.refusals(), self.kubernetes.uptime());
        match refusals.active_backoff(scope.uid(), inputs, now, &self.timing) {
            None => Ok(()),
            Some(refusal) => Err(Blocked::new(refusal.condition, refusal.next)),
        }
    }

    /// Remembers a permanent error of a call with the inputs of the pass. The flow is then blocked until the next call
    /// is due.
    pub(super) fn remember_refusal(&self, scope: &MachineScope, blocked: Blocked) -> Blocked {
        match scope.inputs {
            Some(inputs) if blocked.is_refused() => self.remember(scope, inputs, blocked.condition),
            _ => blocked,
        }
    }

    /// Remembers that EC2 refuses all launches of a kind, and returns the block of the launch.
    pub(super) fn remember_refused_kind(
        &self,
        scope: &MachineScope,
        kind: LaunchKind,
        condition: ConditionUpdate,
    ) -> Blocked {
        self.remember(scope, of_kind(kind), condition)
    }

    fn remember(&self, scope: &MachineScope, inputs: CallFingerprint, condition: ConditionUpdate) -> Blocked {
        let (refusals, now) = (self.memory.refusals(), self.kubernetes.uptime());
        let next = refusals.refused(scope.uid(), inputs, condition.clone(), now, &self.timing);
        Blocked::new(condition, next)
    }
}

fn of_kind(kind: LaunchKind) -> CallFingerprint {
    CallFingerprint::of(&"launch of its kind", &kind)
}
