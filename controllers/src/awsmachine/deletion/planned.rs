//! The worth of a record that says that EC2 was never asked for an instance. Pure.
//!
//! It is true of the AWSMachine as it is stored. That may be an older state, restored from a backup that was made before
//! the launch.

use std::time::Duration;

use capa_api::conditions::{ConditionStatus, ConditionType, find};
use capa_api::contract::Machine;
use capa_api::machine::{AWSMachine, AWSMachineStatus};
use jiff::Timestamp;

use crate::awsmachine::time::remaining;

/// What such a record is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Worth {
    /// It stands in for a lookup that cannot be made.
    Proof,
    /// It will stand in for a lookup, and does not yet. The AWSMachine was old when it was deleted, and may be a restored
    /// one: there is time to mend what keeps AWS from being asked.
    ProofLater,
    /// Nothing: something shows that there was an instance.
    Nothing,
}

/// The worth of the record of a machine with that owner, if a lookup is tried for so long.
pub(super) fn worth(machine: &AWSMachine, owner: Option<&Machine>, now: Timestamp, tried_for: Duration) -> Worth {
    let status = machine.status.as_ref();
    if status.is_some_and(tells_of_instance) || owner.is_some_and(has_instance) {
        return Worth::Nothing;
    }
    let metadata = &machine.metadata;
    let (Some(created), Some(deleted)) = (&metadata.creation_timestamp, &metadata.deletion_timestamp) else {
        return Worth::Proof;
    };
    let was_young = !remaining(tried_for, created.0, deleted.0).is_zero();
    if was_young || remaining(tried_for, deleted.0, now).is_zero() {
        Worth::Proof
    } else {
        Worth::ProofLater
    }
}

fn tells_of_instance(status: &AWSMachineStatus) -> bool {
    let ready = find(&status.conditions, ConditionType::InstanceReady);
    ready.is_some_and(|condition| condition.status == ConditionStatus::True.to_string())
        || status.has_run == Some(true)
        || status.provisioned()
        || status.instance_state.is_some()
}

/// Cluster API takes the id over from the AWSMachine, and looks for the node by it.
fn has_instance(owner: &Machine) -> bool {
    let has_id = owner.spec.provider_id.as_ref().is_some_and(|id| !id.is_empty());
    let joined = owner.status.as_ref().is_some_and(|status| status.node_ref.is_some());
    has_id || joined
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::read;

    const TRIED_FOR: Duration = Duration::from_mins(10);

    /// A machine that was deleted at ten o'clock.
    fn deleted(created: &str, status: &str) -> AWSMachine {
        read(&format!(
            "{{apiVersion: infrastructure.cluster.x-k8s.io/v1beta2, kind: AWSMachine, metadata: {{name: m, \
              creationTimestamp: '2026-01-01T{created}Z', deletionTimestamp: '2026-01-01T10:00:00Z'}}, \
              spec: {{instanceType: t3.large}}, status: {{launch: {{phase: Planned, attempt: 0}}{status}}}}}"
        ))
    }

    fn owner(spec: &str, status: &str) -> Machine {
        read(&format!(
            "{{apiVersion: cluster.x-k8s.io/v1beta2, kind: Machine, metadata: {{name: m}}, \
              spec: {{clusterName: dev, {spec}}}, status: {{{status}}}}}"
        ))
    }

    fn at(time: &str) -> Timestamp {
        format!("2026-01-01T{time}Z").parse().unwrap()
    }

    #[test]
    fn the_record_of_an_old_machine_is_believed_after_a_while() {
        let table = [
            ("09:59:00", "10:00:00", Worth::Proof),
            ("09:50:01", "10:00:00", Worth::Proof),
            ("09:50:00", "10:00:00", Worth::ProofLater),
            ("03:00:00", "10:09:59", Worth::ProofLater),
            ("03:00:00", "10:10:00", Worth::Proof),
        ];
        for (created, now, expected) in table {
            let found = worth(&deleted(created, ""), Some(&owner("", "")), at(now), TRIED_FOR);
            assert_eq!(found, expected, "created at {created}, now {now}");
        }
    }

    #[test]
    fn a_record_that_something_contradicts_is_worth_nothing() {
        let ready = "conditions: [{type: InstanceReady, status: 'True', reason: Ready, message: '', \
                     lastTransitionTime: '2026-01-01T09:00:00Z'}]";
        for status in [
            "hasRun: true",
            "instanceState: running",
            "initialization: {provisioned: true}",
            ready,
        ] {
            let machine = deleted("09:59:00", &format!(", {status}"));
            assert_eq!(
                worth(&machine, None, at("23:00:00"), TRIED_FOR),
                Worth::Nothing,
                "{status}"
            );
        }
        let machine = deleted("09:59:00", "");
        for owner in [
            owner("providerID: 'aws:///eu-west-1a/i-0000000a'", ""),
            owner("", "nodeRef: {name: node}"),
        ] {
            let found = worth(&machine, Some(&owner), at("23:00:00"), TRIED_FOR);
            assert_eq!(found, Worth::Nothing, "{owner:?}");
        }
    }
}
