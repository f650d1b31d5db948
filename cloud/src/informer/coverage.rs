//! The scope of listings, and the instances that the informer stores: those of the clusters of its own machines. An
//! account may contain the instances of hundreds of clusters, each with its own informer.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use capa_api::meta;

use super::owner_tags::OwnerTags;
use super::record::Record;
use super::{Epoch, InstanceInformer};
use crate::Query;

/// Maximum number of filter values in one EC2 call
/// (<https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DescribeInstances.html>).
pub const VALUES_PER_FILTER: usize = 200;

/// Maximum length of a tag key, in characters (<https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_Tag.html>).
const MAX_TAG_KEY: usize = 127;

/// The instances that a listing shows. The absence of an instance from a listing counts only for the clusters that the
/// listing covers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListingScope {
    /// Instances with the tag of one of these clusters, at most [`VALUES_PER_FILTER`] clusters.
    Clusters(BTreeSet<Arc<str>>),
    /// Instances of all clusters: all instances with the provider's role tag.
    AllClusters,
}

impl ListingScope {
    /// The query of the listing.
    pub fn query(&self) -> Query {
        match self {
            Self::Clusters(names) => Query::filter("tag-key", names.iter().map(|name| meta::cluster_tag(name))),
            Self::AllClusters => Query::filter("tag-key", [meta::ROLE_TAG]),
        }
    }

    /// Whether the listing shows the instances of a cluster.
    pub(super) fn covers(&self, cluster: &str) -> bool {
        match self {
            Self::Clusters(names) => names.contains(cluster),
            Self::AllClusters => true,
        }
    }
}

/// Whether the tag key of a cluster can be a filter's value. EC2 treats `*`, `?` and a backslash as patterns, and
/// refuses a call with a key that no tag can have. The names of Clusters do not contain these characters.
fn is_exact(cluster: &str) -> bool {
    let plain = |character: char| character.is_ascii_alphanumeric() || matches!(character, '-' | '_' | '.');
    !cluster.is_empty() && cluster.chars().all(plain) && meta::cluster_tag(cluster).len() <= MAX_TAG_KEY
}

/// The clusters of the machines that watch instances, with the number of machines in each namespace.
#[derive(Default)]
pub(super) struct ServedClusters(BTreeMap<Arc<str>, BTreeMap<String, usize>>);

impl ServedClusters {
    /// Adds a machine of a cluster. Returns the shared copy of the cluster's name.
    pub(super) fn add(&mut self, cluster: &str, namespace: &str) -> Arc<str> {
        let known = self.0.get_key_value(cluster);
        let cluster = known.map_or_else(|| cluster.into(), |(cluster, _)| cluster.clone());
        let namespaces = self.0.entry(cluster.clone()).or_default();
        *namespaces.entry(namespace.to_owned()).or_default() += 1;
        cluster
    }

    /// Removes a machine of a cluster.
    pub(super) fn remove(&mut self, cluster: &str, namespace: &str) {
        let Some(namespaces) = self.0.get_mut(cluster) else {
            return;
        };
        if let Some(machines) = namespaces.get_mut(namespace) {
            *machines = machines.saturating_sub(1);
        }
        namespaces.retain(|_, machines| *machines > 0);
        if namespaces.is_empty() {
            self.0.remove(cluster);
        }
    }

    /// The scope of a listing that begins now.
    pub(super) fn scope(&self) -> ListingScope {
        if self.0.len() > VALUES_PER_FILTER || !self.0.keys().all(|cluster| is_exact(cluster)) {
            return ListingScope::AllClusters;
        }
        ListingScope::Clusters(self.0.keys().cloned().collect())
    }

    /// Whether an instance with these tags belongs to a served cluster: a machine of the same cluster and namespace
    /// watches an instance. Another namespace may contain a cluster with the same name, and another informer follows
    /// that cluster.
    fn serves(&self, tags: &OwnerTags<'_>) -> bool {
        self.cluster_of(tags).is_some()
    }

    /// The served cluster that an instance with these tags belongs to.
    fn cluster_of<'a>(&self, tags: &OwnerTags<'a>) -> Option<&'a str> {
        let (namespace, _) = tags.machine?;
        let is_served = |cluster: &&&str| {
            let namespaces = self.0.get(**cluster);
            namespaces.is_some_and(|namespaces| namespaces.contains_key(namespace))
        };
        tags.clusters.iter().find(is_served).copied()
    }
}

/// A living instance that no machine of the informer watches, with the names in its tags.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnwatchedInstance {
    /// The id, `i-…`.
    pub id: Arc<str>,
    /// Namespace of the Machine that the tags name.
    pub namespace: String,
    /// Name of that Machine.
    pub machine: String,
    /// Name of the cluster that the tags name.
    pub cluster: String,
    /// The management cluster that launched the instance, if its tags name one.
    pub management_cluster: Option<String>,
}

