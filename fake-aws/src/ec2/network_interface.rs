//! Network interfaces of load balancers and of others. They keep what they are in from being deleted.

use std::time::Duration;

use capa_cloud::ec2::NetworkInterface;

use super::Ec2;

/// The network interfaces of one load balancer, or one interface that a test added by hand.
#[derive(Clone, Debug, Default)]
pub(super) struct Interfaces {
    all: Vec<NetworkInterface>,
    /// Time at which the load balancer was deleted. The interfaces live on for some time.
    ended_at: Option<Duration>,
}

impl Ec2 {
    /// Replaces the interfaces of a load balancer.
    pub(crate) fn set_interfaces(&mut self, owner: &str, all: Vec<NetworkInterface>) {
        let interfaces = Interfaces { all, ended_at: None };
        self.interfaces.insert(owner.to_owned(), interfaces);
    }

    /// Begins to delete the interfaces of a load balancer.
    pub(crate) fn end_interfaces(&mut self, owner: &str) {
        let now = self.now;
        if let Some(interfaces) = self.interfaces.get_mut(owner) {
            interfaces.ended_at.get_or_insert(now);
        }
    }

    /// Whether there are such interfaces.
    pub(super) fn has_interface(&self, selects: impl Fn(&NetworkInterface) -> bool) -> bool {
        self.living_interfaces().any(selects)
    }

    /// The interfaces in a VPC, as EC2 shows them.
    pub(super) fn shown_interfaces(&self, vpc: &str) -> Vec<NetworkInterface> {
        let shown = self.living_interfaces().filter(|interface| interface.vpc_id == vpc);
        let owner_id = &self.behaviour.account_id;
        shown.map(|interface| NetworkInterface { owner_id: owner_id.clone(), ..interface.clone() }).collect()
    }

    fn living_interfaces(&self) -> impl Iterator<Item = &NetworkInterface> {
        let age = self.behaviour.load_balancer_interfaces;
        let lives = move |known: &&Interfaces| known.ended_at.is_none_or(|at| self.now < at.saturating_add(age));
        self.interfaces.values().filter(lives).flat_map(|known| &known.all)
    }

    pub(super) fn remove_interfaces_of(&mut self, vpc: &str) {
        for interfaces in self.interfaces.values_mut() {
            interfaces.all.retain(|interface| interface.vpc_id != vpc);
        }
    }
}

/// What tests change by hand.
impl Ec2 {
    /// Adds an interface to a subnet that exists.
    pub(crate) fn add_network_interface(&mut self, subnet: &str, groups: &[&str], description: &str) -> String {
        let id = self.next_id("eni");
        let subnets = self.all_subnets().into_iter();
        let interfaces = subnets.filter(|known| known.id == subnet).map(|subnet| NetworkInterface {
            id: id.clone(),
            vpc_id: subnet.vpc_id,
            subnet_id: subnet.id,
            availability_zone: subnet.zone,
            security_group_ids: groups.iter().map(|group| (*group).to_owned()).collect(),
            description: description.to_owned(),
            ..NetworkInterface::default()
        });
        let interfaces = interfaces.collect();
        self.set_interfaces(&id, interfaces);
        id
    }

    pub(crate) fn remove_network_interface(&mut self, id: &str) -> bool {
        self.interfaces.remove(id).is_some()
    }
}
