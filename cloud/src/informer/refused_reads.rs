//! The wait after reads that AWS refuses with a permanent error. AWS would repeat the error.

use std::time::Duration;

use crate::{CloudError, Timing, doubled_wait};

/// The consecutive refusals of the reads of one kind.
#[derive(Default)]
pub(super) struct RefusedReads {
    refusals: u32,
    until: Duration,
}

impl RefusedReads {
    /// Records the error of a read, if it failed. The wait after a permanent error is the listing interval at first. It
    /// doubles with each further permanent error up to `Timing::refusal_retry_cap`.
    pub(super) fn ended(&mut self, error: Option<&CloudError>, began: Duration, timing: &Timing) {
        let Some(error) = error else {
            self.forget();
            return;
        };
        if !error.class.is_permanent() {
            return;
        }
        let first = timing.listing_interval;
        self.until = began + doubled_wait(first, self.refusals, timing.refusal_retry_cap.max(first));
        self.refusals = self.refusals.saturating_add(1);
    }

    /// The time before which the read is not repeated.
    pub(super) fn until(&self) -> Duration {
        self.until
    }

    /// Ends the wait: other credentials make the next read.
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }
}
