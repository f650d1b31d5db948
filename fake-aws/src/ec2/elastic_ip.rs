//! Elastic IPs. The calls about them are among those about NAT gateways, and those of machines. EC2 knows no client
//! token for addresses: each AllocateAddress allocates one.

use std::net::Ipv4Addr;

use capa_api::common::Tags;
use capa_cloud::managed::ChangeAnswer;
use capa_cloud::{CloudError, ElasticIp, Query};

use super::{Ec2, Resource, cloned};
use crate::filters::select;

/// The address before the first one of an account: 198.18.0.0/15 is for tests, and nobody has it in the internet.
const BEFORE_FIRST: u32 = 0xc612_0000;

/// The known filters of DescribeAddresses, besides the filters by tag.
const FILTERS: [&str; 5] = ["allocation-id", "association-id", "instance-id", "network-interface-id", "public-ip"];

/// An Elastic IP with what calls other than describes depend on.
#[derive(Clone, Debug)]
pub(super) struct Body {
    /// Without its association with a NAT gateway.
    pub(super) address: ElasticIp,
    /// The public IPv4 pool that it was taken from; `None` for Amazon's addresses.
    pool: Option<String>,
    /// The network interface of an instance that it is associated with.
    interface_id: Option<String>,
}

/// What becomes of the association of an address that is taken from its instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Association {
    /// The association ends with the instance, or with its own network interface.
    Ends,
    /// The network interface outlives the instance, and keeps the address.
    Stays,
}

impl Ec2 {
    pub(crate) fn allocate_address(
        &mut self,
        action: &'static str,
        pool: Option<&str>,
        tags: &Tags,
    ) -> Result<ChangeAnswer, CloudError> {
        if self.addresses.len() >= self.behaviour.address_quota {
            let message = "The maximum number of addresses has been reached.";
            return Err(CloudError::answered(action, "AddressLimitExceeded", message));
        }
        if let Some(pool) = pool {
            self.take_from_pool(action, pool)?;
        }
        let body = Body { pool: pool.map(str::to_owned), ..self.new_address(tags.clone()) };
        let id = body.address.allocation_id.clone();
        let resource = self.new_resource(body);
        self.addresses.insert(id.clone(), resource);
        Ok(ChangeAnswer::Made(id))
    }

    pub(crate) fn release_address(&mut self, action: &'static str, id: &str) -> Result<ChangeAnswer, CloudError> {
        let address = self.known_address(action, id)?;
        if address.association_id.is_some() {
            let message = format!("Address {} is in use.", address.public_ip);
            return Err(CloudError::answered(action, "InvalidIPAddress.InUse", &message));
        }
        let released = self.addresses.remove(id);
        let pool = released.and_then(|released| released.body.pool);
        if let Some(free) = pool.and_then(|pool| self.pools.get_mut(&pool)) {
            *free = free.saturating_add(1);
        }
        Ok(ChangeAnswer::Done)
    }

    fn take_from_pool(&mut self, action: &'static str, pool: &str) -> Result<(), CloudError> {
        let free = self.pools.get_mut(pool).ok_or_else(|| no_pool(action, pool))?;
        *free = free.checked_sub(1).ok_or_else(|| {
            let message = format!("There are not enough addresses in {pool}.");
            CloudError::answered(action, "InsufficientAddressCapacity", &message)
        })?;
        Ok(())
    }

