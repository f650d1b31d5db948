//! Answers to launches that are held back.

use std::sync::Arc;

use super::state::Shared;
use super::unanswered::UnansweredLaunch;

/// Lists a launch as unanswered for the lifetime of this value: until the answer is sent, or the caller hangs up.
pub(super) struct Held {
    shared: Arc<Shared>,
    account: String,
    launch: UnansweredLaunch,
}

impl Held {
    pub(super) fn new(shared: Arc<Shared>, account: String, launch: UnansweredLaunch) -> Self {
        let held = Self { shared, account, launch };
        held.change(|launches| launches.push(held.launch.clone()));
        held
    }

    fn change(&self, change: impl FnOnce(&mut Vec<UnansweredLaunch>)) {
        self.shared.with_account(&self.account, |account| {
            account.unanswered.change(change);
        });
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.change(|launches| launches.retain(|launch| *launch != self.launch));
    }
}
