//! The rate limits on real time. A metric records the waits.

use std::sync::Arc;
use std::time::Duration;

use capa_cloud::limits::{CallRequest, Flow, Shares};
use capa_cloud::session::{Permit, RateLimiter, RateLimits};
use capa_cloud::{CloudError, Query};
use tokio::time::Instant;

use super::metrics::ThrottleWaits;

/// The request rates of all accounts and regions of the process, with their clock and metric.
pub(crate) struct Limits {
    rates: Arc<RateLimits>,
    origin: Instant,
    waits: ThrottleWaits,
}

impl Limits {
    /// `second` is the length of one second of the rates; tests shorten it.
    pub(crate) fn new(shares: Shares, second: Duration, waits: ThrottleWaits) -> Self {
        Self { rates: Arc::new(RateLimits::new(shares, second)), origin: Instant::now(), waits }
    }
}

/// The request rates of one session on real time.
pub(crate) struct CallLimiter {
    limits: Arc<Limits>,
    rates: RateLimiter,
}

impl CallLimiter {
    pub(crate) fn new(limits: &Arc<Limits>, identity: &str, region: &str) -> Self {
        Self { limits: limits.clone(), rates: RateLimiter::new(limits.rates.clone(), identity, region) }
    }

    /// The rates, without a clock.
    pub(crate) fn rates(&self) -> &RateLimiter {
        &self.rates
    }

    /// The time in the form that [`RateLimiter`] expects.
    pub(crate) fn now(&self) -> Duration {
        self.limits.origin.elapsed()
    }

    /// Calls [`RateLimiter::acquire`] with the current time.
    pub(crate) fn acquire(&self, request: &CallRequest) -> Result<Permit, CloudError> {
        self.noted(self.rates.acquire(request, self.now()))
    }

    /// Calls [`RateLimiter::acquire_lookup`] with the current time.
    pub(crate) fn acquire_lookup(&self, flow: &Flow, query: &Query) -> Result<Permit, CloudError> {
        self.noted(self.rates.acquire_lookup(flow, query, self.now()))
    }

    /// Calls [`RateLimiter::reserve`] with the current time.
    pub(crate) fn reserve(&self, request: &CallRequest) -> Result<(), CloudError> {
        self.noted(self.rates.reserve(request, self.now()))
    }

    /// Waits for a permit. Reconciles do not wait here; they get the time at which to come back.
    pub(crate) async fn wait(&self, request: &CallRequest) -> Permit {
        loop {
            match self.acquire(request) {
                Ok(permit) => return permit,
                Err(error) => tokio::time::sleep(error.retry_after.unwrap_or_default()).await,
            }
        }
    }

    /// Waits for a permit at most until the given time.
    ///
    /// # Errors
    /// [`CloudError::deferred`] if the turn comes later.
    pub(crate) async fn wait_until(&self, until: Instant, request: &CallRequest) -> Result<Permit, CloudError> {
        loop {
            let error = match self.acquire(request) {
                Ok(permit) => return Ok(permit),
                Err(error) => error,
            };
            let turn = Instant::now() + error.retry_after.unwrap_or_default();
            if turn > until {
                return Err(error);
            }
            tokio::time::sleep_until(turn).await;
        }
    }

