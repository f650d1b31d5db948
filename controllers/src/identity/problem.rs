//! Why an identity cannot be used. Pure.

use capa_api::conditions::{ConditionType, ConditionUpdate, Reason};

/// Why an identity cannot be used, as the `IdentityReady` condition shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdentityProblem {
    /// `NotFound`, `NotAllowed`, `SourceNotAllowed` or `CredentialsFailed`.
    pub reason: Reason,
    /// Which object, and what to do.
    pub message: String,
}

impl IdentityProblem {
    pub(super) fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self {
            reason,
            message: message.into(),
        }
    }

    /// The condition that shows it.
    pub fn condition(&self) -> ConditionUpdate {
        ConditionType::IdentityReady.is_false(self.reason, self.message.clone())
    }
}
