//! Time that saturates instead of failing.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

/// `duration` after `at`.
pub(super) fn after(at: Timestamp, duration: Duration) -> Timestamp {
    SignedDuration::try_from(duration).ok().and_then(|duration| at.checked_add(duration).ok()).unwrap_or(Timestamp::MAX)
}

/// The time since the epoch; zero before it.
pub(super) fn since_epoch(at: Timestamp) -> Duration {
    Duration::try_from(at.duration_since(Timestamp::UNIX_EPOCH)).unwrap_or_default()
}

/// `duration` before `at`.
pub(super) fn before(at: Timestamp, duration: Duration) -> Timestamp {
    SignedDuration::try_from(duration).ok().and_then(|duration| at.checked_sub(duration).ok()).unwrap_or(Timestamp::MIN)
}
