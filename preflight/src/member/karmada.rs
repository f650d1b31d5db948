//! Rules about members of a Karmada.

use capa_api::cluster::status::FindingSeverity::{Blocking, Warning};

use super::facts::{MemberFacts, Resource};
use super::verdict::{accepted, known, minor, permitted, problem};
use crate::rule::Category::KarmadaMember;
use crate::rule::{Checked, Rule, ShownBy, Skipped};

/// Minor versions of Kubernetes that Karmada v1.17 and v1.18 are tested with.
const TESTED_MINORS: std::ops::RangeInclusive<u32> = 26..=35;

/// The resources that a member has to serve. They show that it serves the whole API of Kubernetes, not only
/// Deployments.
pub(super) const NEEDED: [(&str, &str); 14] = [
    ("v1", "namespaces"),
    ("v1", "serviceaccounts"),
    ("v1", "secrets"),
    ("v1", "configmaps"),
    ("v1", "services"),
    ("v1", "nodes"),
    ("v1", "pods"),
    ("apps/v1", "deployments"),
    ("batch/v1", "jobs"),
    ("rbac.authorization.k8s.io/v1", "clusterroles"),
    ("rbac.authorization.k8s.io/v1", "clusterrolebindings"),
    ("authentication.k8s.io/v1", "tokenreviews"),
    ("authorization.k8s.io/v1", "subjectaccessreviews"),
    ("authorization.k8s.io/v1", "selfsubjectaccessreviews"),
];

/// The rules, in the order of reports.
pub(super) const RULES: [Rule<MemberFacts>; 6] = [
    Rule {
        id: "P1",
        category: KarmadaMember,
        severity: Blocking,
        title: "The API server serves the whole API of Kubernetes",
        breaks: "Joining needs ServiceAccounts and RBAC, and placing needs namespaces, nodes and pods.",
        shown_by: ShownBy::Recorded,
        check: kinds,
    },
    Rule {
        id: "P2",
        category: KarmadaMember,
        severity: Warning,
        title: "Karmada is tested with this version of Kubernetes",
        breaks: "Nobody has tried Karmada v1.18 with it.",
        shown_by: ShownBy::Recorded,
        check: version,
    },
    Rule {
        id: "P3",
        category: KarmadaMember,
        severity: Blocking,
        title: "The user may write what a join writes",
        breaks: "The cluster cannot join: Karmada gets a role with all permissions, which only somebody with all of \
                 them may give.",
        shown_by: ShownBy::ApiServer,
        check: rights,
    },
    Rule {
        id: "P4",
        category: KarmadaMember,
        severity: Blocking,
        title: "Tokens can be requested for ServiceAccounts",
        breaks: "Karmada has no credentials for the cluster.",
        shown_by: ShownBy::ApiServer,
        check: tokens,
    },
    Rule {
        id: "P5",
        category: KarmadaMember,
        severity: Warning,
        title: "Nodes are ready",
        breaks: "Karmada's scheduler finds no room in the cluster where a policy asks for it.",
        shown_by: ShownBy::ApiServer,
        check: capacity,
    },
    Rule {
        id: "P6",
        category: KarmadaMember,
        severity: Warning,
        title: "The cluster is no member of another Karmada",
        breaks: "Two Karmadas write the same objects, and the one that the cluster leaves takes what the other one \
                 needs.",
        shown_by: ShownBy::ApiServer,
        check: leftovers,
    },
];

fn kinds(facts: &MemberFacts) -> Checked {
    let served = known(&facts.resources, "what is served")?;
    let is_missing = |(version, plural): &&(&str, &str)| !served.contains(&Resource::new(*version, *plural));
    let missing: Vec<String> =
        NEEDED.iter().filter(is_missing).map(|(version, plural)| format!("{plural} ({version})")).collect();
    if missing.is_empty() {
        return Ok(Vec::new());
    }
    problem(
        facts,
        format!("it does not serve {}", missing.join(", ")),
        "use a cluster whose API server is a whole kube-apiserver: the list of conformant products of the CNCF has \
         them",
    )
}

fn version(facts: &MemberFacts) -> Checked {
    let version = known(&facts.version, "the version")?;
    if minor(version).is_some_and(|minor| TESTED_MINORS.contains(&minor)) {
        return Ok(Vec::new());
    }
    let (first, last) = (TESTED_MINORS.start(), TESTED_MINORS.end());
    problem(
        facts,
        format!("it runs Kubernetes {version}"),
        format!("Karmada v1.18 is tested with Kubernetes 1.{first} to 1.{last}: try it before you rely on it"),
    )
}

fn rights(facts: &MemberFacts) -> Checked {
    permitted(facts, &facts.missing_rights)
}

fn tokens(facts: &MemberFacts) -> Checked {
    let unknown = || Skipped::Unknown("there is no ServiceAccount to request a token for".to_owned());
    let token = facts.token.as_ref().ok_or_else(unknown)?;
    accepted(facts, token, "let the user create serviceaccounts/token")
}

fn capacity(facts: &MemberFacts) -> Checked {
    if known(&facts.nodes, "the nodes")?.ready > 0 {
        return Ok(Vec::new());
    }
    problem(facts, "no node is ready", "add nodes, or place by weights and not by free room")
}

fn leftovers(facts: &MemberFacts) -> Checked {
    if !*known(&facts.has_karmada_namespace, "the namespace karmada-cluster")? {
        return Ok(Vec::new());
    }
    problem(
        facts,
        "it has the namespace karmada-cluster",
        "let the cluster leave the Karmada that it is a member of, or delete the namespace if there is none",
    )
}
