//! Rules about the sources of networks in the management cluster.

use capa_api::cluster::status::FindingSeverity::Blocking;

use crate::facts::{Facts, SourceAccess};
use crate::rule::{Category::Kubernetes, Checked, Problem, Rule, ShownBy, Skipped, known, of_each};

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "K1",
        category: Kubernetes,
        severity: Blocking,
        title: "The kinds of infrastructure object and network sources are served and described",
        breaks: "Machines wait for a network for ever.",
        shown_by: ShownBy::Recorded,
        check: kinds,
    },
    Rule {
        id: "K2",
        category: Kubernetes,
        severity: Blocking,
        title: "The manager may read infrastructure object and network sources",
        breaks: "Machines wait for a network for ever.",
        shown_by: ShownBy::Recorded,
        check: permissions,
    },
    Rule {
        id: "K3",
        category: Kubernetes,
        severity: Blocking,
        title: "The fields that the sources describe have the types of the network contract",
        breaks: "No machine is launched with the network.",
        shown_by: ShownBy::Recorded,
        check: fields,
    },
];

fn sources(facts: &Facts) -> Result<&[SourceAccess], Skipped> {
    match &facts.kubernetes {
        Some(kubernetes) if !kubernetes.sources.is_empty() => Ok(&kubernetes.sources),
        _ => Err(Skipped::NotApplicable),
    }
}

fn kinds(facts: &Facts) -> Checked {
    let mut problems = Vec::new();
    for source in sources(facts)? {
        if !source.is_served {
            let message = format!("the API server serves no kind of {} in group {}", source.object, source.group);
            problems.push(Problem::new(&source.object, message, "install the CRD, or correct kind and group"));
        } else if !source.is_described {
            problems.push(
                Problem::new(
                    &source.object,
                    "nothing says how the provider reads a network from this kind",
                    "label the CRD with infrastructure.cluster.x-k8s.io/machine-network: v1, or create an \
                     AWSNetworkMapping",
                )
                .fixed_by(format!(
                    "kubectl label crd {}.{} infrastructure.cluster.x-k8s.io/machine-network=v1",
                    source.resource, source.group
                )),
            );
        }
    }
    Ok(problems)
}

fn permissions(facts: &Facts) -> Checked {
    let manager = facts.kubernetes.as_ref().map(|kubernetes| kubernetes.manager.as_str());
    // Facts that an earlier release has saved do not name the manager.
    let by_manager = manager.filter(|name| !name.is_empty()).map(|name| format!(" --as {name}")).unwrap_or_default();
    of_each(sources(facts)?.iter().filter(|source| source.is_served).map(|source| {
        let what = format!("whether the manager may read {}", source.object);
        if *known(&source.is_readable_by_manager, &what)? {
            return Ok(None);
        }
        let problem = Problem::new(
            &source.object,
            format!("the manager may not read {}.{}", source.resource, source.group),
            "create a ClusterRole with the label infrastructure.cluster.x-k8s.io/aggregate-to-capa-rs: \"true\"",
        );
        Ok(Some(problem.fixed_by(format!("kubectl auth can-i get {}.{}{by_manager}", source.resource, source.group))))
    }))
}

fn fields(facts: &Facts) -> Checked {
    let wrong = sources(facts)?.iter().filter_map(|source| Some((source, source.problem.as_ref()?)));
    let problems = wrong.map(|(source, problem)| {
        let fix = "correct what the object describes: docs/network-contract.md has the types";
        Problem::new(&source.object, problem, fix)
    });
    Ok(problems.collect())
}
