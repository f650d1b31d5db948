//! The findings of a pass about a membership, for the conditions `Joined` and `Drained`. Pure.

use kube::ResourceExt;
use kube::api::DynamicObject;
use serde_json::Value;

use super::bindings::Remaining;
use crate::conditions::{ConditionType, Finding, Reason};
use crate::names::{DRAIN_ANNOTATION, KARMADA_LABEL, MEMBER_NAME_ANNOTATION};

/// Maximum number of workloads that a message names.
const WORKLOADS_IN_MESSAGE: usize = 5;

pub(super) fn joined(is_true: Option<bool>, reason: Reason, message: String) -> Finding {
    Finding { condition: ConditionType::Joined, is_true, reason, message }
}

pub(super) fn waiting() -> Finding {
    let message = "the API server of the cluster has to be reached first: see ControlPlaneHealthy".to_owned();
    joined(Some(false), Reason::WaitingForControlPlane, message)
}

/// The name in the annotation is not valid.
pub(super) fn misnamed(chosen: &str) -> Finding {
    let message = format!(
        "the annotation {MEMBER_NAME_ANNOTATION} is {chosen:?}: the name of a member is a DNS label of at most 48 \
         characters, and ends in no impersonator"
    );
    joined(Some(false), Reason::NameInvalid, message)
}

/// Another member has the name of this cluster.
pub(super) fn name_in_use(member: &DynamicObject) -> Finding {
    let message = format!(
        "the Karmada has a member {} that is not this cluster: choose another name by the annotation \
         {MEMBER_NAME_ANNOTATION}. A cluster that has been a member takes another name after it has left",
        member.name_any()
    );
    joined(Some(false), Reason::NameInUse, message)
}

/// This cluster has another name in the Karmada.
pub(super) fn member_already(member: &DynamicObject) -> Finding {
    let message = format!("this cluster is a member of the Karmada already, as {}", member.name_any());
    joined(Some(false), Reason::NameInUse, message)
}

/// The kubeconfig leads to another cluster than before.
pub(super) fn another_cluster() -> Finding {
    let message = format!(
        "the kubeconfig leads to another cluster than the one that joined: take the label {KARMADA_LABEL} away, and \
         put it on again"
    );
    joined(Some(false), Reason::NameInUse, message)
}

/// The permissions of Karmada in the cluster could not be removed.
pub(super) fn permissions_left(why: &str) -> Finding {
    let message = format!(
        "the permissions of Karmada could not be taken away in the cluster: {why}. The user of the kubeconfig needs \
         the role cluster-admin"
    );
    joined(Some(false), Reason::Leaving, message)
}

pub(super) fn leaving(member: &str) -> Finding {
    let message = format!("member {member} leaves the Karmada");
    joined(Some(false), Reason::Leaving, message)
}

/// The finding about `Joined` that follows from Karmada's conditions of the member.
pub(super) fn readiness(member: &DynamicObject) -> Finding {
    let conditions = member.data.pointer("/status/conditions").and_then(Value::as_array);
    let ready = conditions.into_iter().flatten().find(|condition| condition["type"] == "Ready");
    let name = member.name_any();
    match ready {
        Some(ready) if ready["status"] == "True" => joined(Some(true), Reason::Joined, format!("as member {name}")),
        Some(ready) => {
            let reason = ready["reason"].as_str().unwrap_or("no reason");
            let message = format!("Karmada says that member {name} is not ready: {reason}");
            joined(Some(false), Reason::Joining, message)
        }
        None => {
            let message = format!("Karmada has not looked at member {name} yet");
            joined(Some(false), Reason::Joining, message)
        }
    }
}

pub(super) fn drained(left: &Remaining) -> Finding {
    let (is_true, reason, message) = if left.is_empty() {
        (true, Reason::Drained, String::new())
    } else if left.blocked.is_empty() {
        let message = format!(
            "{} move to other members. If nothing moves, Karmada's controller manager lacks \
             --feature-gates=Failover=true and --enable-no-execute-taint-eviction=true",
            listed(&left.moving)
        );
        (false, Reason::Draining, message)
    } else {
        let message = format!(
            "no other member takes {}. Add one that fits, change the policy, or take the annotation {DRAIN_ANNOTATION} \
             away",
            listed(&left.blocked)
        );
        (false, Reason::DrainBlocked, message)
    };
    Finding { condition: ConditionType::Drained, is_true: Some(is_true), reason, message }
}

fn listed(workloads: &[String]) -> String {
    let mut sorted: Vec<&str> = workloads.iter().map(String::as_str).collect();
    sorted.sort_unstable();
    let more = sorted.len().saturating_sub(WORKLOADS_IN_MESSAGE);
    sorted.truncate(WORKLOADS_IN_MESSAGE);
    match more {
        0 => sorted.join(", "),
        more => format!("{} and {more} more", sorted.join(", ")),
    }
}
