//! Warning events for conditions that become False, with the reason of the condition.

use capa_api::conditions::{self, ConditionType, Reason};
use capa_runtime::reconcile::EventDraft;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

/// A warning for every condition that has become False since `before`, or False for another reason. There is no warning
/// for `Ready` if another condition has the same reason.
pub(crate) fn warnings(before: &[Condition], after: &[Condition]) -> Vec<EventDraft> {
    let ready = ConditionType::Ready.as_str();
    let repeats = |reason: &str| {
        let mut others = after.iter().filter(|other| other.type_ != ready);
        others.any(|other| other.reason == reason)
    };
    after
        .iter()
        .filter(|condition| conditions::is_false(condition))
        .filter(|condition| condition.type_ != ready || !repeats(&condition.reason))
        .filter(|condition| !condition.reason.parse().is_ok_and(Reason::is_expected))
        .filter(|condition| {
            before
                .iter()
                .find(|old| old.type_ == condition.type_)
                .is_none_or(|old| old.status != condition.status || old.reason != condition.reason)
        })
        .map(|condition| EventDraft::of_condition(&condition.reason, &condition.message))
        .collect()
}

#[cfg(test)]
mod tests {
    use capa_api::conditions::{ConditionUpdate, merge};
    use jiff::Timestamp;

    use super::*;

    fn conditions(updates: Vec<ConditionUpdate>) -> Vec<Condition> {
        merge(&[], updates, None, Timestamp::UNIX_EPOCH)
    }

    #[test]
    fn only_a_new_reason_is_an_event() {
        let fine = conditions(vec![ConditionType::NetworkReady.is_true(Reason::Ready)]);
        let lost = conditions(vec![ConditionType::NetworkReady.is_false(Reason::NotFound, "subnet-1 does not exist")]);
        let worded =
            conditions(vec![ConditionType::NetworkReady.is_false(Reason::NotFound, "subnet-2 does not exist")]);
        let waiting = conditions(vec![ConditionType::InstanceReady.is_false(Reason::Pending, "")]);
        assert_eq!(warnings(&fine, &lost), [EventDraft::of_condition("NotFound", "subnet-1 does not exist")]);
        assert_eq!(warnings(&lost, &worded), []);
        assert_eq!(warnings(&fine, &waiting), []);
    }

    #[test]
    fn ready_is_an_event_unless_another_condition_has_its_reason() {
        let summed_up = conditions(vec![
            ConditionType::NetworkReady.is_false(Reason::NotFound, "subnet-1 does not exist"),
            ConditionType::Ready.is_false(Reason::NotFound, "subnet-1 does not exist"),
        ]);
        assert_eq!(warnings(&[], &summed_up).len(), 1);
        let alone = conditions(vec![
            ConditionType::Paused.is_false(Reason::NotPaused, ""),
            ConditionType::Ready.is_false(Reason::NotManagedYet, "set spec.unmanaged: true"),
        ]);
        assert_eq!(warnings(&[], &alone), [EventDraft::of_condition("NotManagedYet", "set spec.unmanaged: true")]);
        assert_eq!(warnings(&alone, &alone), []);
    }
}
