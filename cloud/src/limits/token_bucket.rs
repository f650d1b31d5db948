//! A token bucket at our share of AWS's published rate.

use std::time::Duration;

use super::quotas::Rate;
use super::share::Share;

/// One token in the unit of the bucket's level. Rates are in thousandths of a token a second, so every nanosecond adds
/// a whole number of units: nothing is rounded, and a promised turn comes at exactly that nanosecond.
const TOKEN: i128 = 1_000_000_000_000;

/// How long a meter must be left alone by throttles to recover a tenth of its rate.
const QUIET: Duration = Duration::from_secs(60);

/// Throttles reduce the rate to an eighth at least: enough to find out soon that AWS accepts more.
const LEAST: i128 = 8;

/// One bucket of tokens. Its rate is halved by a throttle and recovers a tenth of the whole each quiet minute.
#[derive(Clone, Debug)]
pub(super) struct TokenBucket {
    capacity: i128,
    /// Thousandths of a token a second, at best and now.
    full: i128,
    rate: i128,
    level: i128,
    at: Duration,
    /// When the rate recovers next, while it is not full.
    recovers: Duration,
}

impl TokenBucket {
    /// A bucket with one second of refill in it: it is not known how full AWS's is.
    pub(super) fn new(published: Rate, share: Share, now: Duration) -> Self {
        let share = i128::from(share.thousandths());
        let full = i128::from(published.refill) * share;
        // Below one token nothing could ever be taken.
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

    /// How long until there are this many tokens.
    pub(super) fn wait_for(&mut self, tokens: u64, now: Duration) -> Duration {
        self.advance(now);
        let missing = i128::from(tokens) * TOKEN - self.level;
        let nanoseconds = missing.max(0).div_euclid(self.rate) + i128::from(missing.max(0).rem_euclid(self.rate) > 0);
        Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX))
    }

    /// Takes tokens, even below zero: a debt is paid off before the next call is granted.
    pub(super) fn charge(&mut self, tokens: u64, now: Duration) {
        self.advance(now);
        self.level -= i128::from(tokens) * TOKEN;
    }

    /// Gives tokens back that were not used.
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

    /// Tokens that the bucket holds at best.
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
