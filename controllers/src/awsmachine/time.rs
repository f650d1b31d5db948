//! Ages of what was recorded, and durations within this process. Pure.

use std::time::Duration;

use jiff::Timestamp;

/// A moment in the life of this process, by two clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Moment {
    /// By the clock that records carry. Somebody may set it, ahead or back.
    pub(super) time: Timestamp,
    /// Since the process began, by a clock that nobody sets. It may stand still while the whole host is suspended.
    pub(super) uptime: Duration,
}

impl Moment {
    /// The time since an earlier moment by whichever clock shows more: neither a clock that was set back nor one that
    /// stood still makes what is old look fresh.
    pub(super) fn at_most_since(self, earlier: Self) -> Duration {
        let uptime = self.uptime.saturating_sub(earlier.uptime);
        uptime.max(age(earlier.time, self.time))
    }
}

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
    fn the_clock_that_shows_more_tells_how_old_something_is() {
        let at = |time, uptime| Moment {
            time: Timestamp::UNIX_EPOCH + Duration::from_secs(time),
            uptime: Duration::from_secs(uptime),
        };
        let earlier = at(1000, 100);
        assert_eq!(at(1010, 110).at_most_since(earlier), Duration::from_secs(10));
        assert_eq!(at(500, 110).at_most_since(earlier), Duration::from_secs(10), "set back");
        assert_eq!(
            at(4000, 110).at_most_since(earlier),
            Duration::from_secs(3000),
            "suspended"
        );
    }

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
