//! What the provider would do next for a managed cluster, for people and for programs. Nothing is changed.

use std::fmt;

use async_trait::async_trait;
use capa_api::cluster::AWSCluster;
use capa_api::conditions::{ConditionType, ConditionUpdate, Reason};
use capa_api::contract::Cluster;
use capa_cloud::managed::{ManagedLook, Observed, Scope};
use capa_cloud::{CloudError, Timing};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::check::{Stopped, check_alone, unanswered};
use super::later;
use super::look::{Looked, Subject};
use super::plan::{Step, Why};
use super::planner::Planner;
use super::planners;
use super::reference::Ref;

/// Parameters of calls that tell a reader nothing.
const LEFT_OUT: [&str; 2] = ["clientToken", "tags"];

/// Something that the last line of the text counts.
type Counted = (&'static str, fn(&What) -> bool);

const COUNTED: [Counted; 5] = [
    ("to create", |what| matches!(what, What::Create(_))),
    ("to change", |what| matches!(what, What::Change { .. })),
    ("to delete", |what| matches!(what, What::Delete(_))),
    ("waiting", |what| matches!(what, What::Wait { .. })),
    ("with a problem", |what| matches!(what, What::Problem { .. })),
];

/// What AWS has answered to the questions of a preview: another preview needs AWS no more.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PlanFacts {
    /// The account of the credentials.
    pub account_id: String,
    /// The availability zones of the region.
    pub zones: Vec<String>,
    /// The resources.
    pub observed: Observed,
}

/// What the provider would do next for a managed AWSCluster. Displayed, it is a text for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Preview {
    /// Name of the Cluster.
    pub cluster: String,
    /// Region of the resources.
    pub region: String,
    /// Account of the resources.
    pub account_id: String,
    /// What there is to say, by the condition that says it of the AWSCluster.
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
    /// Something happens by itself.
    Wait {
        /// The reason of the condition.
        reason: String,
        /// What is waited for.
        message: String,
    },
    /// A person has to change something.
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
    /// The parameters, with the names of what does not exist yet in place of ids.
    pub parameters: Map<String, Value>,
    /// What has to be done before; absent for a call that is made at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<String>,
}

/// Looks at AWS, and says what the provider would do for an AWSCluster. The credentials need the permissions to describe
/// only.
///
/// # Errors
/// Why the provider would not look at AWS, in words for people.
pub async fn preview(
    cluster: &AWSCluster,
    owner: &Cluster,
    cloud: &dyn ManagedLook,
    now: Timestamp,
) -> Result<(Preview, PlanFacts), String> {
    let in_words = |(updates, _): Stopped| {
        let messages: Vec<String> = updates.iter().map(ConditionUpdate::in_words).collect();
        messages.join("; ")
    };
    let checked = check_alone(cluster, owner, cloud).await.map_err(in_words)?;
    let subject = Subject {
        cluster,
        checked: &checked,
        cloud,
    };
    let recorded = subject.recorded(Timing::default().unseen_age, now);
    let looked = subject.look(recorded, None).await;
    let looked = looked.map_err(|error| in_words(unanswered(ConditionType::IdentityReady, &error)))?;
    let mut sections = sections(&looked);
    if let Some(message) = later::made_later(&cluster.spec) {
        let what = What::Problem {
            reason: Reason::NotManagedYet.to_string(),
            message,
        };
        let target = "load balancer of the API server".to_owned();
        add(&mut sections, ConditionType::Ready, vec![Entry { target, what }]);
    }
    let preview = Preview {
        cluster: checked.name.clone(),
        region: checked.region.clone(),
        account_id: checked.account_id.clone(),
        sections,
    };
    let facts = PlanFacts {
        account_id: checked.account_id,
        zones: checked.zones,
        observed: looked.seen,
    };
    Ok((preview, facts))
}

