//! One region of one account: its set-up, and access to its state without calls.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;

use jiff::Timestamp;
use parking_lot::MappedMutexGuard;

use capa_api::common::Tags;
use capa_cloud::ec2::{NetworkInterface, RouteTable};
use capa_cloud::{CloudError, Image, InstanceState, InstanceType, Query, StateReason, StoredSecret};

use super::allocated_address::AllocatedAddress;
use super::allocated_host::AllocatedHost;
use super::audit::{AuditEntry, Change};
use super::instances::{LaunchedInstance, Phase};
use super::limits::{TokenBuckets, exceeded};
use super::time::{before, since_epoch};
use crate::{Behaviour, FakeAccount, PublishedImage};

/// One region of one account.
#[derive(Clone, Debug)]
pub struct Region {
    pub(super) account: String,
    pub(super) name: String,
    /// Part of the ids of this region, which makes them unique among all regions.
    pub(super) place: String,
    /// The resources that managed clusters use, too.
    pub(super) network: Network,
    /// Pairs of instance type and zone without capacity.
    pub(super) exhausted: BTreeSet<(String, String)>,
    /// The public parameters of Systems Manager, by name.
    pub(super) parameters: BTreeMap<String, String>,
    pub(super) instances: BTreeMap<String, LaunchedInstance>,
    /// Instances that fail their health checks.
    pub(super) unhealthy: BTreeSet<String>,
    /// Id of the last instance of a token, by zone and token.
    pub(super) tokens: BTreeMap<(String, String), String>,
    /// The secrets of the services, and the objects in buckets.
    pub(super) secrets: Vec<StoredSecret>,
    /// The Dedicated Hosts, also released ones.
    pub(super) hosts: Vec<AllocatedHost>,
    /// The Elastic IPs that calls have allocated, also released ones.
    pub(super) addresses: Vec<AllocatedAddress>,
    /// Names of the S3 buckets.
    pub(super) s3_buckets: BTreeSet<String>,
    buckets: TokenBuckets,
    audit: Vec<AuditEntry>,
}

/// The account of a region. A clone is a copy of it, because a copy of a region must not change the first one.
#[derive(Debug)]
pub(super) struct Network(FakeAccount);

impl Clone for Network {
    fn clone(&self) -> Self {
        Self(self.0.fork())
    }
}

impl Deref for Network {
    type Target = FakeAccount;

    fn deref(&self) -> &FakeAccount {
        &self.0
    }
}

impl Region {
    pub(super) fn new(account: &str, name: &str, place: String) -> Self {
        let network = FakeAccount::new();
        network.set(|behaviour| {
            account.clone_into(&mut behaviour.account_id);
            behaviour.address_quota = usize::MAX;
        });
        network.ec2().place.clone_from(&place);
        Self {
            account: account.to_owned(),
            name: name.to_owned(),
            place,
            network: Network(network),
            exhausted: BTreeSet::new(),
            parameters: BTreeMap::new(),
            instances: BTreeMap::new(),
            unhealthy: BTreeSet::new(),
            tokens: BTreeMap::new(),
            secrets: Vec::new(),
            hosts: Vec::new(),
            addresses: Vec::new(),
            s3_buckets: BTreeSet::new(),
            buckets: TokenBuckets::default(),
            audit: Vec::new(),
        }
    }

    /// The name of the region, for example `eu-west-1`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The account of the region.
    pub fn account(&self) -> &str {
        &self.account
    }

    /// The VPCs with what is in them, as a managed cluster uses them.
    pub fn network(&self) -> &FakeAccount {
        &self.network.0
    }

    /// Adds a VPC with a default security group and a main route table, which has no route to an internet gateway.
    pub fn vpc(&mut self, id: &str, cidr_block: &str) -> &mut Self {
        self.network.ec2().put_vpc(id, cidr_block, Tags::new());
        self
    }

    /// Adds a subnet without an IPv6 block.
    pub fn subnet(&mut self, id: &str, vpc_id: &str, zone: &str) -> &mut Self {
        self.network.ec2().put_subnet(id, vpc_id, "", zone, Tags::new());
        self
    }

