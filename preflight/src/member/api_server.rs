//! Rules about any API server that is to be a member.

use capa_api::cluster::status::FindingSeverity::{Blocking, Warning};

use super::facts::{MemberFacts, Reached};
use super::verdict::{accepted, known, problem};
use crate::rule::Category::ApiServer;
use crate::rule::{Checked, Problem, Rule, ShownBy, Skipped};

/// Latencies in milliseconds above which watches of a member are slow, and above which they break.
const SLOW: u64 = 200;
const TOO_SLOW: u64 = 2000;
/// Seconds by which clocks may differ, and seconds above which tokens are refused.
const APART: u64 = 30;
const TOO_FAR_APART: u64 = 300;

/// The rules, in the order of reports.
pub(super) const RULES: [Rule<MemberFacts>; 10] = [
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
        title: "The API server is ready, and reports its version of Kubernetes",
        breaks: "A fleet engine treats the cluster as unavailable.",
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
        breaks: "Karmada shows the cluster with CompleteAPIEnablements=False, and does not place what it cannot see \
                 there.",
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
];

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
            "compare server and certificate-authority-data of the kubeconfig with the API server, and look at \
             firewalls",
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
        return problem(facts, "the user is system:anonymous", "put valid credentials into the kubeconfig");
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
    accepted(facts, &facts.dry_run, "connect to kube-apiserver itself, with a user that may create Namespaces")
}

fn watch(facts: &MemberFacts) -> Checked {
    accepted(facts, &facts.watch, "let the proxy in front of the API server pass answers on as they come")
}

fn latency(facts: &MemberFacts) -> Checked {
    let milliseconds = *known(&facts.latency_milliseconds, "the latency")?;
    if milliseconds <= SLOW {
        return Ok(Vec::new());
    }
    let severity = if milliseconds > TOO_SLOW { Blocking } else { Warning };
    let message = format!("one of 20 small requests takes {milliseconds} ms");
    let fix = "run the engine nearer to the cluster, or give the API server more room";
    Ok(vec![Problem::new(facts.server.clone(), message, fix).with_severity(severity)])
}

fn clock(facts: &MemberFacts) -> Checked {
    let ahead = *known(&facts.clock_ahead_seconds, "the clock of the API server")?;
    if ahead.unsigned_abs() <= APART {
        return Ok(Vec::new());
    }
    let severity = if ahead.unsigned_abs() > TOO_FAR_APART { Blocking } else { Warning };
    let (away, direction) = (ahead.unsigned_abs(), if ahead > 0 { "ahead" } else { "behind" });
    let message = format!("the clock of the API server is {away} s {direction}");
    let fix = "synchronize both clocks with a time server";
    Ok(vec![Problem::new(facts.server.clone(), message, fix).with_severity(severity)])
}

fn id(facts: &MemberFacts) -> Checked {
    let id = facts.cluster_id.as_ref().map(|_| ()).map_err(Clone::clone);
    accepted(facts, &id, "let the user get the namespace kube-system")
}
