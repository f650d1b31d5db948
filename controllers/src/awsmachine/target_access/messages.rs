//! Messages about groups that a control plane may not use. Pure.

use capa_api::conditions::Reason;
use capa_api::meta::CONTROL_PLANE_TARGET_TAG;
use capa_cloud::targets::{Group, Refusal, TargetAccess};

/// The problem of a group for the control plane of a Cluster, `<namespace>/<name>`. `None` if the control plane may use
/// the group.
pub(super) fn problem(group: &Group, cluster: &str, access: &TargetAccess) -> Option<(Reason, String)> {
    match access {
        TargetAccess::Granted => None,
        TargetAccess::Unknown => {
            let message = format!("whether {cluster} may use {group} is being read from its tags");
            Some((Reason::Registering, message))
        }
        TargetAccess::Unreadable(error) => {
            let message = format!("the tags of {group} cannot be read, it is tried again: {error}");
            Some((error.class.reason(), message))
        }
        TargetAccess::Refused(refusal) => Some((Reason::Conflict, refused(group, cluster, refusal))),
    }
}

/// The message about a group that the control plane of a Cluster, `<namespace>/<name>`, may not use.
pub(in crate::awsmachine) fn refused(group: &Group, cluster: &str, refusal: &Refusal) -> String {
    let tag = format!("{CONTROL_PLANE_TARGET_TAG}: {cluster}");
    let ways_out = format!("name another target, or, if it is to serve {cluster}, give it the tag {tag}");
    match refusal {
        Refusal::GivenTo(other) => {
            format!("{group} has the tag {CONTROL_PLANE_TARGET_TAG}: {other}, which is not {cluster}: {ways_out}")
        }
        Refusal::Untagged => {
            format!("{group} lacks the tag {tag}, which --control-plane-targets=Tagged asks for: {ways_out}")
        }
        Refusal::OwnedBy(owner) => format!("{group} belongs to another cluster by its tag {owner}: {ways_out}"),
        Refusal::UsedBy(other) => {
            format!("{group} is used or named by the control plane of Cluster {other}: {ways_out}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_the_group_the_holder_and_the_tag_to_set() {
        let arn = "arn:aws:elasticloadbalancing:eu-west-1:1:targetgroup/api/1";
        let group = Group::TargetGroup(arn.to_owned());
        for (refusal, holder) in [
            (Refusal::GivenTo("team-b/prod".into()), "team-b/prod"),
            (Refusal::Untagged, "--control-plane-targets=Tagged"),
            (
                Refusal::OwnedBy("kubernetes.io/cluster/prod: owned".into()),
                "kubernetes.io/cluster/prod: owned",
            ),
            (Refusal::UsedBy("team-b/prod".into()), "Cluster team-b/prod"),
        ] {
            let told = refused(&group, "team-a/dev", &refusal);
            let tag = "infrastructure.cluster.x-k8s.io/control-plane: team-a/dev";
            for part in ["target group api/1 ", holder, tag] {
                assert!(told.contains(part), "{part} is not in {told}");
            }
        }
    }
}
