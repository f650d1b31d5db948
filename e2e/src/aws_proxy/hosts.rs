//! The Dedicated Hosts of an account, as far as moto lacks them.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::request::Request;
use super::tokens::TokenKey;

/// The hosts of an account.
#[derive(Debug, Default)]
pub(super) struct Hosts {
    pub(super) allocations: HashMap<TokenKey, Allocation>,
    /// The client token of each host, by id.
    pub(super) tokens: BTreeMap<String, String>,
    /// The host of each instance that was launched on one.
    pub(super) occupants: BTreeMap<String, String>,
    /// The hosts that are kept because of their minimum allocation period.
    pub(super) kept: BTreeSet<String>,
}

/// An allocation by its client token.
#[derive(Debug)]
pub(super) struct Allocation {
    pub(super) parameters: BTreeMap<String, String>,
    pub(super) answer: Vec<u8>,
}

impl Hosts {
    /// Records the host of a new instance.
    pub(super) fn launched(&mut self, instance_id: &str, request: &Request) {
        if let Some(host) = request.parameter("Placement.HostId") {
            self.occupants.insert(instance_id.to_owned(), host.to_owned());
        }
    }
}
