//! The conditions of ClusterProfiles. Pure.

use capa_runtime::reconcile::EventDraft;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use strum::{Display, IntoStaticStr, VariantArray};

/// The condition types that this process writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Display, IntoStaticStr, VariantArray)]
pub enum ConditionType {
    /// The API server of the cluster answers and is ready. Named by the API of ClusterProfile.
    ControlPlaneHealthy,
    /// The cluster is a ready member of the Karmada that its label names. Named by KEP-4322.
    Joined,
    /// No workload of the Karmada runs in the cluster any more. The condition exists only while the cluster is being
    /// drained.
    Drained,
}

/// The reasons of these conditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Display, IntoStaticStr, VariantArray)]
pub enum Reason {
    /// The API server reports that it is ready.
    Healthy,
    /// The API server reports that it is not ready.
    NotReady,
    /// The API server refuses the credentials of the kubeconfig.
    CredentialsRefused,
    /// The API server does not answer.
    Unreachable,
    /// The Secret with the kubeconfig is gone.
    KubeconfigMissing,
    /// The kubeconfig cannot or must not be used.
    KubeconfigInvalid,
    /// The cluster is a member, and Karmada reports that it is ready.
    Joined,
    /// The cluster is registered, and Karmada does not report yet that it is ready.
    Joining,
    /// The cluster cannot join before its API server has been reached.
    WaitingForControlPlane,
    /// The annotation contains a member name that Karmada does not accept.
    NameInvalid,
    /// Another cluster has the name, or the cluster is a member under another name.
    NameInUse,
    /// The Secret of the Karmada does not list the namespace of the Cluster.
    NotAllowed,
    /// The Secret with the kubeconfig of the Karmada does not exist, or cannot be used.
    KarmadaSecretInvalid,
    /// The Karmada does not answer, or refuses requests.
    KarmadaUnreachable,
    /// The cluster is leaving its Karmada.
    Leaving,
    /// Workloads are moving to other members.
    Draining,
    /// Some workloads cannot move to any other member.
    DrainBlocked,
    /// Nothing of the Karmada runs in the cluster any more.
    Drained,
}

impl Reason {
    /// Whether the reason is a stage that ends within minutes. Joining and draining do not progress while the API
    /// server does not answer.
    pub(crate) fn is_under_way(self, is_reachable: bool) -> bool {
        match self {
            Self::Leaving => true,
            Self::Joining | Self::Draining => is_reachable,
            _ => false,
        }
    }
}

/// The finding of a pass about a condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) condition: ConditionType,
    /// `None` if unknown.
    pub(crate) is_true: Option<bool>,
    pub(crate) reason: Reason,
    /// What failed and what to do about it; empty if nothing failed.
    pub(crate) message: String,
}

impl Finding {
    /// The event about a condition that is not true, for a Cluster without a ClusterProfile.
    pub(crate) fn event(&self) -> Option<EventDraft> {
        let message = || format!("{}: {}", self.condition, self.message);
        (self.is_true != Some(true)).then(|| EventDraft::warning(self.reason.to_string(), message()))
    }
}

/// Removes the conditions of these types.
pub(crate) fn remove(conditions: &mut Vec<Condition>, types: &[ConditionType]) {
    let is_of = |condition: &Condition| types.iter().any(|name| condition.type_ == <&str>::from(name));
    conditions.retain(|condition| !is_of(condition));
}

/// Sets one condition and keeps all others. The transition time changes only with the status.
pub(crate) fn set(conditions: &mut Vec<Condition>, finding: Finding, generation: Option<i64>, now: Timestamp) {
    let name: &str = finding.condition.into();
    let reason: &str = finding.reason.into();
    let status = match finding.is_true {
        Some(true) => "True",
        Some(false) => "False",
        None => "Unknown",
    };
    let previous = conditions.iter().find(|condition| condition.type_ == name);
    let since = previous
        .filter(|previous| previous.status == status)
        .map_or(Time(now), |previous| previous.last_transition_time.clone());
    conditions.retain(|condition| condition.type_ != name);
    conditions.push(Condition {
        type_: name.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message: finding.message,
        observed_generation: generation,
        last_transition_time: since,
    });
    conditions.sort_by(|one, other| one.type_.cmp(&other.type_));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn healthy(is_true: bool) -> Finding {
        Finding {
            condition: ConditionType::ControlPlaneHealthy,
            is_true: Some(is_true),
            reason: if is_true { Reason::Healthy } else { Reason::NotReady },
            message: String::new(),
        }
    }

    #[test]
    fn the_time_of_a_condition_moves_with_its_status() {
        let mut conditions = Vec::new();
        for (second, is_true, since) in [(10, true, 10), (20, true, 10), (30, false, 30)] {
            set(&mut conditions, healthy(is_true), Some(1), Timestamp::from_second(second).unwrap());
            assert_eq!(conditions[0].last_transition_time.0.as_second(), since);
        }
        assert_eq!(conditions[0].reason, "NotReady");
    }

    #[test]
    fn conditions_of_others_stay() {
        let mut conditions = vec![Condition {
            type_: "Placed".into(),
            status: "True".into(),
            reason: "Somebody".into(),
            message: String::new(),
            observed_generation: None,
            last_transition_time: Time(Timestamp::UNIX_EPOCH),
        }];
        set(&mut conditions, healthy(true), None, Timestamp::UNIX_EPOCH);
        let types: Vec<&str> = conditions.iter().map(|condition| condition.type_.as_str()).collect();
        assert_eq!(types, ["ControlPlaneHealthy", "Placed"]);
    }
}
