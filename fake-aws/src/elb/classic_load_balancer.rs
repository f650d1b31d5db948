//! Classic Load Balancers, the first generation of Elastic Load Balancing. They work from their creation on.

use std::time::Duration;

use capa_api::cluster::load_balancer::{HealthCheckTiming, LoadBalancerScheme};
use capa_api::common::Tags;
use capa_cloud::CloudError;
use capa_cloud::ec2::NetworkInterface;
use capa_cloud::elb::classic_load_balancer::Call;
use capa_cloud::elb::{ClassicAttributes, ClassicHealthCheck, ClassicListener, ClassicLoadBalancer, Protocol};
use capa_cloud::managed::{ChangeAnswer, Seen};
use capa_cloud::targets::Group;

use super::placement::{Place, are_of_vpc, are_same, interfaces, place, place_in, second_subnet};
use super::{Elb, REGION};
use crate::ec2::{Ec2, Resource, with_tags};

/// What a Create call says of a load balancer. Tags are settings, too, unlike those of the second generation, see
/// <https://github.com/ansible/ansible/issues/29965>.
struct Settings<'t> {
    name: &'t str,
    scheme: LoadBalancerScheme,
    subnets: &'t [String],
    security_groups: &'t [String],
    listener: &'t ClassicListener,
    tags: &'t Tags,
}

impl Elb {
    pub(super) fn call_classic_load_balancer(
        &mut self,
        ec2: &mut Ec2,
        action: &'static str,
        call: &Call<String>,
    ) -> Result<ChangeAnswer, CloudError> {
        match call {
            Call::CreateLoadBalancer { name, scheme, subnets, security_groups, listener, tags } => {
                let settings = Settings { name, scheme: *scheme, subnets, security_groups, listener, tags };
                return self.create_classic_load_balancer(ec2, action, &settings);
            }
            Call::CreateLoadBalancerListeners { load_balancer, listener } => {
                self.create_classic_listener(ec2, action, load_balancer, listener)?;
            }
            Call::ConfigureHealthCheck { load_balancer, health_check } => {
                let known = self.classic_to_change(ec2, action, load_balancer)?;
                known.health_check = health_check.clone();
            }
            Call::ModifyLoadBalancerAttributes { load_balancer, attributes } => {
                let known = self.classic_to_change(ec2, action, load_balancer)?;
                known.attributes = Seen::Shown(*attributes);
            }
            Call::AttachLoadBalancerToSubnets { load_balancer, subnets } => {
                self.attach_to_subnets(ec2, action, load_balancer, subnets)?;
            }
            Call::ApplySecurityGroupsToLoadBalancer { load_balancer, security_groups } => {
                self.apply_security_groups(ec2, action, load_balancer, security_groups)?;
            }
            Call::AddTags { load_balancer, tags } => {
                let known = self.classic_to_change(ec2, action, load_balancer)?;
                known.tags = with_tags(action, &known.tags, tags)?;
            }
            Call::RemoveTags { load_balancer, keys } => {
                let known = self.classic_to_change(ec2, action, load_balancer)?;
                known.tags.retain(|key, _| !keys.contains(key));
            }
            Call::DeleteLoadBalancer { load_balancer } => {
                if self.classic_to_change(ec2, action, load_balancer).is_ok() {
                    self.remove_classic_load_balancer(ec2, load_balancer);
                }
            }
        }
        Ok(ChangeAnswer::Done)
    }

    fn create_classic_load_balancer(
        &mut self,
        ec2: &mut Ec2,
        action: &'static str,
        settings: &Settings<'_>,
    ) -> Result<ChangeAnswer, CloudError> {
        let name = settings.name;
        if let Some(known) = self.classic_load_balancers.get(name) {
            if settings.are_of(ec2, &known.body) {
                return Ok(ChangeAnswer::Made(name.to_owned()));
            }
            let message =
                format!("Load Balancer named {name} already exists and it is configured with different parameters.");
            return Err(CloudError::answered(action, "DuplicateLoadBalancerName", &message));
        }
        let place = place(ec2, action, settings.scheme, settings.subnets)?;
        are_of_vpc(ec2, action, settings.security_groups, &place.vpc)?;
        if self.classic_load_balancers.len() >= ec2.behaviour.classic_load_balancer_quota {
            let message = "The maximum number of load balancers has been reached.";
            return Err(CloudError::answered(action, "TooManyLoadBalancers", message));
        }
        let groups = settings.effective_groups(ec2, &place.vpc);
        let body = ClassicLoadBalancer {
            security_group_ids: groups,
            ..new_load_balancer(ec2, name, settings.scheme, place, settings.listener, settings.tags.clone())
        };
        let resource = ec2.new_resource(body);
        Ok(ChangeAnswer::Made(self.insert_classic_load_balancer(ec2, resource)))
    }

