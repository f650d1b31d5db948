//! Everything outside the processes: the API server, AWS, and the time.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::aws::Aws;
use crate::server::Server;

/// When every history begins.
pub(crate) const START: Timestamp = Timestamp::constant(1_767_225_600, 0);

/// What calls have their effect on.
pub(crate) struct Outside {
    pub(crate) now: Timestamp,
    pub(crate) server: Server,
    pub(crate) aws: Aws,
}

/// Time since the beginning of the history.
pub(crate) fn since_start(now: Timestamp) -> Duration {
    now.duration_since(START).unsigned_abs()
}

/// `duration` later.
pub(crate) fn after(at: Timestamp, duration: Duration) -> Timestamp {
    let duration = SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX);
    at.saturating_add(duration).unwrap_or(Timestamp::MAX)
}
