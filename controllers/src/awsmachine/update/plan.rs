//! Plans the changes of tags and security groups of an instance. Pure.

use std::collections::BTreeSet;

use capa_api::common::Tags;
use capa_api::machine::{AWSMachine, AppliedSecurityGroups};
use capa_api::meta;
use capa_cloud::is_reserved_tag;
use serde_json::{Map, Value};

/// The tags to set and to remove.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TagChange {
    /// Tags to set.
    pub(in crate::awsmachine) set: Tags,
    /// Tags to remove, with the values that the provider has set. A tag that may have one of two values is in two of
    /// these maps.
    pub(in crate::awsmachine) remove: Vec<Tags>,
}

/// What is known of the tags that the provider has set.
#[derive(Clone, Copy, Debug)]
pub(super) struct KnownTags<'a> {
    /// The tags after the last change; `None` if they are unknown.
    pub(in crate::awsmachine) applied: Option<&'a Tags>,
    /// Tags of later changes whose outcome is unknown.
    pub(in crate::awsmachine) pending: &'a Tags,
}

impl<'a> KnownTags<'a> {
    fn applied(&self, key: &str) -> Option<&'a String> {
        self.applied?.get(key)
    }

    fn is_pending(&self, key: &str) -> bool {
        self.pending.contains_key(key)
    }
}

impl TagChange {
    /// The change from the tags that the provider has set to the wanted ones. If the former are unknown, all wanted
    /// tags are set, and none is removed. A tag that the provider sets in any case is never removed, although users may
    /// name it among theirs. An instance whose own `Name` is removed gets the name of its AWSMachine again.
    pub(in crate::awsmachine) fn between(known: KnownTags<'_>, wanted: &Tags, name: &str) -> Self {
        let is_new = |key: &str, value: &String| known.applied(key) != Some(value) || known.is_pending(key);
        let mut set = owned(wanted.iter().filter(|(key, value)| is_new(key, value)));
        let is_unwanted = |(key, _): &(&String, &String)| !wanted.contains_key(*key) && !is_reserved_tag(key);
        let applied = known.applied.into_iter().flatten().filter(is_unwanted);
        let is_other = |(key, value): &(&String, &String)| known.applied(key) != Some(*value);
        let pending = known.pending.iter().filter(is_unwanted).filter(is_other);
        let mut remove = vec![owned(applied), owned(pending)];
        for tags in &mut remove {
            if tags.remove(meta::NAME_TAG).is_some() {
                set.insert(meta::NAME_TAG.to_owned(), name.to_owned());
            }
        }
        remove.retain(|tags| !tags.is_empty());
        Self { set, remove }
    }

    /// All tags that the change is about.
    pub(in crate::awsmachine) fn tags(&self) -> impl Iterator<Item = (&String, &String)> {
        self.remove.iter().chain([&self.set]).flatten()
    }
}

fn owned<'a>(tags: impl Iterator<Item = (&'a String, &'a String)>) -> Tags {
    tags.map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// The known security groups of an instance.
#[derive(Clone, Copy, Debug)]
pub(super) struct KnownGroups<'a> {
    /// The groups of its network interface.
    pub(super) actual: &'a [String],
    /// The groups that the provider has given it.
    pub(in crate::awsmachine) given: &'a [String],
    /// The groups that it has because of `spec.additionalSecurityGroups`, if that is known.
    pub(in crate::awsmachine) applied: Option<&'a AppliedSecurityGroups>,
}

/// What the status records of the groups of an instance.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct GroupRecord {
    /// The groups because of `spec.additionalSecurityGroups`.
    pub(in crate::awsmachine) applied: AppliedSecurityGroups,
    /// All groups that the provider has given it.
    pub(in crate::awsmachine) given: Vec<String>,
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

