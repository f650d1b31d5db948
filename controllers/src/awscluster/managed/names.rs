//! The names and tags of the resources of a managed cluster. They equal CAPA's, so that each provider can take over the
//! other's clusters (`pkg/cloud/services/network` and `api/v1beta2/tags.go` of CAPA v2.13). Pure.

use blake2::Blake2b;
use blake2::digest::consts::U28;
use capa_api::cluster::AWSCluster;
use capa_api::cluster::security_group::SecurityGroupRole;
use capa_api::common::Tags;
use capa_api::meta;
use capa_cloud::elb::target_group::PREFIXES;
use sha2::{Digest, Sha256};

use super::ledger::IsOwned;

/// Tag key by which cloud controllers find subnets for internet-facing load balancers.
const PUBLIC_LOAD_BALANCERS: &str = "kubernetes.io/role/elb";
/// Tag key by which cloud controllers find subnets for internal load balancers.
const INTERNAL_LOAD_BALANCERS: &str = "kubernetes.io/role/internal-elb";
/// The value of the role tag on resources that all parts of a cluster share.
const COMMON: &str = "common";
/// The value of the role tag on load balancers of the API server, and on their target groups and listeners.
const API_SERVER: &str = "apiserver";
/// The value of the role tag on Elastic IPs of load balancers of the API server.
const LOAD_BALANCER_ADDRESS: &str = "lb-apiserver";
/// The most characters of the name of a load balancer.
const MAX_CHARACTERS: usize = 32;
/// The most tags that AWS allows on a resource.
pub(super) const MAX_TAGS: usize = 50;

/// Names and tags of one cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Names {
    /// Name of the Cluster.
    pub(crate) cluster: String,
    namespace: String,
    additional: Tags,
}

impl Names {
    /// The names of the resources that `object` describes for the Cluster of this name.
    pub(crate) fn of(cluster: &str, object: &AWSCluster) -> Self {
        Self {
            cluster: cluster.to_owned(),
            namespace: object.metadata.namespace.clone().unwrap_or_default(),
            additional: object.spec.additional_tags.clone(),
        }
    }

    pub(crate) fn vpc(&self) -> String {
        format!("{}-vpc", self.cluster)
    }

    pub(crate) fn internet_gateway(&self) -> String {
        format!("{}-igw", self.cluster)
    }

    pub(crate) fn nat_gateway(&self) -> String {
        format!("{}-nat", self.cluster)
    }

    pub(crate) fn nat_gateway_address_tags(&self) -> Tags {
        self.address_tags(COMMON)
    }

    pub(crate) fn load_balancer_address_tags(&self) -> Tags {
        self.address_tags(LOAD_BALANCER_ADDRESS)
    }

    fn address_tags(&self, role: &str) -> Tags {
        self.tags(&format!("{}-eip-{role}", self.cluster), role, &Tags::new())
    }

    /// The name of a route table. Those of several subnets of one class and zone have the same name.
    pub(crate) fn route_table(&self, is_public: bool, zone: &str) -> String {
        format!("{}-rt-{}-{zone}", self.cluster, class(is_public))
    }

    /// The name of the security group of a role. AWS interprets a name that begins with `sg-` as an id.
    pub(crate) fn security_group(&self, role: SecurityGroupRole) -> String {
        let prefix = if self.cluster.starts_with("sg-") { "@" } else { "" };
        format!("{prefix}{}-{}", self.cluster, role.as_str())
    }

    /// The description of the security group of a role.
    pub(crate) fn security_group_description(&self, role: SecurityGroupRole) -> String {
        format!("Kubernetes cluster {}: {}", self.cluster, role.as_str())
    }

    /// The name of a network load balancer without a name in the spec.
    pub(crate) fn load_balancer(&self) -> String {
        generated(&format!("{}-{}", self.namespace, self.cluster))
    }

    /// The name of a Classic Load Balancer without a name in the spec.
    pub(crate) fn classic_load_balancer(&self) -> String {
        generated(&self.cluster)
    }

    /// The name of the target group for a port of a load balancer. CAPA uses random letters instead of the hash, and
    /// finds target groups by the prefix.
    pub(crate) fn target_group(&self, load_balancer: &str, port: i64, is_api: bool) -> String {
        let of = format!("{}/{}/{load_balancer}/{port}", self.namespace, self.cluster);
        let hash = base36(Sha256::digest(of).iter().take(5));
        let [of_api, of_others] = PREFIXES;
        let prefix = if is_api { of_api } else { of_others };
        format!("{prefix}{hash}")
    }

    /// The tags of a load balancer of this name, and of its target groups and listeners.
    pub(crate) fn load_balancer_tags(&self, name: &str) -> Tags {
        self.tags(name, API_SERVER, &Tags::new())
    }

    /// The name of a default subnet.
    pub(crate) fn subnet(&self, is_public: bool, zone: &str) -> String {
        format!("{}-subnet-{}-{zone}", self.cluster, class(is_public))
    }

    /// The tags of a resource that all parts of the cluster share.
    pub(crate) fn common_tags(&self, name: &str, own: &Tags) -> Tags {
        self.tags(name, COMMON, own)
    }

