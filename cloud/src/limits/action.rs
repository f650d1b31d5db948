//! The rate limiter of one API action: its token buckets, and the queue of its callers.

use std::collections::BTreeMap;
use std::time::Duration;

use super::queue::{Cost, EXPECTED, Queue};
use super::quotas::Quota;
use super::share::Share;
use super::token_bucket::TokenBucket;
use super::{CallRequest, Caller, Flow};

struct Granted {
    instances: u64,
    at: Duration,
}

/// The token buckets of one action.
struct Tokens {
    requests: TokenBucket,
    instances: Option<TokenBucket>,
}

/// The tokens of one action, and the queue of its callers.
pub(super) struct ActionLimiter {
    tokens: Tokens,
    queue: Queue,
    /// The turns that have come, whose tokens are taken, and that no call has used yet.
    granted: BTreeMap<(Flow, Caller), Granted>,
    /// The time of the last throttle. Throttles of calls that began before this time count as the same throttle.
    throttled: Option<Duration>,
}

impl ActionLimiter {
    pub(super) fn new(published: Quota, share: Share, now: Duration) -> Self {
        let tokens = Tokens {
            requests: TokenBucket::new(published.requests, share, now),
            instances: published.instances.map(|rate| TokenBucket::new(rate, share, now)),
        };
        Self {
            tokens,
            queue: Queue::default(),
            granted: BTreeMap::new(),
            throttled: None,
        }
    }

    pub(super) fn reserve(&mut self, request: &CallRequest, now: Duration) -> Result<(), Duration> {
        self.expire(now);
        let key = (request.flow.clone(), request.caller.clone());
        if self.granted.contains_key(&key) {
            return Ok(());
        }
        self.queue.join(request, now);
        let Self { tokens, queue, .. } = self;
        let ahead = queue.ahead(request, now, |ahead, instances| tokens.wait(ahead, instances, now));
        let wait = tokens.wait(ahead, request.instances, now);
        if wait.is_zero() {
            queue.granted(request, now);
            tokens.charge(request.instances, now);
            let instances = request.instances;
            self.granted.insert(key, Granted { instances, at: now });
            return Ok(());
        }
        queue.told(request, now + wait);
        Err(wait)
    }

    pub(super) fn acquire(&mut self, request: &CallRequest, now: Duration) -> Result<(), Duration> {
        self.reserve(request, now)?;
        self.granted.remove(&(request.flow.clone(), request.caller.clone()));
        self.queue.served(request);
        Ok(())
    }

    pub(super) fn charge(&mut self, instances: u64, now: Duration) {
        self.tokens.charge(instances, now);
    }

    pub(super) fn throttled(&mut self, began: Duration, now: Duration) {
        if self.throttled.is_some_and(|before| began <= before) {
            return;
        }
        self.throttled = Some(now);
        self.tokens.requests.throttled(now);
        if let Some(bucket) = &mut self.tokens.instances {
            bucket.throttled(now);
        }
    }

    pub(super) fn forget(&mut self, caller: &Caller) {
        self.queue.forget(caller);
        self.take_back(|(_, known), _| known == caller);
    }

    /// Whether no caller waits for a turn, and no granted turn is unused.
    #[cfg(test)]
    pub(super) fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.granted.is_empty()
    }

    /// Removes the callers and the granted turns of which no more is to be expected.
    fn expire(&mut self, now: Duration) {
        self.queue.expire(now);
        self.take_back(|_, turn| turn.at + EXPECTED < now);
    }

    /// Removes granted turns, and refunds their tokens.
    fn take_back(&mut self, is_void: impl Fn(&(Flow, Caller), &Granted) -> bool) {
        let tokens = &mut self.tokens;
        self.granted.retain(|key, turn| {
            let is_void = is_void(key, turn);
            if is_void {
                tokens.refund(turn.instances);
            }
            !is_void
        });
    }
}

impl Tokens {
    /// The time until the tokens suffice for all callers ahead and for a call that names this many instances.
    fn wait(&mut self, ahead: Cost, instances: u64, now: Duration) -> Duration {
        let requests = self.requests.wait_for(ahead.requests + 1, now);
        let instances = self.instances.as_mut().map(|bucket| {
            // A call for more instances than the bucket can hold is granted when the bucket is full.
            let instances = instances.min(bucket.capacity());
            bucket.wait_for(ahead.instances + instances, now)
        });
        requests.max(instances.unwrap_or_default())
    }

    fn charge(&mut self, instances: u64, now: Duration) {
        self.requests.charge(1, now);
        if let Some(bucket) = &mut self.instances {
            bucket.charge(instances, now);
        }
    }

    fn refund(&mut self, instances: u64) {
        self.requests.refund(1);
        if let Some(bucket) = &mut self.instances {
            bucket.refund(instances);
        }
    }
}
