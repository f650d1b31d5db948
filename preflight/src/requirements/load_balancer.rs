//! The load balancer of the control plane.

use std::collections::BTreeSet;

use super::list::List;
use super::object::Object;
use super::plan::{Balancer, Plan};
use super::wanted::{GroupUse, Peer, Wanted, Zone};
use crate::facts::{Demand, MachineRole, Traffic};
use crate::rule::Category::{LoadBalancers, SecurityGroups};
use crate::rules::load_balancers::{CONNECTION_TERMINATION, PRESERVE_CLIENT_ADDRESSES};

/// Number of consecutive checks that decide whether a target is healthy, and the seconds between two checks.
const THRESHOLD: i32 = 2;
const INTERVAL_SECONDS: i32 = 10;

pub(super) fn add(list: &mut List, demand: &Demand, plan: &Plan) {
    let Some(balancer) = &plan.balancer else {
        return;
    };
    for group in &balancer.target_groups {
        add_target_group(list, demand, group);
    }
    let object = &balancer.object;
    list.add(LoadBalancers, &["L2", "L3"], object, Wanted::LoadBalancer);
    let listener = Wanted::Listener { port: demand.endpoint_port(), target_groups: balancer.target_groups.clone() };
    list.add(LoadBalancers, &["L2"], object, listener);
    if demand.has_control_plane_machines() {
        list.add(LoadBalancers, &["L4"], object, Wanted::Subnets(subnets(plan)));
    }
    if demand.wants_ipv6 {
        list.add(LoadBalancers, &["L3"], object, Wanted::DualStack);
    }
    add_groups(list, demand, plan, balancer);
}

fn add_target_group(list: &mut List, demand: &Demand, group: &Object) {
    let port = demand.api_port;
    list.add(LoadBalancers, &["L1"], group, Wanted::TargetGroup { port });
    let check = Wanted::HealthCheck { path: "/readyz", interval_seconds: INTERVAL_SECONDS, threshold: THRESHOLD };
    list.add(LoadBalancers, &["L5"], group, check);
    for (rules, key, value) in
        [(&["L6", "L7"][..], PRESERVE_CLIENT_ADDRESSES, "false"), (&["L8"], CONNECTION_TERMINATION, "true")]
    {
        list.add(LoadBalancers, rules, group, Wanted::Attribute { key, value });
    }
}

/// One subnet for each zone of the control plane, because a load balancer can have only one subnet per zone.
fn subnets(plan: &Plan) -> Vec<Object> {
    let mut zones: BTreeSet<&Zone> = BTreeSet::new();
    let serving = plan.subnets.iter();
    let serving = serving.filter(|subnet| subnet.roles.contains(&MachineRole::ControlPlane));
    let first = serving.filter(|subnet| subnet.zone.as_ref().is_none_or(|zone| zones.insert(zone)));
    first.map(|subnet| subnet.object.clone()).collect()
}

fn add_groups(list: &mut List, demand: &Demand, plan: &Plan, balancer: &Balancer) {
    let traffic = Traffic::tcp(demand.endpoint_port());
    let Some(group) = &balancer.group else {
        for from in plan.groups.of_machines() {
            let from = Peer::Group(from.clone());
            list.add(LoadBalancers, &["L9"], &balancer.object, Wanted::Admits { traffic, from });
        }
        return;
    };
    let purpose = Wanted::SecurityGroup(GroupUse::LoadBalancer);
    list.add(SecurityGroups, &["L9"], group, purpose);
    let machines = plan.groups.of_machines().into_iter().map(|group| Peer::Group(group.clone()));
    for from in machines.chain([Peer::Clients]) {
        list.add(SecurityGroups, &["L9"], group, Wanted::Admits { traffic, from });
    }
    let control_plane = plan.groups.of(MachineRole::ControlPlane);
    if let Some(to) = control_plane.map(|group| Peer::Group(group.clone())) {
        let traffic = Some(Traffic::tcp(demand.api_port));
        list.add(SecurityGroups, &["L9"], group, Wanted::Allows { traffic, to });
    }
}
