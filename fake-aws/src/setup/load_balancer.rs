//! Load balancers of the second generation with their parts that were there before, and changes of them by hand.

use std::time::Duration;

use capa_api::common::Tags;
use capa_cloud::elb::{HealthCheck, TargetType};
use capa_cloud::targets::Group;

use crate::account::{FakeAccount, State};
use crate::elb::DELAY;

/// Resources that were there before.
impl FakeAccount {
    /// Adds an internet-facing network load balancer, and gives its ARN. The load balancer is active, it is in those of
    /// the subnets that exist, and it has no security groups.
    pub fn add_load_balancer(&self, name: &str, vpc: &str, subnets: &[&str], tags: Tags) -> String {
        self.add_any(|State { ec2, elb, .. }| elb.add_load_balancer(ec2, name, vpc, subnets, tags))
    }

    /// Adds a target group with the health check of a new one, and gives its ARN.
    pub fn add_target_group(&self, name: &str, vpc: &str, port: i32, tags: Tags) -> String {
        self.add_any(|State { ec2, elb, .. }| elb.add_target_group(ec2, name, vpc, port, tags))
    }

    /// Adds a target group of no VPC or a Classic Load Balancer, whose targets are of this type and drain for `delay` in
    /// whole seconds.
    pub fn put_group(&self, group: &Group, target_type: TargetType, delay: Duration) {
        let State { ec2, elb, .. } = &mut *self.state.lock();
        match group {
            Group::TargetGroup(arn) => {
                elb.put_target_group(ec2, arn, target_type);
                elb.set_target_group_attribute(arn, DELAY, &delay.as_secs().to_string());
            }
            Group::Classic(name) => {
                elb.add_classic_load_balancer(ec2, name, "", &[], Tags::new());
                elb.set_connection_draining(name, delay);
            }
        }
    }

    /// Sets the VPC of a target group.
    #[must_use]
    pub fn set_vpc_of_group(&self, arn: &str, vpc: &str) -> bool {
        let mut elb = self.elb();
        elb.target_group_mut(arn).map(|group| vpc.clone_into(&mut group.vpc_id)).is_some()
    }

    /// Adds a listener that forwards to a target group, and gives its ARN.
    pub fn add_listener(&self, load_balancer: &str, port: i32, group: &str, tags: Tags) -> String {
        self.add_any(|State { ec2, elb, .. }| elb.add_listener(ec2, load_balancer, port, group, tags))
    }
}

/// Changes by hand.
impl FakeAccount {
    /// Deletes a load balancer with its listeners as a user does it, protected or not: its interfaces live on for some
    /// time.
    #[must_use]
    pub fn remove_load_balancer(&self, arn: &str) -> bool {
        let mut state = self.state.lock();
        let State { ec2, elb, .. } = &mut *state;
        elb.remove_load_balancer(ec2, arn)
    }

    /// Removes a target group. Listeners that forward to it forward to nothing then.
    #[must_use]
    pub fn remove_target_group(&self, arn: &str) -> bool {
        self.state.lock().elb.remove_target_group(arn)
    }

    /// Removes a listener.
    #[must_use]
    pub fn remove_listener(&self, arn: &str) -> bool {
        self.state.lock().elb.remove_listener(arn)
    }

    /// Makes a listener forward to these target groups, which need not exist.
    #[must_use]
    pub fn set_listener_targets(&self, listener: &str, groups: &[&str]) -> bool {
        self.state.lock().elb.set_listener_targets(listener, groups)
    }

    /// Sets one attribute of a load balancer.
    #[must_use]
    pub fn set_load_balancer_attribute(&self, load_balancer: &str, name: &str, value: &str) -> bool {
        let mut state = self.state.lock();
        state.elb.set_load_balancer_attribute(load_balancer, name, value)
    }

    /// Sets one attribute of a target group.
    #[must_use]
    pub fn set_target_group_attribute(&self, group: &str, name: &str, value: &str) -> bool {
        self.state.lock().elb.set_target_group_attribute(group, name, value)
    }

    /// Replaces the health check of a target group.
    #[must_use]
    pub fn set_health_check(&self, group: &str, health_check: HealthCheck) -> bool {
        self.state.lock().elb.set_health_check(group, health_check)
    }
}
