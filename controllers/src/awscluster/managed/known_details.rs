//! The details that the last complete observation of each managed cluster at rest has shown beside the listings of AWS.
//! A loss costs some describe calls.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use capa_api::cluster::AWSCluster;
use capa_cloud::managed::Details;
use jiff::Timestamp;
use parking_lot::Mutex;

/// The details that this process knows, by UID of the AWSCluster.
#[derive(Clone, Default)]
pub struct KnownDetails {
    entries: Arc<Mutex<HashMap<String, Entry>>>,
}

struct Entry {
    generation: Option<i64>,
    annotations: Option<BTreeMap<String, String>>,
    looked_at: Timestamp,
    details: Arc<Details>,
}

impl KnownDetails {
    /// The details that are not older than `age`, unless the spec or the annotations have changed since.
    pub(super) fn get(&self, cluster: &AWSCluster, now: Timestamp, age: Duration) -> Option<Arc<Details>> {
        let mut entries = self.entries.lock();
        let entry = entries.get(uid(cluster))?;
        let is_same =
            entry.generation == cluster.metadata.generation && entry.annotations == cluster.metadata.annotations;
        if is_same && (entry.looked_at..entry.looked_at + age).contains(&now) {
            return Some(entry.details.clone());
        }
        entries.remove(uid(cluster));
        None
    }

    /// Stores the details that a complete observation of a cluster at rest has shown.
    pub(super) fn insert(&self, cluster: &AWSCluster, now: Timestamp, details: Details) {
        let entry = Entry {
            generation: cluster.metadata.generation,
            annotations: cluster.metadata.annotations.clone(),
            looked_at: now,
            details: Arc::new(details),
        };
        self.entries.lock().insert(uid(cluster).to_owned(), entry);
    }

    /// Removes an AWSCluster that is not at rest, or gone.
    pub(crate) fn remove(&self, uid: &str) {
        self.entries.lock().remove(uid);
    }
}

fn uid(cluster: &AWSCluster) -> &str {
    cluster.metadata.uid.as_deref().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::read;

    const AGE: Duration = Duration::from_hours(1);

    fn cluster(generation: i64) -> AWSCluster {
        read(&format!(
            "{{apiVersion: infrastructure.cluster.x-k8s.io/v1beta2, kind: AWSCluster, metadata: {{name: dev, uid: one, \
             generation: {generation}}}, spec: {{region: eu-west-1}}}}"
        ))
    }

    #[test]
    fn details_are_given_for_an_hour_and_leave_with_the_object() {
        let known = KnownDetails::default();
        let begin = Timestamp::UNIX_EPOCH;
        let is_known = |generation, now| known.get(&cluster(generation), now, AGE).is_some();
        known.insert(&cluster(1), begin, Details::default());
        assert!(is_known(1, begin) && is_known(1, begin + AGE / 2));
        for (generation, now) in [(2, begin), (1, begin + AGE), (1, begin - AGE)] {
            known.insert(&cluster(1), begin, Details::default());
            assert!(!is_known(generation, now), "{generation}, {now}");
            assert!(known.entries.lock().is_empty(), "{generation}, {now}");
        }
        known.insert(&cluster(1), begin, Details::default());
        known.remove("one");
        assert!(known.entries.lock().is_empty());
    }
}
