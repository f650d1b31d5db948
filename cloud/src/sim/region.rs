//! One region of one account: how it is set up, and what can be read of it without a call.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use crate::targets::Group;
use crate::{ApiLoadBalancer, CloudError, Image, InstanceState, Query, RouteTable, StateReason, Subnet};

use super::audit::{AuditEntry, Change};
use super::behaviour::Behaviour;
use super::infrastructure::Infrastructure;
use super::instances::{LaunchedInstance, Phase};
use super::limits::TokenBuckets;
use super::load_balancing::TargetGroup;
use super::time::before;

/// One region of one account.
#[derive(Clone, Debug)]
pub struct Region {
    pub(super) account: String,
    pub(super) name: String,
    /// Distinguishes ids of this region from those of all others.
    place: String,
    pub(super) infrastructure: Infrastructure,
    pub(super) behaviour: Behaviour,
    /// Pairs of instance type and zone that there is no capacity for.
    pub(super) exhausted: BTreeSet<(String, String)>,
    pub(super) quota: Option<usize>,
    pub(super) instances: BTreeMap<String, LaunchedInstance>,
    pub(super) groups: BTreeMap<Group, TargetGroup>,
    /// Instances that fail their health checks.
    pub(super) unhealthy: BTreeSet<String>,
    /// Those of the second generation, by name.
    pub(super) load_balancers: BTreeMap<String, ApiLoadBalancer>,
    /// Id of the instance that a token launched last, by zone and token.
    pub(super) tokens: BTreeMap<(String, String), String>,
    buckets: TokenBuckets,
    audit: Vec<AuditEntry>,
}

impl Region {
    pub(super) fn new(account: &str, name: &str, place: String) -> Self {
        Self {
            account: account.to_owned(),
            name: name.to_owned(),
            place,
            infrastructure: Infrastructure::default(),
            behaviour: Behaviour::default(),
            exhausted: BTreeSet::new(),
            quota: None,
            instances: BTreeMap::new(),
            groups: BTreeMap::new(),
            unhealthy: BTreeSet::new(),
            load_balancers: BTreeMap::new(),
            tokens: BTreeMap::new(),
            buckets: TokenBuckets::default(),
            audit: Vec::new(),
        }
    }

    /// Its name, for example `eu-west-1`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The account it belongs to.
    pub fn account(&self) -> &str {
        &self.account
    }

    /// A VPC, and its main route table `rtb-main-<id>`, which does not lead to the internet.
    pub fn vpc(&mut self, id: &str, cidr_block: &str) -> &mut Self {
        self.infrastructure.add_vpc(id, cidr_block);
        self
    }

    /// A subnet without an IPv6 block.
    pub fn subnet(&mut self, id: &str, vpc_id: &str, zone: &str) -> &mut Self {
        self.infrastructure.add_subnet(Subnet {
            id: id.to_owned(),
            vpc_id: vpc_id.to_owned(),
            availability_zone: zone.to_owned(),
            ipv6: false,
        });
        self
    }

    /// A security group.
    pub fn security_group(&mut self, id: &str, vpc_id: &str, name: &str) -> &mut Self {
        self.infrastructure.add_security_group(id, vpc_id, name);
        self
    }

    /// A route table, in the place of one of the same id.
    pub fn route_table(&mut self, table: RouteTable) -> &mut Self {
        self.infrastructure.add_route_table(table);
        self
    }

    /// An image.
    pub fn image(&mut self, id: &str, root_device_name: &str) -> &mut Self {
        self.infrastructure.add_image(Image {
            id: id.to_owned(),
            root_device_name: Some(root_device_name.to_owned()),
            architecture: Some("x86_64".to_owned()),
            windows: false,
        });
        self
    }

    /// A load balancer of the second generation.
    pub fn load_balancer(&mut self, name: &str, load_balancer: ApiLoadBalancer) -> &mut Self {
        self.load_balancers.insert(name.to_owned(), load_balancer);
        self
    }

    /// A key pair.
    pub fn key_pair(&mut self, name: &str) -> &mut Self {
        self.infrastructure.add_key_pair(name);
        self
    }

    /// Tags something that stands here, instances included.
    pub fn tag(&mut self, id: &str, key: &str, value: &str) -> &mut Self {
        match self.instances.get_mut(id) {
            Some(instance) => {
                instance.tags.insert(key.to_owned(), value.to_owned());
            }
            None => self.infrastructure.set_tag(id, key, value),
        }
        self
    }

    /// Takes every tag off an instance.
    pub fn untag(&mut self, id: &str) -> &mut Self {
        if let Some(instance) = self.instances.get_mut(id) {
            instance.tags.clear();
        }
        self
    }

    /// Puts an instance in a state, in which it stays until a call changes it.
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
        self
    }

    /// Terminates an instance so long ago that EC2 shows it no more.
    pub fn end_long_ago(&mut self, id: &str) -> &mut Self {
        if let Some(instance) = self.instances.get_mut(id) {
            instance.phases = vec![Phase::new(Timestamp::MIN, InstanceState::Terminated)];
        }
        self
    }

    /// Removes infrastructure by its id, a key pair by its name.
    pub fn remove(&mut self, id: &str) -> &mut Self {
        self.infrastructure.remove(id);
        self
    }

    /// How it behaves, to be read or changed.
    pub fn behaviour(&mut self) -> &mut Behaviour {
        &mut self.behaviour
    }

    /// From now on there is no capacity for instances of a type in a zone, or there is again.
    pub fn set_capacity(&mut self, instance_type: &str, zone: &str, available: bool) -> &mut Self {
        let pair = (instance_type.to_owned(), zone.to_owned());
        if available {
            self.exhausted.remove(&pair);
        } else {
            self.exhausted.insert(pair);
        }
        self
    }

    /// How many live instances the account may have here; any number where absent.
    pub fn set_quota(&mut self, instances: Option<usize>) -> &mut Self {
        self.quota = instances;
        self
    }

    /// Protects an instance from TerminateInstances, or no more.
    pub fn protect(&mut self, id: &str, protected: bool) -> &mut Self {
        if let Some(instance) = self.instances.get_mut(id) {
            instance.protected = protected;
        }
        self
    }

    /// Every instance that was ever launched here, by id.
    pub fn launched(&self) -> impl Iterator<Item = &LaunchedInstance> {
        self.instances.values()
    }

    /// Every change that a call has made here, oldest first.
    pub fn audit(&self) -> &[AuditEntry] {
        &self.audit
    }

    /// Lets a call over so many instances in, or refuses it for EC2's limits.
    pub(super) fn admit(&mut self, now: Timestamp, action: &'static str, instances: usize) -> Result<(), CloudError> {
        if self.behaviour.throttling {
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

    /// The time whose state a describe shows.
    pub(super) fn seen_at(&self, now: Timestamp) -> Timestamp {
        before(now, self.behaviour.staleness)
    }

    pub(super) fn describe_instances(
        &self,
        seen: Timestamp,
        query: &Query,
    ) -> Result<Vec<crate::Instance>, CloudError> {
        let known = self.instances.values().filter(|instance| instance.is_known(seen));
        let things = known.map(|instance| (instance, &instance.tags));
        let filters = &super::instances::FILTERS;
        let found = super::filters::select("DescribeInstances", query, filters, things, |instance, filter| {
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
