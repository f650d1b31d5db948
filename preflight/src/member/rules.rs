//! Rules about an API server that is to be a member of a fleet engine.

use capa_api::cluster::status::FindingSeverity::{Blocking, Warning};

use super::facts::{MemberFacts, Reached, Read, Resource};
use crate::rule::Category::{ApiServer, KarmadaMember};
use crate::rule::{Checked, Problem, Rule, ShownBy, Skipped};

/// Minor versions of Kubernetes that a release of Karmada is tested with: those of v1.17 and v1.18.
const TESTED_MINORS: std::ops::RangeInclusive<u32> = 26..=35;
/// Latencies in milliseconds that delay, and that break, what follows the members by watches.
const SLOW: u64 = 200;
const TOO_SLOW: u64 = 2000;
/// Seconds by which clocks may differ, and by which tokens are refused.
const APART: u64 = 30;
const TOO_FAR_APART: u64 = 300;

/// What a member has to serve: the whole API of Kubernetes, and not Deployments only.
const NEEDED: [(&str, &str); 14] = [
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

const RULES: &[Rule<MemberFacts>] = &[
    Rule {
        id: "A1",
        category: ApiServer,
        severity: Warning,
        title: "The kubeconfig can be used from a Secret",
        breaks: "Cluster API, the reader of ClusterProfiles and Karmada neither start programs nor read files for it.",
        shown_by: ShownBy::ApiServer,
        check: kubeconfig,
    },
    Rule {
        id: "A2",
        category: ApiServer,
        severity: Blocking,
        title: "The API server can be reached, and its certificate is of the kubeconfig's authority",
        breaks: "Nobody reaches the cluster.",
        shown_by: ShownBy::ApiServer,
        check: reachable,
    },
    Rule {
        id: "A3",
        category: ApiServer,
        severity: Blocking,
        title: "The API server is ready, and says which version of Kubernetes it is",
        breaks: "An engine takes the cluster for one that is down.",
        shown_by: ShownBy::ApiServer,
        check: ready,
    },
    Rule {
        id: "A4",
        category: ApiServer,
        severity: Blocking,
        title: "The API server knows the user of the kubeconfig",
        breaks: "Requests are made as system:anonymous, and refused.",
        shown_by: ShownBy::ApiServer,
        check: user,
    },
    Rule {
        id: "A5",
        category: ApiServer,
        severity: Warning,
        title: "The API server says completely what it serves",
        breaks: "Karmada shows the cluster with CompleteAPIEnablements=False, and does not place what it cannot see there.",
        shown_by: ShownBy::Recorded,
        check: discovery,
    },
    Rule {
        id: "A6",
        category: ApiServer,
        severity: Blocking,
        title: "Objects can be written, with dry runs and server-side apply",
        breaks: "Engines cannot write what they place. Facades that serve a part of the API are the usual cause.",
        shown_by: ShownBy::ApiServer,
        check: writes,
    },
    Rule {
        id: "A7",
        category: ApiServer,
        severity: Blocking,
        title: "Watches are streamed",
        breaks: "Engines never hear of changes. A proxy that waits for the end of an answer is the usual cause.",
        shown_by: ShownBy::ApiServer,
        check: watch,
    },
    Rule {
        id: "A8",
        category: ApiServer,
        severity: Warning,
        title: "The API server answers within 200 ms",
        breaks: "What an engine knows of the cluster is late; from 2 s on its requests run out of time.",
        shown_by: ShownBy::Recorded,
        check: latency,
    },
    Rule {
        id: "A9",
        category: ApiServer,
        severity: Warning,
        title: "The clocks of this computer and of the API server agree",
        breaks: "Tokens count as ended, or as not valid yet.",
        shown_by: ShownBy::Recorded,
        check: clock,
    },
    Rule {
        id: "A10",
        category: ApiServer,
        severity: Blocking,
        title: "The cluster has an id: the UID of its namespace kube-system",
        breaks: "Engines cannot tell the cluster from others.",
        shown_by: ShownBy::ApiServer,
        check: id,
    },
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
        breaks: "The cluster cannot join: Karmada gets a role with all permissions, which only somebody with all of them may give.",
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
        breaks: "Two Karmadas write the same objects, and the one that the cluster leaves takes what the other one needs.",
        shown_by: ShownBy::ApiServer,
        check: leftovers,
    },
];

/// All rules about members, in the order of reports.
pub fn member_rules() -> &'static [Rule<MemberFacts>] {
    RULES
}

/// The answer of a rule with one problem.
#[expect(clippy::unnecessary_wraps, reason = "the answer of a rule is a result")]
fn problem(facts: &MemberFacts, message: impl Into<String>, fix: impl Into<String>) -> Checked {
    Ok(vec![Problem::new(facts.server.clone(), message, fix)])
}

