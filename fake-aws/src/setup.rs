//! What users and other controllers do in an account: resources that were there before, and changes by hand.

mod classic_load_balancer;
mod load_balancer;
mod nat_gateway;
mod route_table;
mod security_group;

use capa_api::common::Tags;
use capa_cloud::ec2::VpcDns;
use capa_cloud::ec2::subnet::Attribute;

use crate::account::{FakeAccount, State};
use crate::ec2::Ec2;

/// Resources that were there before. EC2's rules and quotas do not hold them up; they count against the quotas.
impl FakeAccount {
    /// Adds a VPC, and gives its id. It has the DNS attributes, the main route table and the default security
    /// group of a new VPC.
    pub fn add_vpc(&self, cidr_block: &str, tags: Tags) -> String {
        self.add(|ec2| ec2.add_vpc(cidr_block, tags))
    }

    /// Adds a subnet to a VPC that exists, and gives its id. It has the attributes of a new subnet.
    pub fn add_subnet(&self, vpc: &str, cidr_block: &str, zone: &str, tags: Tags) -> String {
        self.add(|ec2| ec2.add_subnet(vpc, cidr_block, zone, tags))
    }

    /// Adds an internet gateway, attached or not, and gives its id.
    pub fn add_internet_gateway(&self, vpc: Option<&str>, tags: Tags) -> String {
        self.add(|ec2| ec2.add_internet_gateway(vpc, tags))
    }

    /// Adds a network interface to a subnet that exists, and gives its id. It has a description by which the service
    /// names it that made it.
    pub fn add_network_interface(&self, subnet: &str, security_groups: &[&str], description: &str) -> String {
        self.add(|ec2| ec2.add_network_interface(subnet, security_groups, description))
    }

    fn add(&self, add: impl FnOnce(&mut Ec2) -> String) -> String {
        self.add_any(|state| add(&mut state.ec2))
    }

    fn add_any(&self, add: impl FnOnce(&mut State) -> String) -> String {
        let mut state = self.state.lock();
        let id = add(&mut state);
        state.foreign.insert(id.clone());
        id
    }
}

/// Changes by hand, of resources from before and of those that calls made. Each says whether the resource exists; if
/// not, nothing changes.
impl FakeAccount {
    /// Associates one more IPv4 range with a VPC.
    #[must_use]
    pub fn add_cidr_block(&self, vpc: &str, cidr_block: &str) -> bool {
        let mut state = self.state.lock();
        let vpc = state.ec2.vpc_mut(vpc);
        vpc.map(|vpc| vpc.cidr_blocks.push(cidr_block.to_owned())).is_some()
    }

    /// Sets both DNS attributes of a VPC.
    #[must_use]
    pub fn set_dns(&self, vpc: &str, dns: VpcDns) -> bool {
        let mut state = self.state.lock();
        state.ec2.dns_mut(vpc).map(|known| *known = dns).is_some()
    }

    /// Sets one attribute of a subnet.
    #[must_use]
    pub fn set_subnet_attribute(&self, subnet: &str, attribute: Attribute) -> bool {
        self.state.lock().ec2.set_subnet_attribute(subnet, attribute)
    }

    /// Attaches an internet gateway to a VPC, or detaches it.
    #[must_use]
    pub fn set_attachment(&self, gateway: &str, vpc: Option<&str>) -> bool {
        self.state.lock().ec2.set_attachment(gateway, vpc)
    }

    /// The tags of a resource of any kind; none if it does not exist. The id of a Classic Load Balancer is its name.
    pub fn tags(&self, id: &str) -> Tags {
        tags_mut(&mut self.state.lock(), id).cloned().unwrap_or_default()
    }

    /// Replaces all tags of a resource of any kind. The id of a Classic Load Balancer is its name.
    #[must_use]
    pub fn set_tags(&self, id: &str, tags: Tags) -> bool {
        let mut state = self.state.lock();
        let Some(known) = tags_mut(&mut state, id) else {
            return false;
        };
        *known = tags;
        true
    }

    /// Removes a VPC with its subnets, NAT gateways, route tables, security groups and load balancers of both
    /// generations, and detaches its internet gateway. Target groups stay.
    #[must_use]
    pub fn remove_vpc(&self, id: &str) -> bool {
        let mut state = self.state.lock();
        let State { ec2, elb, .. } = &mut *state;
        elb.remove_load_balancers_of(ec2, id);
        elb.remove_classic_load_balancers_of(ec2, id);
        ec2.remove_vpc(id)
    }

    /// Removes a subnet with its NAT gateways, whose Elastic IPs are free then, and with its association.
    #[must_use]
    pub fn remove_subnet(&self, id: &str) -> bool {
        self.state.lock().ec2.remove_subnet(id)
    }

    /// Removes a network interface that a test added.
    #[must_use]
    pub fn remove_network_interface(&self, id: &str) -> bool {
        self.state.lock().ec2.remove_network_interface(id)
    }

    /// Removes an internet gateway, attached or not.
    #[must_use]
    pub fn remove_internet_gateway(&self, id: &str) -> bool {
        self.state.lock().ec2.remove_internet_gateway(id)
    }
}

fn tags_mut<'e>(state: &'e mut State, id: &str) -> Option<&'e mut Tags> {
    let State { ec2, elb, .. } = state;
    ec2.tags_mut(id).or_else(|| elb.tags_mut(id))
}
