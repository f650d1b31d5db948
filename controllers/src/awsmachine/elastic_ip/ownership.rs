//! Decides which Elastic IPs belong to an instance. Pure.
//!
//! The tags are CAPA's: the cluster's, and a role that names the instance. They need no UID of an AWSMachine, so that the
//! address of an instance is found again after a move, after a loss of the status, and after CAPA allocated it.

use capa_api::common::Tags;
use capa_api::meta;
use capa_cloud::{ElasticIp, Query};

/// The role of an address in its tags.
fn role(instance_id: &str) -> String {
    format!("ec2-{instance_id}")
}

/// The query for the addresses of an instance.
pub(super) fn address_query(instance_id: &str) -> Query {
    Query::filter(format!("tag:{}", meta::ROLE_TAG), [role(instance_id)])
}

/// The addresses that were allocated for an instance of the cluster, in the order of their ids.
pub(super) fn addresses_of(instance_id: &str, cluster_tag: &str, found: Vec<ElasticIp>) -> Vec<ElasticIp> {
    let (role, cluster) = (role(instance_id), meta::cluster_tag(cluster_tag));
    let has = |address: &ElasticIp, key: &str, value: &str| address.tags.get(key).is_some_and(|tag| tag == value);
    let found = found.into_iter();
    let mut ours: Vec<ElasticIp> = found
        .filter(|address| has(address, meta::ROLE_TAG, &role) && has(address, &cluster, meta::OWNED_TAG_VALUE))
        .collect();
    ours.sort_by(|one, other| one.allocation_id.cmp(&other.allocation_id));
    ours
}

/// The tags of the address of an instance. Those of the provider take precedence over `others`.
pub(super) fn tags(instance_id: &str, cluster_tag: &str, machine_name_tag: String, others: Tags) -> Tags {
    let mut tags = Tags::from([(
        meta::NAME_TAG.to_owned(),
        format!("{cluster_tag}-eip-{}", role(instance_id)),
    )]);
    tags.extend(others);
    tags.extend([
        (meta::cluster_tag(cluster_tag), meta::OWNED_TAG_VALUE.to_owned()),
        (meta::ROLE_TAG.to_owned(), role(instance_id)),
        (meta::MACHINE_NAME_TAG.to_owned(), machine_name_tag),
    ]);
    tags
}

#[cfg(test)]
mod tests {
    use super::*;

    const INSTANCE: &str = "i-0000000000000000a";

    fn address(id: &str, tags: Tags) -> ElasticIp {
        ElasticIp {
            allocation_id: id.to_owned(),
            public_ip: "203.0.113.1".to_owned(),
            association_id: None,
            instance_id: None,
            tags,
        }
    }

    #[test]
    fn the_address_of_an_instance_is_known_by_cluster_and_role() {
        let own = || tags(INSTANCE, "dev", "team-a/m".to_owned(), Tags::new());
        let of_capa: Tags = [
            ("sigs.k8s.io/cluster-api-provider-aws/cluster/dev", "owned"),
            ("sigs.k8s.io/cluster-api-provider-aws/role", "ec2-i-0000000000000000a"),
        ]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into();
        let of_another = tags("i-0000000000000000b", "dev", "team-a/m".to_owned(), Tags::new());
        let of_another_cluster = tags(INSTANCE, "prod", "team-a/m".to_owned(), Tags::new());
        let found = vec![
            address("eipalloc-2", own()),
            address("eipalloc-1", of_capa),
            address("eipalloc-3", of_another),
            address("eipalloc-4", of_another_cluster),
            address("eipalloc-5", Tags::new()),
        ];
        let ours = addresses_of(INSTANCE, "dev", found).into_iter();
        let ids: Vec<String> = ours.map(|address| address.allocation_id).collect();
        assert_eq!(ids, ["eipalloc-1", "eipalloc-2"]);
    }

    #[test]
    fn tags_of_users_may_change_the_name_alone() {
        let others = Tags::from([
            (meta::NAME_TAG.to_owned(), "front door".to_owned()),
            (meta::ROLE_TAG.to_owned(), "ec2-i-other".to_owned()),
        ]);
        let tags = tags(INSTANCE, "dev", "team-a/m".to_owned(), others);
        assert_eq!(tags[meta::NAME_TAG], "front door");
        assert_eq!(tags[meta::ROLE_TAG], role(INSTANCE));
    }
}
