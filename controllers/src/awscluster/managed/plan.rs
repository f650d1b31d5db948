//! The plan of one pass: the calls that bring AWS closer to the spec, and what they wait for. Pure.
//!
//! A reference is *open* while the plan has a step, a wait or a problem for it. A step is ready once none of the
//! references that it needs is open: a created resource is used in a later pass, when an observation shows it. So all
//! ready steps of a plan are independent of each other, and an error delays only the steps that depend on it.

use capa_api::conditions::Reason;
use capa_cloud::managed::{Call, Effect, Observed, Repeat, Seen};

use super::inputs::Inputs;
use super::ledger::{Ledger, Presence};
use super::problem::Problem;
use super::reference::{Id, Kind, Ref};

/// Why a step is taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// The resource does not exist.
    Missing,
    /// A value differs from the wanted one.
    Differs {
        /// AWS's name of the value.
        field: &'static str,
        /// The value that AWS shows.
        is: String,
        /// The wanted value.
        wanted: String,
    },
    /// The spec does not ask for the resource.
    Unwanted,
}

/// One call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    /// What the call is about.
    pub(crate) target: Ref,
    /// The call.
    pub(crate) call: Call<Id>,
    /// The references that must be done before, in addition to the resources whose ids the call has.
    pub(crate) after: Vec<Ref>,
    /// The reason.
    pub(crate) why: Why,
}

/// A change that AWS completes without a further call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wait {
    /// The resource that the plan waits for.
    pub(crate) target: Ref,
    /// The reason of the condition.
    pub(crate) reason: Reason,
    /// The message of the condition.
    pub(crate) message: String,
}

/// The plan of one pass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    /// The calls to make.
    pub(crate) steps: Vec<Step>,
    /// The changes that the plan waits for.
    pub(crate) waits: Vec<Wait>,
    /// The problems that a user must fix.
    pub(crate) problems: Vec<Problem>,
}

/// A wanted resource of which it is certain whether it exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted<'a> {
    /// The resource does not exist.
    Missing,
    /// AWS shows the resource under this id.
    Shown(&'a str),
}

/// The inputs of a plan.
pub(crate) struct PlanContext<'a> {
    /// What the spec asks for.
    pub(crate) inputs: &'a Inputs,
    /// What the observation shows.
    pub(crate) seen: &'a Observed,
    /// The ledger, compared with the observation.
    pub(crate) ledger: &'a Ledger,
    /// Whether the cluster is deleted, so that nothing is wanted.
    pub(crate) is_deleted: bool,
}

impl PlanContext<'_> {
    /// The state of a resource.
    pub(crate) fn presence(&self, target: &Ref) -> Presence<'_> {
        self.ledger.presence(target)
    }

    /// Whether AWS did not show resources of the VPC that may exist. Without a VPC, no resource exists.
    pub(crate) fn is_unseen<T>(&self, seen: &Seen<T>) -> bool {
        seen.shown().is_none() && self.ledger.id(&self.inputs.vpc.target).is_some()
    }

    /// The client token of the call that creates a resource: that of a call without an answer, or else a new one.
    pub(crate) fn client_token(&self, target: &Ref) -> String {
        let known = self.ledger.client_token(target).map(str::to_owned);
        let vpc = self.ledger.id(&self.inputs.vpc.target).unwrap_or_default();
        known.unwrap_or_else(|| self.ledger.new_client_token(target, vpc))
    }

    /// Whether the spec has a problem with a resource. An existing resource stays unchanged until the spec is
    /// corrected.
    pub(crate) fn is_wrong(&self, target: &Ref) -> bool {
        let mut problems = self.inputs.problems.iter();
        problems.any(|problem| problem.target == *target)
    }

    /// The references that precede the first calls in a VPC of the user, so that a spec with any problem creates
    /// nothing. In a VPC that the provider creates, everything follows the VPC.
    pub(crate) fn checked(&self) -> Vec<Ref> {
        if self.inputs.has_begun || self.inputs.vpc.brought.is_none() {
            return vec![];
        }
        let problems = self.inputs.problems.iter().map(|problem| problem.target.clone());
        let vpc = &self.inputs.vpc.target;
        problems.chain([vpc.clone(), vpc.part(Kind::Subnet)]).collect()
    }

    /// All recorded resources of these kinds.
    pub(crate) fn recorded(&self, kinds: &[Kind]) -> Vec<Ref> {
        let recorded = kinds.iter().flat_map(|kind| self.ledger.of_kind(*kind));
        recorded.cloned().collect()
    }

    /// Whether a wanted resource exists. The plan gets a wait for a resource that AWS may not show yet, and a problem
    /// for one that is not proven to belong to the cluster.
    pub(crate) fn wanted(&self, target: &Ref, plan: &mut Plan) -> Option<Wanted<'_>> {
        match self.presence(target) {
            Presence::Absent | Presence::Vanished(_) => Some(Wanted::Missing),
            Presence::Open | Presence::Hidden(_) => {
                plan.wait(target, Reason::Creating, "AWS does not show it yet");
                None
            }
            Presence::Foreign(id) => {
                plan.problem(target, Reason::NotOwned, self.inputs.names.lacks_tag(id));
                None
            }
            Presence::Shown(id) => Some(Wanted::Shown(id)),
        }
    }

    /// The id of a resource that can be deleted. Resources of the user never can. The plan gets a wait for a resource
    /// that may exist, and a problem for one that is not proven to belong to the cluster.
    pub(crate) fn deletable(&self, target: &Ref, plan: &mut Plan) -> Option<&str> {
        match self.presence(target) {
            _ if self.ledger.is_shared(target) => None,
            Presence::Absent | Presence::Vanished(_) => None,
            Presence::Open | Presence::Hidden(_) => {
                let what = target.kind.name();
                let message = format!("AWS may not show the {what} yet that it was asked to create");
                plan.wait(target, Reason::Deleting, message);
                None
            }
            Presence::Foreign(id) => {
                plan.problem(target, Reason::NotOwned, self.inputs.names.lacks_tag(id));
                None
            }
            Presence::Shown(id) => Some(id),
        }
    }
}

