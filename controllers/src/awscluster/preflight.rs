//! The checks of the infrastructure that the user brings: when they run, and what the status says of them.

use std::time::Duration;

use capa_api::cluster::AWSCluster;
use capa_api::cluster::discovery::discovery_request;
use capa_api::cluster::preflight::PreflightMode;
use capa_api::cluster::status::{AWSClusterStatus, FindingSeverity, PreflightFinding, PreflightStatus};
use capa_api::conditions::{ConditionType, ConditionUpdate, Reason};
use capa_api::contract::Cluster;
use capa_api::network::MachineNetwork;
use capa_preflight::facts::Facts;
use capa_preflight::{Report, Selection, check};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::facts::{self, NetworkLookup};
use super::read::identity_request;
use super::{ClusterContext, demand};
use crate::identity;

/// The time after which checks are repeated that had findings, or that AWS did not answer.
const RETRY: Duration = Duration::from_hours(1);
/// The time after which other checks are repeated.
const REPEAT: Duration = Duration::from_hours(24);
/// The most findings of the status.
const MOST_FINDINGS: usize = 200;

/// The result of the checks for the status: of a new check if one is due, or else the last one.
pub(super) async fn checked(
    cluster: &AWSCluster,
    owner: &Cluster,
    facts: &facts::Facts,
    network: &MachineNetwork,
    context: &ClusterContext,
) -> Option<PreflightStatus> {
    let status = cluster.status.as_ref();
    let last = status.and_then(|status| status.preflight.clone());
    if cluster.spec.effective_preflight_mode() == PreflightMode::Disabled {
        return None;
    }
    let is_known = matches!(facts.lookup, NetworkLookup::Found(_) | NetworkLookup::Recorded(..));
    let now = context.kubernetes.now();
    if facts.identity.is_err() || !is_known || !is_due(cluster, network, now) {
        return last;
    }
    let reference = cluster.spec.effective_identity_ref();
    let request = identity_request(cluster, owner, &reference, context);
    // Whatever makes the identity unusable is already in IdentityReady by the time of the next reconcile.
    let Ok(identity) = identity::resolve(context.kubernetes.as_ref(), &request).await else {
        return last;
    };
    let demand = demand(cluster, owner, network, vec![]);
    let source = (context.facts)(&identity, &demand.region);
    let facts = source.facts(&demand).await;
    Some(result(cluster, &facts, now))
}

/// Whether the checks are to run: after a change of the spec or of the published network, on request, and from time to
/// time.
fn is_due(cluster: &AWSCluster, network: &MachineNetwork, now: Timestamp) -> bool {
    let Some(status) = &cluster.status else {
        return true;
    };
    let Some(last) = &status.preflight else {
        return true;
    };
    let requested = discovery_request(&cluster.metadata);
    let is_answered = requested.is_none() || requested.as_deref() == Some(last.observed_request.as_str());
    if last.observed_generation != cluster.metadata.generation || !is_answered {
        return true;
    }
    if status.network.as_ref() != Some(network) {
        return true;
    }
    let Some(checked_at) = &last.checked_at else {
        return true;
    };
    let is_complete = last.findings.is_empty() && last.unchecked_rules.is_empty();
    // The clock of another process may be behind.
    let age = Duration::try_from(now.duration_since(checked_at.0)).unwrap_or_default();
    age >= if is_complete { REPEAT } else { RETRY }
}

fn result(cluster: &AWSCluster, facts: &Facts, now: Timestamp) -> PreflightStatus {
    let skipped = cluster
        .spec
        .preflight
        .iter()
        .flat_map(|preflight| &preflight.skip_rules);
    let selection = Selection {
        skip: skipped.cloned().collect(),
        ..Selection::default()
    };
    let report = check(facts, &selection);
    PreflightStatus {
        observed_generation: cluster.metadata.generation,
        observed_request: discovery_request(&cluster.metadata).unwrap_or_default(),
        checked_at: Some(Time(now)),
        unchecked_rules: report.unknown().map(|(rule, _)| rule.id.to_owned()).collect(),
        findings: findings(&report),
    }
}

/// The findings for the status, blocking ones first.
fn findings(report: &Report) -> Vec<PreflightFinding> {
    let short = |text: &str, most: usize| text.chars().take(most).collect::<String>();
    let mut findings: Vec<PreflightFinding> = report
        .findings()
        .map(|finding| PreflightFinding {
            rule: finding.rule.to_owned(),
            severity: finding.severity,
            object: short(&finding.object, 256),
            message: short(&finding.message, 1024),
            fix: short(&finding.fix, 1024),
        })
        .collect();
    findings.sort_by_key(|finding| finding.severity);
    findings.truncate(MOST_FINDINGS);
    findings
}

/// The condition `PreflightPassed`, which names fields without effect as well; `None` if there is nothing to say, because
/// nothing is checked.
pub(super) fn condition(status: Option<&PreflightStatus>, unsupported: Option<String>) -> Option<ConditionUpdate> {
    let of_rules = status.map(of_rules);
    let Some(unsupported) = unsupported else {
        return of_rules;
    };
    let broken = of_rules.filter(|of_rules| of_rules.reason == Reason::RulesFailing);
    Some(match broken {
        Some(broken) => {
            let message = format!("{}; {unsupported}", broken.message);
            broken.with_message(message)
        }
        None => ConditionType::PreflightPassed.is_false(Reason::UnsupportedField, unsupported),
    })
}

fn of_rules(status: &PreflightStatus) -> ConditionUpdate {
    let blocking = rules(status, FindingSeverity::Blocking);
    let mut parts = Vec::new();
    for (what, rules) in [
        ("blocking", &blocking),
        ("warnings", &rules(status, FindingSeverity::Warning)),
    ] {
        if !rules.is_empty() {
            parts.push(format!("{what}: {}", rules.join(", ")));
        }
    }
    if !parts.is_empty() {
        parts.push("see status.preflight.findings".to_owned());
    }
    if !status.unchecked_rules.is_empty() {
        parts.push(format!("not checked: {}", status.unchecked_rules.join(", ")));
    }
    let message = parts.join("; ");
    if blocking.is_empty() {
        ConditionType::PreflightPassed
            .is_true(Reason::Ready)
            .with_message(message)
    } else {
        ConditionType::PreflightPassed.is_false(Reason::RulesFailing, message)
    }
}

/// The ids of the rules with findings of a severity.
fn rules(status: &PreflightStatus, severity: FindingSeverity) -> Vec<&str> {
    let of_severity = status.findings.iter().filter(|finding| finding.severity == severity);
    let mut rules: Vec<&str> = of_severity.map(|finding| finding.rule.as_str()).collect();
    rules.dedup();
    rules
}

/// Whether findings keep the AWSCluster from being provisioned. An AWSCluster that is provisioned stays so.
pub(super) fn holds_back(cluster: &AWSCluster, status: Option<&PreflightStatus>, before: &AWSClusterStatus) -> bool {
    let is_required = cluster.spec.effective_preflight_mode() == PreflightMode::Require;
    let is_blocked = status.is_none_or(|status| !rules(status, FindingSeverity::Blocking).is_empty());
    is_required && is_blocked && !before.provisioned()
}
