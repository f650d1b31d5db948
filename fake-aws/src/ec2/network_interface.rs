//! Network interfaces of load balancers, of instances and of others. They keep what they are in from being deleted.

use std::time::Duration;

use capa_cloud::ec2::NetworkInterface;
use capa_cloud::{CloudError, Query};

use super::{Ec2, cloned};
use crate::filters::{NO_TAGS, select};

/// The network interfaces of one load balancer or instance, or one interface that a test added by hand.
#[derive(Clone, Debug, Default)]
pub(super) struct Interfaces {
    all: Vec<NetworkInterface>,
    /// Time from which they do not exist any more.
    ends_at: Option<Duration>,
}

impl Ec2 {
    /// Replaces the interfaces of a load balancer or an instance.
    pub(crate) fn set_interfaces(&mut self, owner: &str, all: Vec<NetworkInterface>) {
        let interfaces = Interfaces { all, ends_at: None };
        self.interfaces.insert(owner.to_owned(), interfaces);
    }

    /// Sets the time at which the interfaces of an instance end with it.
    pub(crate) fn set_end_of_interfaces(&mut self, owner: &str, ends_at: Option<Duration>) {
        if let Some(interfaces) = self.interfaces.get_mut(owner) {
            interfaces.ends_at = ends_at;
        }
    }

    /// Begins to delete the interfaces of a load balancer, which live on for some time.
    pub(crate) fn end_interfaces(&mut self, owner: &str) {
        let ends_at = self.now.saturating_add(self.behaviour.load_balancer_interfaces);
        if let Some(interfaces) = self.interfaces.get_mut(owner) {
            interfaces.ends_at.get_or_insert(ends_at);
        }
    }

    /// Whether there are such interfaces.
    pub(crate) fn has_interface(&self, selects: impl Fn(&NetworkInterface) -> bool) -> bool {
        self.living_interfaces().any(selects)
    }

    /// DescribeNetworkInterfaces, all pages.
    pub(crate) fn describe_network_interfaces(&self, query: &Query) -> Result<Vec<NetworkInterface>, CloudError> {
        let known = ["network-interface-id", "subnet-id"];
        let shown = self.shown_interfaces(|_| true);
        let things = shown.iter().map(|interface| (interface, &NO_TAGS));
        select("DescribeNetworkInterfaces", query, &known, things, |interface, filter| match filter {
            "network-interface-id" => vec![interface.id.clone()],
            _ => vec![interface.subnet_id.clone()],
        })
        .map(cloned)
    }

    /// The interfaces, as EC2 shows them.
    pub(super) fn shown_interfaces(&self, selects: impl Fn(&NetworkInterface) -> bool) -> Vec<NetworkInterface> {
        let shown = self.living_interfaces().filter(|interface| selects(interface));
        let owner_id = &self.behaviour.account_id;
        shown.map(|interface| NetworkInterface { owner_id: owner_id.clone(), ..interface.clone() }).collect()
    }

    fn living_interfaces(&self) -> impl Iterator<Item = &NetworkInterface> {
        let lives = |known: &&Interfaces| known.ends_at.is_none_or(|at| self.now < at);
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
        self.put_network_interface(&id, subnet, groups, description);
        id
    }

    /// Adds an interface with an id of the caller's choice to a subnet that exists.
    pub(crate) fn put_network_interface(&mut self, id: &str, subnet: &str, groups: &[&str], description: &str) {
        let subnets = self.all_subnets().into_iter();
        let interfaces = subnets.filter(|known| known.id == subnet).map(|subnet| NetworkInterface {
            id: id.to_owned(),
            vpc_id: subnet.vpc_id,
            subnet_id: subnet.id,
            availability_zone: subnet.zone,
            security_group_ids: groups.iter().map(|group| (*group).to_owned()).collect(),
            description: description.to_owned(),
            ..NetworkInterface::default()
        });
        let interfaces = interfaces.collect();
        self.set_interfaces(id, interfaces);
    }

    pub(crate) fn remove_network_interface(&mut self, id: &str) -> bool {
        self.interfaces.remove(id).is_some()
    }
}
