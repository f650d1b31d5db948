//! The objects that wait for a pass, for the metrics of the work queue, because kube's queue does not expose them.

use std::collections::HashMap;
use std::time::Duration;

use kube::runtime::reflector::ObjectRef;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::kinds::CachedKind;

/// The time from which each object waits for its next pass. It is in the future while a delay lasts.
#[derive(Debug)]
pub(super) struct Waiting<K: CachedKind>(Mutex<HashMap<ObjectRef<K>, Instant>>);

impl<K: CachedKind> Waiting<K> {
    pub(super) fn new() -> Self {
        Self(Mutex::new(HashMap::new()))
    }

    /// Records that an object is to be reconciled after this delay, unless an earlier pass is due.
    pub(super) fn enqueue(&self, object: ObjectRef<K>, delay: Duration) {
        let Some(due) = Instant::now().checked_add(delay) else {
            return;
        };
        let mut all = self.0.lock();
        let earliest = all.entry(object).or_insert(due);
        *earliest = due.min(*earliest);
    }

    /// Records the start of a pass. Returns the time since the pass was due; `None` for an unexpected pass.
    pub(super) fn begun(&self, object: &ObjectRef<K>) -> Option<Duration> {
        let due = self.0.lock().remove(object)?;
        Some(Instant::now().saturating_duration_since(due))
    }

    /// Forgets an object that does not exist.
    pub(super) fn forget(&self, object: &ObjectRef<K>) {
        self.0.lock().remove(object);
    }

    /// The number of objects whose pass is due.
    pub(super) fn due(&self) -> usize {
        let now = Instant::now();
        self.0.lock().values().filter(|due| **due <= now).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Widget;

    fn object(name: &str) -> ObjectRef<Widget> {
        ObjectRef::new(name).within("team")
    }

    #[tokio::test(start_paused = true)]
    async fn an_object_waits_from_when_its_pass_is_due() {
        let waiting = Waiting::new();
        waiting.enqueue(object("a"), Duration::from_secs(10));
        waiting.enqueue(object("b"), Duration::ZERO);
        assert_eq!(waiting.due(), 1);
        tokio::time::advance(Duration::from_secs(15)).await;
        assert_eq!(waiting.due(), 2);
        assert_eq!(waiting.begun(&object("a")), Some(Duration::from_secs(5)));
        assert_eq!(waiting.begun(&object("b")), Some(Duration::from_secs(15)));
        assert_eq!((waiting.due(), waiting.begun(&object("a"))), (0, None));
    }

    #[tokio::test(start_paused = true)]
    async fn of_several_requests_for_an_object_the_earliest_counts() {
        let waiting = Waiting::new();
        for delay in [60, 0, 30] {
            waiting.enqueue(object("a"), Duration::from_secs(delay));
        }
        waiting.enqueue(object("never"), Duration::MAX);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!((waiting.due(), waiting.0.lock().len()), (1, 1));
        waiting.forget(&object("a"));
        assert!(waiting.0.lock().is_empty());
    }
}
