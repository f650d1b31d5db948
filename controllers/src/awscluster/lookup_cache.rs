//! The last AWS lookup of each AWSCluster with an incomplete network, and the lookups that the provider's own request
//! rates have interrupted. Because of the cache, reconciles after writes of other controllers make no AWS calls. A loss
//! of the cache costs one lookup.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use capa_cloud::Timing;
use parking_lot::Mutex;

use super::continued_lookup::Answers;
use super::facts::Facts;

/// The inputs of a lookup. After a change of an input, the lookup is repeated at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LookupKey {
    /// Generation of the spec.
    pub(super) generation: Option<i64>,
    /// Value of the annotation with which a user requests another lookup.
    pub(super) requested: Option<String>,
    /// Key of the identity.
    pub(super) identity: String,
}

/// The last lookups of this process, by UID of the AWSCluster. Times are counted from the beginning of the process.
#[derive(Clone, Default)]
pub struct LookupCache {
    entries: Arc<Mutex<HashMap<String, Entry>>>,
    interrupted: Arc<Mutex<HashMap<String, Interrupted>>>,
}

/// A lookup that the provider's own request rates have interrupted.
struct Interrupted {
    key: LookupKey,
    at: Duration,
    answers: Answers,
}

struct Entry {
    key: LookupKey,
    /// The time at which a lookup with this key first failed or was incomplete.
    failing_since: Duration,
    looked_up_at: Duration,
    facts: Facts,
}

impl Entry {
    /// Whether it is too early for another lookup. The wait equals the time for which lookups have been failing so far,
    /// so that it doubles each time. It is shortened by a tenth, because the requeue depends on the times of
    /// conditions, which are whole seconds.
    fn is_fresh(&self, now: Duration, timing: &Timing) -> bool {
        let failing_for = self.looked_up_at.saturating_sub(self.failing_since);
        let wait = failing_for.clamp(timing.resolve_retry, timing.resolve_retry_cap);
        now.saturating_sub(self.looked_up_at) < wait.mul_f32(0.9)
    }
}

impl LookupCache {
    /// The result of the last lookup with this key, while it is too early for another lookup.
    pub(super) fn get(&self, uid: &str, key: &LookupKey, now: Duration, timing: &Timing) -> Option<Facts> {
        let entries = self.entries.lock();
        let entry = entries.get(uid).filter(|entry| entry.key == *key)?;
        entry.is_fresh(now, timing).then(|| entry.facts.clone())
    }

    /// Stores an incomplete result.
    pub(super) fn insert(&self, uid: &str, key: LookupKey, now: Duration, facts: &Facts) {
        let mut entries = self.entries.lock();
        let earlier = entries.get(uid).filter(|entry| entry.key == key);
        let failing_since = earlier.map_or(now, |entry| entry.failing_since);
        let entry = Entry { key, failing_since, looked_up_at: now, facts: facts.clone() };
        entries.insert(uid.to_owned(), entry);
    }

    /// Stores the answers of an interrupted lookup.
    pub(super) fn interrupt(&self, uid: &str, key: LookupKey, now: Duration, answers: Answers) {
        let interrupted = Interrupted { key, at: now, answers };
        self.interrupted.lock().insert(uid.to_owned(), interrupted);
    }

    /// The answers of the interrupted lookup with this key, unless it was interrupted long ago.
    pub(super) fn continued(&self, uid: &str, key: &LookupKey, now: Duration, timing: &Timing) -> Answers {
        let interrupted = self.interrupted.lock().remove(uid);
        let is_current = |interrupted: &Interrupted| {
            interrupted.key == *key && now.saturating_sub(interrupted.at) < timing.resolve_retry_cap
        };
        let current = interrupted.filter(is_current);
        current.map(|interrupted| interrupted.answers).unwrap_or_default()
    }

    /// Number of kept lookups.
    pub fn entries(&self) -> usize {
        self.entries.lock().len() + self.interrupted.lock().len()
    }

    /// Removes an AWSCluster that has a complete network or was deleted.
    pub(super) fn remove(&self, uid: &str) {
        self.entries.lock().remove(uid);
        self.interrupted.lock().remove(uid);
    }
}