    fn noted<T>(&self, result: Result<T, CloudError>) -> Result<T, CloudError> {
        if let Err(error) = &result
            && let Some(wait) = error.retry_after
        {
            self.limits.waits.observe(error.operation, wait);
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use capa_cloud::ErrorClass;
    use capa_cloud::limits::{Caller, Priority};
    use prometheus_client::registry::Registry;

    use super::*;

    const ACTION: &str = "RunInstances";
    /// The calls that a new limiter grants at once.
    const AT_ONCE: usize = 2;

    fn limits(second: Duration) -> Arc<Limits> {
        let shares = Shares { accounts: "222222222222=0.1".parse().unwrap(), ..Shares::default() };
        Arc::new(Limits::new(shares, second, ThrottleWaits::register(&mut Registry::default())))
    }

    fn real() -> Arc<Limits> {
        limits(Duration::from_secs(1))
    }

    fn request(action: &'static str, name: usize) -> CallRequest {
        CallRequest {
            action,
            flow: Flow::Session("a".into()),
            caller: Caller::Task(name.to_string()),
            priority: Priority::Launch,
            instances: 1,
        }
    }

    /// The number of calls that pass now.
    fn passing(limiter: &CallLimiter, action: &'static str) -> usize {
        let passes = |name: &usize| {
            let request = request(action, *name);
            let passed = limiter.acquire(&request).is_ok();
            limiter.rates().forget(&request.caller);
            passed
        };
        (0..100).filter(passes).count()
    }

    #[tokio::test(start_paused = true)]
    async fn sessions_share_the_rates_of_their_account_and_region() {
        let limits = real();
        let limiter = |identity: &str, region: &str| CallLimiter::new(&limits, identity, region);
        let (first, second) = (limiter("a", "eu-west-1"), limiter("b", "eu-west-1"));
        assert_eq!(passing(&first, ACTION), AT_ONCE, "not known to be one account yet");
        assert_eq!(passing(&second, ACTION), AT_ONCE);
        for limiter in [&first, &second] {
            limiter.rates().belongs_to("111111111111");
        }
        assert_eq!(passing(&first, ACTION), AT_ONCE);
        assert_eq!(passing(&second, ACTION), 0, "the first has taken them");
        let elsewhere = limiter("a", "us-east-1");
        elsewhere.rates().belongs_to("111111111111");
        assert_eq!(passing(&elsewhere, ACTION), AT_ONCE);
        second.rates().belongs_to("333333333333");
        assert_eq!(passing(&second, ACTION), AT_ONCE);
    }

    #[tokio::test(start_paused = true)]
    async fn an_account_that_is_named_has_its_own_share() {
        let limiter = CallLimiter::new(&real(), "a", "eu-west-1");
        limiter.rates().belongs_to("222222222222");
        assert_eq!(passing(&limiter, "DescribeInstances"), 2, "a tenth of 20");
        limiter.rates().belongs_to("111111111111");
        assert_eq!(passing(&limiter, "DescribeInstances"), 10, "half of 20");
    }

    #[tokio::test(start_paused = true)]
    async fn a_deferred_call_passes_exactly_at_its_time() {
        for second in [Duration::from_secs(1), Duration::from_millis(50)] {
            let limiter = CallLimiter::new(&limits(second), "a", "eu-west-1");
            passing(&limiter, ACTION);
            let error = limiter.acquire(&request(ACTION, 3)).err().unwrap();
            assert_eq!(error.class, ErrorClass::Throttled);
            let wait = error.retry_after.unwrap();
            assert!(wait >= second / 2 && wait <= second / 2 + Duration::from_millis(1), "{wait:?}");
            tokio::time::advance(wait).await;
            assert!(limiter.acquire(&request(ACTION, 3)).is_ok());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_waits_for_its_turn() {
        let limiter = CallLimiter::new(&real(), "a", "eu-west-1");
        limiter.acquire(&request(ACTION, 1)).unwrap();
        limiter.acquire(&request(ACTION, 2)).unwrap();
        let began = Instant::now();
        limiter.wait(&request(ACTION, 3)).await;
        limiter.wait(&request(ACTION, 3)).await;
        assert!(began.elapsed() >= Duration::from_secs(1));
        assert!(began.elapsed() <= Duration::from_millis(1010));
    }

    #[tokio::test(start_paused = true)]
    async fn a_turn_that_comes_too_late_is_not_waited_for() {
        let limiter = CallLimiter::new(&real(), "a", "eu-west-1");
        passing(&limiter, ACTION);
        let (began, asked) = (Instant::now(), request(ACTION, 3));
        let late = limiter.wait_until(began + Duration::from_millis(400), &asked);
        let error = late.await.err().unwrap();
        assert!(error.retry_after >= Some(Duration::from_millis(500)), "{error:?}");
        assert_eq!(began.elapsed(), Duration::ZERO);
        let in_time = limiter.wait_until(began + Duration::from_millis(600), &asked);
        assert!(in_time.await.is_ok());
        assert!(began.elapsed() >= Duration::from_millis(500));
    }

    #[tokio::test(start_paused = true)]
    async fn throttling_slows_its_account_only_and_a_refusal_none() {
        let limits = real();
        let throttled = CallLimiter::new(&limits, "a", "eu-west-1");
        let other = CallLimiter::new(&limits, "b", "eu-west-1");
        for limiter in [&throttled, &other] {
            let permit = limiter.acquire(&request(ACTION, 1)).unwrap();
            permit.failed(&CloudError::answered(ACTION, "InvalidAMIID.NotFound", ""), limiter.now());
            limiter.acquire(&request(ACTION, 2)).unwrap();
        }
        tokio::time::advance(Duration::from_secs(60)).await;
        let permit = throttled.acquire(&request(ACTION, 3)).unwrap();
        permit.failed(&CloudError::answered(ACTION, "RequestLimitExceeded", ""), throttled.now());
        assert_eq!(passing(&throttled, ACTION), 0);
        assert_eq!(passing(&other, ACTION), 5);
    }
}