fn known<'a, T>(read: &'a Read<T>, what: &str) -> Result<&'a T, Skipped> {
    read.as_ref()
        .map_err(|why| Skipped::Unknown(format!("{what} could not be read: {why}")))
}

/// A refusal that breaks a rule, unless the API server could not be reached at all: that is another rule.
fn accepted(facts: &MemberFacts, read: &Read<()>, fix: &str) -> Checked {
    match read {
        Ok(()) => Ok(Vec::new()),
        Err(why) if matches!(facts.readiness, Reached::Unreachable(_)) => Err(Skipped::Unknown(why.clone())),
        Err(why) => problem(facts, why.clone(), fix),
    }
}

fn kubeconfig(facts: &MemberFacts) -> Checked {
    match &facts.unusable_field {
        None => Ok(Vec::new()),
        Some(field) => problem(
            facts,
            format!("the kubeconfig has {field}"),
            "use certificate-authority-data, and a token or client-certificate-data",
        ),
    }
}

fn reachable(facts: &MemberFacts) -> Checked {
    match &facts.readiness {
        Reached::Unreachable(why) => problem(
            facts,
            format!("no answer: {why}"),
            "compare server and certificate-authority-data of the kubeconfig with the API server, and look at firewalls",
        ),
        Reached::Ready | Reached::Answered(_) => Ok(Vec::new()),
    }
}

fn ready(facts: &MemberFacts) -> Checked {
    match (&facts.readiness, &facts.version) {
        (Reached::Unreachable(why), _) => Err(Skipped::Unknown(why.clone())),
        (Reached::Answered(code), _) => problem(
            facts,
            format!("it answers {code} to GET /readyz"),
            "look at what GET /readyz?verbose says; 401 and 403 are about the credentials",
        ),
        (Reached::Ready, Err(why)) => problem(facts, why.clone(), "this is no API server of Kubernetes"),
        (Reached::Ready, Ok(_)) => Ok(Vec::new()),
    }
}

fn user(facts: &MemberFacts) -> Checked {
    let user = known(&facts.user, "the user")?;
    if user.name == "system:anonymous" {
        return problem(
            facts,
            "the user is system:anonymous",
            "put valid credentials into the kubeconfig",
        );
    }
    Ok(Vec::new())
}

fn discovery(facts: &MemberFacts) -> Checked {
    known(&facts.resources, "what is served")?;
    if facts.stale_groups.is_empty() {
        return Ok(Vec::new());
    }
    problem(
        facts,
        format!("nobody answers for {}", facts.stale_groups.join(", ")),
        "mend the APIServices of these groups, or delete them",
    )
}

fn writes(facts: &MemberFacts) -> Checked {
    accepted(
        facts,
        &facts.dry_run,
        "connect to kube-apiserver itself, with a user that may create Namespaces",
    )
}

fn watch(facts: &MemberFacts) -> Checked {
    accepted(
        facts,
        &facts.watch,
        "let the proxy in front of the API server pass answers on as they come",
    )
}

fn latency(facts: &MemberFacts) -> Checked {
    let milliseconds = *known(&facts.latency_milliseconds, "the latency")?;
    if milliseconds <= SLOW {
        return Ok(Vec::new());
    }
    let severity = if milliseconds > TOO_SLOW { Blocking } else { Warning };
    let message = format!("one of 20 small requests takes {milliseconds} ms");
    let fix = "run the engine nearer to the cluster, or give the API server more room";
    Ok(vec![
        Problem::new(facts.server.clone(), message, fix).with_severity(severity),
    ])
}

fn clock(facts: &MemberFacts) -> Checked {
    let ahead = *known(&facts.clock_ahead_seconds, "the clock of the API server")?;
    if ahead.unsigned_abs() <= APART {
        return Ok(Vec::new());
    }
    let severity = if ahead.unsigned_abs() > TOO_FAR_APART {
        Blocking
    } else {
        Warning
    };
    let (away, direction) = (ahead.unsigned_abs(), if ahead > 0 { "ahead" } else { "behind" });
    let message = format!("the clock of the API server is {away} s {direction}");
    let fix = "synchronize both clocks with a time server";
    Ok(vec![
        Problem::new(facts.server.clone(), message, fix).with_severity(severity),
    ])
}

fn id(facts: &MemberFacts) -> Checked {
    let id = facts.cluster_id.as_ref().map(|_| ()).map_err(Clone::clone);
    accepted(facts, &id, "let the user get the namespace kube-system")
}

