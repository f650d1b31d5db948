//! Who calls: access keys, and the identity behind one.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A key pair that signs requests. The proxy does not check the secret, but every secret is unique, so that a test can
/// search logs for it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccessKey {
    /// Public half, 20 characters.
    pub access_key_id: String,
    /// Secret half.
    pub secret_access_key: String,
}

impl fmt::Debug for AccessKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("AccessKey").field("access_key_id", &self.access_key_id).finish_non_exhaustive()
    }
}

/// The caller of a request.
#[derive(Clone, Debug)]
pub(super) struct CallerIdentity {
    pub(super) account: String,
    /// Whether the caller is a node.
    pub(super) is_node: bool,
    /// Whether the caller is the human who owns the account, or a check of infrastructure: faults are meant for the
    /// launches and lookups of the manager.
    pub(super) meets_no_faults: bool,
}
