//! What one reconcile reads about an unmanaged AWSCluster, as plain data. Pure.

use std::time::Duration;

use capa_api::cluster::status::FailureDomain;
use capa_api::network::MachineNetwork;
use capa_cloud::{ApiLoadBalancer, CloudError, RouteTable, SecurityGroup, Subnet, Vpc};

use crate::identity::IdentityProblem;

/// What was read.
#[derive(Clone)]
pub(super) struct Facts {
    /// Whether the identity can be used, as far as Kubernetes and STS say.
    pub(super) identity: Result<(), IdentityFailure>,
    /// What was looked up in AWS.
    pub(super) lookup: NetworkLookup,
}

/// Why the identity cannot be used.
#[derive(Clone)]
pub(super) enum IdentityFailure {
    /// Its objects are missing or do not allow the namespace: nothing can be launched.
    Objects(IdentityProblem),
    /// AWS refuses the credentials, which may be temporary.
    Credentials(CloudError),
}

/// What is known from AWS about the network that the spec declares.
#[derive(Clone)]
pub(super) enum NetworkLookup {
    /// The spec has lookups disabled, or declares no region to look in.
    Disabled,
    /// There is no identity to look anything up with.
    NoIdentity,
    /// The last complete lookup is still valid: the network and failure domains that it resulted in.
    Recorded(Box<MachineNetwork>, Vec<FailureDomain>),
    /// A call failed.
    Failed(CloudError),
    /// What AWS answered.
    Found(Box<FoundNetwork>),
}

impl NetworkLookup {
    /// How long to wait for a call that our own rate limits deferred.
    pub(super) fn rate_limited_for(&self) -> Option<Duration> {
        match self {
            Self::Failed(error) => error.retry_after,
            Self::Found(found) => match &found.load_balancer {
                Some(LoadBalancerLookup::Failed(error)) => error.retry_after,
                _ => None,
            },
            Self::Disabled | Self::NoIdentity | Self::Recorded(..) => None,
        }
    }
}

/// What AWS answered about the declared network.
#[derive(Clone, Default)]
pub(super) struct FoundNetwork {
    /// Account that was asked.
    pub(super) account_id: String,
    /// VPCs.
    pub(super) vpcs: Vec<Vpc>,
    /// Subnets.
    pub(super) subnets: Vec<Subnet>,
    /// Security groups.
    pub(super) security_groups: Vec<SecurityGroup>,
    /// Route tables of the VPC.
    pub(super) route_tables: Vec<RouteTable>,
    /// The load balancer that the spec names.
    pub(super) load_balancer: Option<LoadBalancerLookup>,
}

/// What AWS answered about a load balancer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum LoadBalancerLookup {
    /// The call failed.
    Failed(CloudError),
    /// No load balancer has the name.
    NotFound,
    /// A Classic Load Balancer.
    Classic,
    /// A Network or Application Load Balancer.
    NetworkOrApplication(ApiLoadBalancer),
}
