//! What AWS has refused for good, and when it is asked again: as soon as anything has changed that the call is made from,
//! and otherwise less and less often.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use capa_api::conditions::ConditionUpdate;
use capa_cloud::Timing;
use jiff::Timestamp;
use parking_lot::Mutex;

/// A hash of everything that the calls for an object are made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Inputs(u64);

impl Inputs {
    pub(crate) fn of(facts: &impl Hash) -> Self {
        let mut hasher = DefaultHasher::new();
        facts.hash(&mut hasher);
        Self(hasher.finish())
    }
}

/// A refusal that stands: AWS would only repeat it.
#[derive(Clone, Debug)]
pub(crate) struct Refusal {
    /// What the object shows of it.
    pub(crate) condition: ConditionUpdate,
    /// How long until AWS is asked again.
    pub(crate) remaining: Duration,
}

/// The last refusal of each object, by its UID. Losing them costs a call for each object.
#[derive(Clone, Default)]
pub struct Refusals {
    by_uid: Arc<Mutex<HashMap<String, Refused>>>,
}

struct Refused {
    inputs: Inputs,
    condition: ConditionUpdate,
    at: Timestamp,
    /// How often the same was refused before.
    before: u32,
}

impl Refusals {
    /// The refusal that stands of a call with these inputs.
    pub(crate) fn standing(&self, uid: &str, inputs: Inputs, now: Timestamp, timing: &Timing) -> Option<Refusal> {
        let by_uid = self.by_uid.lock();
        let refused = by_uid.get(uid).filter(|refused| refused.inputs == inputs)?;
        let age: Duration = now.duration_since(refused.at).try_into().unwrap_or_default();
        let remaining = refused.wait(timing).saturating_sub(age);
        let refusal = || Refusal {
            condition: refused.condition.clone(),
            remaining,
        };
        (!remaining.is_zero()).then(refusal)
    }

    /// AWS has refused a call with these inputs. Gives how long until it is asked again.
    pub(crate) fn refused(
        &self,
        uid: &str,
        inputs: Inputs,
        condition: ConditionUpdate,
        now: Timestamp,
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

    /// Forgets an object that is gone, or whose calls succeed.
    pub(crate) fn forget(&self, uid: &str) {
        self.by_uid.lock().remove(uid);
    }
}

impl Refused {
    /// Twice as long after each refusal. The first one may be about something that AWS does not know everywhere yet.
    fn wait(&self, timing: &Timing) -> Duration {
        let doubled = 2_u32.checked_pow(self.before).unwrap_or(u32::MAX);
        let wait = timing.refusal_retry.saturating_mul(doubled);
        wait.min(timing.refusal_retry_cap)
    }
}
