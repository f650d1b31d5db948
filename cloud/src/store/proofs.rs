//! Proofs of absence hold for the credentials that they were asked with, and for no others.

use super::{Epoch, Store};

impl Store {
    /// Tells how often the credentials of the store's calls have been replaced by now. Others may belong to another
    /// account, in which nothing is shown of what lives in ours: whatever was missed until then is looked for anew, and a
    /// call that began before proves no absence any more.
    pub fn credentials_replaced(&mut self, times: u64) {
        if self.credentials == times {
            return;
        }
        self.credentials = times;
        let now = self.tick();
        self.proofs_since = now;
        for watch in self.watches.values_mut() {
            watch.since = now;
        }
        for record in self.records.values_mut() {
            record.forget_misses();
        }
        let ids: Vec<_> = self.records.keys().cloned().collect();
        for id in ids {
            self.settle(&id);
        }
    }

    /// Whether what a call that began then did not show counts against it.
    pub(super) fn proves_absence(&self, began: Epoch) -> bool {
        began > self.proofs_since
    }
}