fn sections(looked: &Looked) -> Vec<Section> {
    let mut sections = vec![];
    for planner in planners::of(&looked.inputs) {
        add(&mut sections, planner.condition, entries(planner, looked));
    }
    sections
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

/// What a planner has to say.
fn entries(planner: &Planner, looked: &Looked) -> Vec<Entry> {
    let plan = &looked.plan;
    let is_own = |target: &Ref| planner.kinds.contains(&target.kind);
    let problems = plan.problems.iter().map(|problem| {
        let what = What::Problem {
            reason: problem.reason.to_string(),
            message: problem.message.clone(),
        };
        (&problem.target, what)
    });
    let waits = plan.waits.iter().map(|wait| {
        let what = What::Wait {
            reason: wait.reason.to_string(),
            message: wait.message.clone(),
        };
        (&wait.target, what)
    });
    let steps = plan.steps.iter().map(|step| {
        let waits_for = plan.held_up_by(step).map(ToString::to_string);
        (&step.target, of_step(step, waits_for))
    });
    let own = problems.chain(waits).chain(steps).filter(|(target, _)| is_own(target));
    let own = own.map(|(target, what)| Entry {
        target: target.to_string(),
        what,
    });
    own.chain(unseen(planner, looked)).collect()
}

/// What AWS did not show, so that nothing is planned for it.
fn unseen(planner: &Planner, looked: &Looked) -> Option<Entry> {
    let error = (planner.look)(&looked.seen).err().flatten()?;
    let what = What::Problem {
        reason: error.class.reason().to_string(),
        message: error.to_string(),
    };
    let kind = planner.kinds.first()?;
    Some(Entry {
        target: kind.in_words().to_owned(),
        what,
    })
}

fn of_step(step: &Step, waits_for: Option<String>) -> What {
    let call = PlannedCall {
        action: step.call.action(),
        parameters: parameters(step),
        waits_for,
    };
    match &step.why {
        Why::Missing => What::Create(call),
        Why::Unwanted => What::Delete(call),
        Why::Differs { field, is, wanted } => What::Change {
            call,
            field,
            before: is.clone(),
            after: wanted.clone(),
        },
    }
}

/// The parameters of a call, by the names that AWS has for them.
fn parameters(step: &Step) -> Map<String, Value> {
    let call = serde_json::to_value(&step.call).unwrap_or_default();
    let parameters = call.get(step.call.action()).and_then(Value::as_object).cloned();
    let parameters = parameters.unwrap_or_default().into_iter();
    parameters
        .filter(|(name, _)| !LEFT_OUT.contains(&name.as_str()))
        .collect()
}

impl Preview {
    /// Whether the provider would make a call, now or later.
    pub fn has_changes(&self) -> bool {
        self.count(|what| what.call().is_some()) > 0
    }

    /// Whether a person has to change something.
    pub fn has_problems(&self) -> bool {
        self.count(|what| matches!(what, What::Problem { .. })) > 0
    }

    fn count(&self, is: fn(&What) -> bool) -> usize {
        let entries = self.sections.iter().flat_map(|section| &section.entries);
        entries.filter(|entry| is(&entry.what)).count()
    }
}

/// AWS as it was.
#[async_trait]
impl ManagedLook for PlanFacts {
    async fn account_id(&self) -> Result<String, CloudError> {
        Ok(self.account_id.clone())
    }

    async fn zones(&self) -> Result<Vec<String>, CloudError> {
        Ok(self.zones.clone())
    }

    async fn observe(&self, _: &Scope) -> Result<Observed, CloudError> {
        Ok(self.observed.clone())
    }

    async fn resolves(&self, _: &str) -> bool {
        false
    }
}

impl What {
    fn call(&self) -> Option<&PlannedCall> {
        match self {
            Self::Create(call) | Self::Delete(call) | Self::Change { call, .. } => Some(call),
            Self::Wait { .. } | Self::Problem { .. } => None,
        }
    }
}

impl fmt::Display for Preview {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            cluster,
            region,
            account_id,
            sections,
        } = self;
        writeln!(formatter, "Cluster {cluster} in {region}, account {account_id}")?;
        for section in sections {
            writeln!(formatter, "\n{}", section.condition)?;
            for entry in &section.entries {
                writeln!(formatter, "  {entry}")?;
            }
        }
        writeln!(formatter)?;
        if sections.is_empty() {
            return writeln!(formatter, "No changes: AWS is as the spec asks.");
        }
        let counts = COUNTED.map(|(what, is)| format!("{} {what}", self.count(is)));
        writeln!(formatter, "{}.", counts.join(", "))?;
        if self.count(|what| matches!(what, What::Create(_))) > 0 {
            writeln!(
                formatter,
                "Routes, rules and attributes of new resources are planned once the resources exist."
            )?;
        }
        Ok(())
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let target = &self.target;
        match &self.what {
            What::Create(call) => write!(formatter, "+ {target}: {call}"),
            What::Delete(call) => write!(formatter, "- {target}: {call}"),
            What::Change {
                call,
                field,
                before,
                after,
            } => {
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
            Some(open) => write!(formatter, " (after {open})"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for PlannedCall {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.action)?;
        for (position, (name, value)) in self.parameters.iter().enumerate() {
            let sign = if position == 0 { " " } else { ", " };
            match value {
                Value::String(text) => write!(formatter, "{sign}{name}: {text}")?,
                other => write!(formatter, "{sign}{name}: {other}")?,
            }
        }
        self.wait(formatter)
    }
}
