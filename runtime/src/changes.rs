//! Filters the changes of a cache for one subscriber.

use std::collections::HashMap;
use std::future::ready;
use std::sync::Arc;

use futures::{Stream, StreamExt};
use kube::runtime::Predicate;
use kube::runtime::reflector::ObjectRef;

use crate::kinds::CachedKind;

/// A change of an object that the store of the cache already shows.
#[derive(Debug)]
pub enum Change<K> {
    /// The object is new, or it changed.
    Applied(Arc<K>),
    /// The object is gone; this is its last known state.
    Deleted(Arc<K>),
}

impl<K> Change<K> {
    /// The changed object.
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

/// Passes on every change of an object's `predicate` hash, and every deletion.
///
/// kube's own filter does not see deletions, so it forgets hashes after a time and then passes on an unchanged object
/// once. This filter sees deletions, so it keeps one hash for each existing object.
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