    /// Associates an address with the network interface of an instance. An interface has one address: EC2 ends the
    /// association of the one that it had.
    pub(crate) fn associate_with_instance(
        &mut self,
        action: &'static str,
        id: &str,
        interface_id: &str,
        instance_id: &str,
    ) -> Result<(), CloudError> {
        let address = self.known_address(action, id)?;
        let is_of_interface = self.address_of_interface(interface_id) == Some(id);
        if let Some(association) = &address.association_id
            && !is_of_interface
        {
            let holder = address.instance_id.map_or_else(|| association.clone(), |holder| format!("instance {holder}"));
            let message = format!("resource {id} is already associated with {holder}");
            return Err(CloudError::answered(action, "Resource.AlreadyAssociated", &message));
        }
        if !is_of_interface {
            self.end_associations(|holder| (holder == instance_id).then_some(Association::Ends));
        }
        let association = address.association_id.unwrap_or_else(|| self.next_id("eipassoc"));
        if let Some(Resource { body, .. }) = self.addresses.get_mut(id) {
            body.address.association_id = Some(association);
            body.address.instance_id = Some(instance_id.to_owned());
            body.interface_id = Some(interface_id.to_owned());
        }
        Ok(())
    }

    /// Takes addresses from the instances for which `without` says what becomes of the association.
    pub(crate) fn end_associations(&mut self, without: impl Fn(&str) -> Option<Association>) {
        for Resource { body, .. } in self.addresses.values_mut() {
            let Some(association) = body.address.instance_id.as_deref().and_then(&without) else {
                continue;
            };
            body.address.instance_id = None;
            if association == Association::Ends {
                body.address.association_id = None;
                body.interface_id = None;
            }
        }
    }

    /// The id of the address that an interface of an instance has.
    fn address_of_interface(&self, interface_id: &str) -> Option<&str> {
        let mut addresses = self.addresses.values().map(|resource| &resource.body);
        let found = addresses.find(|known| known.interface_id.as_deref() == Some(interface_id))?;
        Some(&found.address.allocation_id)
    }

    /// The address that an instance has.
    pub(crate) fn address_of_instance(&self, instance_id: &str) -> Option<&ElasticIp> {
        let mut addresses = self.addresses.values().map(|resource| &resource.body.address);
        addresses.find(|address| address.instance_id.as_deref() == Some(instance_id))
    }

    /// Associates addresses with the interfaces of a load balancer.
    pub(crate) fn give_addresses(&mut self, action: &'static str, ids: &[String]) -> Result<(), CloudError> {
        for id in ids {
            if self.known_address(action, id)?.association_id.is_some() {
                let message = format!("Elastic IP address [{id}] is already associated");
                return Err(CloudError::answered(action, "ResourceInUse", &message));
            }
        }
        for id in ids {
            let association = self.next_id("eipassoc");
            if let Some(address) = self.address_mut(id) {
                address.association_id = Some(association);
            }
        }
        Ok(())
    }

    /// Takes the addresses of a load balancer back.
    pub(crate) fn take_addresses(&mut self, ids: &[String]) {
        for id in ids {
            if let Some(address) = self.address_mut(id) {
                address.association_id = None;
            }
        }
    }

    /// DescribePublicIpv4Pools of one pool: its free addresses.
    pub(crate) fn describe_pool(&mut self, pool: &str) -> Result<u32, CloudError> {
        const ACTION: &str = "DescribePublicIpv4Pools";
        self.describe(ACTION, |ec2| ec2.pools.get(pool).copied().ok_or_else(|| no_pool(ACTION, pool)))
    }

    /// The address that a call names.
    pub(super) fn known_address(&self, action: &'static str, id: &str) -> Result<ElasticIp, CloudError> {
        let known = self.addresses.get(id).filter(|resource| self.is_shown(resource));
        known.map(|resource| self.view_address(&resource.body.address)).ok_or_else(|| {
            let message = format!("The allocation ID '{id}' does not exist");
            CloudError::answered(action, "InvalidAllocationID.NotFound", &message)
        })
    }

    /// DescribeAddresses, all pages.
    pub(crate) fn describe_addresses(&self, query: &Query) -> Result<Vec<ElasticIp>, CloudError> {
        let shown = self.shown_addresses(|_| true);
        let things = shown.iter().map(|address| (address, &address.tags));
        select("DescribeAddresses", query, &FILTERS, things, |address, filter| {
            let value = match filter {
                "allocation-id" => Some(&address.allocation_id),
                "public-ip" => Some(&address.public_ip),
                "association-id" => address.association_id.as_ref(),
                "network-interface-id" => {
                    self.addresses.get(&address.allocation_id).and_then(|known| known.body.interface_id.as_ref())
                }
                _ => address.instance_id.as_ref(),
            };
            value.into_iter().cloned().collect()
        })
        .map(cloned)
    }

