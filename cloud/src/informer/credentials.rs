//! Replaced credentials and changed accounts: observations hold for one account, proofs of absence for one set of
//! credentials.

use super::disappearance::DisappearanceGuard;
use super::{Epoch, InstanceInformer};

impl InstanceInformer {
    /// Tells how often the credentials of the informer's calls have been replaced by now. Others may belong to another
    /// account, in which nothing is shown of what lives in ours: whatever was missed until then is looked for anew, and
    /// a call that began before proves no absence any more.
    pub fn credentials_replaced(&mut self, times: u64) {
        if self.credentials == times {
            return;
        }
        self.credentials = times;
        let now = self.tick();
        self.proofs_since = now;
        self.targets.forget_answers();
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

    /// Tells whose account the credentials belong to by now. In another one nothing is known of what the first has
    /// shown.
    pub fn belongs_to(&mut self, account: &str) {
        let is_another = self.account.as_ref().is_some_and(|before| before != account);
        self.account = Some(account.to_owned());
        if !is_another {
            return;
        }
        let now = self.tick();
        (self.account_since, self.proofs_since) = (now, now);
        self.guard = DisappearanceGuard::default();
        self.targets.forget_answers();
        for watch in self.watches.values_mut() {
            watch.since = now;
        }
        let ids: Vec<_> = self.records.keys().cloned().collect();
        for id in ids {
            if let Some(record) = self.records.get_mut(&id) {
                record.forget();
            }
            self.settle(&id);
        }
    }

    /// Whether what a call that began then did not show counts against it.
    pub(super) fn proves_absence(&self, began: Epoch) -> bool {
        began > self.proofs_since
    }
}
