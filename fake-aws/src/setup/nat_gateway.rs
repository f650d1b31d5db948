//! NAT gateways and Elastic IPs that were there before, and changes of them by hand.

use capa_api::common::Tags;

use crate::account::FakeAccount;

impl FakeAccount {
    /// Adds an Elastic IP that is not associated, and gives its allocation id.
    pub fn add_address(&self, tags: Tags) -> String {
        self.add(|ec2| ec2.add_address(tags))
    }

    /// Adds a NAT gateway to a subnet that exists, and gives its id. The gateway is available, and it has no Elastic IP
    /// until [`FakeAccount::add_nat_gateway_address`] gives it one.
    pub fn add_nat_gateway(&self, subnet: &str, tags: Tags) -> String {
        self.add(|ec2| ec2.add_nat_gateway(subnet, tags))
    }

    /// Associates one more Elastic IP with a NAT gateway.
    #[must_use]
    pub fn add_nat_gateway_address(&self, gateway: &str, address: &str) -> bool {
        self.state.lock().ec2.associate_address(gateway, address)
    }

    /// Associates an Elastic IP with something else than a NAT gateway, or ends that association. It does not end an
    /// association with a NAT gateway, as EC2 does not, but shows instead of it.
    #[must_use]
    pub fn set_association(&self, address: &str, association: Option<&str>) -> bool {
        let mut state = self.state.lock();
        let Some(address) = state.ec2.address_mut(address) else {
            return false;
        };
        address.association_id = association.map(str::to_owned);
        true
    }

    /// Deletes a NAT gateway as a user does it: the gateway is deleting first. The answer is true, too, for one that is
    /// deleting already, or deleted and listed.
    #[must_use]
    pub fn remove_nat_gateway(&self, id: &str) -> bool {
        self.state.lock().ec2.remove_nat_gateway(id)
    }

    /// Releases an Elastic IP, associated or not.
    #[must_use]
    pub fn remove_address(&self, id: &str) -> bool {
        self.state.lock().ec2.remove_address(id)
    }
}
