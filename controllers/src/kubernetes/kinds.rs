//! A cache of the kinds of network sources, served or not. Users choose the names of the kinds, so the size of
//! the cache is limited.

use std::collections::HashMap;
use std::time::Duration;

use capa_network::SourceKind;
use kube::core::ApiResource;
use parking_lot::Mutex;
use tokio::time::Instant;

/// A kind without the label is rediscovered after this multiple of the time for a kind that is not served. Machines may
/// use such a kind permanently, and specify their network themselves.
const UNLABELLED_FACTOR: u32 = 6;

/// The time for which the properties of a kind that publishes networks are stored.
const KIND_AGE: Duration = Duration::from_secs(600);

/// Maximum number of stored kinds. A further kind removes the oldest one. A management cluster serves some hundreds.
const MAX_ENTRIES: usize = 1_000;

/// A kind as the API server serves it.
#[derive(Clone)]
pub(super) struct Kind {
    pub(super) resource: ApiResource,
    pub(super) is_namespaced: bool,
    pub(super) publishes_network: bool,
}

/// The result of the discovery of a kind.
#[derive(Clone)]
pub(super) enum Known {
    Served(Kind),
    NotServed,
}

struct Entry {
    at: Instant,
    known: Known,
}

/// The cache of discovered kinds.
pub(super) struct KindCache {
    /// The time for which a kind counts as not served or as not publishing networks, because a user may install it, or
    /// label its CRD, at any time. A served kind is not discovered again within this time either.
    missing_age: Duration,
    entries: Mutex<HashMap<SourceKind, Entry>>,
}

impl KindCache {
    pub(super) fn new(missing_age: Duration) -> Self {
        Self { missing_age, entries: Mutex::default() }
    }

    /// The stored result of the discovery of a kind.
    pub(super) fn get(&self, kind: &SourceKind) -> Option<Known> {
        let entries = self.entries.lock();
        let entry = entries.get(kind).filter(|entry| self.is_fresh(entry));
        entry.map(|entry| entry.known.clone())
    }

    pub(super) fn insert(&self, kind: &SourceKind, known: Known) {
        let mut entries = self.entries.lock();
        entries.retain(|_, entry| self.is_fresh(entry));
        if entries.len() >= MAX_ENTRIES {
            let oldest = entries.iter().min_by_key(|(_, entry)| entry.at).map(|(key, _)| key.clone());
            oldest.and_then(|oldest| entries.remove(&oldest));
        }
        let at = Instant::now();
        entries.insert(kind.clone(), Entry { at, known });
    }

    /// Removes a kind, because an object of the kind was not found or not allowed to be read, and the kind may have
    /// changed since its discovery.
    /// A kind that was discovered recently stays.
    pub(super) fn doubt(&self, kind: &SourceKind) {
        let mut entries = self.entries.lock();
        if entries.get(kind).is_some_and(|entry| entry.at.elapsed() >= self.missing_age) {
            entries.remove(kind);
        }
    }

    fn is_fresh(&self, entry: &Entry) -> bool {
        let age = match &entry.known {
            Known::Served(kind) if kind.publishes_network => KIND_AGE,
            Known::Served(_) => self.missing_age.saturating_mul(UNLABELLED_FACTOR),
            Known::NotServed => self.missing_age,
        };
        entry.at.elapsed() < age
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example(kind: &str) -> SourceKind {
        SourceKind { group: "example.org".into(), kind: kind.into() }
    }

    fn served(kind: &str, publishes_network: bool) -> Known {
        let resource = ApiResource {
            group: "example.org".into(),
            version: "v1".into(),
            api_version: "example.org/v1".into(),
            kind: kind.into(),
            plural: format!("{}s", kind.to_lowercase()),
        };
        Known::Served(Kind { resource, is_namespaced: true, publishes_network })
    }

    #[tokio::test(start_paused = true)]
    async fn a_missing_or_unlabelled_kind_is_stored_for_seconds() {
        let cache = KindCache::new(Duration::from_secs(5));
        cache.insert(&example("Missing"), Known::NotServed);
        cache.insert(&example("Unlabelled"), served("Unlabelled", false));
        cache.insert(&example("Labelled"), served("Labelled", true));
        assert!(matches!(cache.get(&example("Missing")), Some(Known::NotServed)));
        assert!(matches!(cache.get(&example("Unlabelled")), Some(Known::Served(_))));
        tokio::time::advance(Duration::from_secs(5)).await;
        assert!(cache.get(&example("Missing")).is_none());
        assert!(matches!(cache.get(&example("Unlabelled")), Some(Known::Served(_))));
        tokio::time::advance(Duration::from_secs(25)).await;
        assert!(cache.get(&example("Unlabelled")).is_none());
        assert!(matches!(cache.get(&example("Labelled")), Some(Known::Served(_))));
        tokio::time::advance(KIND_AGE).await;
        assert!(cache.get(&example("Labelled")).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn the_number_of_stored_kinds_is_limited() {
        let cache = KindCache::new(Duration::from_secs(5));
        for number in 0..10_000 {
            cache.insert(&example(&format!("Kind{number}")), Known::NotServed);
            tokio::time::advance(Duration::from_micros(1)).await;
        }
        assert_eq!(cache.entries.lock().len(), MAX_ENTRIES);
        assert!(cache.get(&example("Kind9999")).is_some());
        tokio::time::advance(Duration::from_secs(5)).await;
        cache.insert(&example("Later"), Known::NotServed);
        assert_eq!(cache.entries.lock().len(), 1);
    }
}
