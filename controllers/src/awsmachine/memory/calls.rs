//! The calls of this process that allocate something for a machine beside its instance.

use std::sync::Arc;
use std::time::Duration;

use capa_cloud::Timing;
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

    /// The time until the absence of what an open call may have allocated is proven, of which a lookup has just shown
    /// nothing. `None` once it is: it is not there. `is_held` says whether this process has made the record of the call.
    pub(in crate::awsmachine) fn doubt(
        &self,
        uid: &str,
        token: &str,
        is_held: bool,
        now: Duration,
        timing: &Timing,
    ) -> Option<Duration> {
        let progress = self.get(uid, token).progress;
        if is_held && matches!(progress, Progress::Recorded | Progress::Refused) {
            return None;
        }
        let remaining = || self.get(uid, token).absence.map(|proof| proof.remaining(now, timing));
        if remaining().is_some_and(|remaining| remaining.is_zero()) {
            return None;
        }
        self.found_nothing(uid, token, now);
        Some(remaining().unwrap_or(timing.launch_lookup_age))
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
