//! Tags of instances: those that identify the owner, those that users may not set, and those that users set.

use capa_api::common::{MachineRole, Tags};
use capa_api::machine::AWSMachineSpec;
use capa_api::meta;
use capa_api::network::MachineNetwork;

/// Whether a tag identifies the owner of an instance. Other tags are dropped to save memory, because an informer stores
/// every instance of a fleet.
pub fn identifying_tag(key: &str) -> bool {
    key == meta::MACHINE_NAME_TAG || key.starts_with(meta::OWN_TAG_PREFIX)
}

/// Whether users may not set the tag, because it is AWS's, or an ownership tag, which determines the resources that are
/// deleted.
pub fn is_reserved_tag(key: &str) -> bool {
    identifying_tag(key) || key.starts_with("kubernetes.io/cluster/") || key.starts_with("aws:")
}

/// The tags of the machine and the network, without reserved ones, which the provider sets. Tags of the machine take
/// precedence.
pub fn additional_tags(spec: &AWSMachineSpec, network: &MachineNetwork) -> Tags {
    let mut tags = network.additional_tags.clone();
    tags.extend(spec.additional_tags.clone());
    tags.retain(|key, _| !is_reserved_tag(key));
    tags
}

/// The tags of a launch, apart from those that name its machine: the name, the users' tags, which may replace the name,
/// and the tags of the cluster and of the role. They are CAPA's tags, so that each provider can take over machines of
/// the other provider.
pub fn launch_tags(
    name: &str,
    spec: &AWSMachineSpec,
    network: &MachineNetwork,
    cluster_tag: &str,
    role: MachineRole,
) -> Tags {
    let owned = || meta::OWNED_TAG_VALUE.to_owned();
    let mut tags = Tags::from([(meta::NAME_TAG.to_owned(), name.to_owned())]);
    tags.extend(additional_tags(spec, network));
    tags.extend([
        (meta::cluster_tag(cluster_tag), owned()),
        (meta::kubernetes_cluster_tag(cluster_tag), owned()),
        (meta::ROLE_TAG.to_owned(), meta::role_tag_value(role).to_owned()),
    ]);
    tags
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_tags_that_identify_the_owner_are_kept() {
        assert!(identifying_tag("MachineName"));
        assert!(identifying_tag("sigs.k8s.io/cluster-api-provider-aws/cluster/dev"));
        assert!(!identifying_tag("cost-centre"));
    }
}
