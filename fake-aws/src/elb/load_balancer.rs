//! Network load balancers. Their states follow from the clock.

use std::collections::BTreeMap;

use capa_api::cluster::load_balancer::LoadBalancerScheme;
use capa_api::common::Tags;

use capa_cloud::CloudError;
use capa_cloud::ec2::NetworkInterface;
use capa_cloud::elb::load_balancer::Call;
use capa_cloud::elb::{IpAddressType, LoadBalancer, LoadBalancerKind, LoadBalancerState};
use capa_cloud::managed::{ChangeAnswer, Seen};

use super::placement::{Place, are_of_vpc, are_same, interfaces, place, place_in};
use super::{Elb, REGION, arn, defaults, merge};
use crate::ec2::{Ec2, Resource};

const DELETION_PROTECTION: &str = "deletion_protection.enabled";

/// A load balancer with what its state follows from.
#[derive(Clone, Debug)]
pub(super) struct Body {
    /// The load balancer as it is if nothing fails, without its attributes.
    pub(super) load_balancer: LoadBalancer,
    attributes: BTreeMap<String, String>,
    /// The Elastic IPs of the load balancer.
    addresses: Vec<String>,
    /// Why the load balancer fails at the end of provisioning.
    failure: Option<String>,
}

impl Elb {
    pub(super) fn call_load_balancer(
        &mut self,
        ec2: &mut Ec2,
        action: &'static str,
        call: &Call<String>,
    ) -> Result<ChangeAnswer, CloudError> {
        match call {
            Call::CreateLoadBalancer { name, scheme, subnets, addresses, security_groups, tags } => {
                match self.load_balancer_named(name) {
                    Some(known) if is_same(known, *scheme, subnets, security_groups) => {
                        Ok(ChangeAnswer::Made(known.arn.clone()))
                    }
                    Some(_) => {
                        let message =
                            format!("A load balancer with the same name '{name}' exists, but with other settings");
                        Err(CloudError::answered(action, "DuplicateLoadBalancerName", &message))
                    }
                    None => {
                        let place = place(ec2, action, *scheme, subnets)?;
                        are_of_vpc(ec2, action, security_groups, &place.vpc)?;
                        self.has_quota(ec2, action)?;
                        ec2.give_addresses(action, addresses)?;
                        let mut body = new_load_balancer(ec2, name, *scheme, place, tags.clone());
                        body.load_balancer.security_group_ids.clone_from(security_groups);
                        body.addresses.clone_from(addresses);
                        body.failure = self.take_planned_failure();
                        let resource = ec2.new_resource(body);
                        Ok(ChangeAnswer::Made(self.insert_load_balancer(ec2, resource)))
                    }
                }
            }
            Call::ModifyLoadBalancerAttributes { load_balancer, attributes } => {
                let body = self.load_balancer_to_change(ec2, action, load_balancer)?;
                merge(&mut body.attributes, attributes);
                Ok(ChangeAnswer::Done)
            }
            Call::SetSubnets { load_balancer, subnets } => self.set_subnets(ec2, action, load_balancer, subnets),
            Call::SetSecurityGroups { load_balancer, security_groups } => {
                self.set_security_groups(ec2, action, load_balancer, security_groups)
            }
            Call::DeleteLoadBalancer { load_balancer } => self.delete_load_balancer(ec2, action, load_balancer),
        }
    }

    fn has_quota(&self, ec2: &Ec2, action: &'static str) -> Result<(), CloudError> {
        if self.load_balancers.len() < ec2.behaviour.load_balancer_quota {
            return Ok(());
        }
        let message = "The maximum number of load balancers has been reached.";
        Err(CloudError::answered(action, "TooManyLoadBalancers", message))
    }

    fn set_subnets(
        &mut self,
        ec2: &mut Ec2,
        action: &'static str,
        arn: &str,
        subnets: &[String],
    ) -> Result<ChangeAnswer, CloudError> {
        let body = self.load_balancer_to_change(ec2, action, arn)?;
        let LoadBalancer { vpc_id, scheme, .. } = &body.load_balancer;
        body.load_balancer.subnets = place_in(ec2, action, vpc_id, *scheme, subnets)?.subnets;
        let interfaces = interfaces_of(&body.load_balancer);
        ec2.set_interfaces(arn, interfaces);
        Ok(ChangeAnswer::Done)
    }

