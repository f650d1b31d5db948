//! EC2 in memory, as its documentation describes it: deterministic, synchronous, without a clock or chance of its own.
//!
//! An [`Ec2`] holds accounts, an account regions, and a [`Region`] what is in it. Infrastructure is set up straight on
//! the region; calls are made through a [`Client`], which stands for one access key. Every call is told the time, so
//! that a test may simulate days in a moment. What EC2 leaves open (how long a fresh instance stays hidden, how long a
//! state lasts, when there is no capacity) is programmed through [`Behaviour`] and the methods of [`Region`].
//!
//! A call has its effect and gives its answer in one step. Crashes, lost answers and delays belong to the caller, who
//! may make a call and throw its answer away.

mod audit;
mod behaviour;
mod client;
pub mod conformance;
mod filters;
mod infrastructure;
mod instances;
mod launch;
mod limits;
mod load_balancing;
mod region;
mod session;
mod terminate;
#[cfg(test)]
mod tests;
mod time;

use std::collections::BTreeMap;

pub use audit::{AuditEntry, Change};
pub use behaviour::{Behaviour, RepeatedAfterTermination};
pub use client::{Client, StateChange};
pub use instances::{LaunchedInstance, Phase};
pub use load_balancing::TargetGroup;
pub use region::Region;
pub use session::{CallDescription, Sessions, SimSession, Transport};

use crate::LaunchRequest;

/// All accounts, and the access keys that act in them.
#[derive(Clone, Debug, Default)]
pub struct Ec2 {
    accounts: BTreeMap<String, Account>,
    keys: BTreeMap<String, Key>,
    launch_requests: Vec<(String, LaunchRequest)>,
}

#[derive(Clone, Debug)]
struct Key {
    account: String,
    revoked: bool,
}

impl Ec2 {
    /// An EC2 without any account.
    pub fn new() -> Self {
        Self::default()
    }

    /// An account, for example `111122223333`; empty if it was never asked for before.
    pub fn account(&mut self, id: &str) -> &mut Account {
        let serial = self.accounts.len();
        self.accounts.entry(id.to_owned()).or_insert_with(|| Account {
            id: id.to_owned(),
            serial,
            regions: BTreeMap::new(),
        })
    }

    /// Makes an access key act in an account, whatever it acted in before.
    pub fn issue_key(&mut self, access_key: &str, account: &str) {
        let key = Key {
            account: account.to_owned(),
            revoked: false,
        };
        self.keys.insert(access_key.to_owned(), key);
    }

    /// Refuses an access key from now on, until it is issued again.
    pub fn revoke_key(&mut self, access_key: &str) {
        if let Some(key) = self.keys.get_mut(access_key) {
            key.revoked = true;
        }
    }

    /// A region of an account, if there is anything in it.
    pub fn find_region(&self, account: &str, region: &str) -> Option<&Region> {
        self.accounts.get(account)?.regions.get(region)
    }

    /// The regions of all accounts.
    pub fn regions(&self) -> impl Iterator<Item = &Region> {
        self.accounts.values().flat_map(|account| account.regions.values())
    }

    /// Every instance that was ever launched, in any account and region, by id.
    pub fn launched(&self) -> impl Iterator<Item = &LaunchedInstance> {
        self.regions().flat_map(Region::launched)
    }

    /// Every change that a call has made, oldest first.
    pub fn audit(&self) -> Vec<&AuditEntry> {
        let mut entries: Vec<_> = self.regions().flat_map(Region::audit).collect();
        entries.sort_by_key(|entry| entry.at);
        entries
    }
}

/// One account: its regions.
#[derive(Clone, Debug)]
pub struct Account {
    id: String,
    serial: usize,
    regions: BTreeMap<String, Region>,
}

impl Account {
    /// A region, for example `eu-west-1`; empty if it was never asked for before.
    pub fn region(&mut self, name: &str) -> &mut Region {
        let number = self.regions.len();
        self.regions.entry(name.to_owned()).or_insert_with(|| {
            let place = format!("{:04x}{number:03x}", self.serial);
            Region::new(&self.id, name, place)
        })
    }
}
