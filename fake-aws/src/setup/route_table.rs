//! Route tables that were there before, and changes of them by hand.

use capa_api::common::Tags;

use crate::account::{FakeAccount, State};

impl FakeAccount {
    /// Adds a route table without associations to a VPC that exists, and gives its id.
    pub fn add_route_table(&self, vpc: &str, tags: Tags) -> String {
        self.add(|ec2| ec2.add_route_table(vpc, tags))
    }

    /// Sets or removes the route of a table to a range. The target is an id of any kind, which need not exist.
    /// Local routes stay as they are.
    #[must_use]
    pub fn set_route(&self, table: &str, destination: &str, target: Option<&str>) -> bool {
        self.state.lock().ec2.set_route(table, destination, target)
    }

    /// Associates a subnet with a route table, instead of the one that it has. The association of a subnet that a test
    /// added by hand counts as added by hand, too. Without a table, the association ends; the answer is false, if there
    /// was none.
    #[must_use]
    pub fn set_association_of_subnet(&self, subnet: &str, table: Option<&str>) -> bool {
        let mut state = self.state.lock();
        let State { ec2, foreign, .. } = &mut *state;
        let Some(table) = table else {
            return ec2.remove_association(subnet);
        };
        let association = ec2.associate_subnet(table, subnet);
        let is_made = association.is_some();
        foreign.extend(association.filter(|_| foreign.contains(subnet)));
        is_made
    }

    /// Removes a route table with its associations, but not the main one of a VPC.
    #[must_use]
    pub fn remove_route_table(&self, id: &str) -> bool {
        self.state.lock().ec2.remove_route_table(id)
    }
}