    fn set_security_groups(
        &mut self,
        ec2: &mut Ec2,
        action: &'static str,
        arn: &str,
        groups: &[String],
    ) -> Result<ChangeAnswer, CloudError> {
        let load_balancer = &mut self.load_balancer_to_change(ec2, action, arn)?.load_balancer;
        if load_balancer.security_group_ids.is_empty() {
            let message = "You cannot set security groups on a load balancer that was created without any";
            return Err(CloudError::answered(action, "InvalidConfigurationRequest", message));
        }
        if groups.is_empty() {
            let message = "You cannot remove all security groups of a load balancer";
            return Err(CloudError::answered(action, "InvalidConfigurationRequest", message));
        }
        are_of_vpc(ec2, action, groups, &load_balancer.vpc_id)?;
        load_balancer.security_group_ids = groups.to_vec();
        let interfaces = interfaces_of(load_balancer);
        ec2.set_interfaces(arn, interfaces);
        Ok(ChangeAnswer::Done)
    }

    fn delete_load_balancer(
        &mut self,
        ec2: &mut Ec2,
        action: &'static str,
        arn: &str,
    ) -> Result<ChangeAnswer, CloudError> {
        let known = self.load_balancers.get(arn);
        let Some(known) = known.filter(|resource| ec2.is_shown(resource)) else {
            return Ok(ChangeAnswer::Done);
        };
        let protection = known.body.attributes.get(DELETION_PROTECTION);
        if protection.is_some_and(|value| value == "true") {
            let message = format!("Load balancer '{arn}' cannot be deleted because deletion protection is enabled");
            return Err(CloudError::answered(action, "OperationNotPermitted", &message));
        }
        self.remove_load_balancer(ec2, arn);
        Ok(ChangeAnswer::Done)
    }

    /// The load balancer that a call names.
    pub(super) fn known_load_balancer(
        &self,
        ec2: &Ec2,
        action: &'static str,
        arn: &str,
    ) -> Result<&LoadBalancer, CloudError> {
        let known = self.load_balancers.get(arn);
        let known = known.filter(|resource| ec2.is_shown(resource));
        known.map(|resource| &resource.body.load_balancer).ok_or_else(|| unknown(action, arn))
    }

    fn load_balancer_to_change(&mut self, ec2: &Ec2, action: &'static str, arn: &str) -> Result<&mut Body, CloudError> {
        let known = self.load_balancers.get_mut(arn);
        let known = known.filter(|resource| ec2.is_shown(resource));
        known.map(|resource| &mut resource.body).ok_or_else(|| unknown(action, arn))
    }

    /// The load balancer with this name, hidden or not.
    fn load_balancer_named(&self, name: &str) -> Option<&LoadBalancer> {
        let mut known = self.load_balancers.values().map(|resource| &resource.body.load_balancer);
        known.find(|known| known.name == name)
    }

    fn take_planned_failure(&mut self) -> Option<String> {
        let (count, failure) = self.planned_failure.as_mut()?;
        *count = count.checked_sub(1)?;
        Some(failure.clone())
    }

    fn insert_load_balancer(&mut self, ec2: &mut Ec2, resource: Resource<Body>) -> String {
        let load_balancer = &resource.body.load_balancer;
        let arn = load_balancer.arn.clone();
        ec2.set_interfaces(&arn, interfaces_of(load_balancer));
        self.load_balancers.insert(arn.clone(), resource);
        arn
    }

    /// The attributes of a load balancer that exists.
    pub(super) fn load_balancer_attributes(&self, arn: &str) -> BTreeMap<String, String> {
        let known = self.load_balancers.get(arn);
        known.map(|known| known.body.attributes.clone()).unwrap_or_default()
    }

    /// A load balancer with its state and without its attributes.
    pub(super) fn view_load_balancer(ec2: &Ec2, resource: &Resource<Body>) -> LoadBalancer {
        let state = if !ec2.has_age(resource, ec2.behaviour.load_balancer_provisioning) {
            LoadBalancerState::Provisioning
        } else if let Some(failure) = &resource.body.failure {
            LoadBalancerState::Failed(failure.clone())
        } else {
            LoadBalancerState::Active
        };
        LoadBalancer { state, ..resource.body.load_balancer.clone() }
    }
}

