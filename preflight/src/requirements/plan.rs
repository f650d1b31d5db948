//! The network of a cluster that the requirements describe: the objects that the cluster names, and new objects for the
//! rest.

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::object::{Kind, Object};
use super::wanted::Zone;
use crate::facts::{Demand, MachineDemand, MachineRole};
use crate::rules::subnets::control_plane_zones;

/// Number of zones of a control plane whose machines are not known.
const ZONES_OF_CONTROL_PLANES: usize = 3;

/// Names of an existing VPC of which the cluster names only parts.
pub(super) const OF_SUBNETS: &str = "of the subnets";
pub(super) const OF_GROUPS: &str = "of the security groups";
pub(super) const OF_TARGET_GROUPS: &str = "of the target groups";

/// The network of a cluster.
pub(super) struct Plan {
    pub(super) vpc: Object,
    /// The subnets of machines.
    pub(super) subnets: Vec<MachineSubnet>,
    /// The zones in which there are NAT gateways to create.
    pub(super) nat_gateways: Vec<NatPlan>,
    pub(super) groups: Groups,
    pub(super) balancer: Option<Balancer>,
}

/// A subnet of machines.
pub(super) struct MachineSubnet {
    pub(super) object: Object,
    /// The zone, if it is declared or new.
    pub(super) zone: Option<Zone>,
    pub(super) is_public: bool,
    /// Roles of the machines that may be launched in it.
    pub(super) roles: Vec<MachineRole>,
}

/// A NAT gateway with its public subnet, in a zone.
pub(super) struct NatPlan {
    pub(super) gateway: Object,
    pub(super) subnet: Object,
    pub(super) zone: Zone,
    /// Whether machines also use the public subnet.
    pub(super) is_shared: bool,
}

/// Security groups, by the role of the machines that have them.
pub(super) struct Groups {
    pub(super) all: Vec<Object>,
    pub(super) control_plane: Vec<Object>,
    pub(super) workers: Vec<Object>,
}

/// The load balancer of the control plane.
pub(super) struct Balancer {
    pub(super) object: Object,
    pub(super) target_groups: Vec<Object>,
    /// The security group of a new load balancer.
    pub(super) group: Option<Object>,
}

impl Plan {
    pub(super) fn new(demand: &Demand) -> Self {
        let mut subnets = existing_subnets(demand);
        let zones = new_zones(demand, &subnets);
        let kinds = wanted_kinds(demand);
        for is_public in [false, true].into_iter().filter(|is_public| kinds.contains(is_public)) {
            subnets.extend(zones.iter().zip(1..).map(|(zone, number)| MachineSubnet {
                object: new_subnet(is_public, number),
                zone: Some(zone.clone()),
                is_public,
                roles: vec![MachineRole::ControlPlane, MachineRole::Worker],
            }));
        }
        let nat_gateways = zones.into_iter().zip(1..).map(|(zone, number)| NatPlan {
            gateway: Object::new(Kind::NatGateway, format!("nat-{number}")),
            subnet: new_subnet(true, number),
            zone,
            is_shared: kinds.contains(&true),
        });
        Self {
            vpc: vpc(demand),
            nat_gateways: nat_gateways.filter(|_| kinds.contains(&false)).collect(),
            subnets,
            groups: Groups::new(demand),
            balancer: Balancer::new(demand),
        }
    }

    /// The internet gateway, if one has to be created.
    pub(super) fn internet_gateway(&self) -> Option<Object> {
        let is_wanted = !self.vpc.exists && self.subnets.iter().any(|subnet| !subnet.object.exists);
        is_wanted.then(|| Object::new(Kind::InternetGateway, "main"))
    }
}

/// The VPC that the cluster names, or else the VPC of the subnets, security groups or target groups that it names, or
/// else a new VPC.
fn vpc(demand: &Demand) -> Object {
    let named = demand.network.vpc.as_ref().map(|vpc| vpc.id.as_str());
    let of_parts = [
        (demand.subnet_ids(None), OF_SUBNETS),
        (demand.group_ids(None), OF_GROUPS),
        (demand.target_group_arns(), OF_TARGET_GROUPS),
    ];
    let mut of_parts = of_parts.into_iter().filter(|(ids, _)| !ids.is_empty());
    let name = named.or_else(|| of_parts.next().map(|(_, name)| name));
    name.map_or_else(|| Object::new(Kind::Vpc, "main"), |name| Object::existing(Kind::Vpc, name))
}

fn new_subnet(is_public: bool, number: usize) -> Object {
    let kind = if is_public { "public" } else { "private" };
    Object::new(Kind::Subnet, format!("{kind}-{number}"))
}

/// The subnet that the machines themselves name.
fn own_subnet(machines: &MachineDemand) -> Option<&str> {
    machines.spec.subnet.as_ref()?.id.as_deref()
}

/// The kinds of subnets that machines without a named subnet need: private (`false`), public (`true`) or both.
fn wanted_kinds(demand: &Demand) -> BTreeSet<bool> {
    if demand.machines.is_empty() {
        return [false].into();
    }
    let machines = demand.machines.iter().filter(|machines| own_subnet(machines).is_none());
    machines.map(|machines| machines.spec.public_ip.unwrap_or(false)).collect()
}

