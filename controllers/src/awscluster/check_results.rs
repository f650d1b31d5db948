//! The results of the infrastructure checks in the status of an AWSCluster. Pure.

use capa_api::cluster::AWSCluster;
use capa_api::cluster::preflight::PreflightMode;
use capa_api::cluster::status::{AWSClusterStatus, FindingSeverity, PreflightStatus};
use capa_api::conditions::{ConditionType, ConditionUpdate, Reason};

/// The condition `PreflightPassed`.
pub(super) fn condition(status: &PreflightStatus) -> ConditionUpdate {
    let blocking = rules(status, FindingSeverity::Blocking);
    let mut parts = Vec::new();
    for (what, rules) in [("blocking", &blocking), ("warnings", &rules(status, FindingSeverity::Warning))] {
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
        ConditionType::PreflightPassed.is_true(Reason::Ready).with_message(message)
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

/// Whether findings prevent the AWSCluster from becoming provisioned. A provisioned AWSCluster stays provisioned.
pub(super) fn holds_back(cluster: &AWSCluster, status: Option<&PreflightStatus>, before: &AWSClusterStatus) -> bool {
    let is_required = cluster.spec.effective_preflight_mode() == PreflightMode::Require;
    let is_blocked = status.is_none_or(|status| !rules(status, FindingSeverity::Blocking).is_empty());
    is_required && is_blocked && !before.provisioned()
}