fn kinds(facts: &MemberFacts) -> Checked {
    let served = known(&facts.resources, "what is served")?;
    let is_missing = |(version, plural): &&(&str, &str)| !served.contains(&Resource::new(*version, *plural));
    let missing: Vec<String> = NEEDED
        .iter()
        .filter(is_missing)
        .map(|(version, plural)| format!("{plural} ({version})"))
        .collect();
    if missing.is_empty() {
        return Ok(Vec::new());
    }
    problem(
        facts,
        format!("it does not serve {}", missing.join(", ")),
        "use a cluster whose API server is a whole kube-apiserver: the list of conformant products of the CNCF has them",
    )
}

fn version(facts: &MemberFacts) -> Checked {
    let version = known(&facts.version, "the version")?;
    let minor = version.trim_start_matches('v').split('.').nth(1);
    let minor: Option<u32> = minor.and_then(|minor| minor.trim_end_matches('+').parse().ok());
    if minor.is_some_and(|minor| TESTED_MINORS.contains(&minor)) {
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
    let missing = known(&facts.missing_rights, "the rights of the user")?;
    if missing.is_empty() {
        return Ok(Vec::new());
    }
    problem(
        facts,
        format!("the user may not {}", missing.join(", ")),
        "bind the ClusterRole cluster-admin to the user of the kubeconfig",
    )
}

fn tokens(facts: &MemberFacts) -> Checked {
    let unknown = || Skipped::Unknown("there is no ServiceAccount to request a token for".to_owned());
    let token = facts.token.as_ref().ok_or_else(unknown)?;
    accepted(facts, token, "let the user create serviceaccounts/token")
}

fn capacity(facts: &MemberFacts) -> Checked {
    match &facts.ready_nodes {
        Ok(0) => problem(
            facts,
            "no node is ready",
            "add nodes, or place by weights and not by free room",
        ),
        Ok(_) => Ok(Vec::new()),
        Err(why) => Err(Skipped::Unknown(format!("the nodes could not be read: {why}"))),
    }
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::facts::User;
    use super::*;
    use crate::report::{Outcome, Report, Selection, apply};

    fn eligible() -> MemberFacts {
        let served = NEEDED.iter().map(|(version, plural)| Resource::new(*version, *plural));
        MemberFacts {
            server: "https://api:6443".into(),
            unusable_field: None,
            readiness: Reached::Ready,
            version: Ok("v1.34.1".into()),
            user: Ok(User {
                name: "admin".into(),
                groups: vec!["system:masters".into()],
            }),
            resources: Ok(served.collect()),
            stale_groups: Vec::new(),
            dry_run: Ok(()),
            watch: Ok(()),
            latency_milliseconds: Ok(3),
            clock_ahead_seconds: Ok(0),
            cluster_id: Ok("u1".into()),
            missing_rights: Ok(Vec::new()),
            token: Some(Ok(())),
            ready_nodes: Ok(3),
            has_karmada_namespace: Ok(false),
        }
    }

    fn broken(facts: &MemberFacts) -> Vec<(&'static str, bool)> {
        let report: Report<MemberFacts> = apply(member_rules(), facts, &Selection::default());
        let findings = report.findings();
        findings
            .map(|finding| (finding.rule, finding.severity == Blocking))
            .collect()
    }

    #[test]
    fn a_whole_cluster_can_be_a_member() {
        assert_eq!(broken(&eligible()), []);
    }

    #[test]
    fn each_rule_is_broken_by_its_fact_alone() {
        type Break = fn(&mut MemberFacts);
        let table: [(&str, bool, Break); 18] = [
            ("A1", false, |facts| facts.unusable_field = Some("exec".into())),
            ("A3", true, |facts| facts.readiness = Reached::Answered(503)),
            ("A3", true, |facts| {
                facts.version = Err("it answered 404 NotFound".into());
            }),
            ("A4", true, |facts| {
                facts.user = Ok(User {
                    name: "system:anonymous".into(),
                    groups: Vec::new(),
                });
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
            ("P2", false, |facts| facts.version = Ok("v1.25.0".into())),
            ("P3", true, |facts| {
                facts.missing_rights = Ok(vec!["create clusterroles".into()]);
            }),
            ("P4", true, |facts| {
                facts.token = Some(Err("it answered 404 NotFound".into()));
            }),
            ("P5", false, |facts| facts.ready_nodes = Ok(0)),
            ("P6", false, |facts| facts.has_karmada_namespace = Ok(true)),
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
        facts.ready_nodes = Err(why());
        facts.has_karmada_namespace = Err(why());
        assert_eq!(broken(&facts), [("A2", true)]);
        let report = apply(member_rules(), &facts, &Selection::default());
        let passed = report.answers.iter().filter(|answer| answer.outcome == Outcome::Passed);
        assert_eq!(passed.map(|answer| answer.rule.id).collect::<Vec<_>>(), ["A1"]);
    }
}
