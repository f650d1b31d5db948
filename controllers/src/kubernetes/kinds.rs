//! Kinds of infrastructure objects as the API server serves them, or does not, remembered for a while. Their names come
//! from users.

use std::collections::HashMap;
use std::time::Duration;

use capa_api::contract::ContractReference;
use kube::core::ApiResource;
use parking_lot::Mutex;
use tokio::time::Instant;

/// How long the properties of a kind are remembered.
const KIND_AGE: Duration = Duration::from_secs(600);

/// Kinds that are remembered at most; then the oldest is forgotten. A management cluster serves some hundreds.
const MOST: usize = 1_000;

/// A kind as the API server serves it.
#[derive(Clone)]
pub(super) struct Kind {
    pub(super) resource: ApiResource,
    pub(super) publishes_network: bool,
}

/// What the API server has said of a kind.
#[derive(Clone)]
pub(super) enum Known {
    Served(Kind),
    NotServed,
}

struct Entry {
    at: Instant,
    known: Known,
}

/// The kinds that were asked for.
pub(super) struct KindCache {
    /// How long it is believed that a kind is not served: somebody may install it at any time. For so long it is also
    /// believed that a kind is as it was found.
    missing_age: Duration,
    entries: Mutex<HashMap<(String, String), Entry>>,
}

impl KindCache {
    pub(super) fn new(missing_age: Duration) -> Self {
        Self {
            missing_age,
            entries: Mutex::default(),
        }
    }

    /// What is remembered of a kind.
    pub(super) fn get(&self, reference: &ContractReference) -> Option<Known> {
        let entries = self.entries.lock();
        let entry = entries.get(&key(reference)).filter(|entry| self.is_fresh(entry));
        entry.map(|entry| entry.known.clone())
    }

    pub(super) fn insert(&self, reference: &ContractReference, known: Known) {
        let mut entries = self.entries.lock();
        entries.retain(|_, entry| self.is_fresh(entry));
        if entries.len() >= MOST {
            let oldest = entries
                .iter()
                .min_by_key(|(_, entry)| entry.at)
                .map(|(key, _)| key.clone());
            oldest.and_then(|oldest| entries.remove(&oldest));
        }
        let at = Instant::now();
        entries.insert(key(reference), Entry { at, known });
    }

    /// An object of the kind was not found, which may be because the kind is served otherwise by now: it is looked for
    /// anew, unless it was found a moment ago.
    pub(super) fn doubt(&self, reference: &ContractReference) {
        let mut entries = self.entries.lock();
        let key = key(reference);
        if entries
            .get(&key)
            .is_some_and(|entry| entry.at.elapsed() >= self.missing_age)
        {
            entries.remove(&key);
        }
    }

    fn is_fresh(&self, entry: &Entry) -> bool {
        let age = match entry.known {
            Known::Served(_) => KIND_AGE,
            Known::NotServed => self.missing_age,
        };
        entry.at.elapsed() < age
    }
}

fn key(reference: &ContractReference) -> (String, String) {
    (reference.api_group.clone(), reference.kind.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reference(kind: &str) -> ContractReference {
        ContractReference {
            api_group: "example.org".into(),
            kind: kind.into(),
            name: "any".into(),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_missing_kind_is_believed_for_a_shorter_time() {
        let cache = KindCache::new(Duration::from_secs(5));
        cache.insert(&reference("Missing"), Known::NotServed);
        let resource = ApiResource {
            group: "example.org".into(),
            version: "v1".into(),
            api_version: "example.org/v1".into(),
            kind: "Served".into(),
            plural: "serveds".into(),
        };
        let served = Kind {
            resource,
            publishes_network: true,
        };
        cache.insert(&reference("Served"), Known::Served(served));
        assert!(matches!(cache.get(&reference("Missing")), Some(Known::NotServed)));
        tokio::time::advance(Duration::from_secs(5)).await;
        assert!(cache.get(&reference("Missing")).is_none());
        assert!(matches!(cache.get(&reference("Served")), Some(Known::Served(_))));
        tokio::time::advance(KIND_AGE).await;
        assert!(cache.get(&reference("Served")).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn ten_thousand_missing_kinds_are_not_all_remembered() {
        let cache = KindCache::new(Duration::from_secs(5));
        for number in 0..10_000 {
            cache.insert(&reference(&format!("Kind{number}")), Known::NotServed);
            tokio::time::advance(Duration::from_micros(1)).await;
        }
        assert_eq!(cache.entries.lock().len(), MOST);
        assert!(cache.get(&reference("Kind9999")).is_some());
        tokio::time::advance(Duration::from_secs(5)).await;
        cache.insert(&reference("Later"), Known::NotServed);
        assert_eq!(cache.entries.lock().len(), 1);
    }
}
