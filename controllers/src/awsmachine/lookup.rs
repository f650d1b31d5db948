//! Lookups of a machine's instances by tags and by client token, besides those that the instance informer follows.

use capa_api::conditions::ConditionType;
use capa_api::meta;
use capa_cloud::{CloudError, Instance, MachineCloud, Query};

use super::blocked::Blocked;

/// The query for the tags by which every provider of this API finds the instance of a machine.
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
pub(super) fn has_tags_of_machine(instance: &Instance, cluster_tag: &str, namespace: &str, owner_name: &str) -> bool {
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

/// A lookup that failed blocks a launch as well as a deletion.
pub(super) fn failed(error: &CloudError) -> Blocked {
    let message = format!("whether an instance of this machine exists could not be looked up: {error}");
    Blocked::by_call(ConditionType::InstanceReady, message, error)
}
