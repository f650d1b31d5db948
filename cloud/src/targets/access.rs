//! Decides which control planes may use a group. Pure.
//!
//! If a group has the tag [`CONTROL_PLANE_TARGET_TAG`], only this tag decides, because somebody who can set tags in AWS
//! has assigned the group with it. Without the tag, a control plane may not use a group that another cluster owns by
//! the tags of its controllers, or that another Cluster of this management cluster uses.

use std::collections::BTreeMap;
use std::str::FromStr;

use capa_api::common::ControlPlaneTarget;
use capa_api::meta::{
    CLUSTER_TAG_PREFIX, CONTROL_PLANE_TARGET_TAG, KUBERNETES_CLUSTER_TAG_PREFIX, LOAD_BALANCER_CONTROLLER_TAG,
    OWNED_TAG_VALUE, SHARED_TAG_VALUE, kubernetes_cluster_tag,
};

use crate::CloudError;

/// Which groups `controlPlaneTargets` may name. Flag `--control-plane-targets`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TargetPolicy {
    /// Every group that no other cluster owns or uses.
    #[default]
    Any,
    /// Only groups whose tag [`CONTROL_PLANE_TARGET_TAG`] names the Cluster.
    Tagged,
}

impl FromStr for TargetPolicy {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "Any" => Ok(Self::Any),
            "Tagged" => Ok(Self::Tagged),
            other => Err(format!("{other:?} is neither Any nor Tagged")),
        }
    }
}

/// A control plane that wants its instances in a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetUser {
    /// `<namespace>/<name>` of the control plane's Cluster.
    pub cluster: String,
    /// Name of the cluster in tags.
    pub cluster_tag: String,
    /// Which groups the Cluster may name.
    pub policy: TargetPolicy,
    /// `<namespace>/<name>` of another Cluster of this management cluster that uses the group and takes precedence.
    pub used_by: Option<String>,
}

/// The request of a machine for a group, and the control plane that it is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetRequest {
    /// The entry of `controlPlaneTargets`.
    pub target: ControlPlaneTarget,
    /// The control plane of the machine.
    pub user: TargetUser,
    /// Whether a record says that the instance was registered in the group. A recorded target is deregistered
    /// regardless of the tags of its group.
    pub on_record: bool,
}

/// Why a control plane may not use a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The tag [`CONTROL_PLANE_TARGET_TAG`] of the group has this value, which is not the Cluster.
    GivenTo(String),
    /// The group lacks the tag [`CONTROL_PLANE_TARGET_TAG`], which the policy requires.
    Untagged,
    /// This tag of the group, with its value, says that another cluster owns the group.
    OwnedBy(String),
    /// This Cluster uses the group.
    UsedBy(String),
}

/// Whether a control plane may use a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TargetAccess {
    /// The tags of the group have not been read yet, or were read too long ago.
    Unknown,
    /// The tags cannot be read because of this error. The read is retried.
    Unreadable(CloudError),
    /// The control plane may not use the group.
    Refused(Refusal),
    /// The control plane may use the group.
    Granted,
}

/// The tags of a group that identify its owner.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupTags(BTreeMap<String, String>);

impl FromIterator<(String, String)> for GroupTags {
    fn from_iter<T: IntoIterator<Item = (String, String)>>(tags: T) -> Self {
        let says_whose = |(key, _): &(String, String)| {
            key == CONTROL_PLANE_TARGET_TAG
                || key == LOAD_BALANCER_CONTROLLER_TAG
                || key.starts_with(CLUSTER_TAG_PREFIX)
                || key.starts_with(KUBERNETES_CLUSTER_TAG_PREFIX)
        };
        Self(tags.into_iter().filter(says_whose).collect())
    }
}

impl GroupTags {
    /// The reason why this control plane may not use the group; `None` if it may.
    pub fn refusal(&self, user: &TargetUser) -> Option<Refusal> {
        if let Some(cluster) = self.0.get(CONTROL_PLANE_TARGET_TAG) {
            return (*cluster != user.cluster).then(|| Refusal::GivenTo(cluster.clone()));
        }
        if user.policy == TargetPolicy::Tagged {
            return Some(Refusal::Untagged);
        }
        let owned = self.other_owner(&user.cluster_tag).map(Refusal::OwnedBy);
        owned.or_else(|| user.used_by.clone().map(Refusal::UsedBy))
    }

