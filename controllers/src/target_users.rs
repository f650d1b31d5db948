//! Decides which Cluster of this management cluster may use a group. Pure.
//!
//! A Cluster whose control plane is registered in the group precedes a Cluster whose machines were launched with the
//! group, and that one precedes a Cluster that only names it. If two Clusters have equal claims and neither is
//! registered, neither gets the group: anybody can name a group, so only its tag decides.

use std::cmp::Reverse;

use capa_api::machine::{AWSMachine, MachineNetworkInUse, MachineTargetState};
use capa_cloud::targets::Group;
use jiff::Timestamp;

/// How a Cluster uses a group. A later claim precedes an earlier one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Claim {
    /// The Cluster names the group.
    #[default]
    Named,
    /// A control plane machine was launched with the group.
    Launched,
    /// An instance of the control plane is registered in the group.
    Registered,
}

/// A Cluster that uses or names a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GroupUser {
    /// Namespace of the Cluster.
    pub(crate) namespace: String,
    /// Its name.
    pub(crate) name: String,
    /// How it uses the group.
    pub(crate) claim: Claim,
    /// The creation time of the Cluster; `None` if the Cluster does not exist.
    pub(crate) created: Option<Timestamp>,
}

impl GroupUser {
    /// The sort key: the first Cluster has the least key. A Cluster without a creation time does not exist any more.
    fn rank(&self) -> (Reverse<Claim>, bool, Option<Timestamp>, &str, &str) {
        let is_gone = self.created.is_none();
        (Reverse(self.claim), is_gone, self.created, &self.namespace, &self.name)
    }
}

/// The Cluster that keeps this one from the group, as `<namespace>/<name>`, if there is one.
pub(crate) fn first_other(own: &GroupUser, others: &[GroupUser]) -> Option<String> {
    // A user without a Cluster and without a registration will never use the group.
    let existing = others.iter().filter(|user| user.claim == Claim::Registered || user.created.is_some());
    let first = existing.min_by_key(|user| user.rank())?;
    let precedes = if own.claim == Claim::Registered { first.rank() < own.rank() } else { first.claim >= own.claim };
    precedes.then(|| format!("{}/{}", first.namespace, first.name))
}

/// How a machine uses a group of this account and region. `None` if the machine does not use the group.
pub(crate) fn claim(machine: &AWSMachine, group: &Group, account_id: &str, region: &str) -> Option<Claim> {
    let status = machine.status.as_ref()?;
    let network = status.network.as_ref()?;
    if !is_there(network, group, account_id, region) {
        return None;
    }
    let mut targets = status.targets.iter();
    if targets.any(|target| is_same(group, &target.target) && is_in(target.state)) {
        return Some(Claim::Registered);
    }
    let mut named = network.control_plane_targets.iter().filter_map(Group::of);
    named.any(|named| is_same(group, named.id())).then_some(Claim::Launched)
}

/// Whether the instance is registered according to this recorded state.
pub(crate) fn is_in(state: MachineTargetState) -> bool {
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

    fn user(name: &str, claim: Claim, created: Option<u64>) -> GroupUser {
        GroupUser {
            namespace: "team".into(),
            name: name.into(),
            claim,
            created: created.map(|at| Timestamp::UNIX_EPOCH + Duration::from_secs(at)),
        }
    }

    #[test]
    fn the_stronger_claim_comes_first_whatever_the_age() {
        let registered = user("r", Claim::Registered, Some(9));
        let launched = user("l", Claim::Launched, Some(5));
        let named = user("n", Claim::Named, Some(1));
        let first = |own: &GroupUser, others: &[&GroupUser]| {
            let others: Vec<GroupUser> = others.iter().map(|user| (*user).clone()).collect();
            first_other(own, &others)
        };
        assert_eq!(first(&named, &[]), None);
        assert_eq!(first(&named, &[&launched, &registered]).as_deref(), Some("team/r"));
        assert_eq!(first(&launched, &[&named, &registered]).as_deref(), Some("team/r"));
        assert_eq!(first(&named, &[&launched]).as_deref(), Some("team/l"));
        assert_eq!(first(&launched, &[&named]), None);
        assert_eq!(first(&registered, &[&launched, &named]), None);
        let forgotten = user("f", Claim::Launched, None);
        assert_eq!(first(&named, &[&forgotten]), None, "the Cluster is gone");
        let left_behind = user("s", Claim::Registered, None);
        let told = first(&launched, &[&left_behind]);
        assert_eq!(told.as_deref(), Some("team/s"), "its instance still gets traffic");
    }

    #[test]
    fn two_clusters_of_equal_claims_never_share_a_group() {
        for created in [(Some(1), Some(2)), (Some(1), Some(1)), (Some(2), Some(1))] {
            for claim in [Claim::Named, Claim::Launched, Claim::Registered] {
                let (a, b) = (user("a", claim, created.0), user("b", claim, created.1));
                let loses =
                    |own: &GroupUser, other: &GroupUser| first_other(own, std::slice::from_ref(other)).is_some();
                let refused_count = usize::from(loses(&a, &b)) + usize::from(loses(&b, &a));
                let expected = if claim == Claim::Registered { 1 } else { 2 };
                assert_eq!(refused_count, expected, "{claim:?} {created:?}");
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
            (machine(&named, ""), Some(Claim::Launched)),
            (machine(&named, &stored("Registering")), Some(Claim::Launched)),
            (machine("", &stored("InService")), Some(Claim::Registered)),
            (machine(&named, &stored("Registered")), Some(Claim::Registered)),
            (machine("", &stored("Deregistering")), Some(Claim::Registered)),
            (machine("", &stored("Deregistered")), None),
        ];
        for (machine, expected) in table {
            let found = claim(&machine, &group, "2", "elsewhere");
            assert_eq!(found, expected, "{:?}", machine.status);
        }
    }

    #[test]
    fn classic_load_balancers_differ_by_account_and_region() {
        let machine = machine("controlPlaneTargets: [{classicLoadBalancerName: API}]", "");
        let group = Group::Classic("api".into());
        assert_eq!(claim(&machine, &group, "1", "eu-west-1"), Some(Claim::Launched));
        assert_eq!(claim(&machine, &group, "2", "eu-west-1"), None);
        assert_eq!(claim(&machine, &group, "1", "us-east-1"), None);
    }
}