    fn create_classic_listener(
        &mut self,
        ec2: &Ec2,
        action: &'static str,
        name: &str,
        listener: &ClassicListener,
    ) -> Result<(), CloudError> {
        let listeners = &mut self.classic_to_change(ec2, action, name)?.listeners;
        match listeners.iter().find(|known| known.port == listener.port) {
            Some(known) if known == listener => {}
            Some(_) => {
                let message = format!(
                    "A listener already exists for {name} with LoadBalancerPort {}, but with different settings",
                    listener.port
                );
                return Err(CloudError::answered(action, "DuplicateListener", &message));
            }
            None => listeners.push(listener.clone()),
        }
        Ok(())
    }

    /// Adds subnets; those that the load balancer has already make no difference.
    fn attach_to_subnets(
        &mut self,
        ec2: &mut Ec2,
        action: &'static str,
        name: &str,
        subnets: &[String],
    ) -> Result<(), CloudError> {
        let known = self.classic_to_change(ec2, action, name)?;
        let mut added = place_in(ec2, action, &known.vpc_id, known.scheme, subnets)?.subnets;
        added.retain(|_, subnet| !known.subnet_ids.contains(subnet));
        if let Some(zone) = added.keys().find(|zone| known.zones.contains(zone)) {
            return Err(second_subnet(action, zone));
        }
        let (zones, subnets): (Vec<_>, Vec<_>) = added.into_iter().unzip();
        known.zones.extend(zones);
        known.subnet_ids.extend(subnets);
        ec2.set_interfaces(&known.dns_name, interfaces_of(known));
        Ok(())
    }

    fn apply_security_groups(
        &mut self,
        ec2: &mut Ec2,
        action: &'static str,
        name: &str,
        groups: &[String],
    ) -> Result<(), CloudError> {
        let known = self.classic_to_change(ec2, action, name)?;
        if groups.is_empty() {
            let message = "You must specify at least one security group";
            return Err(CloudError::answered(action, "InvalidConfigurationRequest", message));
        }
        are_of_vpc(ec2, action, groups, &known.vpc_id)?;
        known.security_group_ids = groups.to_vec();
        ec2.set_interfaces(&known.dns_name, interfaces_of(known));
        Ok(())
    }

    /// The load balancer that a call names.
    fn classic_to_change(
        &mut self,
        ec2: &Ec2,
        action: &'static str,
        name: &str,
    ) -> Result<&mut ClassicLoadBalancer, CloudError> {
        let known = self.classic_load_balancers.get_mut(name);
        let known = known.filter(|resource| ec2.is_shown(resource));
        known.map(|resource| &mut resource.body).ok_or_else(|| {
            let message = format!("There is no ACTIVE Load Balancer named '{name}'");
            CloudError::answered(action, "LoadBalancerNotFound", &message)
        })
    }

    fn insert_classic_load_balancer(&mut self, ec2: &mut Ec2, resource: Resource<ClassicLoadBalancer>) -> String {
        let name = resource.body.name.clone();
        ec2.set_interfaces(&resource.body.dns_name, interfaces_of(&resource.body));
        self.classic_load_balancers.insert(name.clone(), resource);
        name
    }

    /// Whether a call made the load balancer with this name, and no test added it by hand.
    pub(crate) fn has_made_classic(&self, name: &str) -> bool {
        let known = self.classic_load_balancers.get(name);
        known.is_some_and(|resource| !resource.is_by_hand())
    }
}

/// What tests see and change by hand.
impl Elb {
    pub(crate) fn all_classic_load_balancers(&self) -> Vec<ClassicLoadBalancer> {
        let resources = self.classic_load_balancers.values();
        resources.map(|resource| resource.body.clone()).collect()
    }

    /// Adds an internet-facing load balancer with the default security group of the VPC and one listener to subnets
    /// that exist, instead of one with the same name.
    pub(crate) fn add_classic_load_balancer(
        &mut self,
        ec2: &mut Ec2,
        name: &str,
        vpc: &str,
        subnets: &[&str],
        tags: Tags,
    ) -> String {
        self.remove_classic_load_balancer(ec2, name);
        let listener = ClassicListener {
            port: 6443,
            protocol: Protocol::Tcp,
            instance_port: 6443,
            instance_protocol: Protocol::Tcp,
        };
        let place = Place::by_hand(ec2, vpc, subnets);
        let body = new_load_balancer(ec2, name, LoadBalancerScheme::InternetFacing, place, &listener, tags);
        self.insert_classic_load_balancer(ec2, Resource::by_hand(body))
    }

