//! AWS things in our own words: only what decisions need.

mod identity;
pub(crate) mod launch;

use std::collections::BTreeMap;
use std::sync::Arc;

use capa_api::common::MachineAddress;
use capa_api::machine::InstanceState;
use capa_api::meta;
pub use identity::{CredentialSource, ResolvedIdentity};
use jiff::Timestamp;
pub use launch::{LaunchRequest, LaunchVolume, MetadataOptions, UserData};

/// Which things a describe asks for: all filters must match. Ids are asked for by filter too, because one unknown id
/// parameter makes EC2 refuse the whole call, while a filter leaves it out of the answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Query {
    /// Filter name and the values of which one must match.
    pub filters: Vec<(String, Vec<String>)>,
}

impl Query {
    /// Things whose `name` is one of `values`.
    pub fn filter<V: Into<String>>(name: impl Into<String>, values: impl IntoIterator<Item = V>) -> Self {
        Self::default().and(name, values)
    }

    /// Narrows this query by one more filter.
    #[must_use]
    pub fn and<V: Into<String>>(mut self, name: impl Into<String>, values: impl IntoIterator<Item = V>) -> Self {
        self.filters
            .push((name.into(), values.into_iter().map(Into::into).collect()));
        self
    }
}

/// A VPC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vpc {
    /// `vpc-…`
    pub id: String,
    /// IPv4 blocks that are associated.
    pub cidr_blocks: Vec<String>,
    /// IPv6 blocks that are associated.
    pub ipv6_cidr_blocks: Vec<String>,
}

/// A subnet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subnet {
    /// `subnet-…`
    pub id: String,
    /// The VPC it lies in.
    pub vpc_id: String,
    /// Name of its zone, for example `eu-west-1a`.
    pub availability_zone: String,
    /// Whether it has an IPv6 block.
    pub ipv6: bool,
}

/// A security group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecurityGroup {
    /// `sg-…`
    pub id: String,
    /// The VPC it belongs to.
    pub vpc_id: String,
}

/// A route table, reduced to what makes a subnet public.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteTable {
    /// `rtb-…`
    pub id: String,
    /// The VPC it belongs to.
    pub vpc_id: String,
    /// Whether it serves the subnets that have no table of their own.
    pub main: bool,
    /// Subnets associated with it explicitly.
    pub subnet_ids: Vec<String>,
    /// Whether its default route leads to an internet gateway.
    pub internet_gateway_route: bool,
}

/// A load balancer of the second generation, reduced to where it sends what it takes in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiLoadBalancer {
    /// `network`, `application` or `gateway`.
    pub kind: String,
    /// ARNs of the target groups behind each listener, by its port.
    pub listeners: BTreeMap<i32, Vec<String>>,
}

/// A machine image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// `ami-…`
    pub id: String,
    /// Device of the root volume, for example `/dev/xvda`.
    pub root_device_name: Option<String>,
    /// Processor architecture as EC2 spells it, `x86_64` or `arm64` for instance.
    pub architecture: Option<String>,
    /// Whether it is a Windows image.
    pub windows: bool,
}

/// An instance type, reduced to what a node of it offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstanceType {
    /// `t3.large`
    pub name: String,
    /// Processors, as the operating system counts them.
    pub processors: i32,
    /// Memory in MiB.
    pub memory: i64,
    /// Processor architectures as EC2 spells them, `x86_64` or `arm64` for instance; old types have `i386` besides.
    pub architectures: Vec<String>,
    /// GPUs by their maker as EC2 spells it, `NVIDIA` for instance.
    pub gpus: BTreeMap<String, i32>,
    /// AWS's own accelerators, Inferentia and Trainium.
    pub neuron_devices: i32,
}

/// Why EC2 put an instance into its state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateReason {
    /// For example `Server.InsufficientInstanceCapacity` or `Client.InvalidSnapshot.NotFound`.
    pub code: String,
    /// EC2's text.
    pub message: String,
}

/// An EC2 instance, reduced to what a machine shows and decides by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instance {
    /// `i-…`
    pub id: String,
    /// Its state.
    pub state: InstanceState,
    /// Why it is in that state, where EC2 says so.
    pub state_reason: Option<StateReason>,
    /// Zone it runs in.
    pub availability_zone: String,
    /// Subnet of its primary interface.
    pub subnet_id: Option<String>,
    /// The token it was launched with.
    pub client_token: Option<String>,
    /// When EC2 accepted the launch.
    pub launch_time: Option<Timestamp>,
    /// Its addresses, in a stable order.
    pub addresses: Vec<MachineAddress>,
    /// Those of its tags that say whose it is ([`identifying_tag`]).
    pub tags: BTreeMap<String, String>,
}

/// What an instance informer knows of an instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Observation {
    /// Nothing yet: no listing has ended since the informer was asked.
    Unknown,
    /// AWS shows it.
    Seen(Arc<Instance>),
    /// A complete listing and a lookup of its own, both begun after the informer was asked for it, did not show it.
    Absent,
}

/// The name of an AWSMachine.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MachineKey {
    /// Namespace of the AWSMachine.
    pub namespace: String,
    /// Name of the AWSMachine.
    pub name: String,
}

/// Whether a tag says whose an instance is. The others are not kept: an informer holds every instance of a fleet.
pub fn identifying_tag(key: &str) -> bool {
    key == meta::MACHINE_NAME_TAG || key.starts_with(meta::OWN_TAG_PREFIX)
}

/// The type of a zone by its name: `availability-zone` when it is the region and one letter, else an edge zone
/// (`wavelength-zone`, `local-zone`). The naming is AWS's
/// (<https://docs.aws.amazon.com/global-infrastructure/latest/regions/aws-availability-zones.html>).
pub fn zone_type(region: &str, zone: &str) -> &'static str {
    match zone.strip_prefix(region) {
        Some(rest) if rest.len() == 1 && rest.chars().all(|letter| letter.is_ascii_lowercase()) => "availability-zone",
        Some(rest) if rest.contains("-wl") => "wavelength-zone",
        _ => "local-zone",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edge_zones_are_recognized_by_their_names() {
        assert_eq!(zone_type("eu-west-1", "eu-west-1b"), "availability-zone");
        assert_eq!(zone_type("us-west-2", "us-west-2-lax-1a"), "local-zone");
        assert_eq!(zone_type("us-east-1", "us-east-1-wl1-bos-wlz-1"), "wavelength-zone");
    }

    #[test]
    fn only_tags_that_identify_the_owner_are_kept() {
        assert!(identifying_tag("MachineName"));
        assert!(identifying_tag("sigs.k8s.io/cluster-api-provider-aws/cluster/dev"));
        assert!(!identifying_tag("cost-centre"));
    }
}
