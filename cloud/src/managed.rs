//! What the reconciler of managed clusters reads and writes in AWS: one observation of all resources of a cluster, and
//! calls as data.

use std::sync::Arc;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

pub use crate::details::Details;
pub use crate::resource::{ChangeAnswer, Effect, Repeat, Seen};
use crate::{CloudError, ResolvedIdentity, ec2, elb};

/// The cluster and the resources that an observation asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Scope {
    /// Name of the Cluster, which the tags of its resources contain.
    pub cluster: String,
    /// Id of the VPC, if it is known: AWS may show the tags of a new VPC later than the VPC.
    pub vpc: Option<String>,
    /// Whether the user brings the VPC. Then the observation asks neither for the DNS attributes of the VPC nor for an
    /// internet gateway, because the cluster has none of its own.
    pub is_vpc_of_user: bool,
    /// Whether the cluster may have Elastic IPs. Otherwise the observation does not ask for any.
    pub has_addresses: bool,
    /// Id of the internet gateway, if it is known.
    pub internet_gateway: Option<String>,
    /// Ids of the Elastic IPs that are known.
    pub addresses: Vec<String>,
    /// The public IPv4 pool that new Elastic IPs are taken from. Without one, the observation does not ask for free
    /// addresses.
    pub public_ipv4_pool: Option<String>,
    /// Whether the observation asks for the network interfaces of the VPC, which keep it from being deleted.
    #[serde(default)]
    pub network_interfaces: bool,
    /// Names of the load balancers of the second generation. Without any, the observation does not ask for these.
    pub load_balancers: Vec<String>,
    /// Names of the target groups of the cluster.
    pub target_groups: Vec<String>,
    /// Names of the Classic Load Balancers of the cluster. Without any, the observation does not ask for these.
    pub classic_load_balancers: Vec<String>,
    /// The details that an earlier observation has read. The observation does not ask for them again.
    #[serde(skip)]
    pub known: Option<Arc<Details>>,
}

/// What an observation shows of the resources of one cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Observed {
    /// Resources of EC2.
    pub ec2: ec2::Observed,
    /// Resources of Elastic Load Balancing.
    pub elb: elb::Observed,
}

impl Observed {
    /// The errors of reads without an answer.
    pub fn errors(&self) -> impl Iterator<Item = &CloudError> {
        self.ec2.errors().chain(self.elb.errors())
    }

    /// The details that AWS does not show in its lists.
    pub fn details(&self) -> Details {
        Details::of(&self.ec2, &self.elb)
    }
}

/// A call that changes a resource of a managed cluster. `I` is the type of its ids: a plan also refers to resources
/// that do not exist yet, whereas a call that is made has AWS ids only.
///
/// Serialised, it is an object with the action as its only key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Call<I> {
    /// A call of EC2.
    Ec2(ec2::Call<I>),
    /// A call of Elastic Load Balancing.
    Elb(elb::Call<I>),
}

impl<I> Call<I> {
    /// The action of the API of the service.
    pub fn action(&self) -> &'static str {
        match self {
            Self::Ec2(call) => call.action(),
            Self::Elb(call) => call.action(),
        }
    }

    /// What the call does to its resource.
    pub fn effect(&self) -> Effect {
        match self {
            Self::Ec2(call) => call.effect(),
            Self::Elb(call) => call.effect(),
        }
    }

    /// What a second call does.
    pub fn repeat(&self) -> Repeat<'_> {
        match self {
            Self::Ec2(call) => call.repeat(),
            Self::Elb(_) => Repeat::Idempotent,
        }
    }

    /// The same call with other forms of its ids.
    ///
    /// # Errors
    /// The first error of `id`.
    pub fn try_map<J, E>(&self, id: &mut dyn FnMut(&I) -> Result<J, E>) -> Result<Call<J>, E> {
        Ok(match self {
            Self::Ec2(call) => Call::Ec2(call.try_map(id)?),
            Self::Elb(call) => Call::Elb(call.try_map(id)?),
        })
    }
}

/// Converts the calls about a resource to calls of its service.
macro_rules! calls_of {
    ($service:ident $variant:ident: $($resource:ident $of_service:ident),+) => {$(
        impl<I> From<$service::$resource::Call<I>> for Call<I> {
            fn from(call: $service::$resource::Call<I>) -> Self {
                Self::$variant($service::Call::$of_service(call))
            }
        }
    )+};
}

calls_of!(
    ec2 Ec2: vpc Vpc, subnet Subnet, internet_gateway InternetGateway, nat_gateway NatGateway, route_table RouteTable,
    security_group SecurityGroup, tag Tag
);
calls_of!(
    elb Elb: load_balancer LoadBalancer, target_group TargetGroup, listener Listener,
    classic_load_balancer ClassicLoadBalancer, tag Tag
);

/// What AWS shows of managed clusters in one account and region.
#[async_trait]
pub trait ManagedObserver: Send + Sync {
    /// The account that the credentials belong to.
    async fn account_id(&self) -> Result<String, CloudError>;
    /// The names of the availability zones that the account can use without opting in, sorted.
    async fn zones(&self) -> Result<Vec<String>, CloudError>;
    /// All resources of a cluster. The answer marks the resources that AWS did not show.
    ///
    /// # Errors
    /// The credentials have been replaced since the pass obtained their account.
    async fn observe(&self, scope: &Scope) -> Result<Observed, CloudError>;
}

/// One account and region as a managed cluster uses it. A holder of this trait can write; the reconciler of unmanaged
/// clusters gets [`crate::ClusterCloud`] instead.
#[async_trait]
pub trait ManagedCloud: ManagedObserver {
    /// Whether the manager can resolve the host name.
    async fn resolves(&self, host: &str) -> bool;
    /// Makes one call.
    ///
    /// # Errors
    /// The errors of AWS, or the credentials have been replaced since the pass obtained their account.
    async fn call(&self, call: &Call<String>) -> Result<ChangeAnswer, CloudError>;
}

/// Provides the sessions with which managed clusters are reconciled.
pub trait ManagedClouds: Send + Sync {
    /// The session of an identity in a region. Makes no call.
    fn managed(&self, identity: &ResolvedIdentity, region: &str) -> Arc<dyn ManagedCloud>;
}
