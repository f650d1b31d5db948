//! Replaced credentials and changed accounts. An observation is valid for one account, and a proof of absence for one
//! set of credentials.

use std::time::Duration;

use super::disappearance::DisappearanceGuard;
use super::{Epoch, InstanceInformer};

impl InstanceInformer {
    /// Records how often the credentials of the informer's calls have been replaced. New credentials may belong to
    /// another account, whose answers do not show the instances of this one. So the proof of every absence starts
    /// again, and a call that began before the replacement no longer proves an absence.
    pub fn credentials_replaced(&mut self, times: u64) {
        if self.credentials == times {
            return;
        }
        self.credentials = times;
        let now = self.tick();
        self.proofs_since = now;
        self.allow_refused_reads();
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

    /// Records the account that the credentials belong to. If the account has changed, the informer forgets the
    /// instances of the former account.
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

    /// Ends the waits after refusals. A listing that waited is due immediately, because the last one was refused.
    fn allow_refused_reads(&mut self) {
        if self.refused_listings.until() > Duration::ZERO {
            self.next_listing = Duration::ZERO;
        }
        self.refused_listings.forget();
        self.refused_polls.forget();
    }

    /// Whether a call that began at this epoch can prove that an instance is absent.
    pub(super) fn proves_absence(&self, began: Epoch) -> bool {
        began > self.proofs_since
    }
}
