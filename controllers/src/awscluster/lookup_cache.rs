//! The last AWS lookup of each AWSCluster whose network is not complete, so that a reconcile that a write by another
//! controller triggers makes no AWS call. Losing the cache costs one lookup.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use capa_cloud::Timing;
use parking_lot::Mutex;

use super::facts::Facts;

/// What a lookup depends on. When any of it changes, the lookup is repeated at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LookupKey {
    /// Generation of the spec.
    pub(super) generation: Option<i64>,
    /// Value of the annotation by which a user asks for another lookup.
    pub(super) requested: Option<String>,
    /// Key of the identity.
    pub(super) identity: String,
}

/// The last lookups of this process, by UID of the AWSCluster. Times are counted from the beginning of the process.
#[derive(Clone, Default)]
pub struct LookupCache {
    entries: Arc<Mutex<HashMap<String, Entry>>>,
}

struct Entry {
    key: LookupKey,
    /// When a lookup with this key first failed or was incomplete.
    failing_since: Duration,
    looked_up_at: Duration,
    facts: Facts,
}

impl Entry {
    /// Whether it is too early to look up again: the wait is as long as lookups have been failing so far, which doubles
    /// it each time. A tenth less, because the requeue is timed by conditions, whose times are whole seconds.
    fn is_fresh(&self, now: Duration, timing: &Timing) -> bool {
        let failing_for = self.looked_up_at.saturating_sub(self.failing_since);
        let wait = failing_for.clamp(timing.resolve_retry, timing.resolve_retry_cap);
        now.saturating_sub(self.looked_up_at) < wait.mul_f32(0.9)
    }
}

impl LookupCache {
    /// The result of the last lookup with this key, while it is too early to look up again.
    pub(super) fn get(&self, uid: &str, key: &LookupKey, now: Duration, timing: &Timing) -> Option<Facts> {
        let entries = self.entries.lock();
        let entry = entries.get(uid).filter(|entry| entry.key == *key)?;
        entry.is_fresh(now, timing).then(|| entry.facts.clone())
    }

    /// Stores a result that was not complete.
    pub(super) fn insert(&self, uid: &str, key: LookupKey, now: Duration, facts: &Facts) {
        let mut entries = self.entries.lock();
        let earlier = entries.get(uid).filter(|entry| entry.key == key);
        let failing_since = earlier.map_or(now, |entry| entry.failing_since);
        let entry = Entry {
            key,
            failing_since,
            looked_up_at: now,
            facts: facts.clone(),
        };
        entries.insert(uid.to_owned(), entry);
    }

    /// Removes an AWSCluster whose network is complete or that is gone.
    pub(super) fn remove(&self, uid: &str) {
        self.entries.lock().remove(uid);
    }
}
