//! Helpers for the answers of the rules about members.

use super::facts::{MemberFacts, Reached, Read};
use crate::rule::{Checked, Problem, Skipped};

/// The answer of a rule with one problem.
#[expect(clippy::unnecessary_wraps, reason = "the answer of a rule is a result")]
pub(super) fn problem(facts: &MemberFacts, message: impl Into<String>, fix: impl Into<String>) -> Checked {
    Ok(vec![Problem::new(facts.server.clone(), message, fix)])
}

pub(super) fn known<'a, T>(read: &'a Read<T>, what: &str) -> Result<&'a T, Skipped> {
    read.as_ref().map_err(|why| Skipped::Unknown(format!("{what} could not be read: {why}")))
}

/// A refusal breaks the rule, unless the API server could not be reached, which is the subject of another rule.
pub(super) fn accepted(facts: &MemberFacts, read: &Read<()>, fix: &str) -> Checked {
    match read {
        Ok(()) => Ok(Vec::new()),
        Err(why) if matches!(facts.readiness, Reached::Unreachable(_)) => Err(Skipped::Unknown(why.clone())),
        Err(why) => problem(facts, why.clone(), fix),
    }
}

/// The minor version in a version of Kubernetes such as `v1.34.1`.
pub(super) fn minor(version: &str) -> Option<u32> {
    let minor = version.trim_start_matches('v').split('.').nth(1)?;
    minor.trim_end_matches('+').parse().ok()
}

/// A problem if the user lacks permissions. The rule explains why they are needed.
pub(super) fn permitted(facts: &MemberFacts, missing: &Read<Vec<String>>) -> Checked {
    let missing = known(missing, "the rights of the user")?;
    if missing.is_empty() {
        return Ok(Vec::new());
    }
    let fix = "bind the ClusterRole cluster-admin to the user of the kubeconfig";
    problem(facts, format!("the user may not {}", missing.join(", ")), fix)
}