    /// The tags of a route table, by which cloud controllers find it.
    pub(crate) fn route_table_tags(&self, name: &str) -> Tags {
        let mut tags = self.common_tags(name, &Tags::new());
        let kubernetes = meta::kubernetes_cluster_tag(&self.cluster);
        tags.insert(kubernetes, meta::OWNED_TAG_VALUE.to_owned());
        tags
    }

    /// The tags of the security group of a role. Cloud controllers add rules to the one group that has the Kubernetes
    /// tag of the cluster, and fail if there are several.
    pub(crate) fn security_group_tags(&self, role: SecurityGroupRole) -> Tags {
        let mut tags = self.tags(&self.security_group(role), role.as_str(), &Tags::new());
        let kubernetes = meta::kubernetes_cluster_tag(&self.cluster);
        if role == SecurityGroupRole::Lb {
            tags.insert(kubernetes, meta::OWNED_TAG_VALUE.to_owned());
        } else {
            tags.remove(&kubernetes);
        }
        tags
    }

    /// Whether the tags are those of a resource that all parts of the cluster share.
    pub(crate) fn owns_common(&self, tags: &Tags) -> bool {
        self.owns_with_role(tags, COMMON)
    }

    /// Whether the tags are those of an Elastic IP of a load balancer.
    pub(crate) fn owns_load_balancer_address(&self, tags: &Tags) -> bool {
        self.owns_with_role(tags, LOAD_BALANCER_ADDRESS)
    }

    fn owns_with_role(&self, tags: &Tags, role: &str) -> bool {
        self.owns(tags) && tags.get(meta::ROLE_TAG).is_some_and(|shown| shown == role)
    }

    /// The tags of a subnet.
    pub(crate) fn subnet_tags(&self, name: &str, is_public: bool, own: &Tags) -> Tags {
        let mut tags = self.tags(name, class(is_public), own);
        let balancers = if is_public { PUBLIC_LOAD_BALANCERS } else { INTERNAL_LOAD_BALANCERS };
        let kubernetes = meta::kubernetes_cluster_tag(&self.cluster);
        tags.insert(kubernetes, meta::OWNED_TAG_VALUE.to_owned());
        tags.entry(balancers.to_owned()).or_insert_with(|| "1".to_owned());
        tags
    }

    /// The tag that makes the cluster the owner of a resource.
    pub(crate) fn owns(&self, tags: &Tags) -> bool {
        let value = tags.get(&meta::cluster_tag(&self.cluster));
        value.is_some_and(|value| value == meta::OWNED_TAG_VALUE)
    }

    /// The words that name the other cluster which the tags make the owner.
    pub(crate) fn other_owner(&self, tags: &Tags) -> String {
        let owned = tags.iter().filter(|(_, value)| *value == meta::OWNED_TAG_VALUE);
        let mut clusters = owned.filter_map(|(key, _)| key.strip_prefix(meta::CLUSTER_TAG_PREFIX));
        let other = clusters.find(|cluster| *cluster != self.cluster);
        other.map(|other| format!(", but that of {other}")).unwrap_or_default()
    }

    /// Whether the tags make the cluster the owner.
    pub(crate) fn ownership(&self, tags: &Tags) -> IsOwned {
        if self.owns(tags) { IsOwned::Yes } else { IsOwned::No }
    }

    /// The reason why the provider does not change a recorded resource.
    pub(crate) fn lacks_tag(&self, id: &str) -> String {
        let key = meta::cluster_tag(&self.cluster);
        format!(
            "{id} does not have the tag {key}: {}, so that the provider neither changes nor deletes it: set the tag if \
             it is this cluster's",
            meta::OWNED_TAG_VALUE
        )
    }

    fn tags(&self, name: &str, role: &str, own: &Tags) -> Tags {
        let mut tags = Tags::from([(meta::NAME_TAG.to_owned(), name.to_owned())]);
        tags.extend(self.additional.clone());
        tags.extend(own.clone());
        tags.insert(meta::cluster_tag(&self.cluster), meta::OWNED_TAG_VALUE.to_owned());
        tags.insert(meta::ROLE_TAG.to_owned(), role.to_owned());
        tags
    }
}

fn class(is_public: bool) -> &'static str {
    if is_public { "public" } else { "private" }
}

/// The name that CAPA generates for a load balancer (`GenerateELBName` of CAPA v2.13): a hash if the name would be too
/// long.
fn generated(text: &str) -> String {
    let name = format!("{}-apiserver", text.replace('.', "-"));
    if name.len() <= MAX_CHARACTERS {
        return name;
    }
    format!("{}-k8s", base36(Blake2b::<U28>::digest(text).iter()))
}

/// A digit or letter for each byte.
fn base36<'a>(bytes: impl Iterator<Item = &'a u8>) -> String {
    bytes.filter_map(|byte| char::from_digit(u32::from(byte % 36), 36)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn load_balancers_have_the_names_that_capa_generates() {
        assert_eq!(generated("default-dev"), "default-dev-apiserver");
        assert_eq!(generated("team.a-dev"), "team-a-dev-apiserver");
        // Computed by CAPA v2.13.
        assert_eq!(generated("capi-clusters-production-eu-west"), "boneukpa35qds72kxywkovhwi32g-k8s");
    }
}
