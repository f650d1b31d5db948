//! What this process has told the managers of externally managed clusters, so that not every pass repeats it.

use std::collections::HashMap;
use std::sync::Arc;

use kube::api::ObjectMeta;
use parking_lot::Mutex;

/// Generation of the spec at the last complaint, by UID of the cluster. A restart loses it, which costs one event.
#[derive(Clone, Default)]
pub struct Complaints {
    generations: Arc<Mutex<HashMap<String, Option<i64>>>>,
}

impl Complaints {
    /// Whether nothing was said yet about this generation of the object; from now on something was.
    pub(super) fn is_first(&self, metadata: &ObjectMeta) -> bool {
        let uid = metadata.uid.clone().unwrap_or_default();
        let mut generations = self.generations.lock();
        generations.insert(uid, metadata.generation) != Some(metadata.generation)
    }

    /// Forgets a cluster that is gone.
    pub(super) fn forget(&self, uid: &str) {
        self.generations.lock().remove(uid);
    }
}
