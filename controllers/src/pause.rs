//! The condition `Paused` of an object that is reconciled. Pure.

use capa_api::conditions::{ConditionType, ConditionUpdate, Reason};
use capa_api::meta;
use kube::api::ObjectMeta;

/// `Paused` is False. It says so where an interrupted `clusterctl move` has left its annotation behind: with it, a
/// deletion of the object would leave everything in AWS as it is.
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
    use super::*;

    #[test]
    fn a_mark_that_a_move_left_behind_is_named() {
        let mut metadata = ObjectMeta::default();
        assert_eq!(not_paused(&metadata).reason, Reason::NotPaused);
        metadata.annotations = Some([(meta::DELETE_FOR_MOVE_ANNOTATION.to_owned(), String::new())].into());
        let update = not_paused(&metadata);
        assert_eq!(update.reason, Reason::MoveInterrupted);
        assert!(
            update.message.contains(meta::DELETE_FOR_MOVE_ANNOTATION),
            "{}",
            update.message
        );
    }
}
