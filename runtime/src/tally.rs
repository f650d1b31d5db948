//! Counts of a cache's objects by keys, for example by their conditions.

use std::collections::HashMap;
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::index::Follower;
use crate::kinds::CachedKind;

/// Counts of objects by key, made by [`crate::cache::ObjectCache::tally`]. They are updated for every change of the
/// cache. Clones share the counts.
#[derive(Debug)]
pub struct Tally<K, T> {
    keys_of: fn(&K) -> Vec<T>,
    counts: Arc<Mutex<HashMap<T, u32>>>,
}

impl<K, T> Clone for Tally<K, T> {
    fn clone(&self) -> Self {
        Self { keys_of: self.keys_of, counts: Arc::clone(&self.counts) }
    }
}

impl<K: CachedKind, T: Copy + Eq + Hash> Tally<K, T> {
    /// Counts without any object.
    pub fn new(keys_of: fn(&K) -> Vec<T>) -> Self {
        Self { keys_of, counts: Arc::default() }
    }

    /// The number of objects for each key that at least one object has, in no particular order.
    pub fn counts(&self) -> Vec<(T, u32)> {
        self.counts.lock().iter().map(|(key, count)| (*key, *count)).collect()
    }

    /// Counts an object as it is now and no longer as it was before. A new object was not there before, and a deleted
    /// one is not there now.
    pub fn replace(&self, before: Option<&K>, now: Option<&K>) {
        let keys = |object: Option<&K>| object.map(self.keys_of).unwrap_or_default();
        let (former_keys, current_keys) = (keys(before), keys(now));
        let mut counts = self.counts.lock();
        for key in former_keys {
            if let Some(count) = counts.get_mut(&key) {
                *count -= 1;
                if *count == 0 {
                    counts.remove(&key);
                }
            }
        }
        for key in current_keys {
            *counts.entry(key).or_default() += 1;
        }
    }
}

impl<K: CachedKind, T: Copy + Debug + Eq + Hash + Send + Sync> Follower<K> for Tally<K, T> {
    fn follow(&self, before: Option<&Arc<K>>, now: Option<&Arc<K>>) {
        self.replace(before.map(Arc::as_ref), now.map(Arc::as_ref));
    }
}

#[cfg(test)]
mod tests {
    use kube::runtime::watcher::Event;

    use super::*;
    use crate::cache::{CacheFiller, ObjectCache};
    use crate::guarded::Guarded;
    use crate::testing::{FakeServer, Widget, runtime, widget};

    fn of_size(name: &str, size: u32) -> Widget {
        let mut widget = widget(name);
        widget.spec.size = size;
        widget
    }

    fn list(filler: &mut CacheFiller<Widget>, objects: &[Widget]) {
        filler.apply(Event::Init);
        for object in objects {
            filler.apply(Event::InitApply(Guarded(Ok(object.clone()))));
        }
        filler.apply(Event::InitDone);
    }

    fn counts(tally: &Tally<Widget, u32>) -> Vec<(u32, u32)> {
        let mut counts = tally.counts();
        counts.sort_unstable();
        counts
    }

    #[tokio::test]
    async fn a_tally_follows_every_change_of_its_cache() {
        let (runtime, _) = runtime(&FakeServer::default());
        let (cache, mut filler) = ObjectCache::<Widget>::new(&runtime);
        list(&mut filler, &[of_size("a", 1), of_size("b", 1), of_size("c", 2)]);
        let tally = cache.tally(|widget| vec![widget.spec.size]);
        assert_eq!(counts(&tally), [(1, 2), (2, 1)]);
        for _ in 0..2 {
            filler.apply(Event::Apply(Guarded(Ok(of_size("a", 2)))));
        }
        assert_eq!(counts(&tally), [(1, 1), (2, 2)]);
        filler.apply(Event::Delete(Guarded(Ok(of_size("c", 2)))));
        assert_eq!(counts(&tally), [(1, 1), (2, 1)]);
        list(&mut filler, &[of_size("d", 3)]);
        assert_eq!(counts(&tally), [(3, 1)]);
    }

    #[tokio::test]
    async fn a_list_counts_each_object_once() {
        let (runtime, _) = runtime(&FakeServer::default());
        let (cache, mut filler) = ObjectCache::<Widget>::new(&runtime);
        let tally = cache.tally(|widget| vec![widget.spec.size]);
        list(&mut filler, &[of_size("a", 1), of_size("b", 1)]);
        let mut recreated = of_size("b", 1);
        recreated.metadata.uid = Some("another".to_owned());
        list(&mut filler, &[of_size("a", 2), recreated.clone()]);
        assert_eq!(counts(&tally), [(1, 1), (2, 1)]);
        recreated.metadata.uid = Some("a third".to_owned());
        filler.apply(Event::Apply(Guarded(Ok(recreated))));
        assert_eq!(counts(&tally), [(1, 1), (2, 1)]);
    }

    #[tokio::test]
    async fn a_tally_keeps_nothing_of_what_is_gone() {
        let (runtime, _) = runtime(&FakeServer::default());
        let (cache, mut filler) = ObjectCache::<Widget>::new(&runtime);
        let tally = cache.tally(|widget| vec![widget.spec.size]);
        list(&mut filler, &[of_size("a", 1), of_size("b", 2)]);
        list(&mut filler, &[]);
        assert_eq!(tally.counts(), []);
    }
}
