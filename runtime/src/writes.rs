//! Tracks the writes of this process, so that no reconcile uses a cached object that is older than the last write to
//! it.
//!
//! A cache lags behind the server by milliseconds, or by seconds under load. For example, a reconcile that does not see
//! its own last status would not find the launch that the status records.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use kube::Resource;
use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;

/// The versions that the caches still have to show, by object UID. Clones share the versions.
#[derive(Clone, Debug, Default)]
pub struct WriteTracker {
    awaited: Arc<Mutex<HashMap<String, Awaited>>>,
}

/// Whether a cached object shows all recorded writes to the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freshness {
    /// The object shows all recorded writes.
    Fresh,
    /// The object is older than a write, and the cache has been behind for this long.
    Stale(Duration),
}

#[derive(Clone, Debug)]
struct Awaited {
    version: Version,
    since: Instant,
}

/// Kubernetes uses increasing integers as resource versions (documented since 1.35, implemented before). Versions of a
/// server that are not integers can only be compared for equality.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Version {
    AtLeast(u128),
    Exactly(String),
    OtherThan(String),
}

impl Version {
    fn is_shown_by(&self, cached: &str) -> bool {
        match self {
            Self::AtLeast(number) => cached.parse::<u128>().map_or(true, |cached| cached >= *number),
            Self::Exactly(version) => cached == version,
            Self::OtherThan(version) => cached != version,
        }
    }

    fn is_older_than(&self, other: &Self) -> bool {
        matches!((self, other), (Self::AtLeast(number), Self::AtLeast(other)) if number < other)
    }
}

impl WriteTracker {
    /// Records that the server answered a write (of status, metadata or spec) with this `object`. The next reconcile
    /// waits for it.
    pub fn written<K: Resource>(&self, object: &K) {
        self.expect(object, |version| match version.parse() {
            Ok(number) => Version::AtLeast(number),
            Err(_) => Version::Exactly(version.to_owned()),
        });
    }

    /// Records that a write based on this `object` was refused because the server has a newer version.
    pub fn conflicted<K: Resource>(&self, object: &K) {
        self.expect(object, |version| match version.parse::<u128>() {
            Ok(number) => Version::AtLeast(number.saturating_add(1)),
            Err(_) => Version::OtherThan(version.to_owned()),
        });
    }

    /// Compares a cached object with the recorded writes, and forgets a version that the cache has shown.
    pub fn freshness<K: Resource>(&self, cached: &K) -> Freshness {
        let metadata = cached.meta();
        let (Some(uid), Some(version)) = (&metadata.uid, &metadata.resource_version) else {
            return Freshness::Fresh;
        };
        let mut all = self.awaited();
        let Some(awaited) = all.get(uid) else {
            return Freshness::Fresh;
        };
        if awaited.version.is_shown_by(version) {
            all.remove(uid);
            return Freshness::Fresh;
        }
        Freshness::Stale(awaited.since.elapsed())
    }

    /// Forgets a deleted object.
    pub fn forget(&self, uid: &str) {
        self.awaited().remove(uid);
    }

    /// The number of objects with a write that the caches have not shown yet.
    pub fn entries(&self) -> usize {
        self.awaited().len()
    }

    fn expect<K: Resource>(&self, object: &K, version: impl FnOnce(&str) -> Version) {
        let metadata = object.meta();
        let (Some(uid), Some(current)) = (&metadata.uid, &metadata.resource_version) else {
            return;
        };
        let version = version(current);
        let mut all = self.awaited();
        if all.get(uid).is_none_or(|known| !version.is_older_than(&known.version)) {
            all.insert(uid.clone(), Awaited { version, since: Instant::now() });
        }
    }

    fn awaited(&self) -> MutexGuard<'_, HashMap<String, Awaited>> {
        self.awaited.lock()
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

    use super::*;

    fn at(version: &str) -> ConfigMap {
        let metadata =
            ObjectMeta { uid: Some("uid".into()), resource_version: Some(version.into()), ..ObjectMeta::default() };
        ConfigMap { metadata, ..ConfigMap::default() }
    }

    #[tokio::test(start_paused = true)]
    async fn an_object_older_than_its_write_is_stale_until_cached() {
        let writes = WriteTracker::default();
        writes.written(&at("10"));
        tokio::time::advance(Duration::from_secs(3)).await;
        assert_eq!(
            writes.freshness(&at("9")),
            Freshness::Stale(Duration::from_secs(3)),
            "9 < 10 as numbers, not as text"
        );
        assert_eq!(writes.freshness(&at("10")), Freshness::Fresh);
        assert_eq!(writes.freshness(&at("9")), Freshness::Fresh, "what was shown once is forgotten");
    }

    #[tokio::test]
    async fn a_later_version_also_shows_the_write() {
        let writes = WriteTracker::default();
        writes.written(&at("10"));
        assert_eq!(writes.freshness(&at("11")), Freshness::Fresh);
    }

    #[tokio::test]
    async fn an_earlier_write_reported_late_is_ignored() {
        let writes = WriteTracker::default();
        writes.written(&at("12"));
        writes.written(&at("11"));
        assert!(matches!(writes.freshness(&at("11")), Freshness::Stale(_)));
    }

    #[tokio::test]
    async fn a_refused_write_waits_for_a_newer_version() {
        let writes = WriteTracker::default();
        writes.conflicted(&at("10"));
        assert!(matches!(writes.freshness(&at("10")), Freshness::Stale(_)));
        assert_eq!(writes.freshness(&at("11")), Freshness::Fresh);
    }

    #[tokio::test]
    async fn versions_that_are_no_numbers_are_compared_for_equality() {
        let writes = WriteTracker::default();
        writes.written(&at("b"));
        assert!(matches!(writes.freshness(&at("a")), Freshness::Stale(_)));
        assert_eq!(writes.freshness(&at("b")), Freshness::Fresh);
        writes.conflicted(&at("b"));
        assert!(matches!(writes.freshness(&at("b")), Freshness::Stale(_)));
        assert_eq!(writes.freshness(&at("c")), Freshness::Fresh);
    }

    #[tokio::test]
    async fn a_deleted_object_is_forgotten() {
        let writes = WriteTracker::default();
        writes.written(&at("10"));
        writes.forget("uid");
        assert_eq!(writes.freshness(&at("1")), Freshness::Fresh);
    }
}
