//! The rate limiter of one API action: its token buckets, and the queue of its callers.

use std::collections::BTreeMap;
use std::time::Duration;

use super::quotas::Quota;
use super::share::Share;
use super::token_bucket::TokenBucket;
use super::{Caller, Priority};

/// How long a turn is kept for a caller that does not come.
const KEPT: Duration = Duration::from_secs(10);

/// The lead that makes an earlier caller precede a later caller of the next higher priority.
const AGING: Duration = Duration::from_secs(30);

/// A caller's place in the queue: the time of its first request, plus [`AGING`] for each rank below the first. Urgent
/// callers overtake others, but no caller waits for ever. The number keeps the order of callers with the same time.
type Place = (Duration, u64);

struct Waiting {
    caller: Caller,
    instances: u64,
    /// When the caller was told to come.
    turn: Duration,
}

struct Granted {
    instances: u64,
    at: Duration,
}

/// The tokens of one action, and the turns that are promised.
pub(super) struct ActionLimiter {
    requests: TokenBucket,
    instances: Option<TokenBucket>,
    queue: BTreeMap<Place, Waiting>,
    places: BTreeMap<Caller, Place>,
    /// The turns that have come, whose tokens are taken, and that no call has used yet.
    granted: BTreeMap<Caller, Granted>,
    asked: u64,
    /// The time of the last throttle. Throttles of calls that began before this time count as the same throttle.
    throttled: Option<Duration>,
}

impl ActionLimiter {
    pub(super) fn new(published: Quota, share: Share, now: Duration) -> Self {
        let share = if published.ours { Share::WHOLE } else { share };
        Self {
            requests: TokenBucket::new(published.requests, share, now),
            instances: published.instances.map(|rate| TokenBucket::new(rate, share, now)),
            queue: BTreeMap::new(),
            places: BTreeMap::new(),
            granted: BTreeMap::new(),
            asked: 0,
            throttled: None,
        }
    }

    pub(super) fn reserve(
        &mut self,
        caller: &Caller,
        priority: Priority,
        instances: u64,
        now: Duration,
    ) -> Result<(), Duration> {
        self.expire(now);
        if self.granted.contains_key(caller) {
            return Ok(());
        }
        let place = self.place(caller, priority, now);
        let wait = self.wait(place, instances, now);
        if wait.is_zero() {
            self.leave(caller);
            self.charge(instances, now);
            self.granted.insert(caller.clone(), Granted { instances, at: now });
            return Ok(());
        }
        let waiting = Waiting {
            caller: caller.clone(),
            instances,
            turn: now + wait,
        };
        self.queue.insert(place, waiting);
        Err(wait)
    }

    pub(super) fn acquire(
        &mut self,
        caller: &Caller,
        priority: Priority,
        instances: u64,
        now: Duration,
    ) -> Result<(), Duration> {
        self.reserve(caller, priority, instances, now)?;
        self.granted.remove(caller);
        Ok(())
    }

    pub(super) fn charge(&mut self, instances: u64, now: Duration) {
        self.requests.charge(1, now);
        if let Some(meter) = &mut self.instances {
            meter.charge(instances, now);
        }
    }

    pub(super) fn throttled(&mut self, began: Duration, now: Duration) {
        if self.throttled.is_some_and(|before| began <= before) {
            return;
        }
        self.throttled = Some(now);
        self.requests.throttled(now);
        if let Some(meter) = &mut self.instances {
            meter.throttled(now);
        }
    }

    pub(super) fn forget(&mut self, caller: &Caller) {
        self.leave(caller);
        if let Some(turn) = self.granted.remove(caller) {
            self.refund(1, turn.instances);
        }
    }

    /// The caller's place in the queue, kept from when it first asked.
    fn place(&mut self, caller: &Caller, priority: Priority, now: Duration) -> Place {
        if let Some(place) = self.places.get(caller) {
            return *place;
        }
        self.asked += 1;
        let place = (now + AGING * priority.rank(), self.asked);
        self.places.insert(caller.clone(), place);
        place
    }

    /// The time until the tokens suffice for this call and for all callers ahead.
    fn wait(&mut self, place: Place, instances: u64, now: Duration) -> Duration {
        let (requests_ahead, instances_ahead) = self
            .queue
            .range(..place)
            .fold((0, 0), |(requests, instances), (_, ahead)| {
                (requests + 1, instances + ahead.instances)
            });
        let requests = self.requests.wait_for(requests_ahead + 1, now);
        let instances = self.instances.as_mut().map(|meter| {
            // A call for more instances than the bucket can hold is granted when the bucket is full.
            let instances = instances.min(meter.capacity());
            meter.wait_for(instances_ahead + instances, now)
        });
        requests.max(instances.unwrap_or_default())
    }

    fn leave(&mut self, caller: &Caller) {
        if let Some(place) = self.places.remove(caller) {
            self.queue.remove(&place);
        }
    }

    /// Removes the callers that did not come back in time.
    fn expire(&mut self, now: Duration) {
        let Self {
            queue, places, granted, ..
        } = self;
        queue.retain(|_, waiting| {
            let kept = now <= waiting.turn + KEPT;
            if !kept {
                places.remove(&waiting.caller);
            }
            kept
        });
        let (mut requests, mut instances) = (0, 0);
        granted.retain(|_, turn| {
            let kept = now <= turn.at + KEPT;
            if !kept {
                requests += 1;
                instances += turn.instances;
            }
            kept
        });
        self.refund(requests, instances);
    }

    fn refund(&mut self, requests: u64, instances: u64) {
        self.requests.refund(requests);
        if let Some(meter) = &mut self.instances {
            meter.refund(instances);
        }
    }
}
