//! The secondary IPv4 ranges of the VPC, which AWS removes with it. Pure.

use capa_api::conditions::{ConditionType, Reason};
use capa_cloud::ec2::vpc::Call;

use super::inputs::Inputs;
use super::plan::{Plan, PlanContext, Why};
use super::planner::Planner;
use super::reference::{Id, Kind, Ref};

/// The planner of the secondary ranges.
pub(super) const PLANNER: Planner = Planner {
    kinds: &[Kind::SecondaryCidrBlock],
    condition: ConditionType::SecondaryCidrsReady,
    waiting: Reason::WaitingForVpc,
    is_optional: true,
    only_in_managed_vpc: true,
    wanted,
    tags: |_| vec![],
    tags_shown: |_| vec![],
    answer: |seen| seen.ec2.vpcs.answer(),
    update_ledger: |_, _, _| {},
    plan,
};

fn wanted(inputs: &Inputs) -> Vec<Ref> {
    inputs.secondary_cidr_blocks.iter().copied().map(Ref::secondary_cidr_block).collect()
}

/// Adds the ranges that the VPC lacks. Ranges that were removed from the spec stay, because machines may use them.
fn plan(context: &PlanContext<'_>, plan: &mut Plan) {
    let vpc = &context.inputs.vpc.target;
    let Some(vpcs) = context.seen.ec2.vpcs.shown().filter(|_| !context.is_deleted) else {
        return;
    };
    let shown = context.ledger.id(vpc).and_then(|id| vpcs.iter().find(|vpc| vpc.id == id));
    for range in &context.inputs.secondary_cidr_blocks {
        let (target, cidr_block) = (Ref::secondary_cidr_block(*range), range.to_string());
        if shown.is_some_and(|vpc| vpc.cidr_blocks.contains(&cidr_block)) {
            continue;
        }
        if shown.is_some_and(|vpc| vpc.associating_cidr_blocks.contains(&cidr_block)) {
            plan.wait(&target, Reason::Creating, "AWS adds the range to the VPC");
            continue;
        }
        let vpc = Id::from(vpc);
        plan.step(&target, Why::Missing, Call::AssociateVpcCidrBlock { vpc, cidr_block });
    }
}
