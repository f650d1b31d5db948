//! The checks of the infrastructure that the user brings: when they run, and their results in the status.

use std::time::Duration;

use capa_api::cluster::AWSCluster;
use capa_api::cluster::discovery::discovery_request;
use capa_api::cluster::preflight::PreflightMode;
use capa_api::cluster::status::{PreflightFinding, PreflightStatus};
use capa_api::contract::Cluster;
use capa_api::network::MachineNetwork;
use capa_preflight::facts::Facts;
use capa_preflight::{Report, Selection, check};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use sha2::{Digest, Sha256};

use super::facts::NetworkLookup;
use super::read::Reading;
use super::{ClusterContext, demand};
use crate::launching::digest::hex;

/// The time after which checks with findings, or without an answer from AWS, are repeated.
const RETRY: Duration = Duration::from_hours(1);
/// The time after which other checks are repeated.
const REPEAT: Duration = Duration::from_hours(24);
/// The most findings of the status.
const MAX_FINDINGS: usize = 200;

/// The result of the checks for the status: of a new check if one is due, or else the last one.
pub(super) async fn checked(
    cluster: &AWSCluster,
    owner: &Cluster,
    Reading { facts, identity, answers }: &Reading,
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
    let uid = cluster.metadata.uid.as_deref().unwrap_or_default();
    let last_check = context.checks.last(uid);
    let usable = identity.as_ref().filter(|_| facts.identity.is_ok() && is_known);
    let Some(identity) = usable.filter(|_| is_due(cluster, network, last_check, now)) else {
        return last;
    };
    let demand = demand(cluster, owner, network, vec![]);
    let source = (context.facts)(identity, &demand.region);
    let facts = source.facts(&demand, answers).await;
    context.checks.record(uid, now);
    let checked = result(cluster, &facts, now);
    Some(match last {
        Some(last) if is_same(&last, &checked) => last,
        _ => checked,
    })
}

/// Whether two checks have the same result. A new time alone does not cause a write of the status.
fn is_same(one: &PreflightStatus, other: &PreflightStatus) -> bool {
    let without_time = |status: &PreflightStatus| PreflightStatus { checked_at: None, ..status.clone() };
    without_time(one) == without_time(other)
}

/// Whether the checks are to run: after a change of the spec or of the published network, on request, and from time to
/// time. `last_check` is the time of the last check by this process.
fn is_due(cluster: &AWSCluster, network: &MachineNetwork, last_check: Option<Timestamp>, now: Timestamp) -> bool {
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
    let recorded = last.checked_at.as_ref().map(|time| time.0);
    let Some(checked_at) = recorded.max(last_check) else {
        return true;
    };
    let is_complete = last.findings.is_empty() && last.unchecked_rules.is_empty();
    // The clock of another process may be behind.
    let age = Duration::try_from(now.duration_since(checked_at)).unwrap_or_default();
    age >= if is_complete { REPEAT } else { RETRY }
}

fn result(cluster: &AWSCluster, facts: &Facts, now: Timestamp) -> PreflightStatus {
    let skipped = cluster.spec.preflight.iter().flat_map(|preflight| &preflight.skip_rules);
    let selection = Selection { skip: skipped.cloned().collect(), ..Selection::default() };
    let report = check(facts, &selection);
    PreflightStatus {
        observed_generation: cluster.metadata.generation,
        observed_request: discovery_request(&cluster.metadata).unwrap_or_default(),
        checked_at: Some(Time(now)),
        unchecked_rules: report.unknown().map(|(rule, _)| rule.id.to_owned()).collect(),
        findings: findings(&report),
    }
}

/// The most characters of the object of a finding.
const MAX_OBJECT_CHARACTERS: usize = 256;

/// The object of a finding. The end of a long text is replaced by its digest, because rule and object identify a
/// finding.
fn object(text: &str) -> String {
    if text.chars().count() <= MAX_OBJECT_CHARACTERS {
        return text.to_owned();
    }
    let digest: String = hex(&Sha256::digest(text)).chars().take(8).collect();
    let beginning: String = text.chars().take(MAX_OBJECT_CHARACTERS - digest.len() - 1).collect();
    format!("{beginning}…{digest}")
}

/// The findings for the status, blocking ones first.
fn findings(report: &Report) -> Vec<PreflightFinding> {
    let short = |text: &str, most: usize| text.chars().take(most).collect::<String>();
    let mut findings: Vec<PreflightFinding> = report
        .findings()
        .map(|finding| PreflightFinding {
            rule: finding.rule.to_owned(),
            severity: finding.severity,
            object: object(&finding.object),
            message: short(&finding.message, 1024),
            fix: short(&finding.fix, 1024),
        })
        .collect();
    findings.sort_by_key(|finding| finding.severity);
    findings.truncate(MAX_FINDINGS);
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_objects_of_findings_stay_distinct() {
        let groups = "sg-0123456789abcdef0,".repeat(MAX_OBJECT_CHARACTERS);
        let [one, two] = ["control-plane", "worker"].map(|role| object(&format!("{groups}{role}")));
        assert_ne!(one, two);
        for long in [one, two] {
            assert_eq!(long.chars().count(), MAX_OBJECT_CHARACTERS);
        }
        assert_eq!(object("VPC"), "VPC");
    }
}
