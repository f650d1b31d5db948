//! What the reconciler of managed clusters reads and writes in AWS: one look at all resources of a cluster, and calls
//! as data.

use std::sync::Arc;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

pub use crate::details::Details;
pub use crate::resource::{Answer, Effect, Repeat, Seen};
use crate::{CloudError, ResolvedIdentity, ec2, elb};

/// Whose resources a look asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Scope {
    /// Name of the Cluster, which is in the tags of what it owns.
    pub cluster: String,
    /// Id of the VPC, where it is known: AWS may show the tags of a new VPC later than the VPC.
    pub vpc: Option<String>,
    /// Whether the VPC is the user's. Then the look does not ask for its DNS attributes, and for no internet gateway:
    /// the cluster has none of its own.
    pub is_vpc_of_user: bool,
    /// Whether the cluster may have Elastic IPs. Otherwise the look does not ask for any.
    pub has_addresses: bool,
    /// Id of the internet gateway, where it is known.
    pub internet_gateway: Option<String>,
    /// Ids of the Elastic IPs that are known.
    pub addresses: Vec<String>,
    /// The public IPv4 pool that new Elastic IPs are taken from. Without one, the look does not ask for free addresses.
    pub public_ipv4_pool: Option<String>,
    /// Names of the load balancers of the second generation. Without any, the look does not ask for these.
    pub load_balancers: Vec<String>,
    /// Names of the target groups of the cluster.
    pub target_groups: Vec<String>,
    /// Names of the Classic Load Balancers of the cluster. Without any, the look does not ask for these.
    pub classic_load_balancers: Vec<String>,
    /// What an earlier look has shown beside the lists: the look does not ask for it again.
    #[serde(skip)]
    pub known: Option<Arc<Details>>,
}

/// What a look shows of the resources of one cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Observed {
    /// Resources of EC2.
    pub ec2: ec2::Observed,
    /// Resources of Elastic Load Balancing.
    pub elb: elb::Observed,
}

impl Observed {
    /// The errors in place of answers.
    pub fn errors(&self) -> impl Iterator<Item = &CloudError> {
        self.ec2.errors().chain(self.elb.errors())
    }

    /// What AWS does not show with its lists.
    pub fn details(&self) -> Details {
        Details::of(&self.ec2, &self.elb)
    }
}

/// A call that changes a resource of a managed cluster. `I` is the form of the ids in it: a plan names resources that
/// do not exist yet, and a call that is made names ids only.
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

    /// What the call does to the resource that it is about.
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
            Self::Elb(_) => Repeat::Harmless,
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

/// Makes calls about a resource calls of its service.
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
pub trait ManagedLook: Send + Sync {
    /// The account that the credentials belong to.
    async fn account_id(&self) -> Result<String, CloudError>;
    /// The names of the availability zones that the account can use without opting in, sorted.
    async fn zones(&self) -> Result<Vec<String>, CloudError>;
    /// All resources of a cluster. What AWS does not show is in the answer as such.
    ///
    /// # Errors
    /// The credentials have been replaced since the pass obtained their account.
    async fn observe(&self, scope: &Scope) -> Result<Observed, CloudError>;
}

/// One account and region as a managed cluster uses it. Whoever holds it may write; the reconciler of unmanaged
/// clusters has [`crate::ClusterCloud`].
#[async_trait]
pub trait ManagedCloud: ManagedLook {
    /// Whether the resolver of the provider's machine knows the host name.
    async fn resolves(&self, host: &str) -> bool;
    /// Makes one call.
    ///
    /// # Errors
    /// Those of AWS; and the credentials have been replaced since the pass obtained their account.
    async fn call(&self, call: &Call<String>) -> Result<Answer, CloudError>;
}

/// Gives the sessions that managed clusters are reconciled with.
pub trait ManagedClouds: Send + Sync {
    /// The session of an identity in a region. Makes no call.
    fn managed(&self, identity: &ResolvedIdentity, region: &str) -> Arc<dyn ManagedCloud>;
}
