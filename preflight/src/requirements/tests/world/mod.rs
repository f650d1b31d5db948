//! Infrastructure that fulfils exactly a list of requirements, and breaks rules in everything else.

mod load_balancing;
mod network;
mod security_groups;

use std::collections::BTreeMap;

use capa_api::common::ControlPlaneTarget;
use capa_api::network::{NetworkSubnet, NetworkVpc, ZoneType};

use self::load_balancing::BALANCER;
use super::super::*;
use crate::facts::{Answer, Availability, Demand, Facts, Zone as ZoneFact};

const ACCOUNT: &str = "111122223333";
const EXISTING_BALANCER_GROUP: &str = "sg-0000000f";
/// Range of an existing VPC. No cluster of the tests overlaps it.
const EXISTING_RANGE: &str = "172.20.0.0/16";

/// Id of an object. The id of a new object contains its name.
pub(super) fn id(object: &Object) -> String {
    let prefix = match object.kind {
        _ if object.exists => return object.name.clone(),
        Kind::Vpc => "vpc",
        Kind::Subnet => "subnet",
        Kind::SecurityGroup => "sg",
        Kind::NatGateway => "nat",
        Kind::TargetGroup => "arn:aws:elasticloadbalancing:eu-west-1:111122223333:targetgroup",
        _ => "new",
    };
    format!("{prefix}-{}", object.name)
}

fn zone_name(zone: &Zone, subnet: &Object) -> String {
    match zone {
        Zone::Named(name) => name.clone(),
        Zone::Free(_) if subnet.exists => format!("zone-of-{}", subnet.name),
        Zone::Free(number) => format!("free-{number}"),
    }
}

/// The demand of users who have created the missing objects and name them.
pub(super) fn completed(demand: &Demand, requirements: &Requirements) -> Demand {
    let mut demand = demand.clone();
    let network = &mut demand.network;
    let new = |requirement: &&Requirement| !requirement.object.exists;
    for Requirement { object, wanted, .. } in requirements.requirements.iter().filter(new) {
        let id = id(object);
        match wanted {
            Wanted::Vpc { .. } => {
                network.vpc = Some(NetworkVpc { id, ..NetworkVpc::default() });
            }
            Wanted::Subnet(SubnetUse { is_public, has_machines: true }) => {
                let zone = requirements.requirements.iter().find_map(|other| match &other.wanted {
                    Wanted::Zone(zone) if other.object == *object => Some(zone_name(zone, object)),
                    _ => None,
                });
                network.subnets.push(NetworkSubnet {
                    id,
                    availability_zone: zone,
                    public: Some(*is_public),
                    ..NetworkSubnet::default()
                });
            }
            Wanted::SecurityGroup(purpose) => {
                let groups = network.security_groups.get_or_insert_default();
                match purpose {
                    GroupUse::Machines => groups.all.push(id),
                    GroupUse::ControlPlane => groups.control_plane.push(id),
                    GroupUse::Workers => groups.worker.push(id),
                    GroupUse::LoadBalancer => {}
                }
            }
            Wanted::TargetGroup { .. } => network
                .control_plane_targets
                .push(ControlPlaneTarget { target_group_arn: Some(id), ..ControlPlaneTarget::default() }),
            _ => {}
        }
    }
    demand
}

/// A world that grows by one requirement after another.
pub(super) struct World<'a> {
    demand: &'a Demand,
    requirements: Vec<&'a Requirement>,
}

impl<'a> World<'a> {
    pub(super) const fn new(demand: &'a Demand, requirements: Vec<&'a Requirement>) -> Self {
        Self { demand, requirements }
    }

    fn all<T>(&self, wanted: impl Fn(&'a Object, &'a Wanted) -> Option<T>) -> Vec<T> {
        let requirements = self.requirements.iter();
        requirements.filter_map(|requirement| wanted(&requirement.object, &requirement.wanted)).collect()
    }

    fn of<T>(&self, object: &Object, wanted: impl Fn(&'a Wanted) -> Option<T>) -> Option<T> {
        let found = self.all(|of, is| if of == object { wanted(is) } else { None });
        found.into_iter().next()
    }

    fn has(&self, object: &Object, wanted: &Wanted) -> bool {
        self.of(object, |is| (is == wanted).then_some(())).is_some()
    }

    fn tags(&self, object: &Object) -> BTreeMap<String, String> {
        let tags = self.all(|of, is| match is {
            Wanted::Tag { key, value } if of == object => Some((key.clone(), (*value).to_owned())),
            _ => None,
        });
        tags.into_iter().collect()
    }

    fn quotas(&self) -> BTreeMap<String, f64> {
        let quotas = self.all(|_, wanted| match wanted {
            Wanted::Quota { code, at_least, .. } => at_least.map(|least| ((*code).to_owned(), f64::from(least))),
            _ => None,
        });
        quotas.into_iter().collect()
    }

    /// The facts.
    pub(super) fn facts(&self) -> Facts {
        let subnets = self.subnets();
        let zones = subnets.iter().map(|subnet| ZoneFact {
            name: subnet.zone.clone(),
            zone_type: Some(ZoneType::AvailabilityZone),
            state: Availability::Available,
        });
        let resolves = self.all(|_, wanted| (*wanted == Wanted::Resolves).then_some("10.0.0.9".to_owned()));
        let (vpc, vpc_dns, dhcp_options) = self.vpc();
        Facts {
            demand: self.demand.clone(),
            account_id: Answer::Found(ACCOUNT.to_owned()),
            zones: Answer::Found(zones.collect()),
            vpc: Answer::Found(vpc),
            vpc_dns: Answer::Found(vpc_dns),
            dhcp_options: Answer::Found(dhcp_options),
            route_tables: Answer::Found(self.route_tables()),
            nat_gateways: Answer::Found(self.nat_gateways()),
            network_acls: Answer::Found(self.network_acls()),
            vpc_endpoints: Answer::Found(vec![]),
            security_groups: Answer::Found(self.security_groups()),
            target_groups: Answer::Found(self.target_groups()),
            load_balancers: Answer::Found(self.load_balancers(&subnets)),
            load_balancing_attributes: self.attributes(),
            listeners: [(BALANCER.to_owned(), Answer::Found(self.listeners()))].into(),
            endpoint_addresses: Answer::Found(resolves),
            quotas: Answer::Found(self.quotas()),
            subnets: Answer::Found(subnets),
            ..Facts::default()
        }
    }
}
