//! The rules about an API server that is to be a member of a fleet engine.

use std::sync::LazyLock;

use super::facts::MemberFacts;
use super::{api_server, karmada, workload};
use crate::rule::Rule;

static RULES: LazyLock<Vec<Rule<MemberFacts>>> =
    LazyLock::new(|| api_server::RULES.into_iter().chain(karmada::RULES).chain(workload::RULES).collect());

/// All rules about members, in the order of reports.
pub fn member_rules() -> &'static [Rule<MemberFacts>] {
    &RULES
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use capa_api::cluster::status::FindingSeverity::Blocking;

    use super::super::facts::{Nodes, Reached, Resource, User};
    use super::super::karmada::NEEDED;
    use super::*;
    use crate::report::{Outcome, Report, Selection, apply};

    fn eligible() -> MemberFacts {
        let served = NEEDED.iter().map(|(version, plural)| Resource::new(*version, *plural));
        MemberFacts {
            server: "https://api:6443".into(),
            unusable_field: None,
            readiness: Reached::Ready,
            version: Ok("v1.34.1".into()),
            user: Ok(User { name: "admin".into(), groups: vec!["system:masters".into()] }),
            resources: Ok(served.collect()),
            stale_groups: Vec::new(),
            dry_run: Ok(()),
            watch: Ok(()),
            latency_milliseconds: Ok(3),
            clock_ahead_seconds: Ok(0),
            cluster_id: Ok("u1".into()),
            missing_rights: Ok(Vec::new()),
            token: Some(Ok(())),
            missing_workload_rights: Ok(Vec::new()),
            nodes: Ok(Nodes { ready: 3, uninitialized: Vec::new() }),
            has_karmada_namespace: Ok(false),
        }
    }

    fn broken(facts: &MemberFacts) -> Vec<(&'static str, bool)> {
        let report: Report<MemberFacts> = apply(member_rules(), facts, &Selection::default());
        let findings = report.findings();
        findings.map(|finding| (finding.rule, finding.severity == Blocking)).collect()
    }

    #[test]
    fn a_whole_cluster_can_be_a_member() {
        assert_eq!(broken(&eligible()), []);
    }

    #[test]
    fn each_rule_is_broken_by_its_fact_alone() {
        type Break = fn(&mut MemberFacts);
        let table: [(&str, bool, Break); 21] = [
            ("A1", false, |facts| facts.unusable_field = Some("exec".into())),
            ("A3", true, |facts| facts.readiness = Reached::Answered(503)),
            ("A3", true, |facts| {
                facts.version = Err("it answered 404 NotFound".into());
            }),
            ("A4", true, |facts| {
                facts.user = Ok(User { name: "system:anonymous".into(), groups: Vec::new() });
            }),
            ("A5", false, |facts| facts.stale_groups = vec!["metrics.k8s.io".into()]),
            ("A6", true, |facts| facts.dry_run = Err("it answered 405".into())),
            ("A7", true, |facts| facts.watch = Err("no event within 5 s".into())),
            ("A8", false, |facts| facts.latency_milliseconds = Ok(201)),
            ("A8", true, |facts| facts.latency_milliseconds = Ok(2001)),
            ("A9", false, |facts| facts.clock_ahead_seconds = Ok(-31)),
            ("A9", true, |facts| facts.clock_ahead_seconds = Ok(301)),
            ("A10", true, |facts| {
                facts.cluster_id = Err("it answered 403 Forbidden".into());
            }),
            ("P1", true, |facts| {
                facts.resources = Ok(BTreeSet::from([Resource::new("apps/v1", "deployments")]));
            }),
            ("P2", false, |facts| facts.version = Ok("v1.36.0".into())),
            ("P3", true, |facts| {
                facts.missing_rights = Ok(vec!["create clusterroles".into()]);
            }),
            ("P4", true, |facts| {
                facts.token = Some(Err("it answered 404 NotFound".into()));
            }),
            ("P5", false, |facts| facts.nodes = Ok(Nodes::default())),
            ("P6", false, |facts| facts.has_karmada_namespace = Ok(true)),
            ("W1", true, |facts| facts.version = Ok("v1.30.4".into())),
            ("W2", true, |facts| {
                facts.missing_workload_rights = Ok(vec!["patch nodes".into()]);
            }),
            ("W3", false, |facts| {
                facts.nodes = Ok(Nodes { ready: 1, uninitialized: vec!["node-1".into()] });
            }),
        ];
        for (rule, is_blocking, change) in table {
            let mut facts = eligible();
            change(&mut facts);
            assert_eq!(broken(&facts), [(rule, is_blocking)], "{rule}");
        }
    }

    #[test]
    fn an_api_server_that_cannot_be_reached_breaks_one_rule() {
        let why = || "connection refused".to_owned();
        let mut facts = eligible();
        facts.readiness = Reached::Unreachable(why());
        facts.version = Err(why());
        facts.user = Err(why());
        facts.resources = Err(why());
        facts.dry_run = Err(why());
        facts.watch = Err(why());
        facts.latency_milliseconds = Err(why());
        facts.clock_ahead_seconds = Err(why());
        facts.cluster_id = Err(why());
        facts.missing_rights = Err(why());
        facts.token = None;
        facts.missing_workload_rights = Err(why());
        facts.nodes = Err(why());
        facts.has_karmada_namespace = Err(why());
        assert_eq!(broken(&facts), [("A2", true)]);
        let report = apply(member_rules(), &facts, &Selection::default());
        let passed = report.answers.iter().filter(|answer| answer.outcome == Outcome::Passed);
        assert_eq!(passed.map(|answer| answer.rule.id).collect::<Vec<_>>(), ["A1"]);
    }
}
