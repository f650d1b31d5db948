//! The rules for Elastic IPs: none is doubled for an instance, and none is released by others than who allocated it.

use std::collections::BTreeSet;

use capa_api::meta;
use capa_fake_aws::machines::AllocatedAddress;

use crate::aws::cluster_of_key;
use crate::management_cluster::ManagementCluster;

/// The addresses that were looked at.
#[derive(Default)]
pub(crate) struct AddressRules {
    seen: usize,
    released: BTreeSet<String>,
    /// The addresses that managers have allocated and that nobody has taken from here yet.
    allocated: Vec<(ManagementCluster, String)>,
}

impl AddressRules {
    /// The rules that addresses have broken since the last look.
    pub(crate) fn broken(&mut self, addresses: &[AllocatedAddress]) -> Vec<String> {
        let mut broken = Vec::new();
        for address in addresses.iter().skip(self.seen) {
            let machine = address.tags.get(meta::MACHINE_NAME_TAG);
            self.allocated.extend(cluster_of_key(&address.allocated_by).zip(machine.cloned()));
            let role = address.tags.get(meta::ROLE_TAG);
            let live =
                addresses.iter().filter(|other| other.released_by.is_none() && other.tags.get(meta::ROLE_TAG) == role);
            let ids: Vec<&str> = live.map(|other| other.id.as_str()).collect();
            if ids.len() > 1 {
                let role = role.map(String::as_str).unwrap_or_default();
                broken.push(format!("doubled: {role} has {}", ids.join(", ")));
            }
        }
        self.seen = addresses.len();
        for address in addresses {
            let Some(by) = &address.released_by else {
                continue;
            };
            let is_new = self.released.insert(address.id.clone());
            if is_new && cluster_of_key(by) != cluster_of_key(&address.allocated_by) {
                broken.push(format!("foreign: {} was released by {by}", address.id));
            }
        }
        broken
    }

    /// The addresses that managers have allocated since the last call: by whom, and for which machine.
    pub(crate) fn take_allocated(&mut self) -> Vec<(ManagementCluster, String)> {
        std::mem::take(&mut self.allocated)
    }
}

/// The instance that an address was allocated for.
pub(crate) fn instance_of(address: &AllocatedAddress) -> Option<&str> {
    address.tags.get(meta::ROLE_TAG)?.strip_prefix("ec2-")
}