fn existing_subnets(demand: &Demand) -> Vec<MachineSubnet> {
    let subnet = |id: &str| {
        let declared = demand.network.subnets.iter().find(|subnet| subnet.id == id);
        let has_public_machines = demand
            .machines
            .iter()
            .any(|machines| machines.spec.public_ip == Some(true) && machines.subnet_ids(&demand.network).contains(id));
        let is_declared_public = declared.is_some_and(|subnet| subnet.public == Some(true));
        let roles = [MachineRole::ControlPlane, MachineRole::Worker].into_iter();
        MachineSubnet {
            object: Object::existing(Kind::Subnet, id),
            zone: declared.and_then(|subnet| subnet.availability_zone.clone().map(Zone::Named)),
            is_public: has_public_machines || (is_declared_public && demand.machines.is_empty()),
            roles: roles.filter(|role| demand.subnet_ids(Some(*role)).contains(id)).collect(),
        }
    };
    demand.subnet_ids(None).into_iter().map(subnet).collect()
}

/// The zones in which subnets are missing: those of failure domains, and as many as the control plane needs. Existing
/// subnets whose zones are not known count as lying in different zones.
fn new_zones(demand: &Demand, existing: &[MachineSubnet]) -> Vec<Zone> {
    if wanted_kinds(demand).is_empty() {
        return vec![];
    }
    let known: BTreeSet<&Zone> = existing.iter().filter_map(|subnet| subnet.zone.as_ref()).collect();
    let mut of_network = demand.network.subnets.iter();
    let are_all_known = of_network.all(|subnet| subnet.availability_zone.is_some());
    let domains = demand.machines.iter().flat_map(|machines| &machines.failure_domains);
    let domains: BTreeSet<Zone> = domains.cloned().map(Zone::Named).collect();
    let missing = domains.into_iter().filter(|zone| are_all_known && !known.contains(zone));
    let mut zones: Vec<Zone> = missing.collect();
    let serves = |subnet: &&MachineSubnet| subnet.roles.contains(&MachineRole::ControlPlane);
    let (existing, wanted) = if demand.has_control_plane_machines() {
        let serving = || existing.iter().filter(serves);
        let known: BTreeSet<&Zone> = serving().filter_map(|subnet| subnet.zone.as_ref()).collect();
        let unknown = serving().filter(|subnet| subnet.zone.is_none()).count();
        let wanted = control_plane_zones(demand).unwrap_or(ZONES_OF_CONTROL_PLANES);
        (known.len() + unknown, wanted)
    } else {
        (demand.network.subnets.len(), 1)
    };
    let missing = wanted.saturating_sub(existing + zones.len());
    zones.extend((0..missing).map(Zone::Free));
    zones
}

impl Groups {
    fn new(demand: &Demand) -> Self {
        let of = |role| demand.group_ids(Some(role));
        let (control_plane, workers) = (of(MachineRole::ControlPlane), of(MachineRole::Worker));
        let objects = |ids: BTreeSet<&str>| -> Vec<Object> {
            let ids = ids.into_iter();
            ids.map(|id| Object::existing(Kind::SecurityGroup, id)).collect()
        };
        let mut groups = Self {
            all: objects(&control_plane & &workers),
            control_plane: objects(&control_plane - &workers),
            workers: objects(&workers - &control_plane),
        };
        if workers.is_empty() {
            groups.all.push(Object::new(Kind::SecurityGroup, "nodes"));
        }
        if control_plane.is_empty() && demand.has_control_plane_machines() {
            groups.control_plane.push(Object::new(Kind::SecurityGroup, "control-plane"));
        }
        groups
    }

    /// A group that only the machines of a role have, or else a group that all machines have.
    pub(super) fn of(&self, role: MachineRole) -> Option<&Object> {
        let of_role = match role {
            MachineRole::ControlPlane => &self.control_plane,
            MachineRole::Worker => &self.workers,
        };
        of_role.first().or_else(|| self.all.first())
    }

    /// The smallest set of groups of which every machine has one.
    pub(super) fn of_machines(&self) -> Vec<&Object> {
        match self.all.first() {
            Some(group) => vec![group],
            None => self.control_plane.first().into_iter().chain(self.workers.first()).collect(),
        }
    }

    pub(super) fn each(&self) -> impl Iterator<Item = &Object> {
        self.all.iter().chain(&self.control_plane).chain(&self.workers)
    }
}

impl Balancer {
    fn new(demand: &Demand) -> Option<Self> {
        let named = demand.target_group_arns();
        if !named.is_empty() {
            let target_groups = named.into_iter().map(|arn| Object::existing(Kind::TargetGroup, arn));
            return Some(Self {
                object: Object::existing(Kind::LoadBalancer, "of the control plane"),
                target_groups: target_groups.collect(),
                group: None,
            });
        }
        let has_targets = demand.control_plane_targets().next().is_some();
        // If the endpoint is an IP address, something other than a load balancer of AWS serves it.
        let has_address = demand.endpoint.as_ref().is_some_and(|endpoint| endpoint.host.parse::<IpAddr>().is_ok());
        let is_wanted = demand.has_control_plane_machines() && !demand.has_hosted_control_plane;
        (is_wanted && !has_targets && !has_address).then(|| Self {
            object: Object::new(Kind::LoadBalancer, "api"),
            target_groups: vec![Object::new(Kind::TargetGroup, "api")],
            group: Some(Object::new(Kind::SecurityGroup, "load-balancer")),
        })
    }
}
