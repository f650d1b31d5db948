//! The preview of the provider's next actions for a managed cluster, for users and programs. Pure.

use std::convert::Infallible;
use std::fmt;

use capa_api::cluster::AWSClusterSpec;
use capa_api::conditions::{ConditionType, Reason};
use capa_cloud::CloudError;
use capa_cloud::managed::Call;
use serde::Serialize;
use serde_json::{Map, Value};

use super::later;
use super::ledger::Ledger;
use super::plan::{Plan, PlanContext, Step, Why};
use super::planner::Planner;
use super::planners;
use super::reference::{Id, Ref};

/// The parameter whose value differs in each call.
const CLIENT_TOKEN: &str = "clientToken";
/// The parameter that is too long for a line.
const TAGS: &str = "tags";

/// A kind of entry that the last line of the text counts.
type Counted = (&'static str, fn(&What) -> bool);

const COUNTED: [Counted; 5] = [
    ("to create", |what| matches!(what, What::Create(_))),
    ("to change", |what| matches!(what, What::Change { .. })),
    ("to delete", |what| matches!(what, What::Delete(_))),
    ("waiting", |what| matches!(what, What::Wait { .. })),
    ("with a problem", |what| matches!(what, What::Problem { .. })),
];

/// The provider's next actions for a managed AWSCluster. `Display` writes a text for users.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Preview {
    /// Name of the Cluster.
    pub cluster: String,
    /// Region of the resources.
    pub region: String,
    /// Account of the resources.
    #[serde(rename = "accountID")]
    pub account_id: String,
    /// Whether the AWSCluster is being deleted.
    pub is_deleted: bool,
    /// The limits of the preview, and the reasons why the provider does nothing.
    pub notes: Vec<String>,
    /// The entries, grouped by the condition of the AWSCluster that reports them.
    pub sections: Vec<Section>,
}

/// The entries about one kind of resource with its parts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Section {
    /// The condition of the AWSCluster, for example `SubnetsReady`.
    pub condition: String,
    /// The entries, in the order of the plan.
    pub entries: Vec<Entry>,
}

/// Something that is not as the spec asks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// What it is about, for example `VPC dev-vpc`.
    pub target: String,
    /// What happens.
    #[serde(flatten)]
    pub what: What,
}

/// What happens to a resource, or to a part of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum What {
    /// It is created.
    Create(PlannedCall),
    /// A value is changed.
    Change {
        /// The call.
        #[serde(flatten)]
        call: PlannedCall,
        /// AWS's name of the value.
        field: &'static str,
        /// The value now.
        before: String,
        /// The value that the spec asks for.
        after: String,
    },
    /// It is deleted.
    Delete(PlannedCall),
    /// AWS completes a change without a further call.
    Wait {
        /// The reason of the condition.
        reason: String,
        /// What is waited for.
        message: String,
    },
    /// A user has to change something.
    Problem {
        /// The reason of the condition.
        reason: String,
        /// What is wrong, and what to do.
        message: String,
    },
}

/// A call of the API of AWS.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PlannedCall {
    /// The action, for example `CreateVpc`.
    pub action: &'static str,
    /// The parameters. For resources that do not exist yet, names replace the ids. Client tokens are left out.
    pub parameters: Map<String, Value>,
    /// The resource that must be done before; absent for a call that is made immediately.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<String>,
    /// Whether a problem must be fixed before.
    pub is_blocked: bool,
}

/// Adds entries to the section of their condition.
fn add(sections: &mut Vec<Section>, condition: ConditionType, entries: Vec<Entry>) {
    let condition = condition.to_string();
    match sections.iter_mut().find(|section| section.condition == condition) {
        Some(section) => section.entries.extend(entries),
        None if entries.is_empty() => {}
        None => sections.push(Section { condition, entries }),
    }
}

