//! A token bucket at our share of AWS's published rate, which is slower for some seconds after a throttle.

use std::time::Duration;

use super::quotas::Rate;
use super::recovery::{CallRate, Recovery};
use super::share::Share;

/// One token in the unit of the bucket's level. Rates are in thousandths of a token a second, so every nanosecond adds
/// a whole number of units: nothing is rounded, and a promised turn comes at exactly that nanosecond.
const TOKEN: i128 = 1_000_000_000_000;

/// A bucket of tokens. A throttle reduces its rate for some seconds ([`Recovery`]).
#[derive(Clone, Debug)]
pub(super) struct TokenBucket {
    capacity: i128,
    /// Thousandths of a token per second: the highest rate.
    full: i128,
    level: i128,
    at: Duration,
    /// The rate at which tokens are taken.
    taken: CallRate,
    /// The reduced rate after the last throttle, until it is the highest rate again.
    recovery: Option<Recovery>,
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
            level: (full * TOKEN / 1000).min(capacity),
            at: now,
            taken: CallRate::new(now),
            recovery: None,
        }
    }

    /// The time until the bucket contains this many tokens.
    pub(super) fn wait_for(&mut self, tokens: u64, now: Duration) -> Duration {
        self.advance(now);
        let mut missing = i128::from(tokens) * TOKEN - self.level;
        let mut at = now;
        while missing > 0 {
            let (rate, until) = self.rate_at(at);
            let needed = missing.div_euclid(rate) + i128::from(missing.rem_euclid(rate) > 0);
            let full_at = at.saturating_add(nanoseconds(needed));
            match until.filter(|until| *until < full_at) {
                None => return full_at.saturating_sub(now),
                Some(until) => {
                    missing -= gain(rate, until.saturating_sub(at));
                    at = until;
                }
            }
        }
        at.saturating_sub(now)
    }

    /// Takes tokens. The level may become negative, and must recover before the next call is granted.
    pub(super) fn charge(&mut self, tokens: u64, now: Duration) {
        self.advance(now);
        self.level -= i128::from(tokens) * TOKEN;
        self.taken.add(tokens, now);
    }

    /// Returns unused tokens.
    pub(super) fn refund(&mut self, tokens: u64) {
        self.level = (self.level + i128::from(tokens) * TOKEN).min(self.capacity);
    }

    /// Records that AWS's bucket is empty: this bucket becomes empty too, and its rate is reduced.
    pub(super) fn throttled(&mut self, now: Duration) {
        self.advance(now);
        self.level = self.level.min(0);
        let (rate, _) = self.rate_at(now);
        self.recovery = Some(Recovery::new(self.full, rate.min(self.taken.at(now)), now));
    }

    /// Maximum number of tokens.
    pub(super) fn capacity(&self) -> u64 {
        u64::try_from(self.capacity / TOKEN).unwrap_or(u64::MAX)
    }

    /// The rate at a time, and the time of its next change, if there is one.
    fn rate_at(&self, at: Duration) -> (i128, Option<Duration>) {
        let reduced = self.recovery.as_ref().and_then(|recovery| recovery.rate_at(at));
        reduced.map_or((self.full, None), |(rate, until)| (rate, Some(until)))
    }

    fn advance(&mut self, now: Duration) {
        while self.at < now {
            let (rate, until) = self.rate_at(self.at);
            let until = until.map_or(now, |until| until.min(now));
            let gained = gain(rate, until.saturating_sub(self.at));
            self.level = self.level.saturating_add(gained).min(self.capacity);
            self.at = until;
        }
    }
}

/// What a rate adds to the level in a period.
fn gain(rate: i128, period: Duration) -> i128 {
    let nanoseconds = i128::try_from(period.as_nanos()).unwrap_or(i128::MAX);
    nanoseconds.saturating_mul(rate)
}

fn nanoseconds(count: i128) -> Duration {
    Duration::from_nanos(u64::try_from(count).unwrap_or(u64::MAX))
}
