//! The rate limiter of one API action: its token buckets, and the queue of its callers.

use std::time::Duration;

use super::queue::{Cost, Queue};
use super::quotas::Quota;
use super::share::Share;
use super::token_bucket::TokenBucket;
use super::{CallRequest, Caller};

/// The token buckets of one action.
struct Tokens {
    requests: TokenBucket,
    instances: Option<TokenBucket>,
}

/// The tokens of one action, and the queue of its callers.
pub(super) struct ActionLimiter {
    tokens: Tokens,
    queue: Queue,
    /// The time of the last throttle. Throttles of calls that began before this time count as the same throttle.
    throttled: Option<Duration>,
}

impl ActionLimiter {
    pub(super) fn new(published: Quota, share: Share, now: Duration) -> Self {
        let tokens = Tokens {
            requests: TokenBucket::new(published.requests, share, now),
            instances: published.instances.map(|rate| TokenBucket::new(rate, share, now)),
        };
        Self { tokens, queue: Queue::default(), throttled: None }
    }

    pub(super) fn reserve(&mut self, request: &CallRequest, now: Duration) -> Result<(), Duration> {
        let Self { tokens, queue, .. } = self;
        tokens.refund(queue.expire(now));
        if queue.is_granted(request) {
            return Ok(());
        }
        queue.join(request, now);
        let ahead = queue.ahead(request, now, |ahead, instances| tokens.wait(ahead, instances, now));
        let wait = tokens.wait(ahead, request.instances, now);
        if wait.is_zero() {
            queue.grant(request, now);
            tokens.charge(request.instances, now);
            return Ok(());
        }
        queue.promise(request, now + wait);
        Err(wait)
    }

    pub(super) fn acquire(&mut self, request: &CallRequest, now: Duration) -> Result<(), Duration> {
        self.reserve(request, now)?;
        self.queue.remove(request);
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

    pub(super) fn release(&mut self, request: &CallRequest) {
        self.tokens.refund(self.queue.remove(request));
    }

    pub(super) fn forget(&mut self, caller: &Caller) {
        self.tokens.refund(self.queue.forget(caller));
    }

    /// Whether no caller waits for a turn, and no granted turn is unused.
    #[cfg(test)]
    pub(super) fn is_idle(&self) -> bool {
        self.queue.is_empty()
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

    fn refund(&mut self, unused: Cost) {
        self.requests.refund(unused.requests);
        if let Some(bucket) = &mut self.instances {
            bucket.refund(unused.instances);
        }
    }
}
