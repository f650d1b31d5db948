//! The content of a picture of infrastructure, for all formats.

use std::collections::{BTreeMap, BTreeSet};

use capa_api::cluster::status::FindingSeverity;

use crate::facts::{Facts, MachineRole, RouteTable, Subnet};
use crate::report::{Finding, Report};

/// A picture of the infrastructure of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Picture {
    pub(super) title: String,
    /// The VPC.
    pub(super) vpc: Node,
    /// Load balancers and their target groups.
    pub(super) balancers: Vec<Node>,
    /// Zones with their subnets, sorted by name.
    pub(super) zones: BTreeMap<String, Vec<Node>>,
    /// Security groups.
    pub(super) groups: Vec<Node>,
    /// Machines of each template.
    pub(super) machines: Vec<Node>,
    /// Findings about objects that the picture does not show.
    pub(super) others: Vec<Mark>,
}

/// An object of a picture.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Node {
    /// Id or name.
    pub(super) id: String,
    /// Further lines about the object.
    pub(super) lines: Vec<String>,
    /// Ids of the objects that this one leads to.
    pub(super) leads_to: Vec<String>,
    /// Findings about the object.
    pub(super) marks: Vec<Mark>,
}

/// A finding about an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) rule: &'static str,
    pub(super) severity: FindingSeverity,
    pub(super) message: String,
}

impl Node {
    fn new(id: impl Into<String>, lines: Vec<String>) -> Self {
        Self { id: id.into(), lines, ..Self::default() }
    }

    /// The severity of the worst finding about the object.
    pub(super) fn severity(&self) -> Option<FindingSeverity> {
        self.marks.iter().map(|mark| mark.severity).min()
    }
}

impl Picture {
    pub(super) fn new(facts: &Facts, report: &Report) -> Self {
        let mut picture = Self {
            title: format!("Cluster {} in {}", facts.demand.cluster_tag, facts.demand.region),
            vpc: vpc(facts),
            balancers: balancers(facts),
            zones: zones(facts),
            groups: groups(facts),
            machines: machines(facts),
            others: vec![],
        };
        for finding in report.findings() {
            picture.mark(finding);
        }
        picture
    }

    /// All objects.
    pub(super) fn nodes(&self) -> impl Iterator<Item = &Node> {
        let zones = self.zones.values().flatten();
        let others = self.balancers.iter().chain(&self.groups).chain(&self.machines);
        std::iter::once(&self.vpc).chain(zones).chain(others)
    }

    /// Attaches a finding to each object that it is about.
    fn mark(&mut self, finding: &Finding) {
        let mark = Mark { rule: finding.rule, severity: finding.severity, message: finding.message.clone() };
        let zones = self.zones.values_mut().flatten();
        let others = self.balancers.iter_mut().chain(&mut self.groups).chain(&mut self.machines);
        let nodes = std::iter::once(&mut self.vpc).chain(zones).chain(others);
        let objects: BTreeSet<&str> = finding.object.split(',').collect();
        let mut is_shown = false;
        for node in nodes.filter(|node| !node.id.is_empty() && objects.contains(node.id.as_str())) {
            node.marks.push(mark.clone());
            is_shown = true;
        }
        if !is_shown {
            self.others.push(mark);
        }
    }
}

fn vpc(facts: &Facts) -> Node {
    let declared = facts.demand.network.vpc.as_ref().map_or("VPC", |vpc| vpc.id.as_str());
    match facts.vpc.found() {
        Some(Some(vpc)) => Node::new(&vpc.id, vec![vpc.cidr_blocks.join(", ")]),
        _ => Node::new(declared, vec!["not known".to_owned()]),
    }
}

