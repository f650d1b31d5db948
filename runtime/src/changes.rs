//! Filters the changes of a cache for one subscriber.

use std::collections::HashMap;
use std::future::ready;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;

use futures::{Stream, StreamExt};
use kube::runtime::Predicate;

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

    /// The object as it is now; `None` if it is gone.
    pub(crate) fn current(&self) -> Option<&Arc<K>> {
        match self {
            Self::Applied(object) => Some(object),
            Self::Deleted(_) => None,
        }
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
/// once. This filter sees deletions, so it keeps one hash for each existing object, under the hash of its name: names
/// are larger than everything else that it would keep.
pub(crate) fn changes<K: CachedKind, P: Predicate<K>>(
    all: impl Stream<Item = Change<K>>,
    predicate: P,
) -> impl Stream<Item = Change<K>> {
    let hasher = RandomState::new();
    let mut told = HashMap::<u64, u64>::new();
    all.filter(move |change| {
        let metadata = change.object().meta();
        let name = hasher.hash_one((&metadata.namespace, &metadata.name));
        ready(match change {
            Change::Deleted(_) => {
                told.remove(&name);
                true
            }
            Change::Applied(object) => match predicate.hash_property(object) {
                Some(hash) => {
                    let current = hasher.hash_one((&metadata.uid, hash));
                    told.insert(name, current) != Some(current)
                }
                None => true,
            },
        })
    })
}
