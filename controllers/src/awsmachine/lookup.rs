//! The machine's instances as AWS shows them outside the store: by tags and by client token.

use capa_api::meta;
use capa_cloud::{CloudError, Instance, MachineCloud, Query};

/// The tags by which every provider of this API finds a machine's instance.
pub(super) fn tagged(cluster_tag: &str, namespace: &str, owner_name: &str) -> Query {
    Query::filter(
        format!("tag:{}", meta::cluster_tag(cluster_tag)),
        [meta::OWNED_TAG_VALUE],
    )
    .and(
        format!("tag:{}", meta::MACHINE_NAME_TAG),
        [meta::machine_name_tag_value(namespace, owner_name)],
    )
}

/// Whether the instance carries the tags of this machine.
pub(super) fn is_ours(instance: &Instance, cluster_tag: &str, namespace: &str, owner_name: &str) -> bool {
    let tag = |key: &str| instance.tags.get(key).map(String::as_str);
    tag(&meta::cluster_tag(cluster_tag)) == Some(meta::OWNED_TAG_VALUE)
        && tag(meta::MACHINE_NAME_TAG) == Some(meta::machine_name_tag_value(namespace, owner_name).as_str())
}

/// All instances with these tags, and those that were launched with this token, whatever their tags are by now.
pub(super) async fn find(
    cloud: &dyn MachineCloud,
    tags: &Query,
    client_token: Option<&str>,
) -> Result<Vec<Instance>, CloudError> {
    let mut found = cloud.find_instances(tags).await?;
    if let Some(token) = client_token {
        for instance in cloud.find_instances(&Query::filter("client-token", [token])).await? {
            if !found.iter().any(|known| known.id == instance.id) {
                found.push(instance);
            }
        }
    }
    Ok(found)
}
