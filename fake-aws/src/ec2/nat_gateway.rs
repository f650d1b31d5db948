//! NAT gateways. Their states follow from the clock.

use std::collections::BTreeMap;
use std::time::Duration;

use capa_api::common::Tags;
use capa_cloud::CloudError;
use capa_cloud::ec2::nat_gateway::Call;
use capa_cloud::ec2::{NatGateway, NatGatewayState};
use capa_cloud::managed::ChangeAnswer;
use jiff::Timestamp;

use super::{Ec2, Resource};

/// Time for which EC2 keeps a failed NAT gateway before it deletes the gateway itself, and for which EC2 lists a
/// deleted one. EC2's documentation says about an hour.
const KEPT: Duration = Duration::from_secs(3600);

/// The time at which an account begins to exist.
const START: Timestamp = Timestamp::UNIX_EPOCH;

/// A NAT gateway with what its state follows from. It stays here when EC2 does not list it any more.
#[derive(Clone, Debug)]
pub(super) struct Body {
    /// The gateway as it is if nothing fails: [`Ec2::view_nat_gateway`] gives the state of now.
    gateway: NatGateway,
    /// Ids of the associations with Elastic IPs, by allocation id.
    associations: BTreeMap<String, String>,
    /// Why the gateway fails at the end of pending.
    failure: Option<String>,
    /// Time of the first Delete call.
    deleting_since: Option<Duration>,
}

impl Ec2 {
    pub(super) fn call_nat_gateway(
        &mut self,
        action: &'static str,
        call: &Call<String>,
    ) -> Result<ChangeAnswer, CloudError> {
        match call {
            Call::AllocateAddress { public_ipv4_pool, tags } => {
                self.allocate_address(action, public_ipv4_pool.as_deref(), tags)
            }
            Call::CreateNatGateway { subnet, address, tags, .. } => {
                self.create_nat_gateway(action, subnet, address, tags)
            }
            Call::DeleteNatGateway { gateway } => self.delete_nat_gateway(action, gateway),
            Call::ReleaseAddress { address } => self.release_address(action, address),
        }
    }

    fn create_nat_gateway(
        &mut self,
        action: &'static str,
        subnet: &str,
        address: &str,
        tags: &Tags,
    ) -> Result<ChangeAnswer, CloudError> {
        let subnet = self.known_subnet(action, subnet)?.clone();
        if self.known_address(action, address)?.association_id.is_some() {
            let message = format!("Elastic IP address [{address}] is already associated");
            return Err(CloudError::answered(action, "Resource.AlreadyAssociated", &message));
        }
        if self.nat_gateways_in(&subnet.zone) >= self.behaviour.nat_gateway_quota {
            let message = format!(
                "Performing this operation would exceed the limit of {} NAT gateways",
                self.behaviour.nat_gateway_quota
            );
            return Err(CloudError::answered(action, "NatGatewayLimitExceeded", &message));
        }
        let failure = self.take_planned_failure().or_else(|| {
            let vpc = &subnet.vpc_id;
            let has_gateway = self.gateway_of(vpc).is_some();
            (!has_gateway).then(|| format!("Gateway.NotAttached: Network {vpc} has no Internet gateway attached"))
        });
        let mut body = self.new_nat_gateway(&subnet.id, &subnet.vpc_id, tags.clone());
        body.failure = failure;
        let id = body.gateway.id.clone();
        let resource = self.new_resource(body);
        self.nat_gateways.insert(id.clone(), resource);
        self.associate_address(&id, address);
        Ok(ChangeAnswer::Made(id))
    }

    fn delete_nat_gateway(&mut self, action: &'static str, id: &str) -> Result<ChangeAnswer, CloudError> {
        let known = self.nat_gateways.get(id);
        if !known.is_some_and(|resource| self.is_shown(resource) && self.is_listed(resource)) {
            let message = format!("NAT gateway {id} was not found");
            return Err(CloudError::answered(action, "NatGatewayNotFound", &message));
        }
        self.remove_nat_gateway(id);
        Ok(ChangeAnswer::Done)
    }

