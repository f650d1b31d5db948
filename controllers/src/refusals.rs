//! Permanent errors of AWS calls, and the time of the next call. The next call is made as soon as an input of the call
//! has changed. Without a change, calls are repeated with growing delays.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use capa_api::conditions::ConditionUpdate;
use capa_cloud::Timing;
use capa_runtime::reconcile::Next;
use parking_lot::Mutex;

use crate::call_fingerprint::CallFingerprint;

/// A permanent error that AWS would repeat.
#[derive(Clone, Debug)]
pub(crate) struct Refusal {
    /// The condition of the object about the error.
    pub(crate) condition: ConditionUpdate,
    /// The next reconcile of the object.
    pub(crate) next: Next,
}

/// The last permanent error of each call of an object, by the object's UID. If they are lost, the process makes each
/// call once more.
#[derive(Clone, Default)]
pub struct Refusals {
    by_uid: Arc<Mutex<HashMap<String, HashMap<u64, Refused>>>>,
}

struct Refused {
    /// The hash of the inputs of the call.
    inputs: u64,
    condition: ConditionUpdate,
    /// The time of the error on a monotonic clock, because a change of the wall clock would lengthen or shorten the
    /// delay.
    at: Duration,
    /// Number of earlier errors with the same inputs.
    before: u32,
}

impl Refusals {
    /// The permanent error of calls with these inputs, while it is too early for the next call. `now` is the time since
    /// the process began.
    pub(crate) fn active_backoff(
        &self,
        uid: &str,
        fingerprint: CallFingerprint,
        now: Duration,
        timing: &Timing,
    ) -> Option<Refusal> {
        let by_uid = self.by_uid.lock();
        let refused = by_uid.get(uid)?.get(&fingerprint.call)?;
        if refused.inputs != fingerprint.inputs {
            return None;
        }
        let remaining = refused.wait(timing).saturating_sub(now.saturating_sub(refused.at));
        let refusal = || Refusal { condition: refused.condition.clone(), next: next(remaining, timing) };
        (!remaining.is_zero()).then(refusal)
    }

    /// Records a permanent error of a call with these inputs. Returns the time of the next reconcile.
    pub(crate) fn refused(
        &self,
        uid: &str,
        fingerprint: CallFingerprint,
        condition: ConditionUpdate,
        now: Duration,
        timing: &Timing,
    ) -> Next {
        let mut by_uid = self.by_uid.lock();
        let by_call = by_uid.entry(uid.to_owned()).or_default();
        let last = by_call.get(&fingerprint.call);
        let last = last.filter(|refused| refused.inputs == fingerprint.inputs);
        let before = last.map_or(0, |refused| refused.before.saturating_add(1));
        let refused = Refused { inputs: fingerprint.inputs, condition, at: now, before };
        let wait = refused.wait(timing);
        by_call.insert(fingerprint.call, refused);
        next(wait, timing)
    }

    /// Number of stored errors.
    pub(crate) fn entries(&self) -> usize {
        self.by_uid.lock().values().map(HashMap::len).sum()
    }

    /// Removes an object that is gone, or whose calls succeed.
    pub(crate) fn forget(&self, uid: &str) {
        self.by_uid.lock().remove(uid);
    }
}

impl Refused {
    /// The first two delays are short, because AWS's services are eventually consistent.
    fn wait(&self, timing: &Timing) -> Duration {
        timing.refusal_wait(self.before)
    }
}

/// The next reconcile of an object whose next call is due after `wait`. Sources, identities and Secrets have no watch,
/// so they are read again before the call.
fn next(wait: Duration, timing: &Timing) -> Next {
    Next::Requeue(wait.min(timing.source_retry_cap))
}