    /// Adds a security group.
    pub fn security_group(&mut self, id: &str, vpc_id: &str, name: &str) -> &mut Self {
        self.network.ec2().put_security_group(id, vpc_id, name, Tags::new());
        self
    }

    /// Adds a route table, or replaces the one with the same id.
    pub fn route_table(&mut self, table: RouteTable) -> &mut Self {
        self.network.ec2().put_route_table(table);
        self
    }

    /// Adds a network interface that is attached to no instance.
    pub fn network_interface(&mut self, id: &str, subnet_id: &str, security_group_ids: &[&str]) -> &mut Self {
        self.network.ec2().put_network_interface(id, subnet_id, security_group_ids, "");
        self
    }

    /// Makes the own network interface of an instance one of those of the network, until the instance is terminated.
    pub(super) fn show_interface(&self, instance_id: &str) {
        let Some(instance) = self.instances.get(instance_id) else {
            return;
        };
        let has_own = instance.request.options.network_interfaces.is_empty();
        let interface = NetworkInterface {
            id: instance.interface_id(),
            vpc_id: instance.subnet.vpc_id.clone(),
            subnet_id: instance.subnet.id.clone(),
            availability_zone: instance.subnet.zone.clone(),
            security_group_ids: instance.security_group_ids.clone(),
            instance_id: Some(instance_id.to_owned()),
            ..NetworkInterface::default()
        };
        let mut ec2 = self.network.ec2();
        ec2.set_interfaces(instance_id, has_own.then_some(interface).into_iter().collect());
        ec2.set_end_of_interfaces(instance_id, instance.terminated_at().map(since_epoch));
    }

    /// The instance that a network interface is attached to. A terminated instance has no interface.
    pub(super) fn attached_to(&self, now: Timestamp, interface_id: &str) -> Option<String> {
        let holds = |instance: &&LaunchedInstance| {
            let mut interfaces = instance.request.options.network_interfaces.iter();
            instance.state(now) != InstanceState::Terminated && interfaces.any(|id| id == interface_id)
        };
        let holder = self.instances.values().find(holds)?;
        Some(holder.id.clone())
    }

    /// Adds an image.
    pub fn image(&mut self, id: &str, root_device_name: &str) -> &mut Self {
        self.published_image(PublishedImage {
            name: id.to_owned(),
            owner: String::new(),
            image: Image {
                id: id.to_owned(),
                root_device_name: Some(root_device_name.to_owned()),
                architecture: Some("x86_64".to_owned()),
                ..Image::default()
            },
        })
    }

    /// Adds an image with what lookups look for.
    pub fn published_image(&mut self, image: PublishedImage) -> &mut Self {
        self.network.ec2().put_image(image);
        self
    }

    /// Publishes a parameter, as AWS does, or replaces its value.
    pub fn public_parameter(&mut self, name: &str, value: &str) -> &mut Self {
        self.parameters.insert(name.to_owned(), value.to_owned());
        self
    }

    /// Adds an instance type, or replaces the one with the same name.
    pub fn instance_type(&mut self, instance_type: InstanceType) -> &mut Self {
        self.network.ec2().put_instance_type(instance_type);
        self
    }

    /// Adds a key pair.
    pub fn key_pair(&mut self, name: &str) -> &mut Self {
        self.network.ec2().put_key_pair(name);
        self
    }

    /// Tags a resource or an instance.
    pub fn tag(&mut self, id: &str, key: &str, value: &str) -> &mut Self {
        let mut ec2 = self.network.ec2();
        let tags = match self.instances.get_mut(id) {
            Some(instance) => Some(&mut instance.tags),
            None => ec2.tags_mut(id),
        };
        if let Some(tags) = tags {
            tags.insert(key.to_owned(), value.to_owned());
        }
        drop(ec2);
        self
    }

    /// Removes all tags of an instance.
    pub fn untag(&mut self, id: &str) -> &mut Self {
        if let Some(instance) = self.instances.get_mut(id) {
            instance.tags.clear();
        }
        self
    }

