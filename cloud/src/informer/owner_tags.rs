//! Whose an instance is by its tags. That it is so is for others to prove: anybody may have put the tags there.

use capa_api::meta;

/// Whose an instance is by its tags.
#[derive(Default)]
pub(super) struct OwnerTags<'a> {
    /// Namespace and name of the Machine.
    pub(super) machine: Option<(&'a str, &'a str)>,
    /// The clusters that own it.
    pub(super) clusters: Vec<&'a str>,
    /// The management cluster that launched it.
    pub(super) management_cluster: Option<&'a str>,
}

impl<'a> OwnerTags<'a> {
    pub(super) fn of(tags: impl Iterator<Item = (&'a str, &'a str)>) -> Self {
        let mut owner = Self::default();
        for (key, value) in tags {
            if key == meta::MACHINE_NAME_TAG {
                owner.machine = value.split_once('/');
            } else if key == meta::MANAGEMENT_CLUSTER_TAG {
                owner.management_cluster = Some(value);
            } else if value == meta::OWNED_TAG_VALUE
                && let Some(cluster) = key.strip_prefix(meta::CLUSTER_TAG_PREFIX)
            {
                owner.clusters.push(cluster);
            }
        }
        owner
    }
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
        let nobody = OwnerTags::of([("MachineName", "one")].into_iter());
        assert_eq!((nobody.machine, nobody.clusters), (None, vec![]));
    }
}
