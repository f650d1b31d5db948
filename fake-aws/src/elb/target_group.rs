//! Target groups.

use std::collections::BTreeMap;

use capa_api::cluster::load_balancer::HealthCheckTiming;
use capa_api::common::Tags;
use capa_cloud::CloudError;
use capa_cloud::elb::target_group::Call;
use capa_cloud::elb::{HealthCheck, Protocol, TargetGroup, TargetType};
use capa_cloud::managed::{ChangeAnswer, Seen};
use capa_cloud::targets::Group;

use super::target::DELAY;
use super::{Elb, arn, defaults, merge};
use crate::ec2::{Ec2, Resource};

impl Elb {
    pub(super) fn call_target_group(
        &mut self,
        ec2: &mut Ec2,
        action: &'static str,
        call: &Call<String>,
    ) -> Result<ChangeAnswer, CloudError> {
        match call {
            Call::CreateTargetGroup { vpc, name, port, health_check, tags } => match self.target_group_named(name) {
                Some(known) if known.vpc_id == *vpc && known.port == *port && known.health_check == *health_check => {
                    Ok(ChangeAnswer::Made(known.arn.clone()))
                }
                Some(_) => {
                    let message = format!("A target group with the same name '{name}' exists, but with other settings");
                    Err(CloudError::answered(action, "DuplicateTargetGroupName", &message))
                }
                None => {
                    self.can_have_target_group(ec2, action, vpc)?;
                    let body = new_target_group(ec2, name, vpc, *port, health_check.clone(), tags.clone());
                    let id = body.arn.clone();
                    let resource = ec2.new_resource(body);
                    self.target_groups.insert(id.clone(), resource);
                    Ok(ChangeAnswer::Made(id))
                }
            },
            Call::ModifyTargetGroup { group, health_check } => {
                self.known_target_group(ec2, action, group)?;
                self.set_health_check(group, health_check.clone());
                Ok(ChangeAnswer::Done)
            }
            Call::ModifyTargetGroupAttributes { group, attributes } => {
                self.known_target_group(ec2, action, group)?;
                if let Some(Seen::Shown(known)) = self.target_group_mut(group).map(|group| &mut group.attributes) {
                    merge(known, attributes);
                }
                Ok(ChangeAnswer::Done)
            }
            Call::DeleteTargetGroup { group } => self.delete_target_group(ec2, action, group),
        }
    }

    fn can_have_target_group(&self, ec2: &Ec2, action: &'static str, vpc: &str) -> Result<(), CloudError> {
        if ec2.known_vpc(action, vpc).is_err() {
            let message = format!("The VPC ID '{vpc}' is not found");
            return Err(CloudError::answered(action, "ValidationError", &message));
        }
        if self.target_groups.len() >= ec2.behaviour.target_group_quota {
            let message = "The maximum number of target groups has been reached.";
            return Err(CloudError::answered(action, "TooManyTargetGroups", message));
        }
        Ok(())
    }

    fn delete_target_group(&mut self, ec2: &Ec2, action: &'static str, arn: &str) -> Result<ChangeAnswer, CloudError> {
        if self.known_target_group(ec2, action, arn).is_err() {
            return Ok(ChangeAnswer::Done);
        }
        if self.listeners_to(arn).next().is_some() {
            let message = format!("Target group '{arn}' is currently in use by a listener or a rule");
            return Err(CloudError::answered(action, "ResourceInUse", &message));
        }
        self.remove_target_group(arn);
        Ok(ChangeAnswer::Done)
    }

    /// The target group that a call names.
    pub(super) fn known_target_group(
        &self,
        ec2: &Ec2,
        action: &'static str,
        arn: &str,
    ) -> Result<&TargetGroup, CloudError> {
        let known = self.target_groups.get(arn);
        let known = known.filter(|resource| ec2.is_shown(resource));
        known.map(|resource| &resource.body).ok_or_else(|| {
            let message = format!("One or more target groups not found: '{arn}'");
            CloudError::answered(action, "TargetGroupNotFound", &message)
        })
    }

    /// The target group with this name, hidden or not.
    fn target_group_named(&self, name: &str) -> Option<&TargetGroup> {
        let mut known = self.target_groups.values().map(|resource| &resource.body);
        known.find(|known| known.name == name)
    }
}