impl Plan {
    /// Adds a call.
    pub(crate) fn step(&mut self, target: &Ref, why: Why, call: impl Into<Call<Id>>) {
        self.step_after(target, why, call, []);
    }

    /// Adds a call that follows other steps.
    pub(crate) fn step_after(
        &mut self,
        target: &Ref,
        why: Why,
        call: impl Into<Call<Id>>,
        after: impl IntoIterator<Item = Ref>,
    ) {
        self.steps.push(Step { target: target.clone(), call: call.into(), after: after.into_iter().collect(), why });
    }

    /// Adds something to wait for.
    pub(crate) fn wait(&mut self, target: &Ref, reason: Reason, message: impl Into<String>) {
        self.waits.push(Wait { target: target.clone(), reason, message: message.into() });
    }

    /// Adds a problem.
    pub(crate) fn problem(&mut self, target: &Ref, reason: Reason, message: impl Into<String>) {
        self.problems.push(Problem { target: target.clone(), reason, message: message.into() });
    }

    /// Whether AWS matches the spec, and nothing is under way.
    pub(crate) fn is_empty(&self) -> bool {
        self.steps.is_empty() && self.waits.is_empty() && self.problems.is_empty()
    }

    /// A reference that delays a step. `None` if the step can be taken now.
    pub(crate) fn held_up_by(&self, step: &Step) -> Option<&Ref> {
        self.all_that_hold_up(step).next()
    }

    /// All references that delay a step.
    pub(crate) fn all_that_hold_up(&self, step: &Step) -> impl Iterator<Item = &Ref> {
        let mut problems = self.problems.iter();
        let own = problems.find(|problem| problem.target == step.target);
        let mut needed: Vec<Ref> = step.after.iter().cloned().chain(step.references()).collect();
        needed.retain(|reference| *reference != step.target);
        let others = self.open().filter(move |open| needed.contains(open));
        own.map(|problem| &problem.target).into_iter().chain(others)
    }

    /// The references that do not match the spec yet.
    fn open(&self) -> impl Iterator<Item = &Ref> {
        let steps = self.steps.iter().map(|step| &step.target);
        let waits = self.waits.iter().map(|wait| &wait.target);
        let problems = self.problems.iter().map(|problem| &problem.target);
        steps.chain(waits).chain(problems)
    }
}

impl Step {
    /// The resources whose ids the call has.
    pub(crate) fn references(&self) -> Vec<Ref> {
        let mut references = vec![];
        // The mapping itself cannot fail.
        let _: Result<Call<()>, ()> = self.call.try_map(&mut |id| {
            if let Id::Of(reference) = id {
                references.push(reference.clone());
            }
            Ok(())
        });
        references
    }

    /// The client token of the call.
    pub(crate) fn client_token(&self) -> Option<&str> {
        match self.call.repeat() {
            Repeat::Token(token) => Some(token),
            Repeat::CreatesSecond | Repeat::Idempotent => None,
        }
    }

    /// Whether the ledger has to know of the call before it is made.
    pub(crate) fn creates(&self) -> bool {
        self.call.effect() == Effect::Create
    }

    /// Whether the call may write tags of the spec.
    pub(crate) fn writes_tags(&self) -> bool {
        self.creates() || self.target.is_of_tags()
    }
}
