//! Elastic IPs: AllocateAddress, AssociateAddress, ReleaseAddress, DescribeAddresses and DescribePublicIpv4Pools. EC2
//! knows no client token for addresses: each AllocateAddress allocates one.

use capa_api::common::Tags;
use jiff::Timestamp;

use capa_cloud::{CloudError, ElasticIp, ElasticIpAnswer, ElasticIpCall, Query};

use super::allocated_address::AllocatedAddress;
use super::client::Client;
use super::instances::LaunchedInstance;
use super::region::Region;
use super::time::after;

/// The known filters of DescribeAddresses, besides the filters by tag.
const FILTERS: [&str; 5] = ["allocation-id", "association-id", "instance-id", "network-interface-id", "public-ip"];

impl Client<'_> {
    /// A call that changes addresses.
    pub fn change_elastic_ip(&mut self, now: Timestamp, call: &ElasticIpCall) -> Result<ElasticIpAnswer, CloudError> {
        let (region, key) = self.enter(now, call.action(), 0)?;
        let key = key.to_owned();
        match call {
            ElasticIpCall::Allocate { pool, tags } => return region.allocate_address(now, &key, pool.as_deref(), tags),
            ElasticIpCall::Associate { allocation_id, interface_id } => {
                region.associate_address(now, allocation_id, interface_id)?;
            }
            ElasticIpCall::Release { allocation_id } => region.release_address(now, &key, allocation_id)?,
        }
        Ok(ElasticIpAnswer::Done)
    }

    /// DescribeAddresses.
    pub fn describe_addresses(&mut self, now: Timestamp, query: &Query) -> Result<Vec<ElasticIp>, CloudError> {
        const ACTION: &str = "DescribeAddresses";
        let (region, _) = self.enter(now, ACTION, 0)?;
        let region = &*region;
        let known = region.live_addresses().filter(|address| address.visible_from <= now);
        let shown: Vec<ElasticIp> = known.map(|address| region.shown_address(now, address)).collect();
        let things = shown.iter().map(|address| (address, &address.tags));
        let found = crate::filters::select(ACTION, query, &FILTERS, things, |address, filter| {
            let value = match filter {
                "allocation-id" => Some(address.allocation_id.clone()),
                "public-ip" => Some(address.public_ip.clone()),
                "association-id" => address.association_id.clone(),
                "network-interface-id" => region.interface_with(now, address),
                _ => address.instance_id.clone(),
            };
            value.into_iter().collect()
        })?;
        Ok(found.into_iter().cloned().collect())
    }

    /// DescribePublicIpv4Pools of one pool.
    pub fn free_addresses(&mut self, now: Timestamp, pool: &str) -> Result<u32, CloudError> {
        const ACTION: &str = "DescribePublicIpv4Pools";
        let (region, _) = self.enter(now, ACTION, 0)?;
        let free = region.address_pools.get(pool).copied();
        free.ok_or_else(|| unknown_pool(ACTION, pool))
    }
}

impl Region {
    /// Adds a public IPv4 pool with so many free addresses, or replaces it.
    pub fn address_pool(&mut self, pool: &str, free: u32) -> &mut Self {
        self.address_pools.insert(pool.to_owned(), free);
        self
    }

    /// Sets the most addresses at a time. `None`: unlimited.
    pub fn set_address_quota(&mut self, addresses: Option<usize>) -> &mut Self {
        self.address_quota = addresses;
        self
    }

    /// All addresses that were ever allocated, oldest first.
    pub fn addresses(&self) -> &[AllocatedAddress] {
        &self.addresses
    }

    /// The addresses that are not released.
    pub fn live_addresses(&self) -> impl Iterator<Item = &AllocatedAddress> {
        self.addresses.iter().filter(|address| address.released.is_none())
    }

    fn allocate_address(
        &mut self,
        now: Timestamp,
        key: &str,
        pool: Option<&str>,
        tags: &Tags,
    ) -> Result<ElasticIpAnswer, CloudError> {
        const ACTION: &str = "AllocateAddress";
        if let Some(pool) = pool {
            let free = self.address_pools.get(pool).copied();
            let free = free.ok_or_else(|| unknown_pool(ACTION, pool))?;
            let Some(left) = free.checked_sub(1) else {
                let message = format!("The pool {pool} has no free address");
                return Err(CloudError::answered(ACTION, "InsufficientAddressCapacity", &message));
            };
            self.address_pools.insert(pool.to_owned(), left);
        }
        if self.address_quota.is_some_and(|most| self.live_addresses().count() >= most) {
            let message = "The maximum number of addresses has been reached.";
            return Err(CloudError::answered(ACTION, "AddressLimitExceeded", message));
        }
        let address = AllocatedAddress {
            pool: pool.map(str::to_owned),
            tags: tags.clone(),
            allocated_by: key.to_owned(),
            visible_from: after(now, self.behaviour.hidden),
            ..self.new_address(now)
        };
        let answer =
            ElasticIpAnswer::Allocated { allocation_id: address.id.clone(), public_ip: address.public_ip.clone() };
        self.addresses.push(address);
        Ok(answer)
    }

    /// A new address of Amazon's that is shown at once.
    fn new_address(&self, now: Timestamp) -> AllocatedAddress {
        let number = self.addresses.len() + 1;
        let [.., high, low] = number.to_be_bytes();
        AllocatedAddress {
            id: format!("eipalloc-{}{number:010x}", self.place),
            public_ip: format!("198.51.{high}.{low}"),
            pool: None,
            tags: Tags::new(),
            allocated_at: now,
            allocated_by: String::new(),
            released: None,
            visible_from: now,
            association: None,
        }
    }

