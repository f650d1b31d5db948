//! Why a flow of a machine cannot continue, and when it is tried again. Pure.

use capa_api::conditions::{ConditionType, ConditionUpdate};
use capa_cloud::{CloudError, ErrorClass};
use capa_runtime::reconcile::Next;

use crate::retry;

/// The reason why a flow cannot continue.
#[derive(Debug)]
pub(crate) struct Blocked {
    /// The condition that says why.
    pub(crate) condition: ConditionUpdate,
    /// When the flow is tried again.
    pub(crate) next: Next,
    /// The class of the error, where an AWS call has failed and the error is not recorded yet.
    pub(crate) cause: Option<ErrorClass>,
}

impl Blocked {
    pub(crate) fn new(condition: ConditionUpdate, next: Next) -> Self {
        Self { condition, next, cause: None }
    }

    /// Blocked by a call to AWS that failed: the error gives the reason and the time of the next pass.
    pub(crate) fn by_call(condition: ConditionType, message: impl Into<String>, error: &CloudError) -> Self {
        Self::by_error(condition.is_false(error.class.reason(), message), error)
    }

    /// Blocked by a call to AWS that failed, with a condition that says more than the class of the error.
    pub(crate) fn by_error(condition: ConditionUpdate, error: &CloudError) -> Self {
        Self { condition, next: retry::of_machine(error), cause: Some(error.class) }
    }

    /// Whether AWS has refused the call for good: it would refuse the same call again.
    pub(crate) fn is_refused(&self) -> bool {
        self.cause.is_some_and(ErrorClass::is_permanent)
    }

    /// Whether AWS was asked too often: it can be asked a little later.
    pub(crate) fn is_throttled(&self) -> bool {
        self.cause == Some(ErrorClass::Throttled)
    }
}

/// The earlier of two passes. The back-off of the object has no fixed length, and starts with the shortest one.
pub(crate) fn earlier(one: Next, other: Next) -> Next {
    match (one, other) {
        (Next::Retry, _) | (_, Next::Retry) => Next::Retry,
        (Next::AwaitChange, next) | (next, Next::AwaitChange) => next,
        (Next::Deferred(one), Next::Deferred(other)) => Next::Deferred(one.min(other)),
        (Next::Requeue(one) | Next::Deferred(one), Next::Requeue(other) | Next::Deferred(other)) => {
            Next::Requeue(one.min(other))
        }
    }
}
