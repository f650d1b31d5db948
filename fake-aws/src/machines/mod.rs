//! Accounts as machines and lookups use them: instances, Dedicated Hosts, secrets and the calls of access keys, with
//! EC2's request limits.
//!
//! [`Accounts`] contains accounts, an account contains regions, and a [`Region`] contains instances and a
//! [`FakeAccount`](crate::FakeAccount), whose resources they use. Tests set a region up and make calls through a
//! [`Client`], which represents one access key. The caller passes the time to every call, so that a test can simulate
//! days in a moment.
//!
//! A call takes effect and returns its answer in one step. The caller simulates crashes, lost answers and delays, for
//! example by dropping the answer of a call.

mod allocated_address;
mod allocated_host;
mod audit;
mod client;
pub mod conformance;
mod elastic_ip;
mod hosts;
mod instances;
mod launch;
mod limits;
mod region;
mod secrets;
mod session;
mod targets;
mod terminate;
#[cfg(test)]
mod tests;
mod time;
mod updates;

use std::collections::BTreeMap;

pub use allocated_address::AllocatedAddress;
pub use allocated_host::AllocatedHost;
pub use audit::{AuditEntry, Change};
pub use client::{Client, StateChange};
pub use instances::{LaunchedInstance, Phase};
pub use launch::plain_launch;
pub use region::Region;
pub use session::{CallDescription, Sessions, SimSession, Transport};

use capa_cloud::LaunchRequest;

/// All accounts with their access keys.
#[derive(Clone, Debug, Default)]
pub struct Accounts {
    by_id: BTreeMap<String, Account>,
    /// The account of each access key.
    keys: BTreeMap<String, String>,
    launch_requests: Vec<(String, LaunchRequest)>,
}

impl Accounts {
    /// No account and no key.
    pub fn new() -> Self {
        Self::default()
    }

    /// An account, for example `111122223333`. The first call creates an empty account.
    pub fn account(&mut self, id: &str) -> &mut Account {
        let serial = self.by_id.len();
        self.by_id.entry(id.to_owned()).or_insert_with(|| Account {
            id: id.to_owned(),
            serial,
            regions: BTreeMap::new(),
        })
    }

    /// Assigns an access key to an account, and removes the former assignment.
    pub fn issue_key(&mut self, access_key: &str, account: &str) {
        self.keys.insert(access_key.to_owned(), account.to_owned());
    }

    /// A region of an account, if it exists.
    pub fn find_region(&self, account: &str, region: &str) -> Option<&Region> {
        self.by_id.get(account)?.regions.get(region)
    }

    /// The regions of all accounts.
    pub fn regions(&self) -> impl Iterator<Item = &Region> {
        self.by_id.values().flat_map(|account| account.regions.values())
    }

    /// All instances that were ever launched, in all accounts and regions, by id.
    pub fn launched(&self) -> impl Iterator<Item = &LaunchedInstance> {
        self.regions().flat_map(Region::launched)
    }

    /// All changes by calls, oldest first.
    pub fn audit(&self) -> Vec<&AuditEntry> {
        let mut entries: Vec<_> = self.regions().flat_map(Region::audit).collect();
        entries.sort_by_key(|entry| entry.at);
        entries
    }
}

/// One account with its regions.
#[derive(Clone, Debug)]
pub struct Account {
    id: String,
    serial: usize,
    regions: BTreeMap<String, Region>,
}

impl Account {
    /// A region, for example `eu-west-1`. The first call creates an empty region.
    pub fn region(&mut self, name: &str) -> &mut Region {
        let number = self.regions.len();
        self.regions.entry(name.to_owned()).or_insert_with(|| {
            let place = format!("{:04x}{number:03x}", self.serial);
            Region::new(&self.id, name, place)
        })
    }
}
