//! The time of a session.

use std::time::Duration;

/// A moment in the life of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    /// Time since an origin that stays the same for the session.
    pub now: Duration,
    /// Number of times that the credentials have been replaced so far.
    pub replacements: u64,
}