impl KnownGroups<'_> {
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
        // The groups that AWS shows may be older than the last call, which the record contains.
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
                references: self.applied.map(|applied| applied.references.clone()).unwrap_or_default(),
                ids: known.union(&ids).cloned().collect(),
                pending: Some(true),
            },
            groups: groups.into_iter().collect(),
            after,
        }
    }

    /// The groups that the instance should have and that somebody has removed from its network interface.
    pub(in crate::awsmachine) fn missing(&self) -> Vec<&str> {
        let expected = self.of_network().chain(self.applied_ids());
        let missing = expected.filter(|id| !self.actual.contains(id));
        missing.map(String::as_str).collect()
    }
}

/// The tags that CAPA has set from `additionalTags`.
pub(super) fn tags_taken_over(machine: &AWSMachine) -> Option<Tags> {
    let recorded = annotation(machine, meta::CAPA_TAGS_ANNOTATION)?;
    let text = |(key, value): (String, Value)| Some((key, value.as_str()?.to_owned()));
    Some(recorded.into_iter().filter_map(text).collect())
}

/// The groups that CAPA has added from `additionalSecurityGroups`. It did not record the references.
pub(super) fn security_groups_taken_over(machine: &AWSMachine) -> Option<AppliedSecurityGroups> {
    let recorded = annotation(machine, meta::CAPA_SECURITY_GROUPS_ANNOTATION)?;
    Some(AppliedSecurityGroups {
        references: vec![],
        ids: recorded.into_iter().map(|(id, _)| id).collect(),
        pending: None,
    })
}

/// The object in an annotation.
fn annotation(machine: &AWSMachine, key: &str) -> Option<Map<String, Value>> {
    serde_json::from_str(meta::annotation(&machine.metadata, key)?).ok()
}

#[cfg(test)]
mod tests {
    use crate::testing::read;

    use super::*;

