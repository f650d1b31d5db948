//! Exponential back-off per object.
//!
//! The delay applies only *if nothing else happens to the object*: a change of its spec or metadata, or a trigger from
//! another object, still reconciles it at once. A change of the status alone does not, because the controllers' own
//! streams filter such changes ([`crate::predicate`]). Otherwise, writing the condition of a failure would defeat the
//! back-off of that failure.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};

/// The first and the longest delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackoffSettings {
    /// Delay after the first failure. Default 1 s. Every further failure doubles it.
    pub start: Duration,
    /// The longest delay. Default 5 min.
    pub cap: Duration,
}

impl Default for BackoffSettings {
    fn default() -> Self {
        Self { start: Duration::from_secs(1), cap: Duration::from_mins(5) }
    }
}

/// Counts failures by object UID and turns them into delays.
#[derive(Debug, Default)]
pub struct Backoff {
    settings: BackoffSettings,
    failures: Mutex<HashMap<String, u32>>,
}

impl Backoff {
    /// A back-off without any failure.
    pub fn new(settings: BackoffSettings) -> Self {
        Self { settings, failures: Mutex::default() }
    }

    /// Counts one more failure of the object and returns the delay before its next attempt.
    ///
    /// Delays are shortened randomly by up to a quarter, so that objects that failed together (because of AWS
    /// throttling or a broken identity) are not retried together.
    pub fn failed(&self, uid: &str) -> Duration {
        let mut failures = self.failures();
        let count = failures.entry(uid.to_owned()).or_default();
        let factor = 2_u32.checked_pow(*count).unwrap_or(u32::MAX);
        *count = count.saturating_add(1);
        let delay = self.settings.start.saturating_mul(factor).min(self.settings.cap);
        delay.mul_f64(1.0 - fastrand::f64() / 4.0)
    }

    /// Forgets the failures of the object, because a reconcile succeeded or the object is gone.
    pub fn reset(&self, uid: &str) {
        self.failures().remove(uid);
    }

    /// The number of objects whose last reconcile failed.
    pub fn entries(&self) -> usize {
        self.failures().len()
    }

    fn failures(&self) -> MutexGuard<'_, HashMap<String, u32>> {
        self.failures.lock()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn delays_double_up_to_the_cap_and_never_exceed_it() {
        let backoff = Backoff::default();
        for expected in [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300] {
            let delay = backoff.failed("a").as_secs_f64();
            let expected = f64::from(expected);
            assert!((expected * 0.75..=expected).contains(&delay), "{delay} is not within {expected} s");
        }
        for _ in 0..100 {
            assert!(backoff.failed("a") <= Duration::from_mins(5), "the count of failures must not overflow");
        }
    }

    #[test]
    fn delays_of_objects_that_fail_together_differ() {
        let backoff = Backoff::default();
        let delays: BTreeSet<_> = (0..64).map(|index| backoff.failed(&index.to_string())).collect();
        assert!(delays.len() > 32, "64 objects share {} delays", delays.len());
    }

    #[test]
    fn each_object_has_its_own_delay_and_success_resets_it() {
        let backoff = Backoff::default();
        for _ in 0..5 {
            backoff.failed("a");
        }
        assert!(backoff.failed("b") <= Duration::from_secs(1));
        backoff.reset("a");
        assert!(backoff.failed("a") <= Duration::from_secs(1));
    }
}
