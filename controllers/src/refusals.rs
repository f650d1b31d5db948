//! Permanent errors of AWS calls, and the time of the next call. The next call is made as soon as an input of the call
//! has changed. Without a change, calls are repeated with growing delays.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use capa_api::conditions::ConditionUpdate;
use capa_cloud::Timing;
use parking_lot::Mutex;

/// A hash of all inputs of the calls for an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Inputs(u64);

impl Inputs {
    pub(crate) fn of(facts: &impl Hash) -> Self {
        let mut hasher = DefaultHasher::new();
        facts.hash(&mut hasher);
        Self(hasher.finish())
    }
}

/// A permanent error that AWS would repeat.
#[derive(Clone, Debug)]
pub(crate) struct Refusal {
    /// The condition of the object about the error.
    pub(crate) condition: ConditionUpdate,
    /// The time until the next call.
    pub(crate) remaining: Duration,
}

/// The last permanent error of each object, by its UID. A process that lost them makes one call for each object.
#[derive(Clone, Default)]
pub struct Refusals {
    by_uid: Arc<Mutex<HashMap<String, Refused>>>,
}

struct Refused {
    inputs: Inputs,
    condition: ConditionUpdate,
    /// The time of the error since the process began. A clock that somebody sets would lengthen or shorten the delay.
    at: Duration,
    /// Number of earlier errors with the same inputs.
    before: u32,
}

impl Refusals {
    /// The permanent error of calls with these inputs, while it is too early for the next call. `now` is the time since
    /// the process began.
    pub(crate) fn standing(&self, uid: &str, inputs: Inputs, now: Duration, timing: &Timing) -> Option<Refusal> {
        let by_uid = self.by_uid.lock();
        let refused = by_uid.get(uid).filter(|refused| refused.inputs == inputs)?;
        let remaining = refused.wait(timing).saturating_sub(now.saturating_sub(refused.at));
        let refusal = || Refusal {
            condition: refused.condition.clone(),
            remaining,
        };
        (!remaining.is_zero()).then(refusal)
    }

    /// Records a permanent error of a call with these inputs. Returns the time until the next call.
    pub(crate) fn refused(
        &self,
        uid: &str,
        inputs: Inputs,
        condition: ConditionUpdate,
        now: Duration,
        timing: &Timing,
    ) -> Duration {
        let mut by_uid = self.by_uid.lock();
        let last = by_uid.get(uid).filter(|refused| refused.inputs == inputs);
        let before = last.map_or(0, |refused| refused.before.saturating_add(1));
        let refused = Refused {
            inputs,
            condition,
            at: now,
            before,
        };
        let wait = refused.wait(timing);
        by_uid.insert(uid.to_owned(), refused);
        wait
    }

    /// Removes an object that is gone, or whose calls succeed.
    pub(crate) fn forget(&self, uid: &str) {
        self.by_uid.lock().remove(uid);
    }
}

impl Refused {
    /// The delay doubles with each error. The first delay is short, because AWS's services are eventually consistent.
    fn wait(&self, timing: &Timing) -> Duration {
        let doubled = 2_u32.checked_pow(self.before).unwrap_or(u32::MAX);
        let wait = timing.refusal_retry.saturating_mul(doubled);
        wait.min(timing.refusal_retry_cap)
    }
}
