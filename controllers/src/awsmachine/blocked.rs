//! How a flow ends early. Pure.

use capa_api::conditions::{ConditionType, ConditionUpdate};
use capa_cloud::{CloudError, ErrorClass};
use capa_runtime::reconcile::{Next, ReconcileError};

use super::launch::record::IllegalTransition;
use crate::kubernetes_api::{BeingRead, KubernetesError};
use crate::retry;

/// What keeps a flow from going on.
#[derive(Debug)]
pub(super) struct Blocked {
    /// The condition that says why.
    pub(super) condition: ConditionUpdate,
    /// When the flow is tried again.
    pub(super) next: Next,
    /// The class of the error, where an AWS call has failed and the error is not recorded yet.
    pub(super) cause: Option<ErrorClass>,
}

impl Blocked {
    pub(super) fn new(condition: ConditionUpdate, next: Next) -> Self {
        Self {
            condition,
            next,
            cause: None,
        }
    }

    /// Blocked by a call to AWS that failed: the error gives the reason and the time of the next pass.
    pub(super) fn by_call(condition: ConditionType, message: impl Into<String>, error: &CloudError) -> Self {
        Self::by_error(condition.is_false(error.class.reason(), message), error)
    }

    /// Blocked by a call to AWS that failed, with a condition that says more than the class of the error.
    pub(super) fn by_error(condition: ConditionUpdate, error: &CloudError) -> Self {
        Self {
            condition,
            next: retry::of_machine(error),
            cause: Some(error.class),
        }
    }

    /// Whether AWS has refused the call for good: it would refuse the same call again.
    pub(super) fn is_refused(&self) -> bool {
        self.cause.is_some_and(ErrorClass::is_permanent)
    }

    /// Whether AWS was asked too often: it can be asked a little later.
    pub(super) fn is_throttled(&self) -> bool {
        self.cause == Some(ErrorClass::Throttled)
    }
}

/// The earlier of two passes. The back-off of the object has no length of its own, and begins with the shortest.
pub(super) fn earlier(one: Next, other: Next) -> Next {
    match (one, other) {
        (Next::Retry, _) | (_, Next::Retry) => Next::Retry,
        (Next::AwaitChange, next) | (next, Next::AwaitChange) => next,
        (Next::Deferred(one), Next::Deferred(other)) => Next::Deferred(one.min(other)),
        (Next::Requeue(one) | Next::Deferred(one), Next::Requeue(other) | Next::Deferred(other)) => {
            Next::Requeue(one.min(other))
        }
    }
}

/// Why a flow has ended early.
pub(super) enum FlowError {
    /// The flow waits, as a condition says.
    Blocked(Blocked),
    /// A network source takes long to read. The pass leaves the status unchanged, and the machine is woken when the
    /// read has ended.
    Postponed,
    /// The flow waits for so short a time that the pass leaves the status unchanged; with the reason for the log.
    Waits(&'static str, Next),
    /// The pass has failed.
    Failed(ReconcileError),
}

impl From<BeingRead> for FlowError {
    fn from(_: BeingRead) -> Self {
        Self::Postponed
    }
}

impl From<Blocked> for FlowError {
    fn from(blocked: Blocked) -> Self {
        Self::Blocked(blocked)
    }
}

impl From<KubernetesError> for FlowError {
    fn from(error: KubernetesError) -> Self {
        Self::Failed(error.into())
    }
}

impl From<IllegalTransition> for FlowError {
    fn from(error: IllegalTransition) -> Self {
        Self::Failed(error.into())
    }
}
