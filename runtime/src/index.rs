//! An index of the objects of a cache by keys, for example by an id that their spec names.

use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::Arc;

use parking_lot::RwLock;

use crate::kinds::CachedKind;

/// Receives the changes of a cache after the store has them.
pub(crate) trait Follower<K>: Debug + Send + Sync {
    /// Follows one change: from what the store had `before`, to what it has now.
    fn follow(&self, before: Option<&Arc<K>>, now: Option<&Arc<K>>);
}

/// An index of a cache, made by [`crate::cache::ObjectCache::index`]. It is updated for every change of the cache
/// before the subscribers receive the change. Clones share the index.
#[derive(Clone, Debug)]
pub struct CacheIndex<K> {
    keys_of: fn(&K) -> Vec<String>,
    by_key: Arc<RwLock<HashMap<String, Vec<Arc<K>>>>>,
}

impl<K: CachedKind> CacheIndex<K> {
    /// An empty index.
    pub(crate) fn new(keys_of: fn(&K) -> Vec<String>) -> Self {
        Self { keys_of, by_key: Arc::default() }
    }

    /// The objects that have this key, in no particular order. They may be a moment older than those in the store.
    pub fn get(&self, key: &str) -> Vec<Arc<K>> {
        self.by_key.read().get(key).cloned().unwrap_or_default()
    }
}

impl<K: CachedKind> Follower<K> for CacheIndex<K> {
    fn follow(&self, before: Option<&Arc<K>>, now: Option<&Arc<K>>) {
        let keys = |object: Option<&Arc<K>>| object.map(|object| (self.keys_of)(object)).unwrap_or_default();
        let (former_keys, current_keys) = (keys(before), keys(now));
        let mut by_key = self.by_key.write();
        for key in former_keys {
            if let (Some(objects), Some(before)) = (by_key.get_mut(&key), before) {
                objects.retain(|other| !Arc::ptr_eq(other, before));
                if objects.is_empty() {
                    by_key.remove(&key);
                }
            }
        }
        for key in current_keys {
            // Most keys have one object.
            by_key.entry(key).or_insert_with(|| Vec::with_capacity(1)).extend(now.cloned());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use kube::ResourceExt;
    use kube::runtime::watcher::Event;

    use super::*;
    use crate::cache::{CacheFiller, ObjectCache};
    use crate::guarded::Guarded;
    use crate::testing::{FakeServer, Widget, runtime, widget};

    fn size(widget: &Widget) -> Vec<String> {
        vec![widget.spec.size.to_string()]
    }

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

    fn names(index: &CacheIndex<Widget>, key: &str) -> Vec<String> {
        let mut names: Vec<String> = index.get(key).iter().map(|object| object.name_any()).collect();
        names.sort();
        names
    }

    fn labels(index: &CacheIndex<Widget>, key: &str) -> Vec<Option<BTreeMap<String, String>>> {
        index.get(key).iter().map(|object| object.metadata.labels.clone()).collect()
    }

    #[tokio::test]
    async fn an_index_follows_every_change_of_its_cache() {
        let (runtime, _) = runtime(&FakeServer::default());
        let (cache, mut filler) = ObjectCache::<Widget>::new(&runtime);
        list(&mut filler, &[of_size("a", 1), of_size("b", 1), of_size("c", 2)]);
        let index = cache.index(size);
        assert_eq!((names(&index, "1"), names(&index, "2")), (vec!["a".into(), "b".into()], vec!["c".into()]));
        filler.apply(Event::Apply(Guarded(Ok(of_size("a", 2)))));
        assert_eq!((names(&index, "1"), names(&index, "2")), (vec!["b".into()], vec!["a".into(), "c".into()]));
        filler.apply(Event::Delete(Guarded(Ok(of_size("c", 2)))));
        assert_eq!(names(&index, "2"), ["a"]);
        list(&mut filler, &[of_size("d", 2)]);
        assert_eq!((names(&index, "1"), names(&index, "2")), (vec![], vec!["d".to_owned()]));
    }

    #[tokio::test]
    async fn an_index_keeps_nothing_of_what_is_gone() {
        let (runtime, _) = runtime(&FakeServer::default());
        let (cache, mut filler) = ObjectCache::<Widget>::new(&runtime);
        let index = cache.index(size);
        list(&mut filler, &[of_size("a", 1), of_size("b", 2)]);
        list(&mut filler, &[]);
        assert!(index.by_key.read().is_empty(), "{index:?}");
    }

    #[tokio::test]
    async fn an_index_shows_the_last_version_of_an_object_whose_keys_stay() {
        let (runtime, _) = runtime(&FakeServer::default());
        let (cache, mut filler) = ObjectCache::<Widget>::new(&runtime);
        let index = cache.index(size);
        list(&mut filler, &[of_size("a", 1)]);
        let mut labelled = of_size("a", 1);
        labelled.labels_mut().insert("version".to_owned(), "2".to_owned());
        filler.apply(Event::Apply(Guarded(Ok(labelled.clone()))));
        assert_eq!(labels(&index, "1"), [labelled.metadata.labels]);
    }

    #[tokio::test]
    async fn a_list_replaces_what_an_index_has_of_each_object() {
        let (runtime, _) = runtime(&FakeServer::default());
        let (cache, mut filler) = ObjectCache::<Widget>::new(&runtime);
        let index = cache.index(size);
        list(&mut filler, &[of_size("a", 1), of_size("b", 1)]);
        let (mut changed, mut recreated) = (of_size("a", 1), of_size("b", 1));
        changed.labels_mut().insert("version".to_owned(), "2".to_owned());
        recreated.metadata.uid = Some("another".to_owned());
        list(&mut filler, &[changed.clone(), recreated.clone()]);
        assert_eq!(names(&index, "1"), ["a", "b"]);
        assert!(labels(&index, "1").contains(&changed.metadata.labels));
        recreated.metadata.uid = Some("a third".to_owned());
        filler.apply(Event::Apply(Guarded(Ok(recreated))));
        assert_eq!(names(&index, "1"), ["a", "b"]);
    }
}
