//! What this process remembers of launches. Losing it is safe: a record that is not remembered is looked up in AWS and
//! claimed before its call is made, and looking for an instance that may not exist begins anew.

mod shortages;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use capa_api::machine::AWSMachine;
use capa_api::network::NetworkSubnet;
use capa_cloud::Instance;
use capa_network::Placement;
use jiff::Timestamp;

use super::plan::{Progress, Search};
use shortages::Shortages;
pub(super) use shortages::{Place, Pool};

/// Launches of this process: the progress of attempts, the subnets that are promised but not yet recorded, and the
/// places without capacity.
#[derive(Clone)]
pub struct LaunchMemory {
    holder: Arc<str>,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    attempts: HashMap<String, Remembered>,
    answers: HashMap<String, Instance>,
    promised: HashMap<String, String>,
    shortages: Shortages,
}

/// What is remembered of the attempt with one token.
#[derive(Clone, Debug)]
pub(super) struct Remembered {
    client_token: String,
    /// The account that it was made in, where this process has written its record.
    pub(super) account_id: Option<String>,
    /// How far it has come.
    pub(super) progress: Progress,
    /// When the API server last said that its record stands.
    pub(super) confirmed_at: Option<Timestamp>,
    /// How long its instance has been looked for.
    pub(super) search: Option<Search>,
}

impl Remembered {
    fn nothing(client_token: &str) -> Self {
        Self {
            client_token: client_token.to_owned(),
            account_id: None,
            progress: Progress::Unknown,
            confirmed_at: None,
            search: None,
        }
    }
}

/// Who asks for a subnet, and what is known of the others.
pub(super) struct Asking<'a> {
    /// UID of the machine.
    pub(super) uid: &'a str,
    /// All machines of its cluster.
    pub(super) machines: &'a [Arc<AWSMachine>],
    /// Whose shortages it shares.
    pub(super) pool: &'a Pool,
    /// The subnets there are.
    pub(super) subnets: &'a [NetworkSubnet],
    /// The time.
    pub(super) now: Timestamp,
    /// How long a place without capacity is left aside.
    pub(super) retry: Duration,
}

impl LaunchMemory {
    /// An empty memory of the process that calls itself `holder` in launch records: an id that no other process has ever
    /// had, at most 64 characters.
    pub fn new(holder: impl Into<Arc<str>>) -> Self {
        Self {
            holder: holder.into(),
            state: Arc::default(),
        }
    }

    /// How this process calls itself in launch records.
    pub(super) fn holder(&self) -> &str {
        &self.holder
    }

    /// What is remembered of the attempt with this token.
    pub(super) fn attempt(&self, uid: &str, client_token: &str) -> Remembered {
        let state = self.state();
        let remembered = state.attempts.get(uid);
        let same = remembered.filter(|attempt| attempt.client_token == client_token);
        same.cloned().unwrap_or_else(|| Remembered::nothing(client_token))
    }

    /// This process has written the record of a new attempt in this account; `at` is when it began to.
    pub(super) fn recorded(&self, uid: &str, client_token: &str, account_id: &str, at: Timestamp) {
        self.change(uid, client_token, |attempt| {
            *attempt = Remembered {
                account_id: Some(account_id.to_owned()),
                progress: Progress::Recorded,
                confirmed_at: Some(at),
                ..Remembered::nothing(client_token)
            };
        });
    }

    /// This process has claimed the record of another one, whose call may still be under way.
    pub(super) fn claimed(&self, uid: &str, client_token: &str, at: Timestamp) {
        self.change(uid, client_token, |attempt| {
            attempt.progress = Progress::Unanswered;
            attempt.confirmed_at = Some(at);
        });
    }

    /// The API server has said that the record stands; `at` is when it was asked.
    pub(super) fn confirmed(&self, uid: &str, client_token: &str, at: Timestamp) {
        self.change(uid, client_token, |attempt| attempt.confirmed_at = Some(at));
    }

