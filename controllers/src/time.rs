//! Ages of recorded events, and durations within this process. Pure.

use std::time::Duration;

use jiff::Timestamp;

/// A moment on two clocks of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moment {
    /// The wall clock, whose times are recorded. A user may set it forward or back.
    pub(crate) time: Timestamp,
    /// The time since the start of the process on a monotonic clock. This clock may stop while the host is suspended.
    pub(crate) uptime: Duration,
}

impl Moment {
    /// The longer one of the times since an earlier moment on the two clocks. So an old moment never looks recent
    /// because a clock was set back or stopped.
    pub(crate) fn at_most_since(self, earlier: Self) -> Duration {
        let uptime = self.uptime.saturating_sub(earlier.uptime);
        uptime.max(age(earlier.time, self.time))
    }
}

/// The time since `since`. A future time, from the clock of another leader, has the age zero.
pub(crate) fn age(since: Timestamp, now: Timestamp) -> Duration {
    now.duration_since(since).try_into().unwrap_or_default()
}

/// The rest of a period that began at `since`.
pub(crate) fn remaining(period: Duration, since: Timestamp, now: Timestamp) -> Duration {
    period.saturating_sub(age(since, now))
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn the_age_is_the_longer_time_of_the_two_clocks() {
        let at = |time, uptime| Moment {
            time: Timestamp::UNIX_EPOCH + Duration::from_secs(time),
            uptime: Duration::from_secs(uptime),
        };
        let earlier = at(1000, 100);
        assert_eq!(at(1010, 110).at_most_since(earlier), Duration::from_secs(10));
        assert_eq!(at(500, 110).at_most_since(earlier), Duration::from_secs(10), "set back");
        assert_eq!(at(4000, 110).at_most_since(earlier), Duration::from_secs(3000), "suspended");
    }

    #[test]
    fn a_period_ends_and_a_future_time_has_no_age() {
        let at = |seconds| Timestamp::UNIX_EPOCH + Duration::from_secs(seconds);
        let minute = Duration::from_secs(60);
        assert_eq!(age(at(10), at(25)), Duration::from_secs(15));
        assert_eq!(age(at(25), at(10)), Duration::ZERO);
        assert_eq!(remaining(minute, at(10), at(25)), Duration::from_secs(45));
        assert_eq!(remaining(minute, at(10), at(90)), Duration::ZERO);
    }
}
