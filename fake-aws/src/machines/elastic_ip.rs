//! The calls of machines that change Elastic IPs: AllocateAddress, AssociateAddress and ReleaseAddress.

use capa_api::common::Tags;
use jiff::Timestamp;

use capa_cloud::managed::ChangeAnswer;
use capa_cloud::{CloudError, ElasticIp, ElasticIpAnswer, ElasticIpCall, Query};

use super::allocated_address::AllocatedAddress;
use super::client::Client;
use super::instances::LaunchedInstance;
use super::region::Region;
use super::time::after;
use crate::ec2::Association;

impl Client<'_> {
    /// A call that changes addresses.
    pub fn change_elastic_ip(&mut self, now: Timestamp, call: &ElasticIpCall) -> Result<ElasticIpAnswer, CloudError> {
        let (region, key) = self.enter(now, call.action(), 0)?;
        let key = key.to_owned();
        region.end_associations(now);
        match call {
            ElasticIpCall::Allocate { pool, tags } => return region.allocate_address(&key, pool.as_deref(), tags),
            ElasticIpCall::Associate { allocation_id, interface_id } => {
                region.associate_address(now, allocation_id, interface_id)?;
            }
            ElasticIpCall::Release { allocation_id } => region.release_address(&key, allocation_id)?,
        }
        Ok(ElasticIpAnswer::Done)
    }

    /// DescribeAddresses, all pages.
    pub fn describe_addresses(&mut self, now: Timestamp, query: &Query) -> Result<Vec<ElasticIp>, CloudError> {
        let (region, _) = self.enter(now, "DescribeAddresses", 0)?;
        region.end_associations(now);
        region.network.ec2().describe_addresses(query)
    }

    /// DescribePublicIpv4Pools of one pool.
    pub fn free_addresses(&mut self, now: Timestamp, pool: &str) -> Result<u32, CloudError> {
        let (region, _) = self.enter(now, "DescribePublicIpv4Pools", 0)?;
        region.network.ec2().describe_pool(pool)
    }
}

impl Region {
    /// All addresses that calls of machines have allocated and those of the user's, oldest first.
    pub fn addresses(&self) -> &[AllocatedAddress] {
        &self.addresses
    }

    fn allocate_address(&mut self, key: &str, pool: Option<&str>, tags: &Tags) -> Result<ElasticIpAnswer, CloudError> {
        let answer = self.network.ec2().allocate_address("AllocateAddress", pool, tags)?;
        let ChangeAnswer::Made(id) = answer else {
            return Ok(ElasticIpAnswer::Done);
        };
        let public_ip = self.record_address(&id, key, pool, tags);
        Ok(ElasticIpAnswer::Allocated { allocation_id: id, public_ip })
    }

    /// Records an address that was allocated, and returns it.
    fn record_address(&mut self, id: &str, key: &str, pool: Option<&str>, tags: &Tags) -> String {
        let public_ip = self.network.ec2().address_mut(id).map(|address| address.public_ip.clone());
        let public_ip = public_ip.unwrap_or_default();
        self.addresses.push(AllocatedAddress {
            id: id.to_owned(),
            public_ip: public_ip.clone(),
            pool: pool.map(str::to_owned),
            tags: tags.clone(),
            allocated_by: key.to_owned(),
            released_by: None,
        });
        public_ip
    }

    /// Gives an instance an address of the user's, and returns the allocation id.
    pub fn foreign_address(&mut self, instance_id: &str) -> String {
        let id = self.network.add_address(Tags::new());
        self.record_address(&id, "", None, &Tags::new());
        if let Some(interface) = self.instances.get(instance_id).map(LaunchedInstance::interface_id) {
            self.give_address(&id, &interface, instance_id).ok();
        }
        id
    }

    fn associate_address(&mut self, now: Timestamp, id: &str, interface_id: &str) -> Result<(), CloudError> {
        let has_it = |instance: &&LaunchedInstance| {
            let shown = instance.shown(now).primary_interface;
            instance.is_known(now) && shown.is_some_and(|interface| interface.id == interface_id)
        };
        let Some(instance_id) = self.instances.values().find(has_it).map(|instance| instance.id.clone()) else {
            let message = format!("The networkInterface ID '{interface_id}' does not exist");
            return Err(CloudError::answered("AssociateAddress", "InvalidNetworkInterfaceID.NotFound", &message));
        };
        self.give_address(id, interface_id, &instance_id)
    }

    fn give_address(&mut self, id: &str, interface_id: &str, instance_id: &str) -> Result<(), CloudError> {
        self.network.ec2().associate_with_instance("AssociateAddress", id, interface_id, instance_id)?;
        self.show_address(instance_id);
        Ok(())
    }

    /// Takes an address from its instance, as a user does it.
    pub fn take_address(&mut self, allocation_id: &str) {
        let holder = self.network.ec2().address_mut(allocation_id).and_then(|address| address.instance_id.clone());
        if let Some(instance_id) = holder {
            self.network.ec2().end_associations(|id| (id == instance_id).then_some(Association::Ends));
            self.show_address(&instance_id);
        }
    }

    fn release_address(&mut self, key: &str, id: &str) -> Result<(), CloudError> {
        self.network.ec2().release_address("ReleaseAddress", id)?;
        if let Some(address) = self.addresses.iter_mut().find(|address| address.id == id) {
            address.released_by = Some(key.to_owned());
        }
        Ok(())
    }

    /// Ends the associations with instances that have ended. That with an interface of the user's goes on without the
    /// instance.
    fn end_associations(&mut self, now: Timestamp) {
        let mut ec2 = self.network.ec2();
        let hidden = ec2.behaviour.hidden;
        let instances = &self.instances;
        ec2.end_associations(|id| {
            let instance = instances.get(id)?;
            let shows_end = instance.terminated_at().is_some_and(|end| after(end, hidden) <= now);
            let has_own = instance.request.options.network_interfaces.is_empty();
            shows_end.then_some(if has_own { Association::Ends } else { Association::Stays })
        });
    }

    /// Lets an instance show the address that it has.
    fn show_address(&mut self, instance_id: &str) {
        let public_ip = self.network.ec2().address_of_instance(instance_id).map(|address| address.public_ip.clone());
        if let Some(instance) = self.instances.get_mut(instance_id) {
            instance.elastic_ip = public_ip;
        }
    }
}
