//! Decides which Cluster of this management cluster may use a group. Pure.
//!
//! A Cluster whose control plane is registered in the group precedes a Cluster that only names the group. Otherwise the
//! older Cluster comes first. So the result is the same for both of two competing Clusters, and a Cluster never gets
//! the group of another running control plane.

use capa_api::machine::{AWSMachine, MachineNetworkInUse, MachineTargetState};
use capa_cloud::targets::Group;
use jiff::Timestamp;

/// A Cluster that uses or names a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct GroupUser {
    /// Namespace of the Cluster.
    pub(super) namespace: String,
    /// Its name.
    pub(super) name: String,
    /// Whether an instance of its control plane is registered in the group.
    pub(super) is_registered: bool,
    /// The creation time of the Cluster; `None` if the Cluster does not exist.
    pub(super) created: Option<Timestamp>,
}

impl GroupUser {
    /// The sort key: the first Cluster has the least key.
    fn rank(&self) -> (bool, bool, Option<Timestamp>, &str, &str) {
        let is_unknown = self.created.is_none();
        (
            !self.is_registered,
            is_unknown,
            self.created,
            &self.namespace,
            &self.name,
        )
    }
}

/// The Cluster that precedes this one, as `<namespace>/<name>`, if there is one.
pub(super) fn first_other(own: &GroupUser, others: &[GroupUser]) -> Option<String> {
    // A user without a Cluster and without a registration will never use the group.
    let existing = others
        .iter()
        .filter(|user| user.is_registered || user.created.is_some());
    let first = existing.min_by_key(|user| user.rank())?;
    (first.rank() < own.rank()).then(|| format!("{}/{}", first.namespace, first.name))
}

/// Whether a machine's instance is registered in a group of this account and region. `None` if the machine does not use
/// the group.
pub(super) fn registration(machine: &AWSMachine, group: &Group, account_id: &str, region: &str) -> Option<bool> {
    let status = machine.status.as_ref()?;
    let network = status.network.as_ref()?;
    if !is_there(network, group, account_id, region) {
        return None;
    }
    let mut targets = status.targets.iter();
    let is_registered = targets.any(|target| is_same(group, &target.target) && is_in(target.state));
    let mut named = network.control_plane_targets.iter().filter_map(Group::of);
    (is_registered || named.any(|named| is_same(group, named.id()))).then_some(is_registered)
}

/// Whether the instance is registered according to this recorded state.
pub(in crate::awsmachine) fn is_in(state: MachineTargetState) -> bool {
    match state {
        MachineTargetState::Registered | MachineTargetState::InService | MachineTargetState::Deregistering => true,
        MachineTargetState::Registering | MachineTargetState::Deregistered => false,
    }
}

/// Whether the group is in the machine's account and region. The ARN of a target group contains both. The name of a
/// classic load balancer does not, so the machine's account and region are compared.
fn is_there(network: &MachineNetworkInUse, group: &Group, account_id: &str, region: &str) -> bool {
    match group {
        Group::TargetGroup(_) => true,
        Group::Classic(_) => {
            network.account_id.as_deref() == Some(account_id) && network.region.as_deref() == Some(region)
        }
    }
}

/// Whether the text is the ARN or the name of the group. AWS ignores the case of the names of classic load balancers.
fn is_same(group: &Group, id: &str) -> bool {
    match group {
        Group::TargetGroup(arn) => arn == id,
        Group::Classic(name) => name.eq_ignore_ascii_case(id),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::testing::read;

    fn user(name: &str, is_registered: bool, created: Option<u64>) -> GroupUser {
        GroupUser {
            namespace: "team".into(),
            name: name.into(),
            is_registered,
            created: created.map(|at| Timestamp::UNIX_EPOCH + Duration::from_secs(at)),
        }
    }

    #[test]
    fn registered_control_planes_come_first_then_older_clusters() {
        let (registered, older, younger) = (
            user("r", true, Some(9)),
            user("o", false, Some(1)),
            user("y", false, Some(5)),
        );
        let forgotten = user("f", false, None);
        let first = |own: &GroupUser, others: &[&GroupUser]| {
            let others: Vec<GroupUser> = others.iter().map(|user| (*user).clone()).collect();
            first_other(own, &others)
        };
        assert_eq!(first(&older, &[]), None);
        assert_eq!(first(&older, &[&registered, &younger]).as_deref(), Some("team/r"));
        assert_eq!(first(&younger, &[&older]).as_deref(), Some("team/o"));
        assert_eq!(first(&older, &[&younger]), None);
        assert_eq!(first(&registered, &[&older, &younger]), None);
        assert_eq!(first(&younger, &[&forgotten]), None, "its Cluster is gone");
        let strayed = user("s", true, None);
        assert_eq!(
            first(&older, &[&strayed]).as_deref(),
            Some("team/s"),
            "it still gets traffic"
        );
    }

    #[test]
    fn exactly_one_of_two_competing_clusters_gets_a_group() {
        for created in [(Some(1), Some(2)), (Some(1), Some(1)), (Some(1), None)] {
            for registered in [(false, false), (true, true), (true, false)] {
                let (a, b) = (user("a", registered.0, created.0), user("b", registered.1, created.1));
                let loses =
                    |own: &GroupUser, other: &GroupUser| first_other(own, std::slice::from_ref(other)).is_some();
                assert!(!(loses(&a, &b) && loses(&b, &a)), "{created:?} {registered:?}");
                let counts = |user: &GroupUser| user.is_registered || user.created.is_some();
                assert!(
                    loses(&a, &b) || loses(&b, &a) || !counts(&a) || !counts(&b),
                    "{created:?} {registered:?}"
                );
            }
        }
    }

    const ARN: &str = "arn:aws:elasticloadbalancing:eu-west-1:1:targetgroup/api/1";

    fn machine(network: &str, targets: &str) -> AWSMachine {
        read(&format!(
            "{{apiVersion: infrastructure.cluster.x-k8s.io/v1beta2, kind: AWSMachine, metadata: {{name: m}}, \
              spec: {{instanceType: t3.large}}, \
              status: {{network: {{accountID: '1', region: eu-west-1, {network}}}, targets: [{targets}]}}}}"
        ))
    }

    #[test]
    fn a_machine_uses_named_and_registered_targets() {
        let named = format!("controlPlaneTargets: [{{targetGroupARN: '{ARN}'}}]");
        let stored = |state: &str| format!("{{target: '{ARN}', instanceID: i-0000000a, state: {state}}}");
        let group = Group::TargetGroup(ARN.into());
        let table = [
            (machine("", ""), None),
            (machine(&named, ""), Some(false)),
            (machine(&named, &stored("Registering")), Some(false)),
            (machine("", &stored("InService")), Some(true)),
            (machine(&named, &stored("Registered")), Some(true)),
            (machine("", &stored("Deregistering")), Some(true)),
            (machine("", &stored("Deregistered")), None),
        ];
        for (machine, expected) in table {
            let found = registration(&machine, &group, "2", "elsewhere");
            assert_eq!(found, expected, "{:?}", machine.status);
        }
    }

    #[test]
    fn classic_load_balancers_differ_by_account_and_region() {
        let machine = machine("controlPlaneTargets: [{classicLoadBalancerName: API}]", "");
        let group = Group::Classic("api".into());
        assert_eq!(registration(&machine, &group, "1", "eu-west-1"), Some(false));
        assert_eq!(registration(&machine, &group, "2", "eu-west-1"), None);
        assert_eq!(registration(&machine, &group, "1", "us-east-1"), None);
    }
}
