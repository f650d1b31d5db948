//! The outcome of a step. Pure.

use std::time::Duration;

use capa_api::conditions::Reason;

use super::reference::Ref;

/// A step that was taken.
pub(super) struct Taken {
    pub(super) target: Ref,
    pub(super) action: &'static str,
    pub(super) failure: Option<Failure>,
}

/// Why a call has not done what it was made for.
pub(super) struct Failure {
    pub(super) reason: Reason,
    pub(super) message: String,
    /// Whether the next look may show more, so that nobody has to do anything.
    pub(super) is_transient: bool,
    /// Whether nobody knows what the call has done.
    pub(super) is_unanswered: bool,
    /// When the provider's own limits allow the call.
    pub(super) retry_after: Option<Duration>,
}

impl Taken {
    /// Whether nobody knows what the call has done.
    pub(super) fn is_unanswered(&self) -> bool {
        self.failure.as_ref().is_some_and(|failure| failure.is_unanswered)
    }
}
