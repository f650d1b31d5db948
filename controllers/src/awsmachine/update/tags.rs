//! Plans the change of the tags of an instance. Pure.

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

impl TagChange {
    /// The change from the tags that the provider has set to the wanted ones. If the former are unknown, all wanted
    /// tags are set, and none is removed. A tag that the provider sets in any case is never removed, although users may
    /// name it among theirs. An instance whose own `Name` is removed gets the name of its AWSMachine again.
    pub(super) fn between(applied: Option<&Tags>, wanted: &Tags, name: &str) -> Self {
        let is_new = |(key, value): &(&String, &String)| applied.and_then(|tags| tags.get(*key)) != Some(*value);
        let set = wanted.iter().filter(is_new);
        let mut change = Self {
            set: owned(set),
            remove: owned(
                applied
                    .into_iter()
                    .flatten()
                    .filter(|(key, _)| !wanted.contains_key(*key) && !is_reserved(key)),
            ),
        };
        if change.remove.remove(meta::NAME_TAG).is_some() {
            change.set.insert(meta::NAME_TAG.to_owned(), name.to_owned());
        }
        change
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

    #[test]
    fn only_differences_are_set_and_only_own_tags_are_removed() {
        let own = "kubernetes.io/cluster/dev";
        let applied = tags(&[("team", "a"), ("stage", "test"), ("cost", "7"), (own, "owned")]);
        let wanted = tags(&[("team", "b"), ("cost", "7"), ("owner", "ops")]);
        let change = TagChange::between(Some(&applied), &wanted, "m");
        assert_eq!(change.set, tags(&[("team", "b"), ("owner", "ops")]));
        assert_eq!(change.remove, tags(&[("stage", "test")]));
    }

    #[test]
    fn nothing_is_removed_while_it_is_unknown_what_was_set() {
        let wanted = tags(&[("team", "a")]);
        let change = TagChange::between(None, &wanted, "m");
        assert_eq!((change.set, change.remove), (wanted, Tags::new()));
    }

    #[test]
    fn the_name_of_the_machine_comes_back() {
        let applied = tags(&[("Name", "mine")]);
        let change = TagChange::between(Some(&applied), &Tags::new(), "m");
        assert_eq!((change.set, change.remove), (tags(&[("Name", "m")]), Tags::new()));
    }
}
