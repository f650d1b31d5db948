//! EC2's rules over the resources of an account: one file for each resource.

mod elastic_ip;
mod image;
mod instance_type;
mod internet_gateway;
mod key_pair;
mod nat_gateway;
mod network_interface;
mod route_table;
mod security_group;
mod subnet;
mod tag;
mod vpc;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use capa_api::common::Tags;
use capa_api::meta::{OWNED_TAG_VALUE, cluster_tag};
use capa_cloud::ec2::{Call, InternetGateway, Observed, RouteTable, Subnet, Vpc};
use capa_cloud::managed::{self, ChangeAnswer, Repeat, Scope, Seen};
use capa_cloud::{Availability, CloudError, ErrorClass, InstanceType};
use ipnet::Ipv4Net;

use crate::behaviour::Behaviour;
use crate::faults::refusal;

pub(crate) use elastic_ip::Association;
pub use image::PublishedImage;
pub(crate) use security_group::is_untouched;
pub(crate) use tag::with_tags;

/// All resources of an account, and its clock.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ec2 {
    pub(crate) behaviour: Behaviour,
    now: Duration,
    ids: u32,
    /// Part of all ids, if this is one of many regions.
    pub(crate) place: String,
    describes: BTreeMap<&'static str, usize>,
    /// The calls that made something with a client token, and the ids of what they made, by action and token.
    tokens: BTreeMap<(&'static str, String), (managed::Call<String>, String)>,
    /// How many more NAT gateways fail, and why.
    planned_failure: Option<(usize, String)>,
    vpcs: BTreeMap<String, Resource<vpc::Body>>,
    subnets: BTreeMap<String, Resource<Subnet>>,
    internet_gateways: BTreeMap<String, Resource<InternetGateway>>,
    addresses: BTreeMap<String, Resource<elastic_ip::Body>>,
    /// The number of free addresses in each public IPv4 pool.
    pools: BTreeMap<String, u32>,
    nat_gateways: BTreeMap<String, Resource<nat_gateway::Body>>,
    /// Without their local routes, which follow from the ranges of the VPC.
    route_tables: BTreeMap<String, Resource<RouteTable>>,
    security_groups: BTreeMap<String, Resource<security_group::Body>>,
    /// By the ARN of the load balancer, the DNS name of a Classic Load Balancer, or the id of an instance or of an
    /// interface by hand.
    interfaces: BTreeMap<String, network_interface::Interfaces>,
    images: BTreeMap<String, PublishedImage>,
    instance_types: BTreeMap<String, InstanceType>,
    key_pairs: BTreeSet<String>,
}

/// A resource with its age.
#[derive(Clone, Debug)]
pub(crate) struct Resource<T> {
    /// Time of the Create call; `None` if a test added the resource by hand, as if it had always been there.
    made_at: Option<Duration>,
    pub(crate) body: T,
}

impl Ec2 {
    pub(crate) fn now(&self) -> Duration {
        self.now
    }

    /// Sets the clock, which never goes back.
    pub(crate) fn advance_to(&mut self, now: Duration) {
        self.now = self.now.max(now);
    }

    pub(crate) fn advance(&mut self, duration: Duration) {
        self.now = self.now.saturating_add(duration);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.vpcs.is_empty()
            && self.subnets.is_empty()
            && self.internet_gateways.is_empty()
            && self.addresses.is_empty()
            && !self.has_nat_gateway(|_| true)
            && self.route_tables.values().all(|table| table.body.is_main)
            && self.has_default_groups_only()
    }

