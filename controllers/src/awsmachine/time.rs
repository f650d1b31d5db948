//! Ages of what was recorded. Pure.

use std::time::Duration;

use jiff::Timestamp;

/// Time since then. A time that lies ahead, by another leader's clock, has no age.
pub(super) fn age(since: Timestamp, now: Timestamp) -> Duration {
    now.duration_since(since).try_into().unwrap_or_default()
}

/// How much of a period that began then is left.
pub(super) fn remaining(period: Duration, since: Timestamp, now: Timestamp) -> Duration {
    period.saturating_sub(age(since, now))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_period_ends_and_a_time_ahead_has_no_age() {
        let at = |seconds| Timestamp::UNIX_EPOCH + Duration::from_secs(seconds);
        let minute = Duration::from_secs(60);
        assert_eq!(age(at(10), at(25)), Duration::from_secs(15));
        assert_eq!(age(at(25), at(10)), Duration::ZERO);
        assert_eq!(remaining(minute, at(10), at(25)), Duration::from_secs(45));
        assert_eq!(remaining(minute, at(10), at(90)), Duration::ZERO);
    }
}
