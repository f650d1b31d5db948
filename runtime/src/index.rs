//! An index of the objects of a cache by keys, for example by an id that their spec names.

use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::Arc;

use kube::runtime::reflector::{ObjectRef, Store};
use parking_lot::RwLock;

use crate::changes::Change;
use crate::kinds::CachedKind;

/// Receives the changes of a cache after the store has them.
pub(crate) trait Follower<K>: Debug + Send + Sync {
    /// Follows one change.
    fn follow(&self, change: &Change<K>);
}

/// An index of a cache, made by [`crate::cache::ObjectCache::index`]. It is updated for every change of the cache
/// before the subscribers receive the change. Clones share the index.
#[derive(Clone, Debug)]
pub struct CacheIndex<K: CachedKind> {
    store: Store<K>,
    keys_of: fn(&K) -> Vec<String>,
    entries: Arc<RwLock<Entries<K>>>,
}

#[derive(Debug)]
struct Entries<K: CachedKind> {
    by_key: HashMap<String, Vec<ObjectRef<K>>>,
    keys: HashMap<ObjectRef<K>, Vec<String>>,
}

impl<K: CachedKind> CacheIndex<K> {
    /// An empty index of this store.
    pub(crate) fn new(store: Store<K>, keys_of: fn(&K) -> Vec<String>) -> Self {
        let entries = Entries { by_key: HashMap::new(), keys: HashMap::new() };
        Self { store, keys_of, entries: Arc::new(RwLock::new(entries)) }
    }

    /// The objects that have this key, in no particular order.
    pub fn get(&self, key: &str) -> Vec<Arc<K>> {
        let references = self.entries.read().by_key.get(key).cloned().unwrap_or_default();
        let objects = references.iter().filter_map(|reference| self.store.get(reference));
        // The store may be a moment ahead.
        objects.filter(|object| (self.keys_of)(object).iter().any(|own| own == key)).collect()
    }
}

impl<K: CachedKind> Follower<K> for CacheIndex<K> {
    fn follow(&self, change: &Change<K>) {
        let object = change.object();
        let keys = match change {
            Change::Applied(object) => (self.keys_of)(object),
            Change::Deleted(_) => Vec::new(),
        };
        self.entries.write().set(ObjectRef::from_obj(&**object), keys);
    }
}

impl<K: CachedKind> Entries<K> {
    fn set(&mut self, reference: ObjectRef<K>, keys: Vec<String>) {
        let before = self.keys.get(&reference);
        if before.map_or(&[][..], Vec::as_slice) == keys.as_slice() {
            return;
        }
        for key in self.keys.remove(&reference).unwrap_or_default() {
            if let Some(references) = self.by_key.get_mut(&key) {
                references.retain(|other| *other != reference);
                if references.is_empty() {
                    self.by_key.remove(&key);
                }
            }
        }
        for key in &keys {
            self.by_key.entry(key.clone()).or_default().push(reference.clone());
        }
        if !keys.is_empty() {
            self.keys.insert(reference, keys);
        }
    }
}

#[cfg(test)]
mod tests {
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
        let entries = index.entries.read();
        assert!(entries.by_key.is_empty() && entries.keys.is_empty(), "{entries:?}");
    }
}
