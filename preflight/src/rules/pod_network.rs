//! The rule about the traffic of the pod network.

use capa_api::cluster::preflight::PodNetwork;
use capa_api::cluster::status::FindingSeverity::Blocking;

use super::machine_groups::{group_sets, machines_by_role};
use super::security_groups::admits;
use super::traffic::of_pod_network;
use crate::facts::{Facts, MachineRole};
use crate::rule::{Category::SecurityGroups, Checked, Problem, Rule, ShownBy, Skipped};

pub(super) const RULES: &[Rule] = &[Rule {
    id: "G8",
    category: SecurityGroups,
    severity: Blocking,
    title: "All machines admit the traffic of the pod network from each other",
    breaks: "Pods on different nodes do not reach each other, and cluster DNS fails on most nodes.",
    shown_by: ShownBy::Moto,
    check: pod_network,
}];

const ROLES: [MachineRole; 2] = [MachineRole::ControlPlane, MachineRole::Worker];

fn pod_network(facts: &Facts) -> Checked {
    let sets = of_pod_network(facts.demand.cni.unwrap_or(PodNetwork::None));
    if sets.is_empty() {
        return Err(Skipped::NotApplicable);
    }
    let peers = machines_by_role(facts)?;
    let mut problems = Vec::new();
    for role in ROLES {
        if matches!(group_sets(facts, role), Err(Skipped::NotApplicable)) {
            continue;
        }
        let mut refused: Vec<Option<Problem>> = Vec::new();
        for set in &sets {
            let mut first = None;
            for (traffic, peer) in set.iter().flat_map(|traffic| peers.iter().map(move |peer| (traffic, peer))) {
                first = first.or(admits(facts, role, *traffic, ("all machines", peer))?);
            }
            refused.push(first);
        }
        if refused.iter().all(Option::is_some) {
            problems.extend(refused.into_iter().flatten().next());
        }
    }
    Ok(problems)
}