    /// Sets the time for which the instances of a load balancer drain.
    pub(crate) fn set_connection_draining(&mut self, name: &str, draining: Duration) {
        self.targets.entry(Group::Classic(name.to_owned())).or_default().draining = draining;
    }

    /// The load balancer, for a change by hand.
    pub(crate) fn classic_load_balancer_mut(&mut self, name: &str) -> Option<&mut ClassicLoadBalancer> {
        let known = self.classic_load_balancers.get_mut(name);
        known.map(|resource| &mut resource.body)
    }

    /// Replaces the security groups, which need not exist.
    pub(crate) fn set_classic_security_groups(&mut self, ec2: &mut Ec2, name: &str, groups: &[&str]) -> bool {
        let Some(known) = self.classic_load_balancer_mut(name) else {
            return false;
        };
        known.security_group_ids = groups.iter().map(|group| (*group).to_owned()).collect();
        ec2.set_interfaces(&known.dns_name, interfaces_of(known));
        true
    }

    /// Removes a load balancer. Its interfaces live on for some time.
    pub(crate) fn remove_classic_load_balancer(&mut self, ec2: &mut Ec2, name: &str) -> bool {
        self.targets.remove(&Group::Classic(name.to_owned()));
        let known = self.classic_load_balancers.remove(name);
        known.map(|resource| ec2.end_interfaces(&resource.body.dns_name)).is_some()
    }

    /// Removes the load balancers of a VPC.
    pub(crate) fn remove_classic_load_balancers_of(&mut self, ec2: &mut Ec2, vpc: &str) {
        let mut of_vpc = self.all_classic_load_balancers();
        of_vpc.retain(|known| known.vpc_id == vpc);
        for known in of_vpc {
            self.remove_classic_load_balancer(ec2, &known.name);
        }
    }
}

impl Settings<'_> {
    /// Whether a load balancer has these settings.
    fn are_of(&self, ec2: &Ec2, known: &ClassicLoadBalancer) -> bool {
        let groups = self.effective_groups(ec2, &known.vpc_id);
        known.scheme == self.scheme
            && are_same(&known.subnet_ids, self.subnets)
            && are_same(&known.security_group_ids, &groups)
            && known.listeners == std::slice::from_ref(self.listener)
            && known.tags == *self.tags
    }

    /// The security groups of a load balancer in a VPC: without any, it has the default one.
    fn effective_groups(&self, ec2: &Ec2, vpc: &str) -> Vec<String> {
        if self.security_groups.is_empty() { default_groups(ec2, vpc) } else { self.security_groups.to_vec() }
    }
}

fn default_groups(ec2: &Ec2, vpc: &str) -> Vec<String> {
    ec2.default_group_of(vpc).map(str::to_owned).into_iter().collect()
}

/// A load balancer with the default security group of its VPC, and with the health check and attributes that AWS gives
/// to a new one.
fn new_load_balancer(
    ec2: &mut Ec2,
    name: &str,
    scheme: LoadBalancerScheme,
    place: Place,
    listener: &ClassicListener,
    tags: Tags,
) -> ClassicLoadBalancer {
    let prefix = match scheme {
        LoadBalancerScheme::Internal => "internal-",
        LoadBalancerScheme::InternetFacing => "",
    };
    let number = ec2.next_number();
    let (zones, subnet_ids) = place.subnets.into_iter().unzip();
    ClassicLoadBalancer {
        name: name.to_owned(),
        dns_name: format!("{prefix}{name}-{number:010}.{REGION}.elb.amazonaws.com"),
        scheme,
        subnet_ids,
        zones,
        security_group_ids: default_groups(ec2, &place.vpc),
        vpc_id: place.vpc,
        listeners: vec![listener.clone()],
        health_check: new_health_check(listener),
        attributes: Seen::Shown(ClassicAttributes { is_cross_zone: false, idle_timeout_seconds: 60 }),
        tags,
    }
}

fn new_health_check(listener: &ClassicListener) -> ClassicHealthCheck {
    ClassicHealthCheck {
        target: format!("TCP:{}", listener.instance_port),
        timing: HealthCheckTiming {
            interval_seconds: 30,
            timeout_seconds: 5,
            threshold_count: 10,
            unhealthy_threshold_count: 2,
        },
    }
}

/// The name of a load balancer can be used again, while interfaces of a former one live on. The number in the DNS name
/// is never used again, so the interfaces belong to that name.
fn interfaces_of(load_balancer: &ClassicLoadBalancer) -> Vec<NetworkInterface> {
    let ClassicLoadBalancer { name, vpc_id, subnet_ids, security_group_ids, scheme, .. } = load_balancer;
    interfaces(name, vpc_id, subnet_ids, security_group_ids, *scheme)
}
