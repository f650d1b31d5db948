//! The answers of rules about facts.

use std::collections::BTreeSet;

use capa_api::cluster::status::FindingSeverity;
use serde::Serialize;

use crate::facts::Facts;
use crate::rule::{Category, Problem, Rule, Skipped};
use crate::rules::rules;

/// Selects the rules that run.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// Ids of the only rules that run, or letters of categories; empty: all.
    pub only: BTreeSet<String>,
    /// Ids of rules that do not run, or letters of categories.
    pub skip: BTreeSet<String>,
}

impl Selection {
    fn includes<F>(&self, rule: &Rule<F>) -> bool {
        let named = |names: &BTreeSet<String>| {
            names.contains(rule.id) || names.contains(rule.category.letter().to_string().as_str())
        };
        (self.only.is_empty() || named(&self.only)) && !named(&self.skip)
    }
}

/// The answers of all rules that ran.
pub struct Report<F: 'static = Facts> {
    /// In the order of the rules.
    pub answers: Vec<RuleAnswer<F>>,
}

/// The answer of a rule.
pub struct RuleAnswer<F: 'static = Facts> {
    /// The rule.
    pub rule: &'static Rule<F>,
    /// The outcome of the rule.
    pub outcome: Outcome,
}

/// The outcome of a rule for given facts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing breaks the rule.
    Passed,
    /// The demand contains nothing that the rule is about.
    NotApplicable,
    /// A fact is missing. The text names it.
    Unknown(String),
    /// Something breaks the rule.
    Failed(Vec<Finding>),
}

/// Something that breaks a rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// Id of the rule.
    pub rule: &'static str,
    /// `Blocking`: machines will not become nodes. `Warning`: a weakness.
    pub severity: FindingSeverity,
    /// What must be true.
    pub title: &'static str,
    /// What breaks.
    pub breaks: &'static str,
    /// Id or name of the object.
    pub object: String,
    /// What is wrong.
    pub message: String,
    /// What the user has to do.
    pub fix: String,
    /// The command of the AWS CLI or kubectl that applies the fix or shows the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
}

/// Applies the selected rules about infrastructure to facts.
pub fn check(facts: &Facts, selection: &Selection) -> Report {
    apply(rules(), facts, selection)
}

/// Applies those of these rules that are selected to facts.
pub fn apply<F>(rules: impl IntoIterator<Item = &'static Rule<F>>, facts: &F, selection: &Selection) -> Report<F> {
    let selected = rules.into_iter().filter(|rule| selection.includes(rule));
    let answers = selected.map(|rule| RuleAnswer { rule, outcome: outcome(rule, facts) });
    Report { answers: answers.collect() }
}

fn outcome<F>(rule: &'static Rule<F>, facts: &F) -> Outcome {
    let problems = match (rule.check)(facts) {
        Err(Skipped::NotApplicable) => return Outcome::NotApplicable,
        Err(Skipped::Unknown(missing)) => return Outcome::Unknown(missing),
        Ok(problems) if problems.is_empty() => return Outcome::Passed,
        Ok(problems) => joined(problems),
    };
    let findings = problems.into_iter().map(|problem| Finding {
        rule: rule.id,
        severity: problem.severity.unwrap_or(rule.severity),
        title: rule.title,
        breaks: rule.breaks,
        object: problem.object,
        message: problem.message,
        fix: problem.fix,
        command: problem.command,
    });
    Outcome::Failed(findings.collect())
}

/// The problems, with those of one object joined, because a rule and an object identify a finding.
fn joined(problems: Vec<Problem>) -> Vec<Problem> {
    let mut joined: Vec<Problem> = Vec::new();
    for problem in problems {
        let Some(earlier) = joined.iter_mut().find(|earlier| earlier.object == problem.object) else {
            joined.push(problem);
            continue;
        };
        for (text, more) in [(&mut earlier.message, &problem.message), (&mut earlier.fix, &problem.fix)] {
            if !text.contains(more.as_str()) {
                text.push_str("; ");
                text.push_str(more);
            }
        }
        // A problem without its own severity has the severity of the rule.
        earlier.severity = earlier.severity.zip(problem.severity).map(|(one, other)| one.min(other));
    }
    joined
}

impl<F> Report<F> {
    /// All findings, in the order of the rules.
    pub fn findings(&self) -> impl Iterator<Item = &Finding> {
        self.answers.iter().flat_map(|answer| match &answer.outcome {
            Outcome::Failed(findings) => findings.as_slice(),
            _ => &[],
        })
    }

    /// The answers of the rules that something breaks.
    pub fn broken(&self) -> impl Iterator<Item = &RuleAnswer<F>> {
        self.answers.iter().filter(|answer| matches!(answer.outcome, Outcome::Failed(_)))
    }

    /// Whether a finding is blocking.
    pub fn is_blocked(&self) -> bool {
        self.findings().any(|finding| finding.severity == FindingSeverity::Blocking)
    }

    /// The rules whose facts are missing, with what is missing.
    pub fn unknown(&self) -> impl Iterator<Item = (&'static Rule<F>, &str)> {
        self.answers.iter().filter_map(|answer| match &answer.outcome {
            Outcome::Unknown(missing) => Some((answer.rule, missing.as_str())),
            _ => None,
        })
    }

    /// Whether facts for a blocking rule are missing, so that the absence of findings says nothing.
    pub fn is_incomplete(&self) -> bool {
        self.unknown().any(|(rule, _)| rule.severity == FindingSeverity::Blocking)
    }

    /// The answers about a category.
    pub fn of_category(&self, category: Category) -> impl Iterator<Item = &RuleAnswer<F>> {
        self.answers.iter().filter(move |answer| answer.rule.category == category)
    }
}
