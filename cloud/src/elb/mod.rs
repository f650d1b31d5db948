//! The resources of Elastic Load Balancing, both generations: one file for each resource, with what is read of it
//! and the calls that change it.

pub mod classic_load_balancer;
pub mod listener;
pub mod load_balancer;
mod protocol;
pub mod tag;
pub mod target_group;

use serde::{Deserialize, Serialize};

pub use classic_load_balancer::{ClassicAttributes, ClassicHealthCheck, ClassicListener, ClassicLoadBalancer};
pub use listener::Listener;
pub use load_balancer::{IpAddressType, LoadBalancer, LoadBalancerKind, LoadBalancerState};
pub use protocol::Protocol;
pub use target_group::{AddressFamily, HealthCheck, TargetGroup, TargetType};

use crate::CloudError;
use crate::resource::{Effect, Seen};

/// A call of Elastic Load Balancing that changes a resource of a managed cluster. A repeated call never creates a
/// second resource: names of load balancers and target groups are unique in a region, and ports in a load balancer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Call<I> {
    /// A call about a load balancer.
    LoadBalancer(load_balancer::Call<I>),
    /// A call about a target group.
    TargetGroup(target_group::Call<I>),
    /// A call about a listener.
    Listener(listener::Call<I>),
    /// A call about a Classic Load Balancer.
    ClassicLoadBalancer(classic_load_balancer::Call<I>),
    /// A call about the tags of a load balancer or target group.
    Tag(tag::Call<I>),
}

/// What an observation of Elastic Load Balancing shows of the resources of one cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Observed {
    /// All load balancers of the second generation in the VPC, and those elsewhere in the region whose names the
    /// observation asked for.
    pub load_balancers: Seen<Vec<LoadBalancer>>,
    /// The target groups of the VPC, and those elsewhere in the region whose names the observation asked for.
    pub target_groups: Seen<Vec<TargetGroup>>,
    /// The listeners of the load balancers that the cluster owns by their tags.
    pub listeners: Seen<Vec<Listener>>,
    /// All Classic Load Balancers in the VPC, and those elsewhere in the region whose names the observation asked for.
    pub classic_load_balancers: Seen<Vec<ClassicLoadBalancer>>,
}

impl Observed {
    /// The errors of reads without an answer.
    pub(crate) fn errors(&self) -> impl Iterator<Item = &CloudError> {
        let answers = [
            self.load_balancers.answer(),
            self.target_groups.answer(),
            self.listeners.answer(),
            self.classic_load_balancers.answer(),
        ];
        let balancers = self.load_balancers.shown().into_iter().flatten();
        let groups = self.target_groups.shown().into_iter().flatten();
        let classic = self.classic_load_balancers.shown().into_iter().flatten();
        let attributes = balancers
            .map(|balancer| balancer.attributes.answer())
            .chain(groups.map(|group| group.attributes.answer()))
            .chain(classic.map(|balancer| balancer.attributes.answer()));
        answers.into_iter().chain(attributes).filter_map(|answer| answer.err().flatten())
    }
}

impl<I> Call<I> {
    /// The action of the API of Elastic Load Balancing.
    pub fn action(&self) -> &'static str {
        match self {
            Self::LoadBalancer(call) => call.into(),
            Self::TargetGroup(call) => call.into(),
            Self::Listener(call) => call.into(),
            Self::ClassicLoadBalancer(call) => call.into(),
            Self::Tag(call) => call.into(),
        }
    }

    /// What the call does to its resource.
    pub fn effect(&self) -> Effect {
        match self {
            Self::LoadBalancer(call) => call.effect(),
            Self::TargetGroup(call) => call.effect(),
            Self::Listener(call) => call.effect(),
            Self::ClassicLoadBalancer(call) => call.effect(),
            Self::Tag(_) => Effect::Change,
        }
    }

    /// The same call with other forms of its ids.
    ///
    /// # Errors
    /// The first error of `id`.
    pub fn try_map<J, E>(&self, id: &mut dyn FnMut(&I) -> Result<J, E>) -> Result<Call<J>, E> {
        Ok(match self {
            Self::LoadBalancer(call) => Call::LoadBalancer(call.try_map(id)?),
            Self::TargetGroup(call) => Call::TargetGroup(call.try_map(id)?),
            Self::Listener(call) => Call::Listener(call.try_map(id)?),
            Self::ClassicLoadBalancer(call) => Call::ClassicLoadBalancer(call.try_map(id)?),
            Self::Tag(call) => Call::Tag(call.try_map(id)?),
        })
    }
}
