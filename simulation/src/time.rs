//! The time of histories.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

/// When every history begins.
pub(crate) const START: Timestamp = Timestamp::constant(1_767_225_600, 0);

/// Time since the beginning of the history.
pub(crate) fn since_start(now: Timestamp) -> Duration {
    now.duration_since(START).unsigned_abs()
}

/// `duration` later.
pub(crate) fn after(at: Timestamp, duration: Duration) -> Timestamp {
    let duration = SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX);
    at.saturating_add(duration).unwrap_or(Timestamp::MAX)
}
