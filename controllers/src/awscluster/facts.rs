//! The facts that one reconcile reads about an unmanaged AWSCluster, as plain data. Pure.

use std::time::Duration;

use capa_api::cluster::status::FailureDomain;
use capa_api::network::{MachineNetwork, NetworkSecurityGroups};
use capa_cloud::CloudError;
use capa_cloud::ec2::SecurityGroup;
use capa_cloud::ec2::{RouteTable, Subnet, Vpc};
use capa_cloud::elb::{Listener, LoadBalancer, TargetGroup};
use capa_cloud::targets::Group;

use crate::identity::IdentityProblem;
use crate::named_load_balancers::Answers;

/// The facts of one reconcile.
#[derive(Clone)]
pub(super) struct Facts {
    /// Whether the identity can be used, according to Kubernetes and STS.
    pub(super) identity: Result<(), IdentityFailure>,
    /// The result of the lookup in AWS.
    pub(super) lookup: NetworkLookup,
}

/// The reason why the identity cannot be used.
#[derive(Clone)]
pub(super) enum IdentityFailure {
    /// The objects of the identity are missing or do not allow the namespace. No machine can be launched.
    Objects(IdentityProblem),
    /// The Secret of the identity could not be read. The failure may be temporary.
    Unread(IdentityProblem),
    /// AWS refuses the credentials. The refusal may be temporary.
    Credentials(CloudError),
}

/// The result of the AWS lookup of the declared network.
#[derive(Clone)]
pub(super) enum NetworkLookup {
    /// The spec disables lookups, or declares no region.
    Disabled,
    /// There is no usable identity for a lookup.
    NoIdentity,
    /// The last complete lookup is still valid, with the network and failure domains that resulted from it.
    Recorded(Box<MachineNetwork>, Vec<FailureDomain>),
    /// A call failed.
    Failed(CloudError),
    /// The answers of AWS.
    Found(Box<FoundNetwork>),
}

impl NetworkLookup {
    /// Whether AWS has not answered about the present spec.
    pub(super) fn is_unanswered(&self) -> bool {
        matches!(self, Self::Failed(_) | Self::NoIdentity)
    }

    /// The wait for a call that the provider's own rate limits deferred.
    pub(super) fn rate_limited_for(&self) -> Option<Duration> {
        match self {
            Self::Failed(error) => error.retry_after,
            Self::Found(found) => {
                let balancer = found.load_balancer.iter().filter_map(LoadBalancerLookup::error);
                let targets = found.targets.iter().filter_map(|lookup| lookup.found.as_ref().err());
                let search = found.parts.as_ref().and_then(|parts| parts.targets.as_ref());
                let search = search.and_then(TargetSearch::error);
                let named = found.named_load_balancers.values().filter_map(|lookup| lookup.as_ref().err());
                balancer.chain(targets).chain(named).chain(search).filter_map(|error| error.retry_after).min()
            }
            Self::Disabled | Self::NoIdentity | Self::Recorded(..) => None,
        }
    }
}

/// The answers of AWS about the declared network.
#[derive(Clone, Default)]
pub(super) struct FoundNetwork {
    /// Account of the credentials.
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
    /// The load balancers that `spec.controlPlaneTargets` names, by name.
    pub(super) named_load_balancers: Answers,
    /// The ids of the VPCs that match `spec.discovery.vpc`, or of the VPC that the spec names beside `spec.discovery`.
    pub(super) matching_vpcs: Vec<String>,
    /// The parts of the network that match `spec.discovery`; absent unless exactly one VPC matches. The resources
    /// themselves are among the others.
    pub(super) parts: Option<FoundParts>,
    /// The targets that the spec names: one answer for all target groups, and one for all classic load balancers.
    pub(super) targets: Vec<TargetLookup>,
}

/// The ids of the resources of one VPC that match `spec.discovery`, sorted.
#[derive(Clone, Debug, Default)]
pub(super) struct FoundParts {
    /// Subnets, for each entry of `subnets`.
    pub(super) subnets: Vec<Vec<String>>,
    /// Security groups.
    pub(super) security_groups: NetworkSecurityGroups,
    /// Target groups, if the spec searches for some.
    pub(super) targets: Option<TargetSearch>,
}

/// The result of the search for target groups.
#[derive(Clone, Debug)]
pub(super) enum TargetSearch {
    /// A call failed.
    Failed(CloudError),
    /// The VPC has more target groups than the provider searches.
    TooMany(usize),
    /// ARNs of the target groups that match.
    Matching(Vec<String>),
}

/// The answer of AWS about target groups, or about classic load balancers.
#[derive(Clone, Debug)]
pub(super) struct TargetLookup {
    /// The groups in question.
    pub(super) named: Vec<Group>,
    /// The target groups; `None` if AWS does not have all of the groups in question.
    pub(super) found: Result<Option<Vec<TargetGroup>>, CloudError>,
}

/// The answer of AWS about a load balancer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum LoadBalancerLookup {
    /// The call failed.
    Failed(CloudError),
    /// No load balancer has the name.
    NotFound,
    /// A Classic Load Balancer.
    Classic,
    /// A Network or Application Load Balancer with its listeners.
    NetworkOrApplication(Box<LoadBalancer>, Vec<Listener>),
}

impl LoadBalancerLookup {
    /// The error of a failed call.
    fn error(&self) -> Option<&CloudError> {
        match self {
            Self::Failed(error) => Some(error),
            Self::NotFound | Self::Classic | Self::NetworkOrApplication(..) => None,
        }
    }
}

impl TargetSearch {
    /// The error of a failed call.
    fn error(&self) -> Option<&CloudError> {
        match self {
            Self::Failed(error) => Some(error),
            Self::TooMany(_) | Self::Matching(_) => None,
        }
    }
}
