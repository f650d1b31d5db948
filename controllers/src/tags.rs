//! Tags that users may not set. Pure.

use std::collections::BTreeMap;

use capa_api::conditions::Reason;
use capa_api::meta;
use capa_cloud::is_reserved_tag;
use capa_network::Problem;

/// A problem for each reserved tag at this path, except tags that the provider sets on the instances of this cluster
/// anyway. `cluster_tag` is the name of the cluster in tags.
pub(crate) fn refused<'a>(
    path: &'a str,
    tags: &'a BTreeMap<String, String>,
    cluster_tag: &str,
) -> impl Iterator<Item = Problem> + 'a {
    let own = [meta::cluster_tag(cluster_tag), meta::kubernetes_cluster_tag(cluster_tag)];
    let is_own = move |key: &String, value: &String| own.contains(key) && value == meta::OWNED_TAG_VALUE;
    let refused = tags.iter().filter(move |(key, value)| is_reserved_tag(key) && !is_own(key, value));
    refused.map(move |(key, _)| {
        Problem::new(Reason::Conflict, format!("{path}: {key} is a tag of the provider or of AWS: remove it"))
    })
}
