//! The condition `Paused` of an object that is reconciled. Pure.

use capa_api::conditions::{ConditionType, ConditionUpdate, Reason};
use capa_api::contract::Cluster;
use capa_api::meta;
use kube::Resource;
use kube::api::ObjectMeta;

/// `Paused` of an object that its Cluster or its own annotation pauses; the message says which, in the words of Cluster
/// API's own controllers. `None` for an object that neither pauses.
pub(crate) fn paused<K: Resource<DynamicType = ()>>(object: &K, cluster: Option<&Cluster>) -> Option<ConditionUpdate> {
    let by_cluster = cluster.is_some_and(Cluster::is_paused);
    let by_cluster = by_cluster.then(|| "Cluster spec.paused is set to true".to_owned());
    let annotation = || format!("{} has the {} annotation", K::kind(&()), meta::PAUSED_ANNOTATION);
    let by_annotation = meta::is_paused(object.meta()).then(annotation);
    let by: Vec<String> = by_cluster.into_iter().chain(by_annotation).collect();
    let update = ConditionType::Paused.is_true(Reason::Paused).with_message(by.join(", "));
    (!by.is_empty()).then_some(update)
}

/// `Paused` is False. The message mentions the annotation that an interrupted `clusterctl move` has left behind,
/// because with this annotation the deletion of the object deletes nothing in AWS.
pub(crate) fn not_paused(metadata: &ObjectMeta) -> ConditionUpdate {
    if !meta::is_marked_for_move(metadata) {
        return ConditionType::Paused.is_false(Reason::NotPaused, "");
    }
    let message = format!(
        "the annotation {} is left from an interrupted move: while it is there, a deletion of this object changes \
         nothing in AWS; repeat the move, or remove the annotation if the object stays here",
        meta::DELETE_FOR_MOVE_ANNOTATION
    );
    ConditionType::Paused.is_false(Reason::MoveInterrupted, message)
}

#[cfg(test)]
mod tests {
    use capa_api::cluster::AWSCluster;

    use super::*;
    use crate::testing::read;

    #[test]
    fn a_mark_that_a_move_left_behind_is_named() {
        let mut metadata = ObjectMeta::default();
        assert_eq!(not_paused(&metadata).reason, Reason::NotPaused);
        metadata.annotations = Some([(meta::DELETE_FOR_MOVE_ANNOTATION.to_owned(), String::new())].into());
        let update = not_paused(&metadata);
        assert_eq!(update.reason, Reason::MoveInterrupted);
        assert!(update.message.contains(meta::DELETE_FOR_MOVE_ANNOTATION), "{}", update.message);
    }

    #[test]
    fn a_pause_says_whether_cluster_or_annotation_pauses() {
        let api = "apiVersion: infrastructure.cluster.x-k8s.io/v1beta2, kind: AWSCluster, spec: {}";
        let annotated = "metadata: {name: dev, annotations: {cluster.x-k8s.io/paused: ''}}";
        let cluster = |paused: bool| -> Cluster {
            read(&format!(
                "{{apiVersion: cluster.x-k8s.io/v1beta2, kind: Cluster, metadata: {{name: dev}}, \
                 spec: {{paused: {paused}}}}}"
            ))
        };
        let [bare, annotated]: [AWSCluster; 2] =
            ["metadata: {name: dev}", annotated].map(|metadata| read(&format!("{{{api}, {metadata}}}")));
        let message = |object, paused| paused_by(object, &cluster(paused));
        let by_annotation = "AWSCluster has the cluster.x-k8s.io/paused annotation";
        assert_eq!(message(&bare, false), None);
        assert_eq!(message(&bare, true).unwrap(), "Cluster spec.paused is set to true");
        assert_eq!(message(&annotated, false).unwrap(), by_annotation);
        let both = format!("Cluster spec.paused is set to true, {by_annotation}");
        assert_eq!(message(&annotated, true).unwrap(), both);
        assert_eq!(paused(&annotated, None).unwrap().message, by_annotation);
    }

    fn paused_by(object: &AWSCluster, cluster: &Cluster) -> Option<String> {
        paused(object, Some(cluster)).map(|update| update.message)
    }
}
