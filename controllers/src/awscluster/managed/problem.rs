//! What keeps a resource from being as the spec asks until a person changes something. Pure.

use capa_api::conditions::Reason;

use super::reference::Ref;

/// Something that no call of the provider mends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    /// What has the problem.
    pub(crate) target: Ref,
    /// The reason of the condition.
    pub(crate) reason: Reason,
    /// The message of the condition: what is wrong, and what to do.
    pub(crate) message: String,
}
