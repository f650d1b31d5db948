//! Security groups that were there before, and changes of them by hand.

use capa_api::common::Tags;
use capa_cloud::ec2::security_group::Rule;

use crate::account::FakeAccount;

impl FakeAccount {
    /// Adds a security group without rules to a VPC that exists, and gives its id.
    pub fn add_security_group(&self, vpc: &str, name: &str, tags: Tags) -> String {
        self.add(|ec2| ec2.add_security_group(vpc, name, tags))
    }

    /// Adds a rule to a security group. A rule with the same traffic and source is replaced.
    #[must_use]
    pub fn add_rule(&self, group: &str, rule: Rule<String>) -> bool {
        self.state.lock().ec2.add_rule(group, rule)
    }

    /// Removes the rule with this traffic and source from a security group, whatever its description is. The answer is
    /// false, too, if the group has no such rule.
    #[must_use]
    pub fn remove_rule(&self, group: &str, rule: &Rule<String>) -> bool {
        self.state.lock().ec2.remove_rule(group, rule)
    }

    /// Removes a security group and the rules of other groups that name it, but not the default one of a VPC.
    #[must_use]
    pub fn remove_security_group(&self, id: &str) -> bool {
        self.state.lock().ec2.remove_security_group(id)
    }
}
