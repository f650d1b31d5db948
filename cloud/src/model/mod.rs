//! Types for AWS resources, with only the fields that decisions need.

mod elastic_ip;
mod host;
mod identity;
mod image;
mod launch;
mod secret;

use capa_api::common::Tags;
use capa_api::machine::AWSMachineSpec;
use capa_api::meta;
use capa_api::network::{MachineNetwork, ZoneType};
pub use elastic_ip::{ElasticIp, ElasticIpAnswer, ElasticIpCall};
pub use host::{CapacitySource, Host, HostRequest};
pub use identity::{CredentialSource, ResolvedIdentity};
pub use image::{Image, InstanceType};
pub use launch::{DnsRecords, LaunchRequest, LaunchVolume, MetadataOptions, UserData};
pub use secret::{PresignRequest, PresignedUrl, SecretActions, SecretStore, StoredSecret};

/// The filters of a describe call, all of which must match. Ids are filters too: an unknown id in a filter is left out
/// of the answer, whereas EC2 refuses a whole call because of one unknown id parameter.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Query {
    /// Names of filters with their values, one of which must match.
    pub filters: Vec<(String, Vec<String>)>,
}

impl Query {
    /// A query with the filter `name`, which matches any of `values`.
    pub fn filter<V: Into<String>>(name: impl Into<String>, values: impl IntoIterator<Item = V>) -> Self {
        Self::default().and(name, values)
    }

    /// This query with one more filter.
    #[must_use]
    pub fn and<V: Into<String>>(mut self, name: impl Into<String>, values: impl IntoIterator<Item = V>) -> Self {
        self.filters.push((name.into(), values.into_iter().map(Into::into).collect()));
        self
    }
}

/// The name of an AWSMachine.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MachineKey {
    /// Namespace of the AWSMachine.
    pub namespace: String,
    /// Name of the AWSMachine.
    pub name: String,
}

/// The name of a Cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClusterKey {
    /// Namespace of the Cluster.
    pub namespace: String,
    /// Name of the Cluster. The name is empty for an object whose Cluster is unknown.
    pub name: String,
}

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

/// The type of a zone by its name: the name of an edge zone goes on with a dash after the region. AWS defines these
/// names (<https://docs.aws.amazon.com/global-infrastructure/latest/regions/aws-availability-zones.html>).
pub fn zone_type(region: &str, zone: &str) -> ZoneType {
    match zone.strip_prefix(region) {
        Some(rest) if rest.starts_with("-wl") => ZoneType::WavelengthZone,
        Some(rest) if rest.starts_with('-') => ZoneType::LocalZone,
        _ => ZoneType::AvailabilityZone,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edge_zones_are_recognized_by_their_names() {
        assert_eq!(zone_type("eu-west-1", "eu-west-1b"), ZoneType::AvailabilityZone);
        assert_eq!(zone_type("eu-west-1", "us-east-1b"), ZoneType::AvailabilityZone);
        assert_eq!(zone_type("us-west-2", "us-west-2-lax-1a"), ZoneType::LocalZone);
        assert_eq!(zone_type("us-east-1", "us-east-1-wl1-bos-wlz-1"), ZoneType::WavelengthZone);
    }

    #[test]
    fn only_tags_that_identify_the_owner_are_kept() {
        assert!(identifying_tag("MachineName"));
        assert!(identifying_tag("sigs.k8s.io/cluster-api-provider-aws/cluster/dev"));
        assert!(!identifying_tag("cost-centre"));
    }
}
