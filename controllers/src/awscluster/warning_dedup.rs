//! The warnings that this process has published about externally managed AWSClusters. Each warning is published once
//! per generation instead of in every reconcile.

use std::collections::HashMap;
use std::sync::Arc;

use kube::api::ObjectMeta;
use parking_lot::Mutex;

/// Generation of the spec at the last warning, by UID of the AWSCluster. A loss of this memory leads to one more event.
#[derive(Clone, Default)]
pub struct WarningDedup {
    generations: Arc<Mutex<HashMap<String, Option<i64>>>>,
}

impl WarningDedup {
    /// Whether no warning has been published for this generation of the object. The function records a warning for the
    /// generation.
    pub(super) fn is_first(&self, metadata: &ObjectMeta) -> bool {
        let uid = metadata.uid.clone().unwrap_or_default();
        let mut generations = self.generations.lock();
        generations.insert(uid, metadata.generation) != Some(metadata.generation)
    }

    /// Number of AWSClusters with published warnings.
    pub fn entries(&self) -> usize {
        self.generations.lock().len()
    }

    /// Forgets a deleted AWSCluster.
    pub(super) fn forget(&self, uid: &str) {
        self.generations.lock().remove(uid);
    }
}
