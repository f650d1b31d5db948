//! Time that saturates instead of failing.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

/// `duration` after `at`.
pub(super) fn after(at: Timestamp, duration: Duration) -> Timestamp {
    SignedDuration::try_from(duration).ok().and_then(|duration| at.checked_add(duration).ok()).unwrap_or(Timestamp::MAX)
}

/// `duration` before `at`.
pub(super) fn before(at: Timestamp, duration: Duration) -> Timestamp {
    SignedDuration::try_from(duration).ok().and_then(|duration| at.checked_sub(duration).ok()).unwrap_or(Timestamp::MIN)
}
