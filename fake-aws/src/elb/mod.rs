//! The rules of Elastic Load Balancing, second generation, over the resources of an account: one file for each
//! resource, and one for looks.

mod listener;
mod load_balancer;
mod look;
mod target_group;

use std::collections::BTreeMap;

use capa_api::common::Tags;
use capa_cloud::CloudError;
use capa_cloud::elb::{Call, Listener, TargetGroup};
use capa_cloud::managed::Answer;

use crate::ec2::{Ec2, Resource};

/// The region in ARNs and DNS names, whatever the names of the zones are.
const REGION: &str = "eu-west-1";

/// All load balancers of an account with their parts, by ARN. The clock, the numbers in ids, the behaviour and the
/// interfaces are those of [`Ec2`].
#[derive(Debug, Default)]
pub(crate) struct Elb {
    /// How many more load balancers fail, and why.
    planned_failure: Option<(usize, String)>,
    load_balancers: BTreeMap<String, Resource<load_balancer::Body>>,
    target_groups: BTreeMap<String, Resource<TargetGroup>>,
    listeners: BTreeMap<String, Resource<Listener>>,
}

impl Elb {
    pub(crate) fn is_empty(&self) -> bool {
        self.load_balancers.is_empty() && self.target_groups.is_empty() && self.listeners.is_empty()
    }

    /// Makes a call that changes something: all of it, or nothing and an error.
    pub(crate) fn call(&mut self, ec2: &mut Ec2, call: &Call<String>) -> Result<Answer, CloudError> {
        let action = call.action();
        match call {
            Call::LoadBalancer(call) => self.call_load_balancer(ec2, action, call),
            Call::TargetGroup(call) => self.call_target_group(ec2, action, call),
            Call::Listener(call) => self.call_listener(ec2, action, call),
        }
    }

    /// The tags of a resource of any kind, for a change by hand.
    pub(crate) fn tags_mut(&mut self, arn: &str) -> Option<&mut Tags> {
        if arn.contains(":loadbalancer/") {
            self.load_balancer_mut(arn).map(|balancer| &mut balancer.tags)
        } else if arn.contains(":targetgroup/") {
            self.target_group_mut(arn).map(|group| &mut group.tags)
        } else {
            self.listener_mut(arn).map(|listener| &mut listener.tags)
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
    attributes
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}
