//! Listeners, which are parts of load balancers.

use std::collections::BTreeSet;

use capa_api::common::Tags;
use capa_cloud::CloudError;
use capa_cloud::elb::listener::Call;
use capa_cloud::elb::{Listener, Protocol};
use capa_cloud::managed::ChangeAnswer;

use super::Elb;
use crate::ec2::{Ec2, Resource};

impl Elb {
    pub(super) fn call_listener(
        &mut self,
        ec2: &mut Ec2,
        action: &'static str,
        call: &Call<String>,
    ) -> Result<ChangeAnswer, CloudError> {
        match call {
            Call::CreateListener { load_balancer, group, port, tags } => {
                self.create_listener(ec2, action, load_balancer, group, *port, tags)
            }
            Call::ModifyListener { listener, group } => {
                let known = self.known_listener(ec2, action, listener)?;
                self.can_forward(ec2, action, &known.load_balancer_arn, group)?;
                self.set_listener_targets(listener, &[group]);
                Ok(ChangeAnswer::Done)
            }
            Call::DeleteListener { listener } => {
                self.known_listener(ec2, action, listener)?;
                self.listeners.remove(listener);
                Ok(ChangeAnswer::Done)
            }
        }
    }

    fn create_listener(
        &mut self,
        ec2: &mut Ec2,
        action: &'static str,
        load_balancer: &str,
        group: &str,
        port: i32,
        tags: &Tags,
    ) -> Result<ChangeAnswer, CloudError> {
        self.can_forward(ec2, action, load_balancer, group)?;
        let mut known = self.bodies();
        match known.find(|known| known.load_balancer_arn == load_balancer && known.port == port) {
            Some(known) if known.target_group_arns == [group] => return Ok(ChangeAnswer::Done),
            Some(_) => {
                let message = format!("A listener already exists on port {port} of this load balancer");
                return Err(CloudError::answered(action, "DuplicateListener", &message));
            }
            None => drop(known),
        }
        let body = new_listener(ec2, load_balancer, port, group, tags.clone());
        let id = body.arn.clone();
        let resource = ec2.new_resource(body);
        self.listeners.insert(id, resource);
        Ok(ChangeAnswer::Done)
    }

    /// Whether listeners of a load balancer can forward to a target group: both exist in one VPC, and the group belongs
    /// to no other load balancer.
    fn can_forward(&self, ec2: &Ec2, action: &'static str, load_balancer: &str, group: &str) -> Result<(), CloudError> {
        let vpc = &self.known_load_balancer(ec2, action, load_balancer)?.vpc_id;
        if self.known_target_group(ec2, action, group)?.vpc_id != *vpc {
            let message = format!("The target group '{group}' is not in {vpc}");
            return Err(CloudError::answered(action, "InvalidConfigurationRequest", &message));
        }
        let mut others = self.listeners_to(group);
        if others.any(|other| other.load_balancer_arn != load_balancer) {
            let message = format!("The target group '{group}' cannot be associated with more than one load balancer");
            return Err(CloudError::answered(action, "TargetGroupAssociationLimit", &message));
        }
        Ok(())
    }

    /// The listener that a call names.
    fn known_listener(&self, ec2: &Ec2, action: &'static str, arn: &str) -> Result<&Listener, CloudError> {
        let known = self.listeners.get(arn).filter(|resource| ec2.is_shown(resource));
        known.map(|resource| &resource.body).ok_or_else(|| {
            let message = format!("One or more listeners not found: '{arn}'");
            CloudError::answered(action, "ListenerNotFound", &message)
        })
    }

    fn bodies(&self) -> impl Iterator<Item = &Listener> {
        self.listeners.values().map(|resource| &resource.body)
    }

    /// The listeners that forward to a target group, hidden ones too.
    pub(super) fn listeners_to(&self, group: &str) -> impl Iterator<Item = &Listener> {
        self.bodies().filter(move |listener| listener.target_group_arns.iter().any(|known| known == group))
    }

    /// ARNs of the load balancers that forward to a target group.
    pub(super) fn load_balancers_of(&self, group: &str) -> Vec<String> {
        let arns: BTreeSet<String> =
            self.listeners_to(group).map(|listener| listener.load_balancer_arn.clone()).collect();
        arns.into_iter().collect()
    }
}

/// What tests see and change by hand.
impl Elb {
    pub(crate) fn all_listeners(&self) -> Vec<Listener> {
        self.bodies().cloned().collect()
    }

    pub(crate) fn add_listener(
        &mut self,
        ec2: &mut Ec2,
        load_balancer: &str,
        port: i32,
        group: &str,
        tags: Tags,
    ) -> String {
        let body = new_listener(ec2, load_balancer, port, group, tags);
        let id = body.arn.clone();
        self.listeners.insert(id.clone(), Resource::by_hand(body));
        id
    }

    /// The listener, for a change by hand.
    pub(crate) fn listener_mut(&mut self, arn: &str) -> Option<&mut Listener> {
        self.listeners.get_mut(arn).map(|resource| &mut resource.body)
    }

    pub(crate) fn set_listener_targets(&mut self, arn: &str, groups: &[&str]) -> bool {
        let groups = groups.iter().map(|group| (*group).to_owned());
        self.listener_mut(arn).map(|listener| listener.target_group_arns = groups.collect()).is_some()
    }

    pub(crate) fn remove_listener(&mut self, arn: &str) -> bool {
        self.listeners.remove(arn).is_some()
    }
}

fn new_listener(ec2: &mut Ec2, load_balancer: &str, port: i32, group: &str, tags: Tags) -> Listener {
    let parent = load_balancer.replacen(":loadbalancer/", ":listener/", 1);
    Listener {
        arn: format!("{parent}/{:016x}", ec2.next_number()),
        load_balancer_arn: load_balancer.to_owned(),
        protocol: Protocol::Tcp,
        port,
        target_group_arns: vec![group.to_owned()],
        tags,
    }
}
