//! Decides which Dedicated Hosts belong to a machine. Pure.

use std::num::NonZeroU32;

use capa_api::machine::LaunchRecord;
use capa_api::meta;
use capa_cloud::{Host, Query};

use crate::awsmachine::scope::MachineScope;
use crate::awsmachine::spec;

/// Between the UID and the number in the client token of a host.
const INFIX: &str = "-host-";

/// The client token of an allocation.
pub(super) fn host_token(uid: &str, number: NonZeroU32) -> String {
    format!("{uid}{INFIX}{number}")
}

/// The number of the allocation with this client token, if an AWSMachine with that UID has made it.
pub(super) fn host_number(token: &str, uid: &str) -> Option<u32> {
    let number = token.strip_prefix(uid)?.strip_prefix(INFIX)?;
    number.parse().ok().filter(|_| !uid.is_empty())
}

/// The number in the client token of a host.
pub(super) fn number_in(token: &str) -> Option<u32> {
    token.rsplit_once(INFIX)?.1.parse().ok()
}

/// The UID that this AWSMachine had when it launched its instance, which was in another management cluster after a move.
fn uid_of_launch(scope: &MachineScope) -> Option<&str> {
    let launch = scope.status.launch.as_ref().and_then(LaunchRecord::request)?;
    uid_in(&launch.client_token)
}

/// The UID in the client token of an instance.
pub(super) fn uid_in(client_token: &str) -> Option<&str> {
    client_token.rsplit_once('-').map(|(uid, _)| uid)
}

/// The hosts that are not released and that were allocated for this machine, the earliest first. Tags prove nothing: a
/// copy of the AWSMachine has the same. The client token has the UID. A host of the time before a move has the tags of
/// the machine besides.
pub(super) fn hosts_of(scope: &MachineScope, found: Vec<Host>) -> Vec<Host> {
    hosts_since(scope, uid_of_launch(scope), found)
}

/// The same with the UID that the AWSMachine had before a move.
pub(super) fn hosts_since(scope: &MachineScope, earlier_uid: Option<&str>, found: Vec<Host>) -> Vec<Host> {
    let tag = meta::machine_name_tag_value(scope.namespace(), spec::machine_name(&scope.machine));
    let number = |host: &Host| {
        let token = host.client_token.as_deref()?;
        let own = host_number(token, scope.uid());
        own.or_else(|| host_number(token, earlier_uid?).filter(|_| host.tags.get(meta::MACHINE_NAME_TAG) == Some(&tag)))
    };
    let named = scope.machine.spec.host_id.as_deref();
    let living = found
        .into_iter()
        .filter(|host| !host.is_released && Some(host.id.as_str()) != named);
    let mut ours: Vec<(u32, Host)> = living.filter_map(|host| Some((number(&host)?, host))).collect();
    ours.sort_by_key(|(number, _)| *number);
    ours.into_iter().map(|(_, host)| host).collect()
}

/// The query for hosts of machines. DescribeHosts has no filter for the value of a tag, and the client tokens of a
/// machine are not known where its status was lost.
pub(super) fn host_query() -> Query {
    Query::filter("tag-key", [meta::MACHINE_NAME_TAG])
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use capa_api::common::Tags;

    use super::*;
    use crate::awsmachine::ownership::OwnerProblem;
    use crate::awsmachine::scope::Owners;
    use crate::testing::read;

    fn scope(status: &str) -> MachineScope {
        let machine = read(&format!(
            "{{apiVersion: infrastructure.cluster.x-k8s.io/v1beta2, kind: AWSMachine, \
              metadata: {{name: m, namespace: team-a, uid: new}}, spec: {{instanceType: t3.large, hostID: h-9}}, \
              status: {status}}}"
        ));
        let owners = Owners {
            machine: Err(OwnerProblem::Missing),
            cluster: None::<Arc<_>>,
        };
        MachineScope::new(machine, owners)
    }

    fn host(id: &str, token: &str) -> Host {
        Host {
            id: id.into(),
            client_token: Some(token.into()),
            availability_zone: "eu-west-1a".into(),
            instance_type: "t3.large".into(),
            is_released: false,
            tags: Tags::default(),
        }
    }

    #[test]
    fn only_a_token_with_the_uid_proves_a_host() {
        assert_eq!(host_number("uid-host-2", "uid"), Some(2));
        for (token, uid) in [
            ("uid-2", "uid"),
            ("uid-host-x", "uid"),
            ("other-host-2", "uid"),
            ("-host-2", ""),
        ] {
            assert_eq!(host_number(token, uid), None, "{token}");
        }
    }

    #[test]
    fn living_hosts_of_the_uid_are_ours_the_earliest_first() {
        let released = Host {
            is_released: true,
            ..host("h-4", "new-host-4")
        };
        let found = vec![
            host("h-3", "new-host-3"),
            host("h-2", "new-host-2"),
            host("h-1", "other-host-1"),
            host("h-9", "new-host-9"),
            released,
        ];
        let ids: Vec<String> = hosts_of(&scope("{}"), found).into_iter().map(|host| host.id).collect();
        assert_eq!(ids, ["h-2", "h-3"], "and the host of the spec is the user's");
    }

    #[test]
    fn the_uid_in_the_token_of_the_launch_proves_a_host() {
        let launch = "{launch: {phase: Answered, attempt: 1, holder: one, clientToken: old-1, subnetID: s, imageID: i, \
                      instanceType: t, securityGroupIDs: [g], parametersHash: h, requestedAt: '2026-01-01T00:00:00Z', \
                      instanceID: i-0000000000000000a}}";
        let tagged = |name: &str| Host {
            tags: Tags::from([(meta::MACHINE_NAME_TAG.to_owned(), name.to_owned())]),
            ..host("h-1", "old-host-1")
        };
        for (status, tag, ours) in [(launch, "team-a/m", 1), (launch, "team-b/m", 0), ("{}", "team-a/m", 0)] {
            assert_eq!(
                hosts_of(&scope(status), vec![tagged(tag)]).len(),
                ours,
                "{tag} of {status}"
            );
        }
    }
}
