//! Whose request rates a session keeps: one limiter for each account and region, shared by all sessions of the account.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;

use crate::limits::{CallRequest, Caller, Limiter, Shares};
use crate::{CloudError, ErrorClass, Query};

type SharedLimiter = Arc<Mutex<Limiter>>;

/// Whose rates a limiter keeps, and where: an account, or an identity whose account is not known yet; and the region.
type Scope = (String, String);

/// All limiters of a process. One that no session uses any more is dropped: the next one starts carefully.
pub struct RateLimits {
    shares: Shares,
    /// What the rates call a second.
    second: Duration,
    limiters: Mutex<HashMap<Scope, Weak<Mutex<Limiter>>>>,
}

impl RateLimits {
    /// `second`: the rates are so many calls in this time.
    pub fn new(shares: Shares, second: Duration) -> Self {
        Self {
            shares,
            second,
            limiters: Mutex::default(),
        }
    }

    fn limiter(&self, account: Option<&str>, identity: &str, region: &str) -> SharedLimiter {
        let name = match account {
            Some(account) => format!("account {account}"),
            None => format!("identity {identity}"),
        };
        let mut limiters = self.limiters.lock();
        limiters.retain(|_, limiter| limiter.strong_count() > 0);
        let scope = (name, region.to_owned());
        if let Some(limiter) = limiters.get(&scope).and_then(Weak::upgrade) {
            return limiter;
        }
        let limiter = Arc::new(Mutex::new(Limiter::new(self.shares.of(account))));
        limiters.insert(scope, Arc::downgrade(&limiter));
        limiter
    }

    /// Real time as limiters count it.
    fn limiter_time(&self, now: Duration) -> Duration {
        scaled(now, Duration::from_secs(1), self.second)
    }

    /// A time of the limiters in real time, and never before it is over.
    fn real_time(&self, wait: Duration) -> Duration {
        scaled(wait, self.second, Duration::from_secs(1)) + Duration::from_nanos(1)
    }
}

/// `time`, where `to` passes in place of `from`.
fn scaled(time: Duration, to: Duration, from: Duration) -> Duration {
    let nanoseconds = time.as_nanos().saturating_mul(to.as_nanos()) / from.as_nanos().max(1);
    Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX))
}

/// The request rates of one session. Until the account of its credentials is known they are the identity's own. Time is
/// passed in, counted from an origin that all sessions of the process share.
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
    /// For an action without a rate of ours.
    pub fn unlimited(action: &'static str) -> Self {
        Self {
            action,
            began: Duration::ZERO,
            limiter: None,
        }
    }

    /// The call has failed: a throttle slows down the calls that follow.
    pub fn failed(self, error: &CloudError, now: Duration) {
        if error.class == ErrorClass::Throttled
            && let Some((limits, limiter)) = self.limiter
        {
            limiter
                .lock()
                .throttled(self.action, self.began, limits.limiter_time(now));
        }
    }
}

impl RateLimiter {
    /// The rates of an identity in a region.
    pub fn new(limits: Arc<RateLimits>, identity: &str, region: &str) -> Self {
        let current = Current {
            account: None,
            limiter: limits.limiter(None, identity, region),
        };
        Self {
            limits,
            identity: identity.to_owned(),
            region: region.to_owned(),
            current: Mutex::new(current),
        }
    }

    /// From here on the rates are those of this account.
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
    /// [`CloudError::deferred`], which says when the turn of the call comes.
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
    /// [`CloudError::deferred`], which says when the turn of the lookup comes.
    pub fn acquire_lookup(&self, query: &Query, now: Duration) -> Result<Permit, CloudError> {
        let request = CallRequest::lookup(query);
        // The lookup by token or by id follows the one by tags in the same pass: deferred between the two the pass would
        // begin anew, for ever.
        let follows = |name: &str| name == "client-token" || name == "instance-id";
        if query.filters.iter().any(|(name, _)| follows(name)) {
            return Ok(self.charge(request.action, now));
        }
        self.acquire(&request, now)
    }

    /// Reserves a turn that [`RateLimiter::acquire`] will use.
    ///
    /// # Errors
    /// [`CloudError::deferred`], which says when the turn comes.
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

    /// Gives up the turns of a caller that will not come.
    pub fn forget(&self, caller: &Caller) {
        self.limiter().lock().forget(caller);
    }

    fn limiter(&self) -> SharedLimiter {
        self.current.lock().limiter.clone()
    }

    fn permit(&self, action: &'static str, limiter: SharedLimiter, began: Duration) -> Permit {
        Permit {
            action,
            began,
            limiter: Some((self.limits.clone(), limiter)),
        }
    }
}
