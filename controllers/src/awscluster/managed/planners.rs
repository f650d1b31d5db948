//! The planners, one for each resource. Pure.

use capa_api::common::Tags;
use capa_cloud::managed::Observed;

use super::inputs::Inputs;
use super::ledger::Ledger;
use super::plan::{Plan, PlanContext};
use super::planner::Planner;
use super::reference::{Kind, Ref};
use super::{
    cidr_block, classic_load_balancer, internet_gateway, load_balancer, nat_gateway, route_table, security_group,
    subnet, tagging, vpc,
};

/// All planners, that of the VPC first. The ledger is compared in this order, because resources in a VPC are found
/// after the VPC.
pub(super) const PLANNERS: &[Planner] = &[
    vpc::PLANNER,
    cidr_block::PLANNER,
    subnet::PLANNER,
    internet_gateway::PLANNER,
    nat_gateway::PLANNER,
    route_table::PLANNER,
    security_group::PLANNER,
    load_balancer::PLANNER,
    classic_load_balancer::PLANNER,
];

/// The planners of the cluster's resources. In a VPC of the user, the network belongs to the user. In a VPC that is not
/// proven to belong to the cluster, nothing belongs to the cluster.
pub(super) fn of(inputs: &Inputs) -> impl Iterator<Item = &'static Planner> {
    let is_brought = inputs.vpc.brought.is_some();
    let is_unproven = inputs.vpc.is_unproven;
    PLANNERS
        .iter()
        .filter(move |planner| !(is_brought && planner.only_in_managed_vpc))
        .filter(move |planner| !is_unproven || planner.kinds.contains(&Kind::Vpc))
}

/// All resources that the spec asks for.
pub(super) fn wanted(inputs: &Inputs) -> Vec<Ref> {
    let wanted = of(inputs).flat_map(|planner| (planner.wanted)(inputs));
    wanted.filter(|target| target.kind.is_resource()).collect()
}

/// Compares the ledger with an observation.
pub(super) fn update_ledger(inputs: &Inputs, seen: &Observed, ledger: &mut Ledger) {
    for planner in of(inputs) {
        (planner.update_ledger)(inputs, seen, ledger);
        tagging::update_ledger(planner, inputs, seen, ledger);
    }
}

/// The tags that a resource is to have.
pub(super) fn tags_of(inputs: &Inputs, target: &Ref) -> Tags {
    let mut all = of(inputs).flat_map(|planner| (planner.tags)(inputs));
    let found = all.find_map(|(tagged, tags)| (tagged == *target).then_some(tags));
    found.unwrap_or_default()
}

/// Whether a call of the observation failed, so that resources of its kind may exist unseen.
pub(super) fn is_incomplete(context: &PlanContext<'_>) -> bool {
    let mut answers = of(context.inputs).map(|planner| (planner.answer)(context.seen));
    answers.any(|answer| matches!(answer, Err(Some(_))))
}

/// The plan of one pass.
pub(super) fn plan(context: &PlanContext<'_>) -> Plan {
    let mut plan = Plan::default();
    if !context.is_deleted {
        plan.problems.extend(context.inputs.problems.iter().cloned());
    }
    for planner in of(context.inputs) {
        (planner.plan)(context, &mut plan);
        if !context.is_deleted {
            tagging::plan(planner, context, &mut plan);
        }
    }
    plan
}
