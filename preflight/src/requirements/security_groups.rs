//! Security groups and their rules.

use capa_api::cluster::preflight::PodNetwork;

use super::identity::account;
use super::list::List;
use super::object::Object;
use super::plan::{Groups, Plan};
use super::wanted::{GroupUse, Peer, Wanted};
use crate::facts::{Demand, GROUPS_OF_AN_INTERFACE, MachineRole, Traffic};
use crate::rule::Category::SecurityGroups;
use crate::rules::security_groups::USUAL_GROUPS_OF_AN_INTERFACE;
use crate::rules::traffic::{Flow, Side, incoming, of_pod_network, outgoing};

const ROLES: [MachineRole; 2] = [MachineRole::ControlPlane, MachineRole::Worker];

pub(super) fn add(list: &mut List, demand: &Demand, plan: &Plan) {
    add_groups(list, demand, &plan.groups);
    for (object, from, traffic, rules) in admitted(demand, plan) {
        list.add(SecurityGroups, &rules, &object, Wanted::Admits { traffic, from });
    }
    if demand.cni.is_none() {
        for group in plan.groups.of_machines() {
            list.add(SecurityGroups, &["G8"], group, Wanted::AdmitsPodNetwork);
        }
    }
    add_outgoing(list, demand, plan);
}

fn add_groups(list: &mut List, demand: &Demand, groups: &Groups) {
    let uses = [
        (&groups.all, GroupUse::Machines),
        (&groups.control_plane, GroupUse::ControlPlane),
        (&groups.workers, GroupUse::Workers),
    ];
    for (groups, purpose) in uses {
        for group in groups {
            list.add(SecurityGroups, &["G1"], group, Wanted::SecurityGroup(purpose));
        }
    }
    let numbers = demand.machines.iter().map(|machines| {
        let number = machines.security_groups(&demand.network).len();
        u32::try_from(number).unwrap_or(u32::MAX)
    });
    if let Some(most) = numbers.max().filter(|most| f64::from(*most) > USUAL_GROUPS_OF_AN_INTERFACE) {
        let quota = Wanted::Quota {
            code: GROUPS_OF_AN_INTERFACE,
            of: "security groups of a network interface".to_owned(),
            at_least: Some(most),
        };
        list.add(SecurityGroups, &["G2"], &account(demand), quota);
    }
    for group in groups.each().filter(|group| group.exists) {
        list.add(SecurityGroups, &["G3"], group, Wanted::RoomForRule);
    }
    for group in groups.of_machines() {
        let key = demand.cluster_tag_key();
        list.add(SecurityGroups, &["G11"], group, Wanted::Tag { key, value: "shared" });
    }
}

type Admitted = (Object, Peer, Traffic, Vec<&'static str>);

/// The traffic that groups have to admit, without the entries that others cover.
fn admitted(demand: &Demand, plan: &Plan) -> Vec<Admitted> {
    let pods = of_pod_network(demand.cni.unwrap_or(PodNetwork::None));
    // One of the sets is enough, because each set belongs to another mode of the pod network.
    let pods = pods.into_iter().next().unwrap_or_default().into_iter();
    let pods = pods.flat_map(|traffic| ROLES.map(|role| Flow { rule: "G8", role, traffic, side: Side::Machines }));
    let mut admitted: Vec<Admitted> = Vec::new();
    for flow in incoming(demand).into_iter().chain(pods) {
        for peer in peers(plan, flow.side) {
            let Some(object) = plan.groups.of(flow.role) else {
                continue;
            };
            admitted.push((object.clone(), peer, flow.traffic, vec![flow.rule]));
        }
    }
    let groups = &plan.groups;
    let mut kept: Vec<Admitted> = Vec::new();
    for (number, one) in admitted.iter().enumerate() {
        let is_covered = admitted.iter().enumerate().any(|(other_number, other)| {
            covers(groups, other, one) && (other_number < number || !covers(groups, one, other))
        });
        if !is_covered {
            kept.push(one.clone());
        }
    }
    kept
}

/// Whether the first entry covers the second one.
fn covers(groups: &Groups, one: &Admitted, other: &Admitted) -> bool {
    let is_of_all = |group: &Object| groups.all.first() == Some(group);
    let peers = one.1 == other.1
        || matches!((&one.1, &other.1), (Peer::Group(wide), Peer::Group(narrow))
            if is_of_all(wide) && groups.each().any(|group| group == narrow));
    one.2 == other.2 && (one.0 == other.0 || is_of_all(&one.0)) && peers
}

fn peers(plan: &Plan, side: Side) -> Vec<Peer> {
    let group = |group: &Object| Peer::Group(group.clone());
    let of_role = |role| plan.groups.of(role).map(group).into_iter().collect();
    match side {
        Side::Workers => of_role(MachineRole::Worker),
        Side::ControlPlane => of_role(MachineRole::ControlPlane),
        Side::Machines => plan.groups.of_machines().into_iter().map(group).collect(),
        Side::LoadBalancers => {
            let peer = plan.balancer.as_ref().map(|balancer| match &balancer.group {
                Some(group) => Peer::Group(group.clone()),
                None => Peer::LoadBalancer(balancer.object.clone()),
            });
            peer.into_iter().collect()
        }
        Side::Vpc => vec![Peer::Vpc],
        Side::Anywhere => vec![Peer::Anywhere],
    }
}

/// Adds the outgoing traffic. New groups allow all outgoing packets, so that machines can connect to each other on
/// every port; the rules require less of existing groups.
fn add_outgoing(list: &mut List, demand: &Demand, plan: &Plan) {
    let flows = outgoing(demand);
    let mut done: Vec<(Object, Wanted)> = Vec::new();
    for flow in &flows {
        let Some(object) = plan.groups.of_machines().into_iter().find(|group| has(plan, flow.role, group)) else {
            continue;
        };
        let (rules, wanted) = if object.exists {
            // The rules accept the ranges of the VPC for every connection within it.
            let to = if flow.side == Side::Anywhere { Peer::Anywhere } else { Peer::Vpc };
            let traffic = Some(flow.traffic);
            (vec![flow.rule], Wanted::Allows { traffic, to })
        } else {
            let mut rules: Vec<&str> = flows.iter().map(|flow| flow.rule).collect();
            rules.dedup();
            let (traffic, to) = (None, Peer::Anywhere);
            (rules, Wanted::Allows { traffic, to })
        };
        let entry = (object.clone(), wanted);
        if !done.contains(&entry) {
            list.add(SecurityGroups, &rules, object, entry.1.clone());
            done.push(entry);
        }
    }
}

/// Whether the machines of a role have the group.
fn has(plan: &Plan, role: MachineRole, group: &Object) -> bool {
    let of_role = match role {
        MachineRole::ControlPlane => &plan.groups.control_plane,
        MachineRole::Worker => &plan.groups.workers,
    };
    plan.groups.all.iter().chain(of_role).any(|of| of == group)
}