    pub(crate) fn describes(&self) -> &BTreeMap<&'static str, usize> {
        &self.describes
    }

    pub(crate) fn reset_describes(&mut self) {
        self.describes.clear();
    }

    /// Makes a call that changes something: all of it, or nothing and an error. A call with the client token of an
    /// earlier one has the answer of that call, whatever has become of the resource since.
    pub(crate) fn call(&mut self, call: &Call<String>) -> Result<ChangeAnswer, CloudError> {
        let action = call.action();
        let whole = managed::Call::Ec2(call.clone());
        let Repeat::Token(token) = whole.repeat() else {
            return self.call_once(action, call);
        };
        let key = (action, token.to_owned());
        match self.tokens.get(&key) {
            Some((first, id)) if *first == whole => Ok(ChangeAnswer::Made(id.clone())),
            Some(_) => {
                let message = format!("The client token '{token}' was used before with other parameters.");
                Err(CloudError::answered(action, "IdempotentParameterMismatch", &message))
            }
            None => {
                let answer = self.call_once(action, call)?;
                if let ChangeAnswer::Made(id) = &answer {
                    self.tokens.insert(key, (whole, id.clone()));
                }
                Ok(answer)
            }
        }
    }

    fn call_once(&mut self, action: &'static str, call: &Call<String>) -> Result<ChangeAnswer, CloudError> {
        match call {
            Call::Vpc(call) => self.call_vpc(action, call),
            Call::Subnet(call) => self.call_subnet(action, call),
            Call::InternetGateway(call) => self.call_internet_gateway(action, call),
            Call::NatGateway(call) => self.call_nat_gateway(action, call),
            Call::RouteTable(call) => self.call_route_table(action, call),
            Call::SecurityGroup(call) => self.call_security_group(action, call),
            Call::Tag(call) => self.call_tag(action, call),
        }
    }

    /// GetCallerIdentity, which nobody needs a permission for.
    pub(crate) fn account_id(&mut self) -> String {
        self.count("GetCallerIdentity");
        self.behaviour.account_id.clone()
    }

    /// The names of the zones, sorted.
    pub(crate) fn zones(&mut self) -> Result<Vec<String>, CloudError> {
        self.describe("DescribeAvailabilityZones", |ec2| {
            let mut zones = ec2.behaviour.zones.clone();
            zones.sort_unstable();
            Ok(zones)
        })
    }

    /// All describes of an observation. Without an id in the scope, the VPC is the only one that the cluster owns by
    /// its tags; if there is no such VPC, or if there are several, the observation asks for nothing that belongs to one
    /// VPC. EC2 knows no attributes of a VPC that it does not show: they count as not asked for.
    pub(crate) fn observe(&mut self, scope: &Scope) -> Observed {
        let owned = cluster_tag(&scope.cluster);
        let is_owned = |tags: &Tags| tags.get(&owned).is_some_and(|value| value == OWNED_TAG_VALUE);
        let vpcs = self.describe("DescribeVpcs", |ec2| {
            Ok(ec2.shown_vpcs(|shown| match &scope.vpc {
                Some(id) => shown.id == *id,
                None => is_owned(&shown.tags),
            }))
        });
        let vpc = vpc_of(scope, vpcs.as_deref().ok());
        let mut observed = Observed { vpcs: vpcs.into(), ..Observed::default() };
        if let Some(vpc) = &vpc {
            self.observe_parts_of_vpc(&mut observed, scope, vpc);
        }
        if let Some(known) = &scope.known {
            observed.addresses = known.addresses.clone();
        } else if scope.has_addresses {
            observed.addresses = self.observe_addresses(&scope.addresses, is_owned).into();
            if let Some(pool) = &scope.public_ipv4_pool {
                observed.free_addresses = self.describe_pool(pool).into();
            }
        }
        if scope.is_vpc_of_user {
            return observed;
        }
        if let Some(known) = &scope.known {
            observed.dns = known.dns.clone();
            let unattached = known.unattached_gateways.clone();
            let attached = vpc.map(|vpc| self.describe_gateways(None, Some(&vpc), None));
            observed.internet_gateways = match attached {
                Some(Seen::Shown(attached)) => Seen::Shown([unattached, attached].concat()),
                Some(other) => other,
                None => Seen::Shown(unattached),
            };
            return observed;
        }
        if let Some(vpc) = &vpc {
            let is_shown = observed.vpcs.shown().is_none_or(|vpcs| !vpcs.is_empty());
            observed.dns = match self.describe_dns(vpc) {
                Err(error) if !is_shown && error.class == ErrorClass::NotFound => Seen::NotAsked,
                answer => answer.into(),
            };
        }
        observed.internet_gateways =
            self.describe_gateways(scope.internet_gateway.as_deref(), vpc.as_deref(), Some(&is_owned));
        observed
    }

    /// The describes of what belongs to one VPC, without its attributes.
    fn observe_parts_of_vpc(&mut self, observed: &mut Observed, scope: &Scope, vpc: &str) {
        let subnets = self.describe("DescribeSubnets", |ec2| Ok(ec2.shown_subnets(|shown| shown.vpc_id == vpc)));
        observed.subnets = subnets.into();
        let gateways = self.describe("DescribeNatGateways", |ec2| Ok(ec2.shown_nat_gateways(vpc)));
        observed.nat_gateways = gateways.into();
        let tables =
            self.describe("DescribeRouteTables", |ec2| Ok(ec2.shown_route_tables(|shown| shown.vpc_id == vpc)));
        observed.route_tables = tables.into();
        let groups =
            self.describe("DescribeSecurityGroups", |ec2| Ok(ec2.shown_security_groups(|shown| shown.vpc_id == vpc)));
        observed.security_groups = groups.into();
        if scope.network_interfaces {
            let interfaces =
                self.describe("DescribeNetworkInterfaces", |ec2| Ok(ec2.shown_interfaces(|shown| shown.vpc_id == vpc)));
            observed.network_interfaces = interfaces.into();
        }
    }

    /// Up to three describes, because EC2 joins filters by "and": one each by tag, by id and by VPC, of what is given.
    fn describe_gateways(
        &mut self,
        id: Option<&str>,
        vpc: Option<&str>,
        is_owned: Option<&dyn Fn(&Tags) -> bool>,
    ) -> Seen<Vec<InternetGateway>> {
        const ACTION: &str = "DescribeInternetGateways";
        let filters = [id.is_some(), vpc.is_some(), is_owned.is_some()];
        for _ in filters.iter().filter(|is_given| **is_given).skip(1) {
            self.count(ACTION);
        }
        let is_owned = |tags: &Tags| is_owned.is_some_and(|is_owned| is_owned(tags));
        let is_attached = |shown: &InternetGateway| vpc.is_some() && shown.vpc_id.as_deref() == vpc;
        let gateways = self.describe(ACTION, |ec2| {
            Ok(ec2
                .shown_internet_gateways(|shown| is_owned(&shown.tags) || id == Some(&shown.id) || is_attached(shown)))
        });
        gateways.into()
    }

    /// The answer to a describe action, unless the test refuses the action.
    fn describe<T>(
        &mut self,
        action: &'static str,
        answer: impl FnOnce(&Self) -> Result<T, CloudError>,
    ) -> Result<T, CloudError> {
        self.count(action);
        if self.behaviour.refused_describes.contains(action) {
            return Err(refusal(action, "UnauthorizedOperation"));
        }
        answer(self)
    }

    pub(crate) fn count(&mut self, action: &'static str) {
        let count = self.describes.entry(action).or_default();
        *count = count.saturating_add(1);
    }

    /// Removes a resource by hand, and says whether there was one.
    pub(crate) fn remove(&mut self, id: &str) -> bool {
        match id.split_once('-').map(|(kind, _)| kind) {
            Some("vpc") => self.remove_vpc(id),
            Some("subnet") => self.remove_subnet(id),
            Some("sg") => self.remove_security_group(id),
            Some("rtb") => self.remove_route_table(id),
            Some("eni") => self.remove_network_interface(id),
            Some("ami") => self.remove_image(id),
            _ => false,
        }
    }

    /// An id that no resource had before. Ids count up over all kinds, so their order is the order of creation.
    fn next_id(&mut self, prefix: &str) -> String {
        let number = self.next_number();
        format!("{prefix}-{}{number:08x}", self.place)
    }

    /// The number in an id that no resource had before.
    pub(crate) fn next_number(&mut self) -> u32 {
        self.ids = self.ids.wrapping_add(1);
        self.ids
    }

    pub(crate) fn new_resource<T>(&self, body: T) -> Resource<T> {
        Resource { made_at: Some(self.now), body }
    }

    pub(crate) fn is_shown<T>(&self, resource: &Resource<T>) -> bool {
        self.has_age(resource, self.behaviour.hidden)
    }

    /// The state of a VPC or a subnet.
    fn network_state<T>(&self, resource: &Resource<T>) -> Availability {
        let is_available = self.has_age(resource, self.behaviour.network_pending);
        if is_available { Availability::Available } else { Availability::Pending }
    }

    pub(crate) fn shown_tags<T>(&self, resource: &Resource<T>, tags: &Tags) -> Tags {
        if self.has_age(resource, self.behaviour.hidden_tags) { tags.clone() } else { Tags::new() }
    }

    pub(crate) fn has_age<T>(&self, resource: &Resource<T>, age: Duration) -> bool {
        let made_at = resource.made_at;
        made_at.is_none_or(|made_at| made_at.saturating_add(age) <= self.now)
    }
}

