//! The owners of an instance according to its tags. Tags prove no ownership, because any user of the account can write
//! them.

use std::borrow::Cow;

use capa_api::meta;

/// The owners of an instance according to its tags.
#[derive(Default)]
pub(super) struct OwnerTags<'a> {
    /// Namespace and name of the Machine.
    pub(super) machine: Option<(&'a str, &'a str)>,
    /// The clusters that own the instance.
    pub(super) clusters: Vec<&'a str>,
    /// The management cluster that launched the instance.
    pub(super) management_cluster: Option<&'a str>,
}

impl<'a> OwnerTags<'a> {
    /// Reads the tags. Their keys may be shortened.
    pub(super) fn of(tags: impl Iterator<Item = (&'a str, &'a str)>) -> Self {
        let mut owner = Self::default();
        for (key, value) in tags {
            if key == meta::MACHINE_NAME_TAG {
                owner.machine = value.split_once('/');
            } else if let Some(own) = own_part(key) {
                if own_part(meta::MANAGEMENT_CLUSTER_TAG) == Some(own) {
                    owner.management_cluster = Some(value);
                } else if value == meta::OWNED_TAG_VALUE
                    && let Some(cluster) =
                        own_part(meta::CLUSTER_TAG_PREFIX).and_then(|prefix| own.strip_prefix(prefix))
                {
                    owner.clusters.push(cluster);
                }
            }
        }
        owner
    }
}

/// Replaces the prefix of the provider's own tag keys in the compact form, because every instance has several such
/// tags. EC2 answers in XML, which cannot contain this character.
const OWN: char = '\u{2}';

/// The key of a tag without the prefix of the provider's own keys.
pub(super) fn shorten(key: &str) -> Cow<'_, str> {
    let own = key.strip_prefix(meta::OWN_TAG_PREFIX);
    own.map_or(Cow::Borrowed(key), |own| Cow::Owned(format!("{OWN}{own}")))
}

/// Restores a shortened key.
pub(super) fn restore(key: &str) -> String {
    let own = key.strip_prefix(OWN);
    own.map_or_else(|| key.to_owned(), |own| format!("{}{own}", meta::OWN_TAG_PREFIX))
}

/// The part of one of the provider's own keys, whole or shortened, that follows the prefix.
fn own_part(key: &str) -> Option<&str> {
    key.strip_prefix(meta::OWN_TAG_PREFIX).or_else(|| key.strip_prefix(OWN))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_tags_of_ownership_name_a_cluster() {
        let tags = [
            ("MachineName", "team-a/one"),
            ("sigs.k8s.io/cluster-api-provider-aws/cluster/dev", "owned"),
            ("sigs.k8s.io/cluster-api-provider-aws/cluster/other", "shared"),
            ("sigs.k8s.io/cluster-api-provider-aws/role", "owned"),
        ];
        let owner = OwnerTags::of(tags.into_iter());
        assert_eq!((owner.machine, owner.clusters), (Some(("team-a", "one")), vec!["dev"]));
        let shortened = tags.map(|(key, value)| (shorten(key), value));
        let owner = OwnerTags::of(shortened.iter().map(|(key, value)| (key.as_ref(), *value)));
        assert_eq!((owner.machine, owner.clusters), (Some(("team-a", "one")), vec!["dev"]));
        assert_eq!(shortened.map(|(key, _)| restore(&key)), tags.map(|(key, _)| key.to_owned()));
        let nobody = OwnerTags::of([("MachineName", "one")].into_iter());
        assert_eq!((nobody.machine, nobody.clusters), (None, vec![]));
    }
}
