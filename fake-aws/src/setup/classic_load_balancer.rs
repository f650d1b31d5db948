//! Classic Load Balancers that were there before, and changes of them by hand.

use capa_api::common::Tags;
use capa_cloud::elb::{ClassicAttributes, ClassicHealthCheck, ClassicListener, ClassicLoadBalancer};
use capa_cloud::managed::Seen;

use crate::account::{FakeAccount, State};

/// Load balancers that were there before.
impl FakeAccount {
    /// Adds an internet-facing Classic Load Balancer, instead of one with the same name, and gives its name, which is
    /// its id. The load balancer is in those of the subnets that exist. It has the default security group of the VPC,
    /// the listener `TCP 6443 to TCP 6443`, and the health check and attributes of a new one.
    pub fn add_classic_load_balancer(&self, name: &str, vpc: &str, subnets: &[&str], tags: Tags) -> String {
        self.add_any(|State { ec2, elb, .. }| elb.add_classic_load_balancer(ec2, name, vpc, subnets, tags))
    }
}

/// Changes by hand.
impl FakeAccount {
    /// Deletes a Classic Load Balancer as a user does it: its interfaces live on for some time.
    #[must_use]
    pub fn remove_classic_load_balancer(&self, name: &str) -> bool {
        let mut state = self.state.lock();
        let State { ec2, elb, .. } = &mut *state;
        elb.remove_classic_load_balancer(ec2, name)
    }

    /// Replaces the health check of a Classic Load Balancer.
    #[must_use]
    pub fn set_classic_health_check(&self, name: &str, health_check: ClassicHealthCheck) -> bool {
        self.change_classic(name, |balancer| balancer.health_check = health_check)
    }

    /// Replaces the attributes of a Classic Load Balancer.
    #[must_use]
    pub fn set_classic_attributes(&self, name: &str, attributes: ClassicAttributes) -> bool {
        self.change_classic(name, |balancer| balancer.attributes = Seen::Shown(attributes))
    }

    /// Replaces the security groups of a Classic Load Balancer. The groups need not exist.
    #[must_use]
    pub fn set_classic_security_groups(&self, name: &str, groups: &[&str]) -> bool {
        let mut state = self.state.lock();
        let State { ec2, elb, .. } = &mut *state;
        elb.set_classic_security_groups(ec2, name, groups)
    }

    /// Adds a listener to a Classic Load Balancer, instead of the one with the same port.
    #[must_use]
    pub fn set_classic_listener(&self, name: &str, listener: ClassicListener) -> bool {
        self.change_classic(name, |balancer| {
            balancer.listeners.retain(|known| known.port != listener.port);
            balancer.listeners.push(listener);
        })
    }

    /// Removes the listener with this port from a Classic Load Balancer. The answer is false, too, if the load balancer
    /// has no such listener.
    #[must_use]
    pub fn remove_classic_listener(&self, name: &str, port: i32) -> bool {
        let mut is_there = false;
        self.change_classic(name, |balancer| {
            is_there = balancer.listeners.iter().any(|known| known.port == port);
            balancer.listeners.retain(|known| known.port != port);
        }) && is_there
    }

    fn change_classic(&self, name: &str, change: impl FnOnce(&mut ClassicLoadBalancer)) -> bool {
        let mut state = self.state.lock();
        state.elb.classic_load_balancer_mut(name).map(change).is_some()
    }
}