    fn tags(pairs: &[(&str, &str)]) -> Tags {
        let pairs = pairs.iter();
        pairs.map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    fn known<'a>(applied: Option<&'a Tags>, pending: &'a Tags) -> KnownTags<'a> {
        KnownTags { applied, pending }
    }

    #[test]
    fn only_differences_are_set_and_only_own_tags_are_removed() {
        let own = "kubernetes.io/cluster/dev";
        let applied = tags(&[("team", "a"), ("stage", "test"), ("cost", "7"), (own, "owned")]);
        let wanted = tags(&[("team", "b"), ("cost", "7"), ("owner", "ops")]);
        let change = TagChange::between(known(Some(&applied), &Tags::new()), &wanted, "m");
        assert_eq!(change.set, tags(&[("team", "b"), ("owner", "ops")]));
        assert_eq!(change.remove, [tags(&[("stage", "test")])]);
    }

    #[test]
    fn nothing_is_removed_while_it_is_unknown_what_was_set() {
        let wanted = tags(&[("team", "a")]);
        let change = TagChange::between(known(None, &Tags::new()), &wanted, "m");
        assert_eq!((change.set, change.remove), (wanted, vec![]));
    }

    #[test]
    fn the_name_of_the_machine_comes_back() {
        let applied = tags(&[("Name", "mine")]);
        let change = TagChange::between(known(Some(&applied), &Tags::new()), &Tags::new(), "m");
        assert_eq!((change.set, change.remove), (tags(&[("Name", "m")]), vec![]));
    }

    #[test]
    fn tags_of_unknown_outcome_are_set_or_removed() {
        let pending = tags(&[("team", "b"), ("stage", "live"), ("owner", "ops")]);
        let applied = tags(&[("team", "a"), ("stage", "test"), ("cost", "7")]);
        let wanted = tags(&[("team", "a"), ("cost", "7")]);
        let change = TagChange::between(known(Some(&applied), &pending), &wanted, "m");
        assert_eq!(change.set, tags(&[("team", "a")]));
        let remove = [tags(&[("stage", "test")]), tags(&[("stage", "live"), ("owner", "ops")])];
        assert_eq!(change.remove, remove);
    }

    fn ids(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn groups(names: &[&str]) -> AppliedSecurityGroups {
        AppliedSecurityGroups { references: vec![], ids: ids(names), pending: None }
    }

    /// The groups of the call, if there is one, and the record after it.
    fn step(
        actual: &[&str],
        given: &[&str],
        applied: Option<&[&str]>,
        wanted: &[&str],
    ) -> (Option<Vec<String>>, Vec<String>) {
        let (actual, given, applied) = (ids(actual), ids(given), applied.map(groups));
        let facts = KnownGroups { actual: &actual, given: &given, applied: applied.as_ref() };
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
        let facts = KnownGroups { actual: &actual, given: &given, applied: Some(&applied) };
        let GroupStep::Replace { groups: now, after, .. } = facts.step_to(groups(&[])) else {
            panic!("no call");
        };
        assert_eq!(after.given, ids(&["net"]));
        let without = KnownGroups { actual: &now, given: &after.given, applied: Some(&after.applied) };
        assert_eq!(without.missing(), [""; 0]);
        let again = without.step_to(groups(&["old"]));
        assert!(matches!(again, GroupStep::Replace { groups, .. } if groups == ids(&["net", "old"])));
    }

    #[test]
    fn the_record_before_the_call_has_old_and_new_groups() {
        let (actual, given, applied) = (ids(&["net", "old"]), ids(&["net", "old"]), groups(&["old"]));
        let facts = KnownGroups { actual: &actual, given: &given, applied: Some(&applied) };
        let GroupStep::Replace { before, .. } = facts.step_to(groups(&["new"])) else {
            panic!("no call");
        };
        assert_eq!(before.ids, ids(&["new", "old"]));
    }

    #[test]
    fn nothing_is_removed_while_it_is_unknown_what_was_added() {
        assert_eq!(step(&["net", "old"], &[], None, &["new"]).0, Some(ids(&["net", "new", "old"])));
        assert_eq!(step(&["net", "new"], &[], None, &["new"]), (None, ids(&["new"])));
    }

    #[test]
    fn the_last_group_is_not_removed() {
        assert_eq!(step(&["old"], &["old"], Some(&["old"]), &[]).0, Some(vec![]));
    }

    #[test]
    fn removed_groups_are_named() {
        let (actual, given, applied) = (ids(&["net", "other"]), ids(&["net", "old"]), groups(&["old"]));
        let facts = KnownGroups { actual: &actual, given: &given, applied: Some(&applied) };
        assert_eq!(facts.missing(), ["old"]);
    }

    fn machine(annotations: &str) -> AWSMachine {
        read(&format!(
            "{{apiVersion: infrastructure.cluster.x-k8s.io/v1beta2, kind: AWSMachine, \
              metadata: {{name: m, annotations: {{{annotations}}}}}, spec: {{instanceType: t3.large}}}}"
        ))
    }

    #[test]
    fn the_records_of_capa_are_read() {
        let taken_over = machine(
            "sigs.k8s.io/cluster-api-provider-aws-last-applied-tags: '{\"team\": \"a\", \"odd\": 7}', \
             sigs.k8s.io/cluster-api-provider-aws-last-applied-security-groups: '{\"sg-1\": {}, \"sg-2\": {}}'",
        );
        assert_eq!(tags_taken_over(&taken_over), Some([("team".to_owned(), "a".to_owned())].into()));
        assert_eq!(security_groups_taken_over(&taken_over).unwrap().ids, ["sg-1", "sg-2"]);
    }

    #[test]
    fn an_absent_or_broken_record_is_unknown() {
        for annotations in ["", "sigs.k8s.io/cluster-api-provider-aws-last-applied-tags: 'broken'"] {
            assert_eq!(tags_taken_over(&machine(annotations)), None);
            assert_eq!(security_groups_taken_over(&machine(annotations)), None);
        }
    }
}
