//! The recovery of a rate after a throttle, as in the adaptive retry mode of AWS's SDKs: a throttle reduces the rate to
//! seven tenths of the rate at which calls were made, and the rate grows with the cube of the time since the throttle.
//! The rate reaches its value before the throttle within a second or two, stays close to that value for as long again,
//! and then grows fast. Rates are in thousandths of a token per second. All numbers are integers, so that equal
//! histories have equal rates.

use std::time::Duration;

/// The part of the rate, in tenths, that a throttle leaves.
const BETA: i128 = 7;
/// The growth of the rate, in tenths of a token per second for the cube of a second.
const SCALE: i128 = 4;
/// The lowest rate after throttles: an eighth of the full rate. At this rate the provider soon notices that AWS accepts
/// more calls.
const LEAST: i128 = 8;
/// The time between two changes of a rate that grows.
const STEP_MS: i128 = 250;
/// The time in which calls are counted for their rate.
const COUNTED_MS: i128 = 500;

/// A rate that recovers from a throttle.
#[derive(Clone, Debug)]
pub(super) struct Recovery {
    full: i128,
    /// The rate at which calls were made when AWS throttled them.
    before: i128,
    /// Milliseconds after which the rate is `before` again.
    back: i128,
    since: Duration,
}

impl Recovery {
    /// The recovery up to the rate `full`, from a throttle now of calls that were made at the rate `before`.
    pub(super) fn new(full: i128, before: i128, now: Duration) -> Self {
        // The root of (1 - beta) * rate / scale: in the cube of milliseconds, a thousandth of a token per second is a
        // millionth part of a billion.
        let back = cube_root(before * (10 - BETA) * 1_000_000 / SCALE);
        Self { full, before, back, since: now }
    }

    /// The rate at a time, and the time of its next change. `None` once it is `full`.
    pub(super) fn rate_at(&self, at: Duration) -> Option<(i128, Duration)> {
        let steps = milliseconds(at.saturating_sub(self.since)) / STEP_MS;
        let beyond = steps * STEP_MS - self.back;
        let cubic = self.before + SCALE * beyond.pow(3) / 10_000_000;
        let rate = cubic.max(self.full / LEAST).max(1);
        let next = u64::try_from((steps + 1) * STEP_MS).unwrap_or(u64::MAX);
        (rate < self.full).then(|| (rate, self.since.saturating_add(Duration::from_millis(next))))
    }
}

/// The rate at which tokens are taken, smoothed.
#[derive(Clone, Debug)]
pub(super) struct CallRate {
    /// The rate until the beginning of the current period.
    rate: i128,
    /// The current period.
    period: i128,
    /// Tokens that were taken in the current period.
    taken: i128,
}

impl CallRate {
    pub(super) fn new(now: Duration) -> Self {
        Self { rate: 0, period: milliseconds(now) / COUNTED_MS, taken: 0 }
    }

    /// Records that tokens are taken now.
    pub(super) fn add(&mut self, tokens: u64, now: Duration) {
        self.taken += i128::from(tokens);
        let period = milliseconds(now) / COUNTED_MS;
        let periods = period - self.period;
        if periods > 0 {
            self.rate = self.including(periods);
            self.period = period;
            self.taken = 0;
        }
    }

    /// The rate now.
    pub(super) fn at(&self, now: Duration) -> i128 {
        let periods = milliseconds(now) / COUNTED_MS - self.period;
        if periods > 0 { self.including(periods) } else { self.rate }
    }

    /// The rate with the tokens of the current period, which is this many periods long: four fifths of theirs, and a
    /// fifth of the rate before.
    fn including(&self, periods: i128) -> i128 {
        let current = self.taken * 1_000_000 / (periods * COUNTED_MS);
        (current * 4 + self.rate) / 5
    }
}

fn milliseconds(time: Duration) -> i128 {
    i128::try_from(time.as_millis()).unwrap_or(i128::MAX)
}

/// The largest number whose cube is not above this one, up to two million.
fn cube_root(cube: i128) -> i128 {
    (0..=20).rev().fold(0, |root: i128, bit| {
        let larger = root | (1 << bit);
        if larger.pow(3) <= cube { larger } else { root }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    #[test]
    fn a_rate_recovers_with_the_cube_of_time() {
        // (the rate before, and the rates after so many milliseconds) as the formula of the SDKs gives them:
        // 0.4 * (t - cbrt(0.75 * rate))^3 + rate
        for (before, rates) in [
            (2_000, [(0, 1_400), (500, 1_894), (1_000, 1_999)]),
            (10_000, [(0, 7_000), (1_000, 9_653), (2_000, 10_000)]),
            (1_000, [(0, 700), (1_000, 1_000), (1_500, 1_082)]),
        ] {
            let recovery = Recovery::new(20_000, before, at(5_000));
            for (after, expected) in rates {
                let (rate, _) = recovery.rate_at(at(5_000 + after)).unwrap();
                let expected: i128 = i128::from(expected).max(20_000 / LEAST);
                assert!((rate - expected).abs() <= 20, "{before} after {after}: {rate}, not {expected}");
            }
        }
    }

    #[test]
    fn a_rate_changes_in_steps_until_it_is_full() {
        let recovery = Recovery::new(2_000, 2_000, at(1_000));
        let (mut now, mut rates) = (at(1_000), Vec::new());
        while let Some((rate, next)) = recovery.rate_at(now) {
            assert_eq!(next, now + at(250));
            rates.push(rate);
            now = next;
        }
        assert!(rates.is_sorted(), "{rates:?}");
        assert_eq!((rates.len(), now), (5, at(2_250)), "{rates:?}");
        assert_eq!(recovery.rate_at(at(3_600_000)), None);
    }

    #[test]
    fn a_rate_is_never_below_an_eighth() {
        let recovery = Recovery::new(8_000, 10, at(0));
        assert_eq!(recovery.rate_at(at(0)), Some((1_000, at(250))));
        assert!(recovery.rate_at(at(3_000)).is_none(), "from nothing to eight a second in three seconds");
    }

    #[test]
    fn the_rate_of_calls_follows_the_last_seconds() {
        let mut rate = CallRate::new(at(0));
        for call in 0..20 {
            rate.add(1, at(call * 500));
        }
        assert!((1_900..=2_000).contains(&rate.at(at(9_600))), "{}", rate.at(at(9_600)));
        rate.add(1, at(60_000));
        assert!(rate.at(at(60_000)) < 500, "{}", rate.at(at(60_000)));
    }
}