    /// The tag, with its value, by which a cluster of another name owns the group.
    fn other_owner(&self, cluster_tag: &str) -> Option<String> {
        let shares = self.0.contains_key(&kubernetes_cluster_tag(cluster_tag));
        let is_other = |key: &str, value: &str| {
            if let Some(name) = key.strip_prefix(CLUSTER_TAG_PREFIX) {
                name != cluster_tag && value == OWNED_TAG_VALUE
            } else if let Some(name) = key.strip_prefix(KUBERNETES_CLUSTER_TAG_PREFIX) {
                name != cluster_tag && !(shares && value == SHARED_TAG_VALUE)
            } else {
                key == LOAD_BALANCER_CONTROLLER_TAG && value != cluster_tag
            }
        };
        let mut tags = self.0.iter();
        let (key, value) = tags.find(|(key, value)| is_other(key, value))?;
        Some(format!("{key}: {value}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: &str = "team-a/dev";

    fn user(policy: TargetPolicy, used_by: Option<&str>) -> TargetUser {
        TargetUser {
            cluster: OWN.to_owned(),
            cluster_tag: "dev".to_owned(),
            policy,
            used_by: used_by.map(str::to_owned),
        }
    }

    fn tags(tags: &[(&str, &str)]) -> GroupTags {
        let tags = tags.iter();
        tags.map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn a_group_that_another_cluster_owns_is_refused() {
        let capa = "sigs.k8s.io/cluster-api-provider-aws/cluster/prod";
        let refused = [
            &[(capa, "owned")][..],
            &[("kubernetes.io/cluster/prod", "owned")],
            &[("kubernetes.io/cluster/prod", "shared")],
            &[("kubernetes.io/cluster/prod", "")],
            &[("kubernetes.io/cluster/prod", "owned"), ("kubernetes.io/cluster/dev", "shared")],
            &[("elbv2.k8s.aws/cluster", "prod")],
        ];
        for of_group in refused {
            let Some(Refusal::OwnedBy(tag)) = tags(of_group).refusal(&user(TargetPolicy::Any, None)) else {
                panic!("{of_group:?}");
            };
            assert!(tag.contains("prod"), "{tag}");
        }
    }

    #[test]
    fn a_group_of_the_own_cluster_or_of_nobody_is_granted() {
        let granted = [
            &[][..],
            &[("Name", "kubernetes.io/cluster/prod"), ("team", "b")],
            &[("sigs.k8s.io/cluster-api-provider-aws/cluster/dev", "owned")],
            &[("sigs.k8s.io/cluster-api-provider-aws/cluster/prod", "shared")],
            &[("kubernetes.io/cluster/dev", "owned"), ("elbv2.k8s.aws/cluster", "dev")],
            &[("kubernetes.io/cluster/dev", "shared"), ("kubernetes.io/cluster/prod", "shared")],
        ];
        for of_group in granted {
            assert_eq!(tags(of_group).refusal(&user(TargetPolicy::Any, None)), None, "{of_group:?}");
        }
    }

    #[test]
    fn the_tag_that_names_a_cluster_decides_by_itself() {
        let owned = ("kubernetes.io/cluster/prod", "owned");
        for policy in [TargetPolicy::Any, TargetPolicy::Tagged] {
            let asking = user(policy, Some("team-b/prod"));
            assert_eq!(tags(&[(CONTROL_PLANE_TARGET_TAG, OWN), owned]).refusal(&asking), None);
            for other in ["team-b/prod", "team-b/dev", "dev", "", "*/*"] {
                let refusal = tags(&[(CONTROL_PLANE_TARGET_TAG, other)]).refusal(&asking);
                assert_eq!(refusal, Some(Refusal::GivenTo(other.to_owned())), "{policy:?}");
            }
        }
    }

    #[test]
    fn a_group_without_the_tag_is_refused_where_it_is_asked_for() {
        let own = tags(&[("kubernetes.io/cluster/dev", "owned")]);
        assert_eq!(own.refusal(&user(TargetPolicy::Tagged, None)), Some(Refusal::Untagged));
        assert_eq!(own.refusal(&user(TargetPolicy::Any, None)), None);
    }

    #[test]
    fn a_group_that_another_cluster_uses_is_refused() {
        let used = Some("team-b/prod");
        let refusal = tags(&[]).refusal(&user(TargetPolicy::Any, used));
        assert_eq!(refusal, Some(Refusal::UsedBy("team-b/prod".to_owned())));
    }

    #[test]
    fn a_policy_is_read_by_its_name() {
        assert_eq!("Tagged".parse(), Ok(TargetPolicy::Tagged));
        assert_eq!("Any".parse(), Ok(TargetPolicy::default()));
        assert!("tagged".parse::<TargetPolicy>().is_err());
    }
}
