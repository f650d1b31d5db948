//! The calls of this process that allocate something for a machine beside its instance.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::attempts::{Attempts, RememberedAttempt};
use crate::awsmachine::launch::progress::Progress;
use crate::awsmachine::time::Moment;

/// The last allocation of each machine that this process knows of, by UID.
#[derive(Clone, Default)]
pub(in crate::awsmachine) struct AllocationCalls(Arc<Mutex<Attempts>>);

impl AllocationCalls {
    /// The memory of the call with this token.
    pub(in crate::awsmachine) fn get(&self, uid: &str, token: &str) -> RememberedAttempt {
        self.0.lock().get(uid, token)
    }

    /// Records that this process has written the record of a new call; `at` is the beginning of the write.
    pub(in crate::awsmachine) fn recorded(&self, uid: &str, token: &str, account_id: &str, at: Moment) {
        self.0.lock().recorded(uid, token, account_id, at);
    }

    /// Records that this process has claimed the record of another process, whose call may still be running.
    pub(in crate::awsmachine) fn claimed(&self, uid: &str, token: &str, at: Moment) {
        self.0.lock().claimed(uid, token, at);
    }

    /// Records that the API server has confirmed the record.
    pub(in crate::awsmachine) fn confirmed(&self, uid: &str, token: &str, at: Moment) {
        self.0.lock().confirmed(uid, token, at);
    }

    /// Records the progress of the call.
    pub(in crate::awsmachine) fn called(&self, uid: &str, token: &str, progress: Progress, at: Duration) {
        self.0.lock().called(uid, token, progress, at);
    }

    /// Records a lookup that did not show what the call allocates.
    pub(in crate::awsmachine) fn found_nothing(&self, uid: &str, token: &str, at: Duration) {
        self.0.lock().found_nothing(uid, token, at);
    }

    /// Forgets the call of a machine.
    pub(in crate::awsmachine) fn forget(&self, uid: &str) {
        self.0.lock().forget(uid);
    }

    /// Number of stored calls.
    pub(super) fn entries(&self) -> usize {
        self.0.lock().entries()
    }
}