/// The entries of a planner.
fn entries(planner: &Planner, context: &PlanContext<'_>, plan: &Plan) -> Vec<Entry> {
    let is_own = |target: &Ref| planner.kinds.contains(&target.kind);
    let entry = |target: &Ref, what| Entry { target: target.to_string(), what };
    let problems = plan.problems.iter().filter(|problem| is_own(&problem.target));
    let problems = problems.map(|problem| {
        let what = What::Problem { reason: problem.reason.to_string(), message: problem.message.clone() };
        entry(&problem.target, what)
    });
    let waits = plan.waits.iter().filter(|wait| is_own(&wait.target)).map(|wait| {
        let what = What::Wait { reason: wait.reason.to_string(), message: wait.message.clone() };
        entry(&wait.target, what)
    });
    let steps = plan.steps.iter().filter(|step| is_own(&step.target));
    let steps = steps.map(|step| entry(&step.target, of_step(step, context.ledger, plan)));
    problems.chain(waits).chain(steps).collect()
}

/// The entry for a resource that AWS did not show, so that nothing is planned for it.
fn unshown(error: &CloudError) -> Entry {
    Entry {
        target: "what AWS did not show".to_owned(),
        what: What::Problem { reason: error.class.reason().to_string(), message: error.to_string() },
    }
}

fn of_step(step: &Step, ledger: &Ledger, plan: &Plan) -> What {
    let blocked_by = plan.all_that_hold_up(step).find(|open| is_blocked(open, plan, &[]));
    let held_up_by = blocked_by.or_else(|| plan.held_up_by(step)).cloned();
    let held_up_by = held_up_by.or_else(|| unresolved(step, ledger));
    let call = PlannedCall {
        action: step.call.action(),
        parameters: parameters(step, ledger),
        waits_for: held_up_by.map(|open| open.to_string()),
        is_blocked: blocked_by.is_some(),
    };
    match &step.why {
        Why::Missing => What::Create(call),
        Why::Unwanted => What::Delete(call),
        Why::Differs { field, is, wanted } => What::Change { call, field, before: is.clone(), after: wanted.clone() },
    }
}

/// A resource without an id that a step needs.
fn unresolved(step: &Step, ledger: &Ledger) -> Option<Ref> {
    let mut references = step.references().into_iter();
    references.rfind(|reference| ledger.id(reference).is_none())
}

/// Whether a problem delays a step, directly or through other references that delay it. `before` contains the
/// references already visited.
fn is_blocked(open: &Ref, plan: &Plan, before: &[&Ref]) -> bool {
    if before.contains(&open) {
        return false;
    }
    let before = [before, &[open]].concat();
    let has_problem = plan.problems.iter().any(|problem| problem.target == *open);
    let mut steps = plan.steps.iter().filter(|step| step.target == *open);
    has_problem || steps.any(|step| plan.all_that_hold_up(step).any(|next| is_blocked(next, plan, &before)))
}

fn parameters(step: &Step, ledger: &Ledger) -> Map<String, Value> {
    let shown = |id: &Id| ledger.resolve(id).map_or_else(|| id.to_string(), str::to_owned);
    let call: Result<Call<String>, Infallible> = step.call.try_map(&mut |id| Ok(shown(id)));
    let Ok(call) = call;
    let value = serde_json::to_value(&call).unwrap_or_default();
    let parameters = value.get(call.action()).and_then(Value::as_object).cloned();
    let mut parameters = parameters.unwrap_or_default();
    parameters.remove(CLIENT_TOKEN);
    parameters
}

impl Preview {
    pub(super) fn of(
        spec: &AWSClusterSpec,
        region: &str,
        account_id: &str,
        context: &PlanContext<'_>,
        plan: &Plan,
    ) -> Self {
        let mut sections = vec![];
        for planner in planners::of(context.inputs) {
            add(&mut sections, planner.condition, entries(planner, context, plan));
        }
        let errors: Vec<Entry> = context.seen.errors().map(unshown).collect();
        add(&mut sections, ConditionType::Ready, errors);
        if let Some(message) = later::made_later(spec).filter(|_| !context.is_deleted) {
            let what = What::Problem { reason: Reason::NotManagedYet.to_string(), message };
            let target = "load balancer of the API server".to_owned();
            add(&mut sections, ConditionType::Ready, vec![Entry { target, what }]);
        }
        Self {
            cluster: context.inputs.names.cluster.clone(),
            region: region.to_owned(),
            account_id: account_id.to_owned(),
            is_deleted: context.is_deleted,
            notes: vec![],
            sections,
        }
    }