    /// How far the attempt has come, known at this moment because its call is made or has failed.
    pub(super) fn called(&self, uid: &str, client_token: &str, progress: Progress, at: Timestamp) {
        self.change(uid, client_token, |attempt| {
            attempt.progress = progress;
            attempt.search = Some(Search {
                since: at,
                first_empty: None,
            });
        });
    }

    /// A lookup has not shown the instance of the attempt.
    pub(super) fn found_nothing(&self, uid: &str, client_token: &str, at: Timestamp) {
        self.change(uid, client_token, |attempt| {
            let search = attempt.search.get_or_insert(Search {
                since: at,
                first_empty: None,
            });
            search.first_empty.get_or_insert(at);
        });
    }

    /// Remembers the answer to the call of an attempt until it is recorded.
    pub(super) fn answered(&self, uid: &str, instance: Instance) {
        self.state().answers.insert(uid.to_owned(), instance);
    }

    /// The answer to the call of an attempt that is not recorded yet.
    pub(super) fn answer(&self, uid: &str) -> Option<Instance> {
        self.state().answers.get(uid).cloned()
    }

    /// Forgets the attempts of a machine that has its instance. Its subnet stays promised: the cache may not show the
    /// record yet.
    pub(super) fn launched(&self, uid: &str) {
        let mut state = self.state();
        state.attempts.remove(uid);
        state.answers.remove(uid);
    }

    /// Forgets a machine that is gone.
    pub(super) fn forget(&self, uid: &str) {
        let mut state = self.state();
        state.attempts.remove(uid);
        state.answers.remove(uid);
        state.promised.remove(uid);
    }

    /// EC2 had no capacity there.
    pub(super) fn refused_capacity(&self, pool: &Pool, place: Place, at: Timestamp) {
        self.state().shortages.refused(pool, place, at);
    }

    /// EC2 had capacity in this subnet.
    pub(super) fn found_capacity(&self, pool: &Pool, subnet: &NetworkSubnet) {
        self.state().shortages.relieved(pool, subnet);
    }

    /// How long until a place without capacity is tried again.
    pub(super) fn capacity_rest(&self, pool: &Pool, now: Timestamp, retry: Duration) -> Duration {
        self.state().shortages.rest(pool, now, retry)
    }

    /// Chooses a subnet by how many machines each has and which of them to avoid, and promises it in the same breath, so
    /// that machines placed at the same moment see each other.
    pub(super) fn place<E>(
        &self,
        asking: &Asking<'_>,
        choose: impl FnOnce(&BTreeMap<String, usize>, &BTreeSet<String>) -> Result<Placement, E>,
    ) -> Result<Placement, E> {
        let mut state = self.state();
        let mut counts = BTreeMap::new();
        for machine in asking.machines {
            let machine_uid = machine.metadata.uid.as_deref().unwrap_or_default();
            if machine_uid == asking.uid || machine.metadata.deletion_timestamp.is_some() {
                continue;
            }
            let recorded = machine
                .status
                .as_ref()
                .and_then(|status| status.launch.as_ref()?.request.as_ref())
                .map(|request| request.subnet_id.clone());
            if let Some(subnet) = recorded.or_else(|| state.promised.get(machine_uid).cloned()) {
                *counts.entry(subnet).or_insert(0) += 1;
            }
        }
        let avoided = state
            .shortages
            .avoided(asking.uid, asking.pool, asking.subnets, asking.now, asking.retry);
        let placement = choose(&counts, &avoided)?;
        let chosen = asking.subnets.iter().find(|subnet| subnet.id == placement.subnet_id);
        if let Some(subnet) = chosen {
            state.shortages.tried(asking.uid, asking.pool, subnet, asking.now);
        }
        state
            .promised
            .insert(asking.uid.to_owned(), placement.subnet_id.clone());
        Ok(placement)
    }

    fn change(&self, uid: &str, client_token: &str, change: impl FnOnce(&mut Remembered)) {
        let mut state = self.state();
        let attempt = state
            .attempts
            .entry(uid.to_owned())
            .or_insert_with(|| Remembered::nothing(client_token));
        if attempt.client_token != client_token {
            *attempt = Remembered::nothing(client_token);
        }
        change(attempt);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