/// Subnets of machines, and of the NAT gateways that these subnets use, by zone.
fn zones(facts: &Facts) -> BTreeMap<String, Vec<Node>> {
    let mut zones: BTreeMap<String, Vec<Node>> = BTreeMap::new();
    let wanted = facts.demand.subnet_ids(None);
    let known = facts.subnets.found().map(Vec::as_slice).unwrap_or_default();
    let gateways = facts.nat_gateways.found().map(Vec::as_slice).unwrap_or_default();
    for subnet in known {
        let nat: Vec<&str> = gateways
            .iter()
            .filter(|gateway| gateway.subnet_id == subnet.id)
            .map(|gateway| gateway.id.as_str())
            .collect();
        if wanted.contains(subnet.id.as_str()) || !nat.is_empty() {
            let node = subnet_node(facts, subnet, &nat);
            zones.entry(subnet.zone.clone()).or_default().push(node);
        }
    }
    for id in wanted.iter().filter(|id| known.iter().all(|subnet| subnet.id != **id)) {
        let node = Node::new(*id, vec!["not known".to_owned()]);
        zones.entry("zone not known".to_owned()).or_default().push(node);
    }
    zones
}

fn subnet_node(facts: &Facts, subnet: &Subnet, nat: &[&str]) -> Node {
    let target = facts.route_table(subnet).ok().and_then(RouteTable::default_target);
    let is_public = facts.route_tables.found().and_then(|tables| subnet.is_public(tables));
    let kind = if is_public == Some(true) { "public" } else { "private" };
    let route = target.map_or_else(|| "no default route".to_owned(), |target| format!("0.0.0.0/0 to {target}"));
    let mut lines =
        vec![format!("{kind}, {}", subnet.cidr_block), format!("{} free addresses", subnet.free_addresses), route];
    lines.extend(nat.iter().map(|id| format!("has {id}")));
    Node::new(&subnet.id, lines)
}

fn groups(facts: &Facts) -> Vec<Node> {
    let of = |role| facts.demand.group_ids(Some(role));
    let (control_plane, workers) = (of(MachineRole::ControlPlane), of(MachineRole::Worker));
    let known = facts.security_groups.found().map(Vec::as_slice).unwrap_or_default();
    let ids: BTreeSet<&str> = control_plane.union(&workers).copied().collect();
    ids.into_iter()
        .map(|id| {
            let role = match (control_plane.contains(id), workers.contains(id)) {
                (true, true) => "all machines",
                (true, false) => "control plane",
                _ => "workers",
            };
            let name = known.iter().find(|group| group.id == id).map(|group| group.name.clone());
            Node::new(id, vec![name.unwrap_or_else(|| "not known".to_owned()), role.to_owned()])
        })
        .collect()
}

fn balancers(facts: &Facts) -> Vec<Node> {
    let known = facts.load_balancers.found().map(Vec::as_slice).unwrap_or_default();
    let targets = facts.target_groups.found().map(Vec::as_slice).unwrap_or_default();
    let balancers = known.iter().map(|balancer| {
        let listeners = facts.listeners_of(balancer).unwrap_or_default();
        let ports: Vec<String> = listeners.iter().map(|of| format!("{} {}", of.protocol, of.port)).collect();
        let lines = vec![
            format!("{} {}", balancer.scheme, balancer.kind),
            ports.join(", "),
            balancer.subnets.keys().cloned().collect::<Vec<_>>().join(", "),
        ];
        Node {
            leads_to: listeners.iter().flat_map(|of| of.target_group_arns.clone()).collect(),
            ..Node::new(&balancer.name, lines)
        }
    });
    let groups = facts.demand.target_group_arns().into_iter().map(|arn| {
        let group = targets.iter().find(|group| group.arn == arn);
        let line = group.map(|group| format!("{} {} by {}", group.protocol, group.port, group.target_type));
        Node::new(arn, vec![line.unwrap_or_else(|| "not known".to_owned())])
    });
    balancers.chain(groups).collect()
}

fn machines(facts: &Facts) -> Vec<Node> {
    let network = &facts.demand.network;
    let nodes = facts.demand.machines.iter().map(|machines| {
        let role = match machines.role {
            MachineRole::ControlPlane => "control plane",
            MachineRole::Worker => "workers",
        };
        let mut leads_to: Vec<String> = machines.subnet_ids(network).into_iter().map(str::to_owned).collect();
        leads_to.sort();
        Node {
            leads_to,
            ..Node::new(
                &machines.template,
                vec![format!("{role}, up to {}", machines.replicas), machines.spec.instance_type.clone()],
            )
        }
    });
    nodes.collect()
}