/// What tests see and change by hand.
impl Elb {
    pub(crate) fn all_target_groups(&self) -> Vec<TargetGroup> {
        let groups = self.target_groups.values().map(|resource| resource.body.clone());
        let with_load_balancers =
            groups.map(|group| TargetGroup { load_balancer_arns: self.load_balancers_of(&group.arn), ..group });
        with_load_balancers.collect()
    }

    /// Adds a target group with the health check that AWS gives to a new one.
    pub(crate) fn add_target_group(&mut self, ec2: &mut Ec2, name: &str, vpc: &str, port: i32, tags: Tags) -> String {
        let body = new_target_group(ec2, name, vpc, port, tcp_check(), tags);
        let id = body.arn.clone();
        self.target_groups.insert(id.clone(), Resource::by_hand(body));
        id
    }

    /// Adds a target group of no VPC with an ARN of the caller's choice, whose targets are of this type.
    pub(crate) fn put_target_group(&mut self, ec2: &mut Ec2, arn: &str, target_type: TargetType) {
        let (_, name) = arn.rsplit_once(":targetgroup/").unwrap_or_default();
        let name = name.split('/').next().unwrap_or_default();
        let new = new_target_group(ec2, name, "", 6443, tcp_check(), Tags::new());
        let body = TargetGroup { arn: arn.to_owned(), target_type, ..new };
        self.target_groups.insert(arn.to_owned(), Resource::by_hand(body));
    }

    /// The target group, for a change by hand.
    pub(crate) fn target_group_mut(&mut self, arn: &str) -> Option<&mut TargetGroup> {
        self.target_groups.get_mut(arn).map(|resource| &mut resource.body)
    }

    pub(crate) fn set_health_check(&mut self, arn: &str, health_check: HealthCheck) -> bool {
        let group = self.target_group_mut(arn);
        group.map(|group| group.health_check = health_check).is_some()
    }

    pub(crate) fn set_target_group_attribute(&mut self, arn: &str, name: &str, value: &str) -> bool {
        let Some(Seen::Shown(known)) = self.target_group_mut(arn).map(|group| &mut group.attributes) else {
            return false;
        };
        known.insert(name.to_owned(), value.to_owned());
        true
    }

    /// Removes a target group. Listeners that forward to it forward to nothing then.
    pub(crate) fn remove_target_group(&mut self, arn: &str) -> bool {
        for listener in self.listeners.values_mut() {
            listener.body.target_group_arns.retain(|known| known != arn);
        }
        self.targets.remove(&Group::TargetGroup(arn.to_owned()));
        self.target_groups.remove(arn).is_some()
    }
}

/// The health check that AWS gives to a new group.
fn tcp_check() -> HealthCheck {
    HealthCheck {
        protocol: Protocol::Tcp,
        port: "traffic-port".to_owned(),
        path: None,
        timing: HealthCheckTiming {
            interval_seconds: 30,
            timeout_seconds: 10,
            threshold_count: 5,
            unhealthy_threshold_count: 2,
        },
    }
}

fn new_target_group(
    ec2: &mut Ec2,
    name: &str,
    vpc: &str,
    port: i32,
    health_check: HealthCheck,
    tags: Tags,
) -> TargetGroup {
    let id = format!("{:016x}", ec2.next_number());
    TargetGroup {
        arn: arn(ec2, &format!("targetgroup/{name}/{id}")),
        name: name.to_owned(),
        vpc_id: vpc.to_owned(),
        protocol: Protocol::Tcp,
        port,
        target_type: TargetType::Instance,
        health_check,
        load_balancer_arns: Vec::new(),
        attributes: Seen::Shown(new_attributes()),
        tags,
    }
}

/// The attributes of a new group of instances whose protocol is TCP.
fn new_attributes() -> BTreeMap<String, String> {
    defaults([
        (DELAY, "300"),
        ("preserve_client_ip.enabled", "true"),
        ("target_health_state.unhealthy.connection_termination.enabled", "true"),
        ("target_health_state.unhealthy.draining_interval_seconds", "0"),
    ])
}
