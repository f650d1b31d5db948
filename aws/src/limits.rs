//! Call rates on real time: one limiter for each account and region, shared by all clients of that account.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use capa_cloud::limits::{Caller, Limiter, Shares, Turn};
use capa_cloud::{CloudError, ErrorClass};
use tokio::time::Instant;

use crate::metrics::ThrottleWaits;
use crate::sync::lock;

type SharedLimiter = Arc<Mutex<Limiter>>;

/// Whose rates a limiter keeps, and where: an account, or an identity whose account is not known yet; and the region.
type Scope = (String, String);

/// All limiters of the process. One that no client uses any more is dropped: the next starts carefully.
pub(crate) struct Limits {
    shares: Shares,
    /// What the rates call a second.
    second: Duration,
    origin: Instant,
    limiters: Mutex<HashMap<Scope, Weak<Mutex<Limiter>>>>,
    waits: ThrottleWaits,
}

impl Limits {
    pub(crate) fn new(shares: Shares, second: Duration, waits: ThrottleWaits) -> Self {
        Self {
            shares,
            second,
            origin: Instant::now(),
            limiters: Mutex::default(),
            waits,
        }
    }

    fn limiter(&self, account: Option<&str>, identity: &str, region: &str) -> SharedLimiter {
        let name = match account {
            Some(account) => format!("account {account}"),
            None => format!("identity {identity}"),
        };
        let mut limiters = lock(&self.limiters);
        limiters.retain(|_, limiter| limiter.strong_count() > 0);
        let scope = (name, region.to_owned());
        if let Some(limiter) = limiters.get(&scope).and_then(Weak::upgrade) {
            return limiter;
        }
        let limiter = Arc::new(Mutex::new(Limiter::new(self.shares.of(account))));
        limiters.insert(scope, Arc::downgrade(&limiter));
        limiter
    }

    /// Time as limiters count it.
    fn now(&self) -> Duration {
        scaled(self.origin.elapsed(), Duration::from_secs(1), self.second)
    }

    /// A time of theirs in real time, and never before it is over.
    fn real(&self, wait: Duration) -> Duration {
        scaled(wait, self.second, Duration::from_secs(1)) + Duration::from_nanos(1)
    }
}

/// `time`, where `to` passes in place of `from`.
fn scaled(time: Duration, to: Duration, from: Duration) -> Duration {
    let nanoseconds = time.as_nanos().saturating_mul(to.as_nanos()) / from.as_nanos().max(1);
    Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX))
}

/// What one client's calls pass. Until the account of its credentials is known its rates are its identity's own.
pub(crate) struct Gate {
    limits: Arc<Limits>,
    identity: String,
    region: String,
    current: Mutex<Current>,
}

struct Current {
    account: Option<String>,
    limiter: SharedLimiter,
}

impl Gate {
    pub(crate) fn new(limits: Arc<Limits>, identity: &str, region: &str) -> Self {
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
    pub(crate) fn belongs_to(&self, account: &str) {
        let mut current = lock(&self.current);
        if current.account.as_deref() != Some(account) {
            current.account = Some(account.to_owned());
            current.limiter = self.limits.limiter(Some(account), &self.identity, &self.region);
        }
    }

    /// A turn now, or an error that says when.
    pub(crate) fn pass(&self, turn: &Turn) -> Result<Permit, CloudError> {
        let limiter = self.limiter();
        let now = self.limits.now();
        let taken = lock(&limiter).take(turn, now);
        match taken {
            Ok(()) => Ok(self.permit(turn.action, limiter, now)),
            Err(wait) => Err(self.deferred(turn.action, wait)),
        }
    }

    /// Asks for a turn that [`Gate::pass`] will use.
    pub(crate) fn queue(&self, turn: &Turn) -> Result<(), CloudError> {
        let asked = lock(&self.limiter()).turn(turn, self.limits.now());
        asked.map_err(|wait| self.deferred(turn.action, wait))
    }

    /// Waits for a turn. Not for reconciles: they pass or are told when.
    pub(crate) async fn wait(&self, turn: &Turn) -> Permit {
        loop {
            match self.pass(turn) {
                Ok(permit) => return permit,
                Err(error) => tokio::time::sleep(error.retry_after.unwrap_or_default()).await,
            }
        }
    }

    /// A call that goes on with an earlier one.
    pub(crate) fn go_on(&self, action: &'static str) -> Permit {
        let limiter = self.limiter();
        let now = self.limits.now();
        lock(&limiter).go_on(action, now);
        self.permit(action, limiter, now)
    }

    /// Gives up the turns of a caller that will not come.
    pub(crate) fn forget(&self, caller: &Caller) {
        lock(&self.limiter()).forget(caller);
    }

    fn limiter(&self) -> SharedLimiter {
        lock(&self.current).limiter.clone()
    }

    fn permit(&self, action: &'static str, limiter: SharedLimiter, began: Duration) -> Permit {
        Permit {
            action,
            began,
            limits: Some((self.limits.clone(), limiter)),
        }
    }

    fn deferred(&self, action: &'static str, wait: Duration) -> CloudError {
        let wait = self.limits.real(wait);
        self.limits.waits.observe(action, wait);
        CloudError::deferred(action, wait)
    }
}

/// The right to make one call.
pub(crate) struct Permit {
    pub(crate) action: &'static str,
    began: Duration,
    limits: Option<(Arc<Limits>, SharedLimiter)>,
}

impl Permit {
    /// For an action whose rate nobody needs to keep.
    pub(crate) fn unlimited(action: &'static str) -> Self {
        Self {
            action,
            began: Duration::ZERO,
            limits: None,
        }
    }

