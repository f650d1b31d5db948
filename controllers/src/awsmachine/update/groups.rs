//! Plans the change of the security groups of an instance. Pure.

use std::collections::BTreeSet;

use capa_api::machine::AppliedSecurityGroups;

/// What is known of the security groups of an instance.
#[derive(Clone, Copy, Debug)]
pub(super) struct GroupFacts<'a> {
    /// The groups of its network interface.
    pub(super) actual: &'a [String],
    /// The groups that the provider has given it.
    pub(super) given: &'a [String],
    /// The groups that it has because of `spec.additionalSecurityGroups`, if that is known.
    pub(super) applied: Option<&'a AppliedSecurityGroups>,
}

/// What the status records of the groups of an instance.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct GroupRecord {
    /// The groups because of `spec.additionalSecurityGroups`.
    pub(super) applied: AppliedSecurityGroups,
    /// All groups that the provider has given it.
    pub(super) given: Vec<String>,
}

/// The step that brings the wanted groups to the instance.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum GroupStep {
    /// The instance has them: only the record changes.
    Record(GroupRecord),
    /// The network interface gets these groups.
    Replace {
        /// The record before the call: it has the groups that may be there after a crash.
        before: AppliedSecurityGroups,
        /// The groups of the call.
        groups: Vec<String>,
        /// The record after the call.
        after: GroupRecord,
    },
    /// The instance would be left without any group.
    LeavesNone,
}

