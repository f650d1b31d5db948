//! Network interfaces of other services. They keep what they are in from being deleted.

use std::time::Duration;

use super::Ec2;

/// The network interfaces of one load balancer.
#[derive(Clone, Debug)]
pub(crate) struct Interfaces {
    pub(crate) vpc_id: String,
    pub(crate) subnet_ids: Vec<String>,
    pub(crate) security_group_ids: Vec<String>,
    /// Whether the interfaces have public addresses.
    pub(crate) are_public: bool,
    /// Time at which the load balancer was deleted. The interfaces live on for some time.
    pub(crate) ended_at: Option<Duration>,
}

impl Ec2 {
    /// Replaces the interfaces of a load balancer.
    pub(crate) fn set_interfaces(&mut self, owner: &str, interfaces: Interfaces) {
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
    pub(super) fn has_interfaces(&self, selects: impl Fn(&Interfaces) -> bool) -> bool {
        let age = self.behaviour.load_balancer_interfaces;
        let lives = |known: &Interfaces| known.ended_at.is_none_or(|at| self.now < at.saturating_add(age));
        self.interfaces.values().any(|known| lives(known) && selects(known))
    }

    pub(super) fn remove_interfaces_of(&mut self, vpc: &str) {
        self.interfaces.retain(|_, known| known.vpc_id != vpc);
    }
}
