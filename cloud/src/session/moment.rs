//! Time as a session counts it.

use std::time::Duration;

/// A moment in the life of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    /// Time since an origin that stays the same for the session.
    pub now: Duration,
    /// How often the credentials have been replaced by others until now.
    pub replacements: u64,
}