    /// The number of NAT gateways that count against the quota of a zone.
    fn nat_gateways_in(&self, zone: &str) -> usize {
        let in_zone = |subnet: &str| self.subnets.get(subnet).is_some_and(|known| known.body.zone == zone);
        let counts = |resource: &&Resource<Body>| {
            let state = self.state_of(resource);
            !matches!(state, NatGatewayState::Failed | NatGatewayState::Deleted)
                && in_zone(&resource.body.gateway.subnet_id)
        };
        self.nat_gateways.values().filter(counts).count()
    }

    fn take_planned_failure(&mut self) -> Option<String> {
        let (count, failure) = self.planned_failure.as_mut()?;
        *count = count.checked_sub(1)?;
        Some(failure.clone())
    }

    fn new_nat_gateway(&mut self, subnet: &str, vpc: &str, tags: Tags) -> Body {
        Body {
            gateway: NatGateway {
                id: self.next_id("nat"),
                vpc_id: vpc.to_owned(),
                subnet_id: subnet.to_owned(),
                state: NatGatewayState::Available,
                failure: None,
                created_at: START.saturating_add(self.now).ok(),
                allocation_ids: Vec::new(),
                public_ips: Vec::new(),
                tags,
            },
            associations: BTreeMap::new(),
            failure: None,
            deleting_since: None,
        }
    }

    fn state_of(&self, resource: &Resource<Body>) -> NatGatewayState {
        let is_past = |at: Option<Duration>| at.is_some_and(|at| at <= self.now);
        if is_past(self.deleted_at(resource)) {
            NatGatewayState::Deleted
        } else if resource.body.deleting_since.is_some() {
            NatGatewayState::Deleting
        } else if !self.has_age(resource, self.behaviour.nat_gateway_pending) {
            NatGatewayState::Pending
        } else if self.failed_at(resource).is_some() {
            NatGatewayState::Failed
        } else {
            NatGatewayState::Available
        }
    }

    /// When a gateway fails; `None` if it does not, or if it is being deleted before.
    fn failed_at(&self, resource: &Resource<Body>) -> Option<Duration> {
        resource.body.failure.as_ref()?;
        let at = resource.made_at?.saturating_add(self.behaviour.nat_gateway_pending);
        let is_deleted_before = resource.body.deleting_since.is_some_and(|since| since < at);
        (!is_deleted_before).then_some(at)
    }

    /// When a gateway is deleted, by a call or, some time after it has failed, by EC2.
    fn deleted_at(&self, resource: &Resource<Body>) -> Option<Duration> {
        let by_call = resource.body.deleting_since;
        let by_call = by_call.map(|since| since.saturating_add(self.behaviour.nat_gateway_deleting));
        by_call.or_else(|| self.failed_at(resource).map(|at| at.saturating_add(KEPT)))
    }

    fn is_deleted(&self, resource: &Resource<Body>) -> bool {
        self.state_of(resource) == NatGatewayState::Deleted
    }

    fn is_listed(&self, resource: &Resource<Body>) -> bool {
        let deleted_at = self.deleted_at(resource);
        deleted_at.is_none_or(|at| self.now < at.saturating_add(KEPT))
    }

    /// Whether there is such a NAT gateway, hidden or not, that is not deleted.
    pub(super) fn has_nat_gateway(&self, selects: impl Fn(&NatGateway) -> bool) -> bool {
        let mut resources = self.nat_gateways.values();
        resources.any(|resource| !self.is_deleted(resource) && selects(&resource.body.gateway))
    }

    /// The id of the association of an address with a NAT gateway that is not deleted.
    pub(super) fn nat_gateway_association(&self, address: &str) -> Option<String> {
        let gateways = self.nat_gateways.values();
        let mut associated = gateways.filter(|resource| resource.body.associations.contains_key(address));
        let gateway = associated.find(|resource| !self.is_deleted(resource))?;
        gateway.body.associations.get(address).cloned()
    }

