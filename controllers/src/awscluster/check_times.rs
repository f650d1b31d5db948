//! The times of the last checks of infrastructure. A check with the same result as the last one writes nothing, so the
//! status does not contain its time. A loss of the times costs one check.

use std::collections::HashMap;
use std::sync::Arc;

use jiff::Timestamp;
use parking_lot::Mutex;

/// The times of the last checks by this process, by UID of the AWSCluster.
#[derive(Clone, Default)]
pub struct CheckTimes {
    times: Arc<Mutex<HashMap<String, Timestamp>>>,
}

impl CheckTimes {
    /// The time of the last check.
    pub(super) fn last(&self, uid: &str) -> Option<Timestamp> {
        self.times.lock().get(uid).copied()
    }

    /// Records a check.
    pub(super) fn record(&self, uid: &str, now: Timestamp) {
        self.times.lock().insert(uid.to_owned(), now);
    }

    /// Removes an AWSCluster that was deleted.
    pub(super) fn forget(&self, uid: &str) {
        self.times.lock().remove(uid);
    }
}