    /// Gives an instance an address of the user's, and returns the allocation id.
    pub fn foreign_address(&mut self, instance_id: &str) -> String {
        let mut address = self.new_address(Timestamp::UNIX_EPOCH);
        let id = address.id.clone();
        address.association = Some((association_id(&id), instance_id.to_owned()));
        self.addresses.push(address);
        self.show_addresses(instance_id);
        id
    }

    fn associate_address(&mut self, now: Timestamp, id: &str, interface_id: &str) -> Result<(), CloudError> {
        const ACTION: &str = "AssociateAddress";
        let refuse = |code: &str, message: String| Err(CloudError::answered(ACTION, code, &message));
        let Some(address) = self.live_addresses().find(|address| address.id == id) else {
            let message = format!("The allocation ID '{id}' does not exist");
            return refuse("InvalidAllocationID.NotFound", message);
        };
        let has_it = |instance: &&LaunchedInstance| {
            let shown = instance.shown(now).primary_interface;
            instance.is_known(now) && shown.is_some_and(|interface| interface.id == interface_id)
        };
        let Some(instance_id) = self.instances.values().find(has_it).map(|instance| instance.id.clone()) else {
            let message = format!("The networkInterface ID '{interface_id}' does not exist");
            return refuse("InvalidNetworkInterfaceID.NotFound", message);
        };
        match self.shown_address(now, address).instance_id {
            Some(holder) if holder == instance_id => return Ok(()),
            Some(holder) => {
                let message = format!("resource {id} is already associated with instance {holder}");
                return refuse("Resource.AlreadyAssociated", message);
            }
            None => {}
        }
        // An interface has one address: EC2 disassociates the one that it had.
        for address in &mut self.addresses {
            if address.id == id {
                address.association = Some((association_id(id), instance_id.clone()));
            } else if address.association.as_ref().is_some_and(|(_, holder)| *holder == instance_id) {
                address.association = None;
            }
        }
        self.show_addresses(&instance_id);
        Ok(())
    }

    /// Takes an address from its instance, as a user does it.
    pub fn take_address(&mut self, allocation_id: &str) {
        let mut addresses = self.addresses.iter_mut();
        let address = addresses.find(|address| address.id == allocation_id);
        if let Some((_, instance_id)) = address.and_then(|address| address.association.take()) {
            self.show_addresses(&instance_id);
        }
    }

    fn release_address(&mut self, now: Timestamp, key: &str, id: &str) -> Result<(), CloudError> {
        const ACTION: &str = "ReleaseAddress";
        let live = self.live_addresses().find(|address| address.id == id);
        let Some(address) = live.map(|address| self.shown_address(now, address)) else {
            let message = format!("The allocation ID '{id}' does not exist");
            return Err(CloudError::answered(ACTION, "InvalidAllocationID.NotFound", &message));
        };
        if address.association_id.is_some() {
            let message = format!("Address with allocation id {id} is associated.");
            return Err(CloudError::answered(ACTION, "InvalidIPAddress.InUse", &message));
        }
        if let Some(address) = self.addresses.iter_mut().find(|address| address.id == id) {
            address.released = Some((now, key.to_owned()));
            if let Some(free) = address.pool.as_ref().and_then(|pool| self.address_pools.get_mut(pool)) {
                *free += 1;
            }
        }
        Ok(())
    }

    /// The address as AWS shows it. The association with an instance's own interface ends with the instance; that with
    /// an interface of the user's goes on without it.
    fn shown_address(&self, now: Timestamp, address: &AllocatedAddress) -> ElasticIp {
        let association = address.association.as_ref();
        let instance = association.and_then(|(_, id)| self.instances.get(id));
        let shows_end = |instance: &LaunchedInstance| {
            let end = instance.terminated_at().map(|end| after(end, self.behaviour.hidden));
            end.is_some_and(|end| end <= now)
        };
        let is_live = instance.is_some_and(|instance| !shows_end(instance));
        let outlives = instance.is_some_and(|instance| !instance.request.options.network_interfaces.is_empty());
        ElasticIp {
            allocation_id: address.id.clone(),
            public_ip: address.public_ip.clone(),
            association_id: association.filter(|_| is_live || outlives).map(|(id, _)| id.clone()),
            instance_id: association.filter(|_| is_live).map(|(_, instance)| instance.clone()),
            tags: address.tags.clone(),
        }
    }

    /// The network interface with an address.
    fn interface_with(&self, now: Timestamp, address: &ElasticIp) -> Option<String> {
        let instance = self.instances.get(address.instance_id.as_ref()?)?;
        Some(instance.shown(now).primary_interface?.id)
    }

    /// Lets an instance show the address that it has.
    fn show_addresses(&mut self, instance_id: &str) {
        let is_its = |address: &&AllocatedAddress| {
            let holder = address.association.as_ref().map(|(_, holder)| holder.as_str());
            address.released.is_none() && holder == Some(instance_id)
        };
        let public_ip = self.addresses.iter().find(is_its).map(|address| address.public_ip.clone());
        if let Some(instance) = self.instances.get_mut(instance_id) {
            instance.elastic_ip = public_ip;
        }
    }
}

fn association_id(allocation_id: &str) -> String {
    allocation_id.replacen("eipalloc-", "eipassoc-", 1)
}

fn unknown_pool(action: &'static str, pool: &str) -> CloudError {
    let message = format!("The pool ID '{pool}' does not exist");
    CloudError::answered(action, "InvalidPublicIpv4PoolID.NotFound", &message)
}