    /// Sets the state of an instance, which lasts until a call changes it.
    pub fn set_state(
        &mut self,
        now: Timestamp,
        id: &str,
        state: InstanceState,
        reason: Option<StateReason>,
    ) -> &mut Self {
        if let Some(instance) = self.instances.get_mut(id) {
            let from = now;
            instance.turn(now, [Phase { from, state, reason }]);
        }
        self.show_interface(id);
        self
    }

    /// Moves the termination of an instance so far into the past that EC2 no longer shows the instance.
    pub fn end_long_ago(&mut self, id: &str) -> &mut Self {
        if let Some(instance) = self.instances.get_mut(id) {
            instance.phases = vec![Phase::new(Timestamp::MIN, InstanceState::Terminated)];
        }
        self.show_interface(id);
        self
    }

    /// Removes a VPC, subnet, security group, route table, network interface or image, as a user does it.
    pub fn remove(&mut self, id: &str) -> &mut Self {
        self.network.ec2().remove(id);
        self
    }

    /// The behaviour of the region.
    pub fn behaviour(&self) -> MappedMutexGuard<'_, Behaviour> {
        self.network.behaviour()
    }

    /// Sets whether a zone has capacity for an instance type.
    pub fn set_capacity(&mut self, instance_type: &str, zone: &str, available: bool) -> &mut Self {
        let pair = (instance_type.to_owned(), zone.to_owned());
        if available {
            self.exhausted.remove(&pair);
        } else {
            self.exhausted.insert(pair);
        }
        self
    }

    /// Protects an instance from TerminateInstances.
    pub fn protect(&mut self, id: &str) -> &mut Self {
        if let Some(instance) = self.instances.get_mut(id) {
            instance.protected = true;
        }
        self
    }

    /// All instances that were ever launched in the region, by id.
    pub fn launched(&self) -> impl Iterator<Item = &LaunchedInstance> {
        self.instances.values()
    }

    /// All changes by calls in the region, oldest first.
    pub fn audit(&self) -> &[AuditEntry] {
        &self.audit
    }

    /// Admits a call for a number of instances, or refuses it because of EC2's request limits.
    pub(super) fn admit(&mut self, now: Timestamp, action: &'static str, instances: usize) -> Result<(), CloudError> {
        let (all_until, throttling) = {
            let mut ec2 = self.network.ec2();
            ec2.advance_to(since_epoch(now));
            (ec2.behaviour.throttles_all_until, ec2.behaviour.throttling)
        };
        if now < all_until {
            Err(exceeded(action))
        } else if throttling {
            self.buckets.acquire(now, action, instances)
        } else {
            Ok(())
        }
    }

    pub(super) fn record(&mut self, at: Timestamp, access_key: &str, instance_id: &str, change: Change) {
        self.audit.push(AuditEntry {
            at,
            access_key: access_key.to_owned(),
            account: self.account.clone(),
            region: self.name.clone(),
            instance_id: instance_id.to_owned(),
            change,
        });
    }

    /// The time of the state that a describe call returns.
    pub(super) fn seen_at(&self, now: Timestamp) -> Timestamp {
        before(now, self.behaviour().staleness)
    }

    pub(super) fn describe_instances(
        &self,
        seen: Timestamp,
        query: &Query,
    ) -> Result<Vec<capa_cloud::Instance>, CloudError> {
        let known = self.instances.values().filter(|instance| instance.is_known(seen));
        let things = known.map(|instance| (instance, &instance.tags));
        let filters = &super::instances::FILTERS;
        let found = crate::filters::select("DescribeInstances", query, filters, things, |instance, filter| {
            instance.filter_values(seen, filter)
        })?;
        Ok(found.into_iter().map(|instance| instance.shown(seen)).collect())
    }

    /// The number and id for the next instance.
    pub(super) fn next_instance(&self) -> (u32, String) {
        let number = u32::try_from(self.instances.len() + 1).unwrap_or(u32::MAX);
        (number, format!("i-{}{number:010x}", self.place))
    }
}
