//! The Elastic IPs that were ever allocated.

use capa_api::common::Tags;
use jiff::Timestamp;

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
    /// Time of the allocation.
    pub allocated_at: Timestamp,
    /// Access key that allocated it; empty for an address of another user.
    pub allocated_by: String,
    /// Time of the release, and the access key that released it.
    pub released: Option<(Timestamp, String)>,
    /// Time from which describes show it.
    pub(super) visible_from: Timestamp,
    /// The association with the primary interface of an instance: its id, and the instance.
    pub(super) association: Option<(String, String)>,
}
