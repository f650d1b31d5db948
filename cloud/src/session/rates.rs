//! The request rates of sessions: one limiter for each account and region, shared by all sessions of the account.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;

use crate::limits::{CallRequest, Caller, Flow, Limiter, Shares};
use crate::{CloudError, ErrorClass, Query};

type SharedLimiter = Arc<Mutex<Limiter>>;

/// The key of a limiter: an account, or an identity if its account is not known yet; and the region.
type LimiterKey = (String, String);

/// All limiters of a process. A limiter without sessions is dropped; the buckets of a later limiter start with one
/// second of refill.
pub struct RateLimits {
    shares: Shares,
    /// The duration that counts as a second in the rates.
    second: Duration,
    limiters: Mutex<HashMap<LimiterKey, Weak<Mutex<Limiter>>>>,
}

impl RateLimits {
    /// `second` is the duration that counts as a second in the rates.
    pub fn new(shares: Shares, second: Duration) -> Self {
        Self { shares, second, limiters: Mutex::default() }
    }

    fn limiter(&self, account: Option<&str>, identity: &str, region: &str) -> SharedLimiter {
        let name = match account {
            Some(account) => format!("account {account}"),
            None => format!("identity {identity}"),
        };
        let mut limiters = self.limiters.lock();
        limiters.retain(|_, limiter| limiter.strong_count() > 0);
        let key = (name, region.to_owned());
        if let Some(limiter) = limiters.get(&key).and_then(Weak::upgrade) {
            return limiter;
        }
        let limiter = Arc::new(Mutex::new(Limiter::new(self.shares.of(account), self.shares.launches)));
        limiters.insert(key, Arc::downgrade(&limiter));
        limiter
    }

    /// Converts real time to the time of the limiters.
    fn limiter_time(&self, now: Duration) -> Duration {
        scaled(now, Duration::from_secs(1), self.second)
    }

    /// Converts a wait of the limiters to real time. The result is never shorter than the wait.
    fn real_time(&self, wait: Duration) -> Duration {
        scaled(wait, self.second, Duration::from_secs(1)) + Duration::from_nanos(1)
    }
}

/// `time` multiplied by `to` / `from`.
fn scaled(time: Duration, to: Duration, from: Duration) -> Duration {
    let nanoseconds = time.as_nanos().saturating_mul(to.as_nanos()) / from.as_nanos().max(1);
    Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX))
}

/// The request rates of one session. Until the account of the credentials is known, the identity has its own rates. The
/// caller passes the time, counted from an origin that all sessions of the process share.
pub struct RateLimiter {
    limits: Arc<RateLimits>,
    identity: String,
    region: String,
    current: Mutex<Current>,
}

struct Current {
    account: Option<String>,
    limiter: SharedLimiter,
}

/// The right to make one call.
pub struct Permit {
    /// The API action.
    pub action: &'static str,
    began: Duration,
    limiter: Option<(Arc<RateLimits>, SharedLimiter)>,
}

impl Permit {
    /// The permit for an action without a rate limit.
    pub fn unlimited(action: &'static str) -> Self {
        Self { action, began: Duration::ZERO, limiter: None }
    }

    /// Records that the call failed. A throttle slows down later calls.
    pub fn failed(self, error: &CloudError, now: Duration) {
        if error.class == ErrorClass::Throttled
            && let Some((limits, limiter)) = self.limiter
        {
            limiter.lock().throttled(self.action, self.began, limits.limiter_time(now));
        }
    }
}

impl RateLimiter {
    /// The rates of an identity in a region.
    pub fn new(limits: Arc<RateLimits>, identity: &str, region: &str) -> Self {
        let current = Current { account: None, limiter: limits.limiter(None, identity, region) };
        Self { limits, identity: identity.to_owned(), region: region.to_owned(), current: Mutex::new(current) }
    }

    /// Makes the session use the rates of this account.
    pub fn belongs_to(&self, account: &str) {
        let mut current = self.current.lock();
        if current.account.as_deref() != Some(account) {
            current.account = Some(account.to_owned());
            current.limiter = self.limits.limiter(Some(account), &self.identity, &self.region);
        }
    }

    /// The permit to make a call now.
    ///
    /// # Errors
    /// [`CloudError::deferred`], which contains the time until the turn of the call.
    pub fn acquire(&self, request: &CallRequest, now: Duration) -> Result<Permit, CloudError> {
        let limiter = self.limiter();
        let time = self.limits.limiter_time(now);
        let acquired = limiter.lock().acquire(request, time);
        match acquired {
            Ok(()) => Ok(self.permit(request.action, limiter, time)),
            Err(wait) => Err(CloudError::deferred(request.action, self.limits.real_time(wait))),
        }
    }

    /// The permit for the lookup of an instance before a launch or a deletion.
    ///
    /// # Errors
    /// [`CloudError::deferred`], which contains the time until the turn of the lookup.
    pub fn acquire_lookup(&self, flow: &Flow, query: &Query, now: Duration) -> Result<Permit, CloudError> {
        let request = CallRequest::lookup(flow, query);
        // The lookup by token or by id follows the lookup by tags in the same pass. If the second lookup were deferred,
        // the pass would start again with the first lookup, without an end.
        let follows = |name: &str| name == "client-token" || name == "instance-id";
        if query.filters.iter().any(|(name, _)| follows(name)) {
            return Ok(self.charge(request.action, now));
        }
        self.acquire(&request, now)
    }

    /// Reserves a turn that [`RateLimiter::acquire`] will use.
    ///
    /// # Errors
    /// [`CloudError::deferred`], which contains the time until the turn.
    pub fn reserve(&self, request: &CallRequest, now: Duration) -> Result<(), CloudError> {
        let reserved = self.limiter().lock().reserve(request, self.limits.limiter_time(now));
        reserved.map_err(|wait| CloudError::deferred(request.action, self.limits.real_time(wait)))
    }

    /// The permit for a call that continues an earlier one, for example with its next page.
    pub fn charge(&self, action: &'static str, now: Duration) -> Permit {
        let limiter = self.limiter();
        let time = self.limits.limiter_time(now);
        limiter.lock().charge(action, time);
        self.permit(action, limiter, time)
    }

    /// Releases the turn of a call that is not made for now, or the place of its caller in the queue.
    pub fn release(&self, request: &CallRequest) {
        self.limiter().lock().release(request);
    }

    /// Releases the turns of a caller that makes no more calls.
    pub fn forget(&self, caller: &Caller) {
        self.limiter().lock().forget(caller);
    }

    fn limiter(&self) -> SharedLimiter {
        self.current.lock().limiter.clone()
    }

    fn permit(&self, action: &'static str, limiter: SharedLimiter, began: Duration) -> Permit {
        Permit { action, began, limiter: Some((self.limits.clone(), limiter)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limiters_of_sessions_that_are_gone_are_dropped() {
        let limits = Arc::new(RateLimits::new(Shares::default(), Duration::from_secs(1)));
        let kept = || limits.limiters.lock().len();
        for number in 0..1_000 {
            let session = RateLimiter::new(limits.clone(), "a", &format!("xx-invented-{number}"));
            session.belongs_to("111122223333");
            // When a session gets its second limiter, its first limiter still exists.
            assert!(kept() <= 2, "{}", kept());
        }
        let sessions = ["a", "b"].map(|identity| RateLimiter::new(limits.clone(), identity, "eu-west-1"));
        assert_eq!(kept(), sessions.len());
    }
}
