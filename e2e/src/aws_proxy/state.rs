//! The state of the proxy, shared by its connections and the tests' account handles.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;

use super::caller::{AccessKey, CallerIdentity};
use super::computers::Computers;
use super::faults::{FaultEffect, Faults, Stage, Target};
use super::hosts::Hosts;
use super::instances::Instances;
use super::journal::{AssumedRole, Call, Journal, Mark, RawLaunch};
use super::limits::Limits;
use super::load_balancing::targets::Targets;
use super::request::Request;
use super::sessions::Session;
use super::tokens::Tokens;
use super::unanswered::Unanswered;
use super::upstream::Moto;
use crate::changes::Changes;

/// The only state of a proxy.
pub(super) struct Shared {
    pub(super) url: String,
    pub(super) moto: Moto,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) accounts: BTreeMap<String, AccountState>,
    pub(super) keys: HashMap<String, KeyEntry>,
    pub(super) journal: Vec<Call>,
    keys_issued: u64,
}

/// The owner of an access key.
#[derive(Clone, Debug)]
pub(super) struct KeyEntry {
    pub(super) account: String,
    pub(super) role: Option<AssumedRole>,
    pub(super) revoked: bool,
    /// Whether the key belongs to the human who owns the account.
    pub(super) is_user: bool,
    /// Whether the key belongs to the account's nodes.
    pub(super) is_node: bool,
}

impl KeyEntry {
    /// A valid key of an account.
    pub(super) fn of(account: &str) -> Self {
        Self { account: account.to_owned(), role: None, revoked: false, is_user: false, is_node: false }
    }
}

#[derive(Debug, Default)]
pub(super) struct AccountState {
    /// The changes that concern the account's test; `None` for an account that the proxy did not make.
    pub(super) changes: Option<Changes>,
    /// The roles that may be assumed, by ARN, with the external id that they require.
    pub(super) roles: BTreeMap<String, Option<String>>,
    pub(super) tokens: Tokens,
    pub(super) instances: Instances,
    pub(super) hosts: Hosts,
    /// The zones of the Capacity Reservations, by id.
    pub(super) reservations: BTreeMap<String, String>,
    /// The number of free addresses in each public IPv4 pool.
    pub(super) address_pools: BTreeMap<String, u32>,
    /// The pool of each address that was taken from one, by allocation id.
    pub(super) pool_of_address: BTreeMap<String, String>,
    pub(super) computers: Computers,
    /// The key of the account's nodes; `None` for an account that the proxy did not make.
    pub(super) node_key: Option<AccessKey>,
    pub(super) targets: Targets,
    /// The zone of each subnet that a launch has named; the zone of a subnet never changes.
    pub(super) zones: HashMap<String, String>,
    /// A lock held through a launch, so that of two concurrent equal launches the second sees the first one's
    /// ClientToken.
    pub(super) launching: Arc<tokio::sync::Mutex<()>>,
    /// A lock held for writing while moto changes instances and the proxy records the change, and for reading while
    /// moto lists instances. Without the lock a listing could show moto's own state of a change that the proxy has not
    /// recorded yet.
    pub(super) transitions: Arc<tokio::sync::RwLock<()>>,
    pub(super) faults: Faults,
    /// The throttling; `None` where calls are not throttled.
    pub(super) limits: Option<Limits>,
    pub(super) unanswered: Unanswered,
    /// The unredacted launches, user data included.
    pub(super) raw_launches: Vec<RawLaunch>,
    /// The sessions of the account's roles, secrets included.
    pub(super) sessions: Vec<Session>,
}

impl AccountState {
    /// An address goes back to its public IPv4 pool.
    pub(super) fn free_address(&mut self, pool: &str) {
        if let Some(free) = self.address_pools.get_mut(pool) {
            *free += 1;
        }
    }
}

impl fmt::Debug for Shared {
    /// Prints no state: the launches in it contain user data.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Shared").field("url", &self.url).finish_non_exhaustive()
    }
}

impl Shared {
    pub(super) fn new(url: String, moto: Moto) -> Self {
        Self { url, moto, state: Mutex::default() }
    }

    /// Runs `work` on the state. A test that panics meanwhile does not affect others: the lock is not poisoned, and
    /// every change is one statement.
    pub(super) fn with<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        work(&mut self.state.lock())
    }

    /// Runs `work` on an account that exists because a key belongs to it.
    pub(super) fn with_account<T>(&self, id: &str, work: impl FnOnce(&mut AccountState) -> T) -> T {
        self.with(|state| work(state.accounts.entry(id.to_owned()).or_default()))
    }

    /// The lock between the changes and the listings of an account's instances.
    pub(super) fn transitions(&self, account: &str) -> Arc<tokio::sync::RwLock<()>> {
        self.with_account(account, |account| account.transitions.clone())
    }

    /// The effect of the account's faults on a call.
    pub(super) fn apply_faults(
        &self,
        caller: &CallerIdentity,
        request: &Request,
        zone: &str,
        stage: Stage,
    ) -> FaultEffect {
        if caller.meets_no_faults {
            return FaultEffect::default();
        }
        let target = Target { action: &request.action, zone, subnet: request.subnet(), by_node: caller.is_node };
        self.with_account(&caller.account, |account| account.faults.apply(&target, stage, Instant::now()))
    }

    /// Whether the account's throttling admits a call. The user's calls are neither throttled nor counted.
    pub(super) fn admit(&self, caller: &CallerIdentity, request: &Request) -> bool {
        caller.meets_no_faults
            || self.with_account(&caller.account, |account| {
                let limits = account.limits.as_mut();
                limits.is_none_or(|limits| limits.admit(request, Instant::now()))
            })
    }

    /// Records a call, and the unredacted request of a launch. Reports the call to the account's test, unless the test
    /// itself made it as the account's user.
    pub(super) fn record(&self, call: Call, launch: Option<RawLaunch>) {
        self.with(|state| {
            let by_user = state.keys.get(&call.access_key_id).is_some_and(|key| key.is_user);
            let account = call.account.as_ref().filter(|_| !by_user);
            let account = account.and_then(|account| state.accounts.get(account));
            // Whoever looks waits for the lock of this change.
            if let Some(changes) = account.and_then(|account| account.changes.as_ref()) {
                changes.report();
            }
            if let Some((launch, account)) = launch.zip(call.account.as_ref()) {
                let account = state.accounts.entry(account.clone()).or_default();
                account.raw_launches.push(launch);
            }
            state.journal.push(call);
        });
    }

    pub(super) fn journal(&self, mark: Mark, keep: impl Fn(&Call) -> bool) -> Journal {
        self.with(|state| Journal::new(state.journal.iter().skip(mark.0).filter(|call| keep(call)).cloned().collect()))
    }
}

impl State {
    /// Issues a new key.
    pub(super) fn issue_key(&mut self, entry: KeyEntry) -> AccessKey {
        self.keys_issued += 1;
        let key = AccessKey::numbered(self.keys_issued);
        self.keys.insert(key.access_key_id.clone(), entry);
        key
    }
}
