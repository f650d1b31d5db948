//! The rules of Elastic Load Balancing, both generations, over the resources of an account: one file for each resource,
//! one for the observation of each generation, and one for what load balancers of both have in common.

mod classic_load_balancer;
mod classic_observation;
mod listener;
mod load_balancer;
mod observation;
mod placement;
mod tag;
mod target;
mod target_group;

use std::collections::BTreeMap;

use capa_api::common::Tags;
use capa_cloud::CloudError;
use capa_cloud::elb::{Call, ClassicLoadBalancer, Listener, TargetGroup};
use capa_cloud::managed::ChangeAnswer;
use capa_cloud::targets::Group;

use crate::ec2::{Ec2, Resource};

pub(crate) use target::{DELAY, Registration};

/// The region in ARNs and DNS names, whatever the names of the zones are.
const REGION: &str = "eu-west-1";

/// All load balancers of an account with their parts, by ARN; Classic Load Balancers by name. The clock, the numbers in
/// ids, the behaviour and the interfaces are those of [`Ec2`].
#[derive(Clone, Debug, Default)]
pub(crate) struct Elb {
    /// How many more load balancers fail, and why.
    planned_failure: Option<(usize, String)>,
    load_balancers: BTreeMap<String, Resource<load_balancer::Body>>,
    target_groups: BTreeMap<String, Resource<TargetGroup>>,
    listeners: BTreeMap<String, Resource<Listener>>,
    classic_load_balancers: BTreeMap<String, Resource<ClassicLoadBalancer>>,
    targets: BTreeMap<Group, target::Targets>,
}

impl Elb {
    pub(crate) fn is_empty(&self) -> bool {
        self.load_balancers.is_empty()
            && self.target_groups.is_empty()
            && self.listeners.is_empty()
            && self.classic_load_balancers.is_empty()
    }

    /// Makes a call that changes something: all of it, or nothing and an error.
    pub(crate) fn call(&mut self, ec2: &mut Ec2, call: &Call<String>) -> Result<ChangeAnswer, CloudError> {
        let action = call.action();
        match call {
            Call::LoadBalancer(call) => self.call_load_balancer(ec2, action, call),
            Call::TargetGroup(call) => self.call_target_group(ec2, action, call),
            Call::Listener(call) => self.call_listener(ec2, action, call),
            Call::ClassicLoadBalancer(call) => self.call_classic_load_balancer(ec2, action, call),
            Call::Tag(call) => self.call_tag(action, call),
        }
    }

    /// The tags of a resource of any kind. The id is an ARN, or the name of a Classic Load
    /// Balancer.
    pub(crate) fn tags_mut(&mut self, id: &str) -> Option<&mut Tags> {
        if id.contains(":loadbalancer/") {
            self.load_balancer_mut(id).map(|balancer| &mut balancer.tags)
        } else if id.contains(":targetgroup/") {
            self.target_group_mut(id).map(|group| &mut group.tags)
        } else if id.contains(":listener/") {
            self.listener_mut(id).map(|listener| &mut listener.tags)
        } else {
            self.classic_load_balancer_mut(id).map(|balancer| &mut balancer.tags)
        }
    }
}

/// An ARN of a resource of this service.
fn arn(ec2: &Ec2, resource: &str) -> String {
    let account = &ec2.behaviour.account_id;
    format!("arn:aws:elasticloadbalancing:{REGION}:{account}:{resource}")
}

/// Attributes with values that a call sets.
fn merge(attributes: &mut BTreeMap<String, String>, changes: &BTreeMap<&'static str, String>) {
    let changes = changes.iter();
    attributes.extend(changes.map(|(name, value)| ((*name).to_owned(), value.clone())));
}

/// Attributes with the values that AWS gives to them.
fn defaults<const N: usize>(attributes: [(&str, &str); N]) -> BTreeMap<String, String> {
    let attributes = attributes.into_iter();
    attributes.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}
