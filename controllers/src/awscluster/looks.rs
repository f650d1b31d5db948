//! What the last look at AWS showed of clusters whose network is not complete, so that a noisy writer does not turn every
//! pass into calls. Losing it costs one look.

use std::collections::HashMap;
use std::sync::Arc;

use capa_cloud::Timing;
use jiff::Timestamp;
use parking_lot::Mutex;

use super::dereference::Facts;

/// What a look was about. Where any of it changes, AWS is asked anew at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Question {
    /// Generation of the spec.
    pub(super) generation: Option<i64>,
    /// Value of the annotation by which a user asks for another look.
    pub(super) requested: Option<String>,
    /// Key of the identity.
    pub(super) identity: String,
}

/// The last looks of this process.
#[derive(Clone, Default)]
pub struct LookMemory {
    looks: Arc<Mutex<HashMap<String, Look>>>,
}

struct Look {
    question: Question,
    /// When the trouble was first seen.
    since: Timestamp,
    at: Timestamp,
    facts: Facts,
}

impl Look {
    /// Waiting as long again as the trouble has lasted doubles the period. A tenth less, because the requeue is timed by
    /// conditions, which know whole seconds only.
    fn is_fresh(&self, now: Timestamp, timing: &Timing) -> bool {
        let lasted = self.at.duration_since(self.since).unsigned_abs();
        let wait = lasted.clamp(timing.resolve_retry, timing.resolve_retry_cap);
        now.duration_since(self.at).unsigned_abs() < wait.mul_f32(0.9)
    }
}

impl LookMemory {
    /// What AWS last answered to the question, while it is too early to ask again.
    pub(super) fn recall(&self, uid: &str, question: &Question, now: Timestamp, timing: &Timing) -> Option<Facts> {
        let looks = self.looks.lock();
        let look = looks.get(uid).filter(|look| look.question == *question)?;
        look.is_fresh(now, timing).then(|| look.facts.clone())
    }

    /// Remembers an answer that was not complete.
    pub(super) fn remember(&self, uid: &str, question: Question, now: Timestamp, facts: &Facts) {
        let mut looks = self.looks.lock();
        let earlier = looks.get(uid).filter(|look| look.question == question);
        let since = earlier.map_or(now, |look| look.since);
        let look = Look {
            question,
            since,
            at: now,
            facts: facts.clone(),
        };
        looks.insert(uid.to_owned(), look);
    }

    /// Forgets a cluster whose network is complete or that is gone.
    pub(super) fn forget(&self, uid: &str) {
        self.looks.lock().remove(uid);
    }
}