/// What tests see and change by hand.
impl Elb {
    pub(crate) fn all_load_balancers(&self, ec2: &Ec2) -> Vec<LoadBalancer> {
        let resources = self.load_balancers.values();
        let views = resources.map(|resource| LoadBalancer {
            attributes: Seen::Shown(resource.body.attributes.clone()),
            ..Self::view_load_balancer(ec2, resource)
        });
        views.collect()
    }

    pub(crate) fn plan_failures(&mut self, count: usize, message: &str) {
        self.planned_failure = Some((count, message.to_owned()));
    }

    /// Adds an internet-facing load balancer without security groups to subnets that exist.
    pub(crate) fn add_load_balancer(
        &mut self,
        ec2: &mut Ec2,
        name: &str,
        vpc: &str,
        subnets: &[&str],
        tags: Tags,
    ) -> String {
        let place = Place::by_hand(ec2, vpc, subnets);
        let body = new_load_balancer(ec2, name, LoadBalancerScheme::InternetFacing, place, tags);
        self.insert_load_balancer(ec2, Resource::by_hand(body))
    }

    /// The load balancer, for a change by hand.
    pub(crate) fn load_balancer_mut(&mut self, arn: &str) -> Option<&mut LoadBalancer> {
        let known = self.load_balancers.get_mut(arn);
        known.map(|resource| &mut resource.body.load_balancer)
    }

    pub(crate) fn set_load_balancer_attribute(&mut self, arn: &str, name: &str, value: &str) -> bool {
        let Some(known) = self.load_balancers.get_mut(arn) else {
            return false;
        };
        known.body.attributes.insert(name.to_owned(), value.to_owned());
        true
    }

    /// Removes a load balancer with its listeners. Its interfaces live on for some time.
    pub(crate) fn remove_load_balancer(&mut self, ec2: &mut Ec2, arn: &str) -> bool {
        self.listeners.retain(|_, listener| listener.body.load_balancer_arn != arn);
        ec2.end_interfaces(arn);
        let known = self.load_balancers.remove(arn);
        known.map(|resource| ec2.take_addresses(&resource.body.addresses)).is_some()
    }

    /// Removes the load balancers of a VPC with their listeners.
    pub(crate) fn remove_load_balancers_of(&mut self, ec2: &mut Ec2, vpc: &str) {
        let known = self.load_balancers.values().map(|resource| &resource.body.load_balancer);
        let of_vpc: Vec<_> = known.filter(|known| known.vpc_id == vpc).collect();
        let arns: Vec<_> = of_vpc.iter().map(|known| known.arn.clone()).collect();
        for arn in arns {
            self.remove_load_balancer(ec2, &arn);
        }
    }
}

/// Whether a load balancer has these settings. Tags are none.
fn is_same(known: &LoadBalancer, scheme: LoadBalancerScheme, subnets: &[String], groups: &[String]) -> bool {
    known.scheme == scheme && are_same(known.subnets.values(), subnets) && are_same(&known.security_group_ids, groups)
}

fn new_load_balancer(ec2: &mut Ec2, name: &str, scheme: LoadBalancerScheme, place: Place, tags: Tags) -> Body {
    let id = format!("{:016x}", ec2.next_number());
    let load_balancer = LoadBalancer {
        arn: arn(ec2, &format!("loadbalancer/net/{name}/{id}")),
        name: name.to_owned(),
        kind: LoadBalancerKind::Network,
        vpc_id: place.vpc,
        dns_name: format!("{name}-{id}.elb.{REGION}.amazonaws.com"),
        scheme,
        state: LoadBalancerState::Active,
        ip_address_type: IpAddressType::Ipv4,
        subnets: place.subnets,
        security_group_ids: Vec::new(),
        attributes: Seen::NotAsked,
        tags,
    };
    Body {
        load_balancer,
        attributes: defaults([(DELETION_PROTECTION, "false"), ("load_balancing.cross_zone.enabled", "false")]),
        addresses: Vec::new(),
        failure: None,
    }
}

fn interfaces_of(load_balancer: &LoadBalancer) -> Vec<NetworkInterface> {
    let LoadBalancer { arn, vpc_id, subnets, security_group_ids, scheme, .. } = load_balancer;
    let name = arn.split_once("loadbalancer/").map_or(arn.as_str(), |(_, name)| name);
    interfaces(name, vpc_id, subnets.values(), security_group_ids, *scheme)
}

fn unknown(action: &'static str, arn: &str) -> CloudError {
    let message = format!("One or more load balancers not found: '{arn}'");
    CloudError::answered(action, "LoadBalancerNotFound", &message)
}
