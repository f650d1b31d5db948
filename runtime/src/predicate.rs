//! Predicates: which changes of an object trigger a reconcile.

use std::hash::{DefaultHasher, Hash, Hasher};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::Resource;

/// The annotation by which a provider delays `clusterctl move`. This manager sets and removes the annotation within one
/// pass.
const BLOCK_MOVE_ANNOTATION: &str = "clusterctl.cluster.x-k8s.io/block-move";

/// The predicate of every controller for its own kind: a hash of all fields of an object except the status.
///
/// The generation covers the spec. The other hashed fields are metadata that do not change the generation, but to which
/// a Cluster API controller must react: the pause annotation, labels, the owner reference that core sets, finalizers
/// that other controllers removed, and the deletion timestamp. The annotation `block-move` is left out, because a pass
/// that sets and removes it would trigger itself and defeat its own back-off.
///
/// The result is always `Some`: `None` would mean that the predicate cannot tell, and every change would pass.
pub fn spec_or_metadata<K: Resource>(object: &K) -> Option<u64> {
    let metadata = object.meta();
    let mut hasher = DefaultHasher::new();
    metadata.generation.hash(&mut hasher);
    metadata.labels.hash(&mut hasher);
    for annotation in metadata.annotations.iter().flatten() {
        if annotation.0 != BLOCK_MOVE_ANNOTATION {
            annotation.hash(&mut hasher);
        }
    }
    metadata.finalizers.hash(&mut hasher);
    metadata.deletion_timestamp.as_ref().map(|time| time.0).hash(&mut hasher);
    for owner in metadata.owner_references.iter().flatten() {
        hash_owner(owner, &mut hasher);
    }
    Some(hasher.finish())
}

fn hash_owner(owner: &OwnerReference, hasher: &mut impl Hasher) {
    let OwnerReference { api_version, kind, name, uid, controller, block_owner_deletion } = owner;
    (api_version, kind, name, uid, controller, block_owner_deletion).hash(hasher);
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
    use k8s_openapi::jiff::Timestamp;

    use super::*;
    use crate::testing::{Widget, WidgetStatus, widget};

    type Change = Box<dyn Fn(&mut ObjectMeta)>;

    #[test]
    fn a_change_of_status_or_resource_version_is_ignored() {
        let before = widget("a");
        let mut after = before.clone();
        after.status = Some(WidgetStatus { phase: Some("New".into()), ..WidgetStatus::default() });
        after.metadata.resource_version = Some("2".into());
        after.metadata.managed_fields = None;
        assert_eq!(spec_or_metadata(&before), spec_or_metadata(&after));
    }

    #[test]
    fn the_block_move_annotation_is_ignored() {
        let before = widget("a");
        let mut after = before.clone();
        after.metadata.annotations = Some([(BLOCK_MOVE_ANNOTATION.to_owned(), String::new())].into());
        assert_eq!(spec_or_metadata(&before), spec_or_metadata(&after));
    }

    #[test]
    fn every_other_change_of_metadata_triggers_a_pass() {
        let owner = OwnerReference { name: "cluster".into(), ..OwnerReference::default() };
        let changes: Vec<(&str, Change)> = vec![
            ("generation", Box::new(|metadata| metadata.generation = Some(7))),
            ("labels", Box::new(|metadata| metadata.labels = Some([("a".into(), "b".into())].into()))),
            ("annotations", Box::new(|metadata| metadata.annotations = Some([("a".into(), "b".into())].into()))),
            ("finalizers", Box::new(|metadata| metadata.finalizers = Some(vec!["a".into()]))),
            ("owner references", Box::new(move |metadata| metadata.owner_references = Some(vec![owner.clone()]))),
            ("deletion", Box::new(|metadata| metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH)))),
        ];
        let before: Widget = widget("a");
        for (name, change) in changes {
            let mut after = before.clone();
            change(&mut after.metadata);
            assert_ne!(spec_or_metadata(&before), spec_or_metadata(&after), "{name}");
        }
    }
}
