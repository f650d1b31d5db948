//! A token bucket at our share of AWS's published rate.

use std::time::Duration;

use super::quotas::Rate;
use super::share::Share;

/// One token in the unit of the bucket's level. Rates are in thousandths of a token a second, so every nanosecond adds
/// a whole number of units: nothing is rounded, and a promised turn comes at exactly that nanosecond.
const TOKEN: i128 = 1_000_000_000_000;

/// The time without a throttle after which a bucket recovers a tenth of its rate.
const QUIET: Duration = Duration::from_secs(60);

/// The lowest rate after throttles: an eighth. At this rate the provider soon notices that AWS accepts more calls.
const LEAST: i128 = 8;

/// A bucket of tokens. A throttle halves its rate, and each minute without a throttle restores a tenth of the highest
/// rate.
#[derive(Clone, Debug)]
pub(super) struct TokenBucket {
    capacity: i128,
    /// Thousandths of a token per second: the highest rate and the current one.
    full: i128,
    rate: i128,
    level: i128,
    at: Duration,
    /// The time of the next recovery, while the rate is reduced.
    recovers: Duration,
}

impl TokenBucket {
    /// A bucket with one second of refill, because the level of AWS's bucket is unknown.
    pub(super) fn new(published: Rate, share: Share, now: Duration) -> Self {
        let share = i128::from(share.thousandths());
        let full = i128::from(published.refill) * share;
        // A bucket for less than one token could never grant a call.
        let capacity = (i128::from(published.burst) * share * TOKEN / 1000).max(TOKEN);
        Self {
            capacity,
            full,
            rate: full,
            level: (full * TOKEN / 1000).min(capacity),
            at: now,
            recovers: now,
        }
    }

    /// The time until the bucket contains this many tokens.
    pub(super) fn wait_for(&mut self, tokens: u64, now: Duration) -> Duration {
        self.advance(now);
        let missing = i128::from(tokens) * TOKEN - self.level;
        let nanoseconds = missing.max(0).div_euclid(self.rate) + i128::from(missing.max(0).rem_euclid(self.rate) > 0);
        Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX))
    }

    /// Takes tokens. The level may become negative, and must recover before the next call is granted.
    pub(super) fn charge(&mut self, tokens: u64, now: Duration) {
        self.advance(now);
        self.level -= i128::from(tokens) * TOKEN;
    }

    /// Returns unused tokens.
    pub(super) fn refund(&mut self, tokens: u64) {
        self.level = (self.level + i128::from(tokens) * TOKEN).min(self.capacity);
    }

    /// Records that AWS's bucket is empty: this bucket becomes empty too, and its rate is halved.
    pub(super) fn throttled(&mut self, now: Duration) {
        self.advance(now);
        self.level = self.level.min(0);
        self.rate = (self.rate / 2).max(self.full / LEAST).max(1);
        self.recovers = now + QUIET;
    }

    /// Maximum number of tokens.
    pub(super) fn capacity(&self) -> u64 {
        u64::try_from(self.capacity / TOKEN).unwrap_or(u64::MAX)
    }

    fn advance(&mut self, now: Duration) {
        while self.rate < self.full && self.recovers <= now {
            self.fill_until(self.recovers);
            self.rate = (self.rate + self.full.div_euclid(10).max(1)).min(self.full);
            self.recovers += QUIET;
        }
        self.fill_until(now);
    }

    fn fill_until(&mut self, now: Duration) {
        let nanoseconds = now.saturating_sub(self.at).as_nanos();
        let gained = i128::try_from(nanoseconds)
            .unwrap_or(i128::MAX)
            .saturating_mul(self.rate);
        self.level = self.level.saturating_add(gained).min(self.capacity);
        self.at = self.at.max(now);
    }
}
