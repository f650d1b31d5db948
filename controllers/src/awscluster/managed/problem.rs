//! A deviation of a resource from the spec that a user must fix. Pure.

use capa_api::conditions::Reason;

use super::reference::Ref;

/// A problem that no call of the provider can fix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    /// The resource with the problem.
    pub(crate) target: Ref,
    /// The reason of the condition.
    pub(crate) reason: Reason,
    /// The message of the condition: what is wrong, and what to do.
    pub(crate) message: String,
}