    /// Two describes, because EC2 joins filters by "and": one by tag, and one by the ids that this one does not show.
    /// The answer is in the order of the ids.
    pub(super) fn observe_addresses(
        &mut self,
        ids: &[String],
        is_owned: impl Fn(&Tags) -> bool,
    ) -> Result<Vec<ElasticIp>, CloudError> {
        const ACTION: &str = "DescribeAddresses";
        let mut addresses = self.describe(ACTION, |ec2| Ok(ec2.shown_addresses(|shown| is_owned(&shown.tags))))?;
        let is_shown = |id: &String| addresses.iter().any(|address| address.allocation_id == *id);
        let missing: Vec<_> = ids.iter().filter(|id| !is_shown(id)).collect();
        if !missing.is_empty() {
            let by_id = |ec2: &Self| Ok(ec2.shown_addresses(|shown| missing.contains(&&shown.allocation_id)));
            addresses.extend(self.describe(ACTION, by_id)?);
        }
        addresses.sort_unstable_by(|one, other| one.allocation_id.cmp(&other.allocation_id));
        Ok(addresses)
    }

    fn shown_addresses(&self, selects: impl Fn(&ElasticIp) -> bool) -> Vec<ElasticIp> {
        let shown = self.addresses.values().filter(|resource| self.is_shown(resource));
        let views = shown.map(|resource| ElasticIp {
            tags: self.shown_tags(resource, &resource.body.address.tags),
            ..self.view_address(&resource.body.address)
        });
        views.filter(selects).collect()
    }

    /// An address with its association: its own, or else that with a NAT gateway.
    fn view_address(&self, address: &ElasticIp) -> ElasticIp {
        let own = address.association_id.clone();
        ElasticIp {
            association_id: own.or_else(|| self.nat_gateway_association(&address.allocation_id)),
            ..address.clone()
        }
    }

    fn new_address(&mut self, tags: Tags) -> Body {
        let allocation_id = self.next_id("eipalloc");
        let address = ElasticIp {
            allocation_id,
            public_ip: Ipv4Addr::from(BEFORE_FIRST.wrapping_add(self.ids)).to_string(),
            association_id: None,
            instance_id: None,
            tags,
        };
        Body { address, pool: None, interface_id: None }
    }
}

fn no_pool(action: &'static str, pool: &str) -> CloudError {
    let message = format!("The pool ID '{pool}' does not exist");
    CloudError::answered(action, "InvalidPublicIpv4PoolID.NotFound", &message)
}

/// What tests see and change by hand.
impl Ec2 {
    pub(crate) fn all_addresses(&self) -> Vec<ElasticIp> {
        let resources = self.addresses.values();
        resources.map(|resource| self.view_address(&resource.body.address)).collect()
    }

    /// Adds a public IPv4 pool with so many free addresses, or replaces it.
    pub(crate) fn add_pool(&mut self, id: &str, free: u32) {
        self.pools.insert(id.to_owned(), free);
    }

    pub(crate) fn add_address(&mut self, tags: Tags) -> String {
        let body = self.new_address(tags);
        let id = body.address.allocation_id.clone();
        self.addresses.insert(id.clone(), Resource::by_hand(body));
        id
    }

    /// The address without its association with a NAT gateway, for a change by hand.
    pub(crate) fn address_mut(&mut self, id: &str) -> Option<&mut ElasticIp> {
        self.addresses.get_mut(id).map(|resource| &mut resource.body.address)
    }

    pub(crate) fn remove_address(&mut self, id: &str) -> bool {
        self.addresses.remove(id).is_some()
    }
}
