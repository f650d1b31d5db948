//! Rules and their answers.

use capa_api::cluster::status::FindingSeverity;
use serde::Serialize;
use strum::{Display, EnumIter};

use crate::facts::{Answer, Facts};

/// A rule about infrastructure, or about the subject of other facts `F`. A rule is a pure function over the facts.
pub struct Rule<F: 'static = Facts> {
    /// Id: the letter of the category and a number, for example `G8`. An id is never used for another rule.
    pub id: &'static str,
    /// What the rule is about.
    pub category: Category,
    /// Severity of its findings, unless a finding has its own severity.
    pub severity: FindingSeverity,
    /// What must be true, as a sentence.
    pub title: &'static str,
    /// What breaks if the title is not true.
    pub breaks: &'static str,
    /// The facts that the findings in the documentation's examples come from.
    pub shown_by: ShownBy,
    /// Finds the problems that break the rule.
    pub check: fn(&F) -> Checked,
}

/// The subject of a group of rules, in the order of reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Display, EnumIter, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Category {
    /// Credentials, region and permissions.
    #[strum(serialize = "credentials and permissions")]
    Identity,
    /// The VPC.
    #[strum(serialize = "VPC")]
    Vpc,
    /// Subnets and their routes.
    #[strum(serialize = "subnets and routes")]
    Subnets,
    /// Ways out of the VPC, and to the API server.
    #[strum(serialize = "endpoints")]
    Endpoints,
    /// Security groups.
    #[strum(serialize = "security groups")]
    SecurityGroups,
    /// Load balancers and target groups.
    #[strum(serialize = "load balancers")]
    LoadBalancers,
    /// Images, instance types and other resources that machines name.
    #[strum(serialize = "machines")]
    Machines,
    /// Network sources in the management cluster.
    #[strum(serialize = "management cluster")]
    Kubernetes,
    /// The API server of a cluster.
    #[strum(serialize = "API server")]
    ApiServer,
    /// Requirements of Karmada for its members.
    #[strum(serialize = "member of a Karmada")]
    KarmadaMember,
    /// Requirements of Cluster API for a workload cluster.
    #[strum(serialize = "workload cluster")]
    WorkloadCluster,
}

impl Category {
    /// The first letter of the ids of the rules.
    pub const fn letter(self) -> char {
        match self {
            Self::Identity => 'I',
            Self::Vpc => 'V',
            Self::Subnets => 'S',
            Self::Endpoints => 'E',
            Self::SecurityGroups => 'G',
            Self::LoadBalancers => 'L',
            Self::Machines => 'M',
            Self::Kubernetes => 'K',
            Self::ApiServer => 'A',
            Self::KarmadaMember => 'P',
            Self::WorkloadCluster => 'W',
        }
    }
}

/// The facts with which tests show a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Display)]
pub enum ShownBy {
    /// The AWS API of moto.
    #[strum(serialize = "moto")]
    Moto,
    /// A real kube-apiserver.
    #[strum(serialize = "kube-apiserver")]
    ApiServer,
    /// Recorded facts, because no server in the tests has such an answer.
    #[strum(serialize = "recorded facts")]
    Recorded,
}

/// The answer of a rule: its problems, or why the rule was skipped.
pub type Checked = Result<Vec<Problem>, Skipped>;

/// Why a rule was skipped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Skipped {
    /// The demand contains nothing that the rule is about.
    NotApplicable,
    /// A fact is missing, because a call failed or was not made. The text names it.
    Unknown(String),
}

/// A problem that breaks a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Id or name of the object.
    pub object: String,
    /// What is wrong. The text does not change while the problem persists.
    pub message: String,
    /// What the user has to do.
    pub fix: String,
    /// The AWS CLI command that applies the fix, if there is one.
    pub command: Option<String>,
    /// Severity, if it differs from the rule's.
    pub severity: Option<FindingSeverity>,
}

impl Problem {
    /// A problem of `object`.
    pub fn new(object: impl Into<String>, message: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { object: object.into(), message: message.into(), fix: fix.into(), command: None, severity: None }
    }

    /// The same problem with the command that fixes it.
    #[must_use]
    pub fn fixed_by(self, command: impl Into<String>) -> Self {
        let command = Some(command.into());
        Self { command, ..self }
    }

    /// The same problem with this severity.
    #[must_use]
    pub fn with_severity(self, severity: FindingSeverity) -> Self {
        let severity = Some(severity);
        Self { severity, ..self }
    }
}

/// The value of an answer, or the reason to skip the rule.
pub(crate) fn known<'a, T>(answer: &'a Answer<T>, what: &str) -> Result<&'a T, Skipped> {
    match answer {
        Answer::Found(value) => Ok(value),
        Answer::Failed(failure) => Err(Skipped::Unknown(format!(
            "{what} could not be looked up: {} failed: {}",
            failure.call, failure.message
        ))),
        Answer::NotAsked => Err(Skipped::Unknown(format!("{what} could not be looked up"))),
    }
}

/// Skips the rule if it does not apply.
pub(crate) const fn applies(applies: bool) -> Result<(), Skipped> {
    if applies { Ok(()) } else { Err(Skipped::NotApplicable) }
}

/// The problems of several objects. An unknown fact about one object does not hide the problem of another.
pub(crate) fn of_each(objects: impl IntoIterator<Item = Result<Option<Problem>, Skipped>>) -> Checked {
    let mut problems = Vec::new();
    let mut unknown = None;
    for object in objects {
        match object {
            Ok(problem) => problems.extend(problem),
            Err(skipped) => unknown = unknown.or(Some(skipped)),
        }
    }
    match unknown {
        Some(skipped) if problems.is_empty() => Err(skipped),
        _ => Ok(problems),
    }
}