    /// How many entries of each kind there are.
    pub(super) fn summary(&self) -> String {
        COUNTED.map(|(what, is)| format!("{} {what}", self.count(is))).join(", ")
    }

    /// Whether the provider would make a call, now or later, before anybody changes anything, or waits for something.
    pub fn has_changes(&self) -> bool {
        let is_change = |what: &What| match what.call() {
            Some(call) => !call.is_blocked,
            None => matches!(what, What::Wait { .. }),
        };
        self.count(is_change) > 0
    }

    /// Whether a user has to change something.
    pub fn has_problems(&self) -> bool {
        self.count(|what| matches!(what, What::Problem { .. })) > 0
    }

    fn count(&self, is: fn(&What) -> bool) -> usize {
        let entries = self.sections.iter().flat_map(|section| &section.entries);
        entries.filter(|entry| is(&entry.what)).count()
    }
}

impl What {
    fn call(&self) -> Option<&PlannedCall> {
        match self {
            Self::Create(call) | Self::Delete(call) | Self::Change { call, .. } => Some(call),
            Self::Wait { .. } | Self::Problem { .. } => None,
        }
    }

    /// Whether the call creates a resource whose parts have their own calls. Such a call has tags.
    fn makes_a_resource(&self) -> bool {
        matches!(self, Self::Create(call) if call.parameters.contains_key(TAGS))
    }
}

impl fmt::Display for Preview {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cluster, region, account_id, is_deleted, notes, sections } = self;
        writeln!(formatter, "Cluster {cluster} in {region}, account {account_id}")?;
        for note in notes {
            writeln!(formatter, "Note: {note}.")?;
        }
        for section in sections {
            writeln!(formatter, "\n{}", section.condition)?;
            for entry in &section.entries {
                writeln!(formatter, "  {entry}")?;
            }
        }
        writeln!(formatter)?;
        if sections.is_empty() {
            let end = if *is_deleted { "Nothing is left to delete." } else { "No changes: AWS is as the spec asks." };
            return writeln!(formatter, "{end}");
        }
        writeln!(formatter, "{}.", self.summary())?;
        if self.count(What::makes_a_resource) == 0 {
            return Ok(());
        }
        let words = "Routes, rules and attributes of new resources are planned once the resources exist.";
        writeln!(formatter, "{words}")
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let target = &self.target;
        match &self.what {
            What::Create(call) => write!(formatter, "+ {target}: {call}"),
            What::Delete(call) => write!(formatter, "- {target}: {call}"),
            What::Change { call, field, before, after } => {
                write!(formatter, "~ {target}: {} {field}: {before} -> {after}", call.action)?;
                call.wait(formatter)
            }
            What::Wait { message, .. } => write!(formatter, ". {target}: {message}"),
            What::Problem { reason, message } => write!(formatter, "! {target}: {reason}: {message}"),
        }
    }
}

impl PlannedCall {
    fn wait(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.waits_for {
            Some(open) if self.is_blocked => write!(formatter, " (held up by {open})"),
            Some(open) => write!(formatter, " (after {open})"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for PlannedCall {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.action)?;
        let shown = self.parameters.iter().filter(|(name, _)| *name != TAGS);
        for (position, (name, value)) in shown.enumerate() {
            let sign = if position == 0 { " " } else { ", " };
            match value {
                Value::String(text) => write!(formatter, "{sign}{name}: {text}")?,
                other => write!(formatter, "{sign}{name}: {other}")?,
            }
        }
        self.wait(formatter)
    }
}