impl InstanceInformer {
    /// Whether the informer stores an instance from a listing: a machine watches the instance, or the instance belongs
    /// to a served cluster. In the second case its Machine may watch it later, or may not exist.
    pub(super) fn is_wanted(&self, id: &str, tags: &OwnerTags<'_>) -> bool {
        let record = self.records.get(id);
        record.is_some_and(|record| !record.watchers.is_empty()) || self.served.serves(tags)
    }

    /// Removes the instances that no machine watches and that belong to no served cluster. Instances that were seen
    /// after the listing of this epoch stay.
    pub(super) fn drop_unserved(&mut self, began: Epoch) {
        let served = &self.served;
        self.records.retain(|_, record| {
            let is_served = || record.kept().is_some_and(|kept| served.serves(&kept.owner_tags()));
            !record.watchers.is_empty() || record.seen > began || is_served()
        });
    }

    /// Whether a listing of this scope shows the instance if the instance exists. The cluster of a machine that watches
    /// the instance decides, or the instance's own tags.
    pub(super) fn is_covered(&self, record: &Record, scope: &ListingScope) -> bool {
        let of_watcher = record.watchers.iter().filter_map(|machine| self.watches.get(machine));
        let of_tags = || record.kept().map(|kept| kept.owner_tags().clusters);
        of_watcher.map(|watch| &watch.cluster).any(|name| scope.covers(name))
            || of_tags().into_iter().flatten().any(|name| scope.covers(name))
    }

    /// The living instances of served clusters that no machine watches.
    pub(super) fn unwatched(&self) -> impl Iterator<Item = UnwatchedInstance> {
        let unwatched = self.records.iter().filter(|(_, record)| record.watchers.is_empty());
        unwatched.filter(|(_, record)| record.is_alive()).filter_map(|(id, record)| {
            let tags = record.kept()?.owner_tags();
            let (namespace, machine) = tags.machine?;
            Some(UnwatchedInstance {
                id: id.clone(),
                namespace: namespace.to_owned(),
                machine: machine.to_owned(),
                cluster: self.served.cluster_of(&tags)?.to_owned(),
                management_cluster: tags.management_cluster.map(str::to_owned),
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn served(clusters: impl IntoIterator<Item = String>) -> ServedClusters {
        let mut served = ServedClusters::default();
        for cluster in clusters {
            served.add(&cluster, "default");
        }
        served
    }

    fn scope(clusters: &[&str]) -> ListingScope {
        served(clusters.iter().map(|name| (*name).to_owned())).scope()
    }

    #[test]
    fn a_listing_asks_for_the_tags_of_the_served_clusters() {
        let query = scope(&["prod", "dev"]).query();
        let keys = ["dev", "prod"].map(meta::cluster_tag);
        assert_eq!(query, Query::filter("tag-key", keys));
    }

    #[test]
    fn more_clusters_than_a_filter_takes_are_listed_by_the_role() {
        let clusters = |count: usize| served((0..count).map(|index| format!("c{index}")));
        assert!(matches!(clusters(200).scope(), ListingScope::Clusters(names) if names.len() == 200));
        assert_eq!(clusters(201).scope(), ListingScope::AllClusters);
        assert_eq!(ListingScope::AllClusters.query(), Query::filter("tag-key", [meta::ROLE_TAG]));
    }

    #[test]
    fn only_exact_cluster_names_become_filter_values() {
        let long = "a".repeat(83);
        for name in ["*", "de?", "d\\ev", "", "dev/prod", long.as_str()] {
            assert_eq!(scope(&["dev", name]), ListingScope::AllClusters, "{name:?}");
        }
        for name in ["dev", "dev-1.example", "Dev_1", &long[..82]] {
            assert!(matches!(scope(&[name]), ListingScope::Clusters(_)), "{name:?}");
        }
    }

    #[test]
    fn a_cluster_is_served_until_its_last_machine_leaves() {
        let mut served = served(["dev".to_owned(), "dev".to_owned()]);
        served.add("dev", "other");
        let of = |served: &ServedClusters, namespace: &str| {
            let name = format!("{namespace}/m");
            let key = meta::cluster_tag("dev");
            let tags = [("MachineName", name.as_str()), (key.as_str(), "owned")];
            served.serves(&OwnerTags::of(tags.into_iter()))
        };
        served.remove("dev", "default");
        assert_eq!((of(&served, "default"), of(&served, "third")), (true, false));
        served.remove("dev", "default");
        assert_eq!((of(&served, "default"), of(&served, "other")), (false, true));
        served.remove("dev", "other");
        assert!(served.0.is_empty());
    }
}