impl<T> Resource<T> {
    pub(crate) fn by_hand(body: T) -> Self {
        Self { made_at: None, body }
    }

    pub(crate) fn is_by_hand(&self) -> bool {
        self.made_at.is_none()
    }
}

/// The VPC of an observation: the one whose id the observation names, or else the only one that the cluster owns.
pub(crate) fn vpc_of(scope: &Scope, shown: Option<&[Vpc]>) -> Option<String> {
    scope.vpc.clone().or_else(|| shown.and_then(only_id))
}

/// The id of the only VPC.
fn only_id(vpcs: &[Vpc]) -> Option<String> {
    match vpcs {
        [vpc] => Some(vpc.id.clone()),
        _ => None,
    }
}

fn cloned<T: Clone>(found: Vec<&T>) -> Vec<T> {
    found.into_iter().cloned().collect()
}

/// An IPv4 range in the form in which EC2 stores it: without the bits of a host.
fn parsed_range(action: &'static str, text: &str) -> Result<Ipv4Net, CloudError> {
    let range = text.parse::<Ipv4Net>().map_err(|_| {
        let message = format!("Value ({text}) for parameter cidrBlock is invalid. This is not a valid CIDR block.");
        CloudError::answered(action, "InvalidParameterValue", &message)
    });
    range.map(|range| range.trunc())
}

/// Whether a VPC or subnet can have so many addresses.
fn is_allowed_size(range: Ipv4Net) -> bool {
    (16..=28).contains(&range.prefix_len())
}