impl GroupFacts<'_> {
    fn applied_ids(&self) -> &[String] {
        self.applied.map_or(&[], |applied| applied.ids.as_slice())
    }

    /// The groups that the instance has because of its network.
    fn of_network(&self) -> impl Iterator<Item = &String> {
        let applied = self.applied_ids();
        self.given.iter().filter(|id| !applied.contains(id))
    }

    /// The step to the groups that `wanted` was resolved to. Groups that others have added stay.
    pub(super) fn step_to(&self, wanted: AppliedSecurityGroups) -> GroupStep {
        let of_network: BTreeSet<&String> = self.of_network().collect();
        let ids: BTreeSet<String> = wanted.ids.into_iter().filter(|id| !of_network.contains(id)).collect();
        let known: BTreeSet<String> = self.applied_ids().iter().cloned().collect();
        let kept = self.actual.iter().filter(|id| !known.contains(*id));
        let groups: BTreeSet<String> = kept.cloned().chain(ids.iter().cloned()).collect();
        let actual: BTreeSet<String> = self.actual.iter().cloned().collect();
        let after = GroupRecord {
            given: of_network.iter().copied().chain(&ids).cloned().collect(),
            applied: AppliedSecurityGroups {
                references: wanted.references,
                ids: ids.iter().cloned().collect(),
                pending: None,
            },
        };
        // The groups that are shown may be older than the last call, which the record has.
        let is_pending = self.applied.is_some_and(|applied| applied.pending == Some(true));
        let has_changed = is_pending || (self.applied.is_some() && known != ids);
        if groups == actual && !has_changed {
            return GroupStep::Record(after);
        }
        if groups.is_empty() {
            return GroupStep::LeavesNone;
        }
        GroupStep::Replace {
            before: AppliedSecurityGroups {
                references: self
                    .applied
                    .map(|applied| applied.references.clone())
                    .unwrap_or_default(),
                ids: known.union(&ids).cloned().collect(),
                pending: Some(true),
            },
            groups: groups.into_iter().collect(),
            after,
        }
    }

    /// The groups that the instance should have and that somebody has removed from its network interface.
    pub(super) fn missing(&self) -> Vec<&str> {
        let expected = self.of_network().chain(self.applied_ids());
        let missing = expected.filter(|id| !self.actual.contains(id));
        missing.map(String::as_str).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn groups(names: &[&str]) -> AppliedSecurityGroups {
        AppliedSecurityGroups {
            references: vec![],
            ids: ids(names),
            pending: None,
        }
    }

    /// The groups of the call, if there is one, and the record after it.
    fn step(
        actual: &[&str],
        given: &[&str],
        applied: Option<&[&str]>,
        wanted: &[&str],
    ) -> (Option<Vec<String>>, Vec<String>) {
        let (actual, given, applied) = (ids(actual), ids(given), applied.map(groups));
        let facts = GroupFacts {
            actual: &actual,
            given: &given,
            applied: applied.as_ref(),
        };
        match facts.step_to(groups(wanted)) {
            GroupStep::Record(after) => (None, after.applied.ids),
            GroupStep::Replace { groups, after, .. } => (Some(groups), after.applied.ids),
            GroupStep::LeavesNone => (Some(vec![]), vec![]),
        }
    }

    #[test]
    fn a_change_keeps_the_groups_of_the_network_and_of_others() {
        let (called, recorded) = step(&["net", "old", "other"], &["net", "old"], Some(&["old"]), &["new"]);
        assert_eq!(called, Some(ids(&["net", "new", "other"])));
        assert_eq!(recorded, ids(&["new"]));
    }

    #[test]
    fn a_group_of_the_network_is_not_removed_with_the_spec() {
        let (called, recorded) = step(&["net"], &["net"], Some(&[]), &["net"]);
        assert_eq!((called, recorded), (None, vec![]));
        assert_eq!(step(&["net"], &["net"], Some(&[]), &[]).0, None);
    }

    #[test]
    fn a_removal_is_made_although_the_group_does_not_show_yet() {
        let (called, recorded) = step(&["net"], &["net"], Some(&["late"]), &[]);
        assert_eq!((called, recorded), (Some(ids(&["net"])), vec![]));
    }

    #[test]
    fn a_change_is_completed_after_a_crash_before_its_call() {
        let (called, _) = step(&["net"], &["net"], Some(&["new"]), &["new"]);
        assert_eq!(called, Some(ids(&["net", "new"])));
    }

    #[test]
    fn a_group_that_was_there_at_launch_can_come_back() {
        let (actual, given, applied) = (ids(&["net", "old"]), ids(&["net", "old"]), groups(&["old"]));
        let facts = GroupFacts {
            actual: &actual,
            given: &given,
            applied: Some(&applied),
        };
        let GroupStep::Replace { groups: now, after, .. } = facts.step_to(groups(&[])) else {
            panic!("no call");
        };
        assert_eq!(after.given, ids(&["net"]));
        let without = GroupFacts {
            actual: &now,
            given: &after.given,
            applied: Some(&after.applied),
        };
        assert_eq!(without.missing(), [""; 0]);
        let again = without.step_to(groups(&["old"]));
        assert!(matches!(again, GroupStep::Replace { groups, .. } if groups == ids(&["net", "old"])));
    }

    #[test]
    fn the_record_before_the_call_has_old_and_new_groups() {
        let (actual, given, applied) = (ids(&["net", "old"]), ids(&["net", "old"]), groups(&["old"]));
        let facts = GroupFacts {
            actual: &actual,
            given: &given,
            applied: Some(&applied),
        };
        let GroupStep::Replace { before, .. } = facts.step_to(groups(&["new"])) else {
            panic!("no call");
        };
        assert_eq!(before.ids, ids(&["new", "old"]));
    }

    #[test]
    fn nothing_is_removed_while_it_is_unknown_what_was_added() {
        assert_eq!(
            step(&["net", "old"], &[], None, &["new"]).0,
            Some(ids(&["net", "new", "old"]))
        );
        assert_eq!(step(&["net", "new"], &[], None, &["new"]), (None, ids(&["new"])));
    }

    #[test]
    fn the_last_group_is_not_removed() {
        assert_eq!(step(&["old"], &["old"], Some(&["old"]), &[]).0, Some(vec![]));
    }

    #[test]
    fn removed_groups_are_named() {
        let (actual, given, applied) = (ids(&["net", "other"]), ids(&["net", "old"]), groups(&["old"]));
        let facts = GroupFacts {
            actual: &actual,
            given: &given,
            applied: Some(&applied),
        };
        assert_eq!(facts.missing(), ["old"]);
    }
}
