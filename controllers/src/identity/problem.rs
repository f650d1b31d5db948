//! The reason why an identity cannot be used, or may not make a call. Pure.

use capa_api::common::IdentityReference;
use capa_api::conditions::{ConditionType, ConditionUpdate, Reason};
use capa_cloud::{CloudError, ErrorClass};

/// The reason why an identity cannot be used, in the form of the condition `IdentityReady`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdentityProblem {
    /// `NotFound`, `NotAllowed`, `SourceNotAllowed`, `CredentialsFailed` or `Failed`.
    pub reason: Reason,
    /// The affected object and the corrective action.
    pub message: String,
}

impl IdentityProblem {
    pub(super) fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self { reason, message: message.into() }
    }

    /// The condition that reports the problem.
    pub fn condition(&self) -> ConditionUpdate {
        ConditionType::IdentityReady.is_false(self.reason, self.message.clone())
    }
}

/// The message of a condition about a failed call. The message about a refusal names the identity that may not make the
/// call. AWS's text would name the role behind it.
pub(crate) fn described(error: &CloudError, identity: &IdentityReference) -> String {
    match error.class {
        ErrorClass::Unauthorized => format!("{error}; the identity is {}/{}", identity.kind, identity.name),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_the_identity() {
        let identity = IdentityReference::controller_default();
        let said = |code| described(&CloudError::answered("RunInstances", code, "words"), &identity);
        let refused = said("UnauthorizedOperation");
        assert!(refused.ends_with("the identity is AWSClusterControllerIdentity/default"), "{refused}");
        assert_eq!(said("InvalidParameterValue"), "RunInstances: InvalidParameterValue: words");
    }
}
