//! The reason why an identity cannot be used. Pure.

use capa_api::conditions::{ConditionType, ConditionUpdate, Reason};

/// The reason why an identity cannot be used, in the form of the condition `IdentityReady`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdentityProblem {
    /// `NotFound`, `NotAllowed`, `SourceNotAllowed` or `CredentialsFailed`.
    pub reason: Reason,
    /// The affected object and the corrective action.
    pub message: String,
}

impl IdentityProblem {
    pub(super) fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self {
            reason,
            message: message.into(),
        }
    }

    /// The condition that reports the problem.
    pub fn condition(&self) -> ConditionUpdate {
        ConditionType::IdentityReady.is_false(self.reason, self.message.clone())
    }
}
