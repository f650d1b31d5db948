//! The changes of a cache that one subscriber wants to know.

use std::collections::HashMap;
use std::future::ready;
use std::sync::Arc;

use futures::{Stream, StreamExt};
use kube::runtime::Predicate;
use kube::runtime::reflector::ObjectRef;

use crate::kinds::CachedKind;

/// What happened to an object, told after the cache's store shows it.
#[derive(Debug)]
pub enum Change<K> {
    /// It is new, or it changed.
    Applied(Arc<K>),
    /// It is gone; this was its last state seen.
    Deleted(Arc<K>),
}

impl<K> Change<K> {
    /// The object concerned.
    pub fn object(&self) -> &Arc<K> {
        let (Self::Applied(object) | Self::Deleted(object)) = self;
        object
    }
}

impl<K> Clone for Change<K> {
    fn clone(&self) -> Self {
        match self {
            Self::Applied(object) => Self::Applied(Arc::clone(object)),
            Self::Deleted(object) => Self::Deleted(Arc::clone(object)),
        }
    }
}

/// Lets through what changes an object's `predicate` hash, and every deletion.
///
/// kube's own filter forgets hashes after a time, because it cannot see that an object is gone, and then lets one unchanged object through;
/// here deletions are seen, so the memory is exact and bounded by the objects there are.
pub(crate) fn changes<K: CachedKind, P: Predicate<K>>(
    all: impl Stream<Item = Change<K>>,
    predicate: P,
) -> impl Stream<Item = Change<K>> {
    let mut told = HashMap::<ObjectRef<K>, (Option<String>, u64)>::new();
    all.filter(move |change| {
        let reference = ObjectRef::from_obj(&**change.object());
        ready(match change {
            Change::Deleted(_) => {
                told.remove(&reference);
                true
            }
            Change::Applied(object) => match predicate.hash_property(object) {
                Some(hash) => {
                    let current = (object.meta().uid.clone(), hash);
                    told.insert(reference, current.clone()) != Some(current)
                }
                None => true,
            },
        })
    })
}
