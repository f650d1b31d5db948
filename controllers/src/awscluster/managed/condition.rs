//! The condition that follows from the plan of a resource. Pure.

use capa_api::conditions::{ConditionStatus, ConditionUpdate, Reason};

use super::ledger::Presence;
use super::plan::{Plan, PlanContext};
use super::planner::Planner;
use super::planners;
use super::reference::{Kind, Ref};
use super::step_result::StepResult;

/// The conditions of all resources. A condition that several resources share shows the worst state among them.
pub(super) fn conditions(context: &PlanContext<'_>, plan: &Plan, results: &[StepResult]) -> Vec<ConditionUpdate> {
    let mut conditions: Vec<ConditionUpdate> = vec![];
    for planner in planners::of(context.inputs).filter(|planner| planner.applies(context, plan)) {
        let update = planner.condition(context, plan, results);
        let mut others = conditions.iter_mut();
        match others.find(|other| other.condition == update.condition) {
            Some(other) if badness(&update) > badness(other) => *other = update,
            Some(_) => {}
            None => conditions.push(update),
        }
    }
    conditions
}

/// The rank of a condition: the higher, the further the resource is from the spec. A condition with a message takes
/// precedence over one without.
fn badness(update: &ConditionUpdate) -> (u8, bool) {
    let distance = match update.status {
        ConditionStatus::True => 0,
        ConditionStatus::Unknown => 1,
        ConditionStatus::False if update.reason.is_expected() => 2,
        ConditionStatus::False => 3,
    };
    (distance, !update.message.is_empty())
}

impl Planner {
    /// Whether there is anything to say about the resource.
    fn applies(&self, context: &PlanContext<'_>, plan: &Plan) -> bool {
        let may_be_there = |target: &Ref| context.presence(target) != Presence::Absent;
        let is_recorded = |kind: &Kind| context.ledger.of_kind(*kind).any(may_be_there);
        let mut problems = plan.problems.iter();
        !self.is_optional
            || !(self.wanted)(context.inputs).is_empty()
            || self.kinds.iter().any(is_recorded)
            || problems.any(|problem| self.kinds.contains(&problem.target.kind))
    }

    /// The condition, in this precedence: failures, problems that a user must fix, waits, calls of this pass, waits for
    /// another resource, and resources that AWS did not show.
    fn condition(&self, context: &PlanContext<'_>, plan: &Plan, results: &[StepResult]) -> ConditionUpdate {
        let is_own = |kind: Kind| self.kinds.contains(&kind);
        let is_false = |reason, message: String| self.condition.is_false(reason, message);
        let (of_tags, others): (Vec<_>, Vec<_>) =
            results.iter().filter(|result| is_own(result.target.kind)).partition(|result| result.target.is_of_tags());
        let mut failures = others.into_iter();
        if let Some((target, failure)) =
            failures.clone().find_map(|result| Some((&result.target, result.failure.as_ref()?)))
        {
            return is_false(failure.reason, format!("{target}: {}", failure.message));
        }
        if let Some(problem) = plan.problems.iter().find(|problem| is_own(problem.target.kind)) {
            return is_false(problem.reason, problem.message.clone());
        }
        if let Some(wait) = plan.waits.iter().find(|wait| is_own(wait.target.kind)) {
            return is_false(wait.reason, format!("{}: {}", wait.target, wait.message));
        }
        let in_progress = if context.is_deleted { Reason::Deleting } else { Reason::Creating };
        if let Some(result) = failures.next() {
            let message = format!("{}: AWS has accepted {}", result.target, result.action);
            return is_false(in_progress, message);
        }
        let held_up = plan.steps.iter().filter(|step| is_own(step.target.kind) && !step.target.is_of_tags());
        if let Some((step, open)) = held_up.clone().find_map(|step| Some((step, plan.held_up_by(step)?))) {
            let reason = if context.is_deleted { Reason::Deleting } else { waiting_for(open.kind) };
            return is_false(reason, format!("{} waits for {open}", step.target));
        }
        match (self.answer)(context.seen) {
            Err(Some(error)) => self.condition.is_unknown(error.class.reason(), error.to_string()),
            Err(None) if !context.is_deleted => is_false(self.waiting, "the VPC is not known yet".to_owned()),
            _ if context.is_deleted => is_false(Reason::Deleting, "deleted".to_owned()),
            _ => ConditionUpdate {
                // Nothing waits for tags.
                message: failure_of(&of_tags).unwrap_or_default(),
                ..self.condition.is_true(Reason::Ready)
            },
        }
    }
}

/// The first failure to change tags.
fn failure_of(tagging: &[&StepResult]) -> Option<String> {
    let mut failures = tagging.iter();
    failures.find_map(|result| Some(format!("{}: {}", result.target, result.failure.as_ref()?.message)))
}

/// The reason while a resource waits for one of this kind.
fn waiting_for(kind: Kind) -> Reason {
    match kind {
        Kind::Vpc | Kind::VpcAttributes | Kind::SecondaryCidrBlock => Reason::WaitingForVpc,
        Kind::Subnet | Kind::SubnetAttributes => Reason::WaitingForSubnets,
        Kind::NatGateway => Reason::WaitingForNatGateways,
        Kind::InternetGateway
        | Kind::InternetGatewayAttachment
        | Kind::ElasticIp
        | Kind::RouteTable
        | Kind::Route
        | Kind::RouteTableAssociation
        | Kind::SecurityGroup
        | Kind::SecurityGroupRules
        | Kind::DefaultSecurityGroupRules
        | Kind::LoadBalancer
        | Kind::LoadBalancerAddress
        | Kind::LoadBalancerAttributes
        | Kind::TargetGroup
        | Kind::TargetGroupAttributes
        | Kind::Listener
        | Kind::ClassicLoadBalancer
        | Kind::ClassicLoadBalancerAttributes => Reason::Creating,
    }
}
