//! Rules about workload clusters of Cluster API.

use std::ops::RangeInclusive;

use capa_api::cluster::status::FindingSeverity::{Blocking, Warning};

use super::facts::MemberFacts;
use super::verdict::{known, minor, permitted, problem};
use crate::rule::Category::WorkloadCluster;
use crate::rule::{Checked, Rule, ShownBy};

/// Minor versions of Kubernetes that workload clusters of Cluster API v1.14 may have. Source: its version support.
const SUPPORTED_MINORS: RangeInclusive<u32> = 31..=36;
/// Maximum number of nodes that a message names.
const NODES_IN_MESSAGE: usize = 5;

/// The rules, in the order of reports.
pub(super) const RULES: [Rule<MemberFacts>; 3] = [
    Rule {
        id: "W1",
        category: WorkloadCluster,
        severity: Blocking,
        title: "Cluster API supports workload clusters of this version",
        breaks: "Cluster API v1.14 is not tested with the cluster: upgrades and health checks of its machines may \
                 fail.",
        shown_by: ShownBy::Recorded,
        check: version,
    },
    Rule {
        id: "W2",
        category: WorkloadCluster,
        severity: Blocking,
        title: "The user may do what Cluster API does in workload clusters",
        breaks: "Machines never get their nodes, are not drained, and wait for their volumes.",
        shown_by: ShownBy::ApiServer,
        check: rights,
    },
    Rule {
        id: "W3",
        category: WorkloadCluster,
        severity: Warning,
        title: "A cloud controller has initialized all nodes",
        breaks: "Cluster API finds nodes by their provider id, and no pod runs on a node with the taint.",
        shown_by: ShownBy::Recorded,
        check: initialized,
    },
];

fn version(facts: &MemberFacts) -> Checked {
    let version = known(&facts.version, "the version")?;
    if minor(version).is_some_and(|minor| SUPPORTED_MINORS.contains(&minor)) {
        return Ok(Vec::new());
    }
    let (first, last) = (SUPPORTED_MINORS.start(), SUPPORTED_MINORS.end());
    problem(
        facts,
        format!("it runs Kubernetes {version}"),
        format!("Cluster API v1.14 supports workload clusters of Kubernetes 1.{first} to 1.{last}: choose one of them"),
    )
}

fn rights(facts: &MemberFacts) -> Checked {
    permitted(facts, &facts.missing_workload_rights)
}

fn initialized(facts: &MemberFacts) -> Checked {
    let nodes = &known(&facts.nodes, "the nodes")?.uninitialized;
    if nodes.is_empty() {
        return Ok(Vec::new());
    }
    let named: Vec<&str> = nodes.iter().take(NODES_IN_MESSAGE).map(String::as_str).collect();
    problem(
        facts,
        format!("{} nodes have no provider id, or wait for a cloud controller: {}", nodes.len(), named.join(", ")),
        "install the cloud controller manager of the provider, and look at its log",
    )
}
