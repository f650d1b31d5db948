//! The objects that wait for a pass, for the metrics of the work queue, because kube's queue does not expose them.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::marker::PhantomData;
use std::time::Duration;

use kube::runtime::reflector::ObjectRef;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::kinds::CachedKind;

/// The objects that wait for their next passes, by the hashes of their names: at most times all objects wait, and names
/// are larger than everything else that is kept here. Two objects with the same hash would be one in the metrics.
#[derive(Debug)]
pub(super) struct Waiting<K> {
    by_name: Mutex<HashMap<u64, Due>>,
    hasher: RandomState,
    kind: PhantomData<fn(&K)>,
}

/// The times from which an object waits. They are in the future while a delay lasts.
#[derive(Debug)]
struct Due {
    /// For its next pass.
    pass: Instant,
    /// For a pass that continues an earlier one: the earlier pass has asked for it, or waits for an answer that has
    /// come.
    continuation: Option<Instant>,
}

impl<K: CachedKind> Waiting<K> {
    pub(super) fn new() -> Self {
        Self { by_name: Mutex::default(), hasher: RandomState::new(), kind: PhantomData }
    }

    /// Records that an object is to be reconciled now, because it or another object has changed.
    pub(super) fn changed(&self, object: &ObjectRef<K>) {
        let now = Instant::now();
        self.enqueue(object, now, None);
    }

    /// Records that an earlier pass over an object is to be continued after this delay.
    pub(super) fn continue_after(&self, object: &ObjectRef<K>, delay: Duration) {
        if let Some(due) = Instant::now().checked_add(delay) {
            self.enqueue(object, due, Some(due));
        }
    }

    fn hash(&self, object: &ObjectRef<K>) -> u64 {
        self.hasher.hash_one(object)
    }

    fn enqueue(&self, object: &ObjectRef<K>, pass: Instant, continuation: Option<Instant>) {
        let mut all = self.by_name.lock();
        let due = all.entry(self.hash(object)).or_insert(Due { pass, continuation });
        due.pass = due.pass.min(pass);
        due.continuation = due.continuation.into_iter().chain(continuation).min();
    }

    /// Whether the pass of an object that starts now continues an earlier one.
    pub(super) fn continues(&self, object: &ObjectRef<K>) -> bool {
        let all = self.by_name.lock();
        let continuation = all.get(&self.hash(object)).and_then(|due| due.continuation);
        continuation.is_some_and(|due| due <= Instant::now())
    }

    /// Records the start of a pass. Returns the time since the pass was due; `None` for an unexpected pass.
    pub(super) fn begun(&self, object: &ObjectRef<K>) -> Option<Duration> {
        let due = self.by_name.lock().remove(&self.hash(object))?;
        Some(Instant::now().saturating_duration_since(due.pass))
    }

    /// Forgets an object that does not exist.
    pub(super) fn forget(&self, object: &ObjectRef<K>) {
        self.by_name.lock().remove(&self.hash(object));
    }

    /// The number of objects whose pass is due.
    pub(super) fn due(&self) -> usize {
        let now = Instant::now();
        self.by_name.lock().values().filter(|due| due.pass <= now).count()
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
        waiting.continue_after(&object("a"), Duration::from_secs(10));
        waiting.changed(&object("b"));
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
            waiting.continue_after(&object("a"), Duration::from_secs(delay));
        }
        waiting.continue_after(&object("never"), Duration::MAX);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!((waiting.due(), waiting.by_name.lock().len()), (1, 1));
        waiting.forget(&object("a"));
        assert!(waiting.by_name.lock().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_pass_continues_an_earlier_one_once_that_one_asked_for_it() {
        let waiting = Waiting::new();
        waiting.continue_after(&object("a"), Duration::from_secs(10));
        waiting.changed(&object("a"));
        assert!(!waiting.continues(&object("a")), "the change comes earlier");
        tokio::time::advance(Duration::from_secs(10)).await;
        assert!(waiting.continues(&object("a")));
        waiting.begun(&object("a"));
        waiting.changed(&object("a"));
        assert!(!waiting.continues(&object("a")), "that one has passed");
        waiting.continue_after(&object("a"), Duration::ZERO);
        assert!(waiting.continues(&object("a")));
    }
}
