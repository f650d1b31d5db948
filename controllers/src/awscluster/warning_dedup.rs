//! Which warnings this process has published about externally managed AWSClusters, so that each is published once a
//! generation and not in every reconcile.

use std::collections::HashMap;
use std::sync::Arc;

use kube::api::ObjectMeta;
use parking_lot::Mutex;

/// Generation of the spec at the last warning, by UID of the AWSCluster. Losing it costs one more event.
#[derive(Clone, Default)]
pub struct WarningDedup {
    generations: Arc<Mutex<HashMap<String, Option<i64>>>>,
}

impl WarningDedup {
    /// Whether no warning was published for this generation of the object; from now on one was.
    pub(super) fn is_first(&self, metadata: &ObjectMeta) -> bool {
        let uid = metadata.uid.clone().unwrap_or_default();
        let mut generations = self.generations.lock();
        generations.insert(uid, metadata.generation) != Some(metadata.generation)
    }

    /// Forgets an AWSCluster that is gone.
    pub(super) fn forget(&self, uid: &str) {
        self.generations.lock().remove(uid);
    }
}
