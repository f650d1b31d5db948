//! Compares the requirements of several clusters with the rules. Complete infrastructure passes every rule, and each
//! missing part breaks a rule that its requirement names.

mod demands;
mod renderings;
mod world;

use std::collections::BTreeSet;

use super::*;
use crate::report::{Outcome, Report, Selection, check};
use crate::rules::rules;
use demands::{all, of_spec};
use world::{World, completed};

/// The categories whose facts are generated from the requirements.
const NETWORK: [&str; 5] = ["V", "S", "E", "G", "L"];

fn checked(demand: &Demand, requirements: Vec<&Requirement>) -> Report {
    let selection = Selection { only: NETWORK.map(str::to_owned).into(), ..Selection::default() };
    check(&World::new(demand, requirements).facts(), &selection)
}

#[test]
fn what_has_everything_keeps_every_rule() {
    for (name, demand) in all() {
        let needed = requirements(&demand);
        let completed = completed(&demand, &needed);
        for answer in checked(&completed, needed.requirements.iter().collect()).answers {
            assert!(
                matches!(answer.outcome, Outcome::Passed | Outcome::NotApplicable),
                "{name}: {} {:?}\n{}",
                answer.rule.id,
                answer.outcome,
                text(&needed, "-")
            );
        }
    }
}

/// The reason why no rule notices that something is missing.
fn unnoticed(requirement: &Requirement, needed: &Requirements) -> Option<&'static str> {
    let is_of_nat_gateway = needed.requirements.iter().any(|other| {
        let for_nat = SubnetUse { is_public: true, has_machines: false };
        other.object == requirement.object && other.wanted == Wanted::Subnet(for_nat)
    });
    match &requirement.wanted {
        Wanted::AdmitsPodNetwork => Some("nobody knows the ports"),
        Wanted::Admits { from: Peer::Clients, .. } => Some("nobody knows the addresses of clients"),
        Wanted::Allows { .. } if requirement.object.name == "load-balancer" => {
            Some("no rule reads what a load balancer may connect to")
        }
        Wanted::Tag { .. } if is_of_nat_gateway => Some("the rules look at the subnets of machines"),
        _ => None,
    }
}

#[test]
fn whatever_is_missing_breaks_a_rule_of_its_requirement() {
    let mut broken = BTreeSet::new();
    for (name, demand) in all() {
        let needed = requirements(&demand);
        let completed = completed(&demand, &needed);
        for (number, missing) in needed.requirements.iter().enumerate() {
            let is_of_network = missing.rules.iter().any(|rule| NETWORK.contains(&&rule[..1]));
            if !is_of_network || unnoticed(missing, &needed).is_some() {
                continue;
            }
            let others = needed.requirements.iter().enumerate();
            let others = others.filter(|(other, _)| *other != number).map(|(_, other)| other);
            let report = checked(&completed, others.collect());
            let found: BTreeSet<&str> = report.findings().map(|finding| finding.rule).collect();
            assert!(missing.rules.iter().any(|rule| found.contains(rule)), "{name}: without {missing:?}: {found:?}");
            broken.extend(missing.rules.iter().filter(|rule| found.contains(*rule)).copied());
        }
    }
    assert!(broken.len() > 30, "{broken:?}");
}

#[test]
fn what_is_named_is_not_created_again() {
    for (name, demand) in all() {
        let completed = completed(&demand, &requirements(&demand));
        let again = requirements(&completed);
        let created: Vec<&str> = again
            .requirements
            .iter()
            .filter(|requirement| !requirement.object.exists)
            .map(|requirement| requirement.sentence.as_str())
            .collect();
        assert!(created.is_empty(), "{name}: {created:#?}");
    }
}

#[test]
fn every_rule_asks_for_something_or_has_a_reason() {
    let without: BTreeSet<&str> = [
        "M7",  // a setting of the machine template
        "M10", // the size of the user data, which follows from the bootstrap configuration
        "K1",  // the sources of networks are objects of the management cluster
        "K2", "K3",
    ]
    .into();
    let named: BTreeSet<&str> = all()
        .into_iter()
        .flat_map(|(_, demand)| requirements(&demand).requirements)
        .flat_map(|requirement| requirement.rules)
        .collect();
    let ids: BTreeSet<&str> = rules().iter().map(|rule| rule.id).collect();
    assert!(named.is_disjoint(&without), "{:?}", &named & &without);
    assert_eq!(&named | &without, ids);
}

#[test]
fn every_requirement_has_rules_and_a_sentence_of_its_own() {
    for (name, demand) in all() {
        let mut sentences = BTreeSet::new();
        for requirement in requirements(&demand).requirements {
            assert!(!requirement.rules.is_empty(), "{name}: {requirement:?}");
            assert!(sentences.insert(requirement.sentence.clone()), "{name}: {requirement:?}");
        }
    }
}

#[test]
fn roots_of_the_json_are_cluster_region_and_requirements() {
    let json = serde_json::to_value(requirements(&of_spec("workers", &[]))).unwrap();
    assert_eq!(json["cluster"], "prod");
    let tag = serde_json::json!({
        "category": "securityGroups",
        "rules": ["G11"],
        "object": {"kind": "securityGroup", "name": "nodes", "exists": false},
        "wanted": {"tag": {"key": "kubernetes.io/cluster/prod", "value": "shared"}},
        "sentence": "Security group nodes has the tag kubernetes.io/cluster/prod=shared",
    });
    assert!(json["requirements"].as_array().unwrap().contains(&tag), "{json:#}");
}
