//! Plans the change of the tags of an instance. Pure.

use std::collections::BTreeSet;

use capa_api::common::Tags;
use capa_api::meta;

use crate::tags::is_reserved;

/// The tags to set and to remove.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TagChange {
    /// Tags to set.
    pub(super) set: Tags,
    /// Tags to remove, with the values that the provider has set.
    pub(super) remove: Tags,
}

/// What is known of the tags that the provider has set.
#[derive(Clone, Copy, Debug)]
pub(super) struct KnownTags<'a> {
    /// The tags after the last change; `None` if they are unknown.
    pub(super) applied: Option<&'a Tags>,
    /// The keys of tags of later changes whose outcome is unknown.
    pub(super) pending: &'a [String],
}

impl<'a> KnownTags<'a> {
    fn applied(&self, key: &str) -> Option<&'a String> {
        self.applied?.get(key)
    }

    fn is_pending(&self, key: &str) -> bool {
        self.pending.iter().any(|pending| pending == key)
    }

    fn keys(&self) -> BTreeSet<&'a String> {
        let applied = self.applied.into_iter().flat_map(Tags::keys);
        applied.chain(self.pending).collect()
    }
}

impl TagChange {
    /// The change from the tags that the provider has set to the wanted ones. If the former are unknown, all wanted
    /// tags are set, and none is removed. A tag that the provider sets in any case is never removed, although users may
    /// name it among theirs. An instance whose own `Name` is removed gets the name of its AWSMachine again.
    pub(super) fn between(known: KnownTags<'_>, wanted: &Tags, name: &str) -> Self {
        let is_new = |key: &str, value: &String| known.applied(key) != Some(value) || known.is_pending(key);
        let set = wanted.iter().filter(|(key, value)| is_new(key, value));
        let mut change = Self {
            set: set.map(|(key, value)| (key.clone(), value.clone())).collect(),
            remove: Tags::new(),
        };
        let is_unwanted = |key: &&String| !wanted.contains_key(*key) && !is_reserved(key);
        for key in known.keys().into_iter().filter(is_unwanted) {
            let value = known.applied(key).cloned().unwrap_or_default();
            if known.is_pending(key) {
                // AWS removes a tag with this value only.
                change.set.insert(key.clone(), value.clone());
            }
            change.remove.insert(key.clone(), value);
        }
        if change.remove.remove(meta::NAME_TAG).is_some() {
            change.set.insert(meta::NAME_TAG.to_owned(), name.to_owned());
        }
        change
    }

    /// The keys of all tags that the change is about.
    pub(super) fn keys(&self) -> BTreeSet<String> {
        self.set.keys().chain(self.remove.keys()).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tags(pairs: &[(&str, &str)]) -> Tags {
        let pairs = pairs.iter();
        pairs
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect()
    }

    fn known<'a>(applied: Option<&'a Tags>, pending: &'a [String]) -> KnownTags<'a> {
        KnownTags { applied, pending }
    }

    #[test]
    fn only_differences_are_set_and_only_own_tags_are_removed() {
        let own = "kubernetes.io/cluster/dev";
        let applied = tags(&[("team", "a"), ("stage", "test"), ("cost", "7"), (own, "owned")]);
        let wanted = tags(&[("team", "b"), ("cost", "7"), ("owner", "ops")]);
        let change = TagChange::between(known(Some(&applied), &[]), &wanted, "m");
        assert_eq!(change.set, tags(&[("team", "b"), ("owner", "ops")]));
        assert_eq!(change.remove, tags(&[("stage", "test")]));
    }

    #[test]
    fn nothing_is_removed_while_it_is_unknown_what_was_set() {
        let wanted = tags(&[("team", "a")]);
        let change = TagChange::between(known(None, &[]), &wanted, "m");
        assert_eq!((change.set, change.remove), (wanted, Tags::new()));
    }

    #[test]
    fn the_name_of_the_machine_comes_back() {
        let applied = tags(&[("Name", "mine")]);
        let change = TagChange::between(known(Some(&applied), &[]), &Tags::new(), "m");
        assert_eq!((change.set, change.remove), (tags(&[("Name", "m")]), Tags::new()));
    }

    #[test]
    fn tags_of_unknown_outcome_are_set_or_removed() {
        let pending = ["team", "stage", "owner"].map(str::to_owned);
        let applied = tags(&[("team", "a"), ("stage", "test"), ("cost", "7")]);
        let wanted = tags(&[("team", "a"), ("cost", "7")]);
        let change = TagChange::between(known(Some(&applied), &pending), &wanted, "m");
        assert_eq!(change.set, tags(&[("team", "a"), ("stage", "test"), ("owner", "")]));
        assert_eq!(change.remove, tags(&[("stage", "test"), ("owner", "")]));
    }
}