    /// The call has failed: a throttle slows down those that follow.
    pub(crate) fn failed(self, error: &CloudError) {
        if error.class == ErrorClass::Throttled
            && let Some((limits, limiter)) = self.limits
        {
            lock(&limiter).throttled(self.action, self.began, limits.now());
        }
    }
}

#[cfg(test)]
mod tests {
    use capa_cloud::limits::Priority;
    use prometheus_client::registry::Registry;

    use super::*;

    const ACTION: &str = "RunInstances";
    /// What a new limiter grants at once.
    const AT_ONCE: usize = 2;

    fn limits(second: Duration) -> Arc<Limits> {
        let shares = Shares {
            accounts: "222222222222=0.1".parse().unwrap(),
            ..Shares::default()
        };
        Arc::new(Limits::new(
            shares,
            second,
            ThrottleWaits::register(&mut Registry::default()),
        ))
    }

    fn real() -> Arc<Limits> {
        limits(Duration::from_secs(1))
    }

    fn turn(action: &'static str, name: usize) -> Turn {
        Turn {
            action,
            caller: Caller::Task(name.to_string()),
            priority: Priority::Launch,
            instances: 1,
        }
    }

    /// How many calls pass now.
    fn passing(gate: &Gate, action: &'static str) -> usize {
        let passes = |name: &usize| {
            let turn = turn(action, *name);
            let passed = gate.pass(&turn).is_ok();
            gate.forget(&turn.caller);
            passed
        };
        (0..100).filter(passes).count()
    }

    #[tokio::test(start_paused = true)]
    async fn clients_of_one_account_and_region_share_their_rates_and_others_do_not() {
        let limits = real();
        let gate = |identity: &str, region: &str| Gate::new(limits.clone(), identity, region);
        let (first, second) = (gate("a", "eu-west-1"), gate("b", "eu-west-1"));
        assert_eq!(passing(&first, ACTION), AT_ONCE, "not known to be one account yet");
        assert_eq!(passing(&second, ACTION), AT_ONCE);
        for gate in [&first, &second] {
            gate.belongs_to("111111111111");
        }
        assert_eq!(passing(&first, ACTION), AT_ONCE);
        assert_eq!(passing(&second, ACTION), 0, "the first has taken them");
        let elsewhere = gate("a", "us-east-1");
        elsewhere.belongs_to("111111111111");
        assert_eq!(passing(&elsewhere, ACTION), AT_ONCE);
        second.belongs_to("333333333333");
        assert_eq!(passing(&second, ACTION), AT_ONCE);
    }

    #[tokio::test(start_paused = true)]
    async fn an_account_that_is_named_has_its_own_share() {
        let gate = Gate::new(real(), "a", "eu-west-1");
        gate.belongs_to("222222222222");
        assert_eq!(passing(&gate, "DescribeInstances"), 2, "a tenth of 20");
        gate.belongs_to("111111111111");
        assert_eq!(passing(&gate, "DescribeInstances"), 10, "half of 20");
    }

    #[tokio::test(start_paused = true)]
    async fn a_deferred_call_passes_exactly_when_it_was_told_to() {
        for second in [Duration::from_secs(1), Duration::from_millis(50)] {
            let gate = Gate::new(limits(second), "a", "eu-west-1");
            passing(&gate, ACTION);
            let error = gate.pass(&turn(ACTION, 3)).err().unwrap();
            assert_eq!(error.class, ErrorClass::Throttled);
            let wait = error.retry_after.unwrap();
            assert!(
                wait >= second / 2 && wait <= second / 2 + Duration::from_millis(1),
                "{wait:?}"
            );
            tokio::time::advance(wait).await;
            assert!(gate.pass(&turn(ACTION, 3)).is_ok());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_waits_for_its_turn() {
        let gate = Gate::new(real(), "a", "eu-west-1");
        gate.pass(&turn(ACTION, 1)).unwrap();
        gate.pass(&turn(ACTION, 2)).unwrap();
        let began = Instant::now();
        gate.wait(&turn(ACTION, 3)).await;
        gate.wait(&turn(ACTION, 3)).await;
        assert!(began.elapsed() >= Duration::from_secs(1));
        assert!(began.elapsed() <= Duration::from_millis(1010));
    }

    #[tokio::test(start_paused = true)]
    async fn a_throttle_slows_down_its_own_account_and_a_refusal_nobody() {
        let limits = real();
        let throttled = Gate::new(limits.clone(), "a", "eu-west-1");
        let other = Gate::new(limits, "b", "eu-west-1");
        for gate in [&throttled, &other] {
            let permit = gate.pass(&turn(ACTION, 1)).unwrap();
            permit.failed(&CloudError::answered(ACTION, "InvalidAMIID.NotFound", ""));
            gate.pass(&turn(ACTION, 2)).unwrap();
        }
        tokio::time::advance(Duration::from_secs(60)).await;
        let permit = throttled.pass(&turn(ACTION, 3)).unwrap();
        permit.failed(&CloudError::answered(ACTION, "RequestLimitExceeded", ""));
        assert_eq!(passing(&throttled, ACTION), 0);
        assert_eq!(passing(&other, ACTION), 5);
    }
}