    /// The NAT gateways of a VPC in all states.
    pub(super) fn shown_nat_gateways(&self, vpc: &str) -> Vec<NatGateway> {
        let gateways = self.nat_gateways.values();
        let of_vpc = gateways.filter(|resource| resource.body.gateway.vpc_id == vpc);
        let shown = of_vpc.filter(|resource| self.is_shown(resource) && self.is_listed(resource));
        let views = shown.map(|resource| NatGateway {
            tags: self.shown_tags(resource, &resource.body.gateway.tags),
            ..self.view_nat_gateway(resource)
        });
        views.collect()
    }

    fn view_nat_gateway(&self, resource: &Resource<Body>) -> NatGateway {
        let has_failed = self.failed_at(resource).is_some_and(|at| at <= self.now);
        let addresses = resource.body.gateway.allocation_ids.iter();
        let addresses = addresses.filter_map(|id| Some(self.addresses.get(id)?.body.address.public_ip.clone()));
        NatGateway {
            public_ips: addresses.collect(),
            state: self.state_of(resource),
            failure: resource.body.failure.clone().filter(|_| has_failed),
            ..resource.body.gateway.clone()
        }
    }
}

/// What tests see and change by hand.
impl Ec2 {
    /// All NAT gateways that EC2 lists.
    pub(crate) fn all_nat_gateways(&self) -> Vec<NatGateway> {
        let listed = self.nat_gateways.values().filter(|resource| self.is_listed(resource));
        listed.map(|resource| self.view_nat_gateway(resource)).collect()
    }

    pub(crate) fn plan_failures(&mut self, count: usize, code: &str, message: &str) {
        self.planned_failure = Some((count, format!("{code}: {message}")));
    }

    /// Adds a NAT gateway without an address.
    pub(crate) fn add_nat_gateway(&mut self, subnet: &str, tags: Tags) -> String {
        let known = self.subnets.get(subnet);
        let vpc = known.map(|known| known.body.vpc_id.clone()).unwrap_or_default();
        let body = self.new_nat_gateway(subnet, &vpc, tags);
        let id = body.gateway.id.clone();
        self.nat_gateways.insert(id.clone(), Resource::by_hand(body));
        id
    }

    /// The NAT gateway as it is if nothing fails, for a change by hand.
    pub(crate) fn nat_gateway_mut(&mut self, id: &str) -> Option<&mut NatGateway> {
        let gateway = self.nat_gateways.get_mut(id);
        gateway.map(|resource| &mut resource.body.gateway)
    }

    pub(crate) fn associate_address(&mut self, gateway: &str, address: &str) -> bool {
        let association = self.next_id("eipassoc");
        let Some(resource) = self.nat_gateways.get_mut(gateway) else {
            return false;
        };
        resource.body.gateway.allocation_ids.push(address.to_owned());
        resource.body.associations.insert(address.to_owned(), association);
        true
    }

    /// Begins to delete a NAT gateway, unless that has begun before.
    pub(crate) fn remove_nat_gateway(&mut self, id: &str) -> bool {
        let now = self.now;
        let known = self.nat_gateways.get(id).filter(|resource| self.is_listed(resource));
        let is_deleted = known.map(|resource| self.is_deleted(resource));
        if is_deleted == Some(false)
            && let Some(resource) = self.nat_gateways.get_mut(id)
        {
            resource.body.deleting_since.get_or_insert(now);
        }
        is_deleted.is_some()
    }

    /// Forgets NAT gateways, whatever their states are.
    pub(super) fn forget_nat_gateways(&mut self, selects: impl Fn(&NatGateway) -> bool) {
        self.nat_gateways.retain(|_, resource| !selects(&resource.body.gateway));
    }
}
