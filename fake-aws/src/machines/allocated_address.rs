//! The Elastic IPs that were ever allocated.

use capa_api::common::Tags;

/// An address that a call has allocated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllocatedAddress {
    /// `eipalloc-…`
    pub id: String,
    /// The address.
    pub public_ip: String,
    /// The pool that it was taken from; `None` for Amazon's addresses.
    pub pool: Option<String>,
    /// Its tags.
    pub tags: Tags,
    /// Access key that allocated it; empty for an address of another user.
    pub allocated_by: String,
    /// Access key that released it.
    pub released_by: Option<String>,
}
