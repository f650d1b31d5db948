//! Tags that users may not set. Pure.

use std::collections::BTreeMap;

use capa_api::conditions::Reason;
use capa_cloud::identifying_tag;
use capa_network::Problem;

/// A problem for each reserved tag at this path. Reserved tags are AWS's tags and the ownership tags, which determine
/// the resources that are deleted.
pub(crate) fn refused<'a>(path: &'a str, tags: &'a BTreeMap<String, String>) -> impl Iterator<Item = Problem> + 'a {
    tags.keys().filter(|key| is_reserved(key)).map(move |key| {
        Problem::new(
            Reason::Conflict,
            format!("{path}: {key} is a tag of the provider or of AWS: remove it"),
        )
    })
}

fn is_reserved(key: &str) -> bool {
    identifying_tag(key) || key.starts_with("kubernetes.io/cluster/") || key.starts_with("aws:")
}
