//! The rule about the traffic of the pod network.

use capa_api::cluster::preflight::PodNetwork;
use capa_api::cluster::status::FindingSeverity::Blocking;

use super::security_groups::{admits, groups_of, machines};
use crate::facts::{Facts, RoleOfMachines};
use crate::reach::Traffic;
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

/// What the nodes of a pod network send each other: one of the sets must be admitted. Sources: the requirements pages of
/// Calico, Cilium, Flannel and Antrea.
fn traffic(cni: PodNetwork) -> Vec<Vec<Traffic>> {
    match cni {
        PodNetwork::None => vec![],
        PodNetwork::Calico => vec![
            vec![Traffic::tcp(179), Traffic::protocol("4")],
            vec![Traffic::udp(4789)],
        ],
        PodNetwork::Cilium => {
            let with = |tunnel| vec![Traffic::udp(tunnel), Traffic::tcp(4240), Traffic::range("icmp", 8, 8)];
            vec![with(8472), with(6081)]
        }
        PodNetwork::Flannel => vec![vec![Traffic::udp(8472)]],
        PodNetwork::Antrea => vec![vec![Traffic::udp(6081), Traffic::range("tcp", 10349, 10351)]],
    }
}

fn pod_network(facts: &Facts) -> Checked {
    let sets = traffic(facts.demand.cni.unwrap_or(PodNetwork::None));
    if sets.is_empty() {
        return Err(Skipped::NotApplicable);
    }
    let peer = machines(facts, None)?;
    let mut problems = Vec::new();
    for role in [RoleOfMachines::ControlPlane, RoleOfMachines::Worker] {
        if matches!(groups_of(facts, role), Err(Skipped::NotApplicable)) {
            continue;
        }
        let mut refused: Vec<Option<Problem>> = Vec::new();
        for set in &sets {
            let mut first = None;
            for traffic in set {
                first = first.or(admits(facts, role, *traffic, ("all machines", &peer))?);
            }
            refused.push(first);
        }
        if refused.iter().all(Option::is_some) {
            problems.extend(refused.into_iter().flatten().next());
        }
    }
    Ok(problems)
}
