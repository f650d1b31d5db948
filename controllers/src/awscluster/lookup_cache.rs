//! The last AWS lookup of each AWSCluster with an incomplete network, and the lookups that the provider's own request
//! rates have interrupted. Because of the cache, reconciles after writes of other controllers make no AWS calls. A loss
//! of the cache costs one lookup.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use capa_cloud::{Answers, Timing};
use parking_lot::Mutex;

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
pub struct LookupCache(Arc<Mutex<HashMap<String, Entry>>>);

/// The lookups with one key.
struct Entry {
    key: LookupKey,
    incomplete: Option<Incomplete>,
    interrupted: Option<Interrupted>,
}

/// A lookup that failed or was incomplete.
struct Incomplete {
    /// The time of the first such lookup.
    failing_since: Duration,
    looked_up_at: Duration,
    facts: Facts,
}

/// A lookup that the provider's own request rates have interrupted.
struct Interrupted {
    at: Duration,
    answers: Answers,
}

impl Incomplete {
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
        let entries = self.0.lock();
        let entry = entries.get(uid).filter(|entry| entry.key == *key)?;
        let fresh = entry.incomplete.as_ref().filter(|last| last.is_fresh(now, timing));
        fresh.map(|last| last.facts.clone())
    }

    /// Stores an incomplete result.
    pub(super) fn insert(&self, uid: &str, key: LookupKey, now: Duration, facts: &Facts) {
        self.update(uid, key, |entry| {
            let earlier = entry.incomplete.as_ref().map(|earlier| earlier.failing_since);
            entry.incomplete =
                Some(Incomplete { failing_since: earlier.unwrap_or(now), looked_up_at: now, facts: facts.clone() });
        });
    }

    /// Stores the answers of an interrupted lookup.
    pub(super) fn interrupt(&self, uid: &str, key: LookupKey, now: Duration, answers: Answers) {
        self.update(uid, key, |entry| entry.interrupted = Some(Interrupted { at: now, answers }));
    }

    /// Updates the entry of this key. What is known of another key of the AWSCluster is dropped.
    fn update(&self, uid: &str, key: LookupKey, update: impl FnOnce(&mut Entry)) {
        let mut entries = self.0.lock();
        let same_key = entries.remove(uid).filter(|entry| entry.key == key);
        let mut entry = same_key.unwrap_or(Entry { key, incomplete: None, interrupted: None });
        update(&mut entry);
        entries.insert(uid.to_owned(), entry);
    }

    /// Takes the answers of the interrupted lookup with this key, unless it was interrupted long ago.
    pub(super) fn continued(&self, uid: &str, key: &LookupKey, now: Duration, timing: &Timing) -> Answers {
        let mut entries = self.0.lock();
        let entry = entries.get_mut(uid).filter(|entry| entry.key == *key);
        let interrupted = entry.and_then(|entry| entry.interrupted.take());
        let current = interrupted.filter(|interrupted| now.saturating_sub(interrupted.at) < timing.resolve_retry_cap);
        current.map(|interrupted| interrupted.answers).unwrap_or_default()
    }

    /// Number of AWSClusters with kept lookups.
    pub fn entries(&self) -> usize {
        self.0.lock().len()
    }

    /// Removes an AWSCluster that has a complete network or was deleted.
    pub(super) fn remove(&self, uid: &str) {
        self.0.lock().remove(uid);
    }
}
