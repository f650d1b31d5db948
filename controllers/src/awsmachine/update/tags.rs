//! Plans the change of the tags of an instance. Pure.

use capa_api::common::Tags;
use capa_api::meta;

use crate::tags::is_reserved;

/// The tags to set and to remove.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TagChange {
    /// Tags to set.
    pub(super) set: Tags,
    /// Tags to remove, with the values that the provider has set. A tag with two values that it may have is in two of
    /// them.
    pub(super) remove: Vec<Tags>,
}

/// What is known of the tags that the provider has set.
#[derive(Clone, Copy, Debug)]
pub(super) struct KnownTags<'a> {
    /// The tags after the last change; `None` if they are unknown.
    pub(super) applied: Option<&'a Tags>,
    /// Tags of later changes whose outcome is unknown.
    pub(super) pending: &'a Tags,
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
    pub(super) fn between(known: KnownTags<'_>, wanted: &Tags, name: &str) -> Self {
        let is_new = |key: &str, value: &String| known.applied(key) != Some(value) || known.is_pending(key);
        let mut set = owned(wanted.iter().filter(|(key, value)| is_new(key, value)));
        let is_unwanted = |(key, _): &(&String, &String)| !wanted.contains_key(*key) && !is_reserved(key);
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
    pub(super) fn tags(&self) -> impl Iterator<Item = (&String, &String)> {
        self.remove.iter().chain([&self.set]).flatten()
    }
}

fn owned<'a>(tags: impl Iterator<Item = (&'a String, &'a String)>) -> Tags {
    tags.map(|(key, value)| (key.clone(), value.clone())).collect()
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
}
