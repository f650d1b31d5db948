//! The result of a step of a plan. Pure.

use std::time::Duration;

use capa_api::conditions::Reason;

use super::reference::Ref;

/// A step whose call was made, with its outcome.
pub(super) struct StepResult {
    pub(super) target: Ref,
    pub(super) action: &'static str,
    pub(super) failure: Option<Failure>,
}

/// The reason why a call did not succeed.
pub(super) struct Failure {
    pub(super) reason: Reason,
    pub(super) message: String,
    /// Whether the next observation may resolve the failure without action by a user.
    pub(super) is_transient: bool,
    /// Whether the outcome of the call is unknown.
    pub(super) is_unanswered: bool,
    /// The time after which the provider's own rate limits allow the call.
    pub(super) retry_after: Option<Duration>,
}

impl StepResult {
    /// Whether the outcome of the call is unknown.
    pub(super) fn is_unanswered(&self) -> bool {
        self.failure.as_ref().is_some_and(|failure| failure.is_unanswered)
    }
}
