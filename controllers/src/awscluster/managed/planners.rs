//! The planners, one for each resource. Pure.

use capa_cloud::managed::Observed;

use super::inputs::Inputs;
use super::ledger::Ledger;
use super::plan::{Plan, Scene};
use super::planner::Planner;
use super::reference::Ref;
use super::{
    classic_load_balancer, internet_gateway, load_balancer, nat_gateway, route_table, security_group, subnet, vpc,
};

/// All planners. The ledger is compared in this order: what is in a VPC is found after the VPC.
pub(super) const PLANNERS: &[Planner] = &[
    vpc::PLANNER,
    subnet::PLANNER,
    internet_gateway::PLANNER,
    nat_gateway::PLANNER,
    route_table::PLANNER,
    security_group::PLANNER,
    load_balancer::PLANNER,
    classic_load_balancer::PLANNER,
];

/// Everything that the spec asks for.
pub(super) fn wanted(inputs: &Inputs) -> Vec<Ref> {
    PLANNERS.iter().flat_map(|planner| (planner.wanted)(inputs)).collect()
}

/// Compares the ledger with a look.
pub(super) fn settle(inputs: &Inputs, seen: &Observed, ledger: &mut Ledger) {
    for planner in PLANNERS {
        (planner.settle)(inputs, seen, ledger);
    }
}

/// Whether AWS did not answer with a kind of resource. It may be there.
pub(super) fn is_incomplete(seen: &Observed) -> bool {
    let mut looks = PLANNERS.iter().map(|planner| (planner.look)(seen));
    looks.any(|look| matches!(look, Err(Some(_))))
}

/// The plan of one pass.
pub(super) fn plan(scene: &Scene<'_>) -> Plan {
    let mut plan = Plan::default();
    if !scene.is_deleted {
        plan.problems.extend(scene.inputs.problems.iter().cloned());
    }
    for planner in PLANNERS {
        (planner.plan)(scene, &mut plan);
    }
    plan
}
