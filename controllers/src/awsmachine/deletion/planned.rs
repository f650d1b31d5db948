//! What a record that says that EC2 was never asked for an instance proves. Pure.
//!
//! It is true of the AWSMachine as it is stored. That may be an older state, restored from a backup that was made
//! before the launch.

use std::time::Duration;

use capa_api::conditions::{ConditionStatus, ConditionType, find};
use capa_api::contract::Machine;
use capa_api::machine::{AWSMachine, AWSMachineStatus};

use crate::awsmachine::ownership::AdoptAnnotation;
use crate::awsmachine::time::remaining;

/// What such a record proves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NeverLaunchedEvidence {
    /// It stands in for a lookup that cannot be made.
    Sufficient,
    /// It will stand in for a lookup, and does not yet. The AWSMachine was old when it was deleted, and may be a
    /// restored one: what keeps AWS from being asked may pass, and there is time to mend it.
    SufficientLater,
    /// It stands in for no lookup, because an earlier pass of the deletion has found instances. One lookup that finds
    /// none is enough.
    WithOneLookup,
    /// None: something shows that there was an instance.
    Refuted,
}

/// What the record of a machine with that verified owner proves. `tried_for` is how long this process has tried to
/// look the instance up in vain; the record of an old machine is believed after `long_enough`.
pub(super) fn evidence(
    machine: &AWSMachine,
    owner: Option<&Machine>,
    tried_for: Duration,
    long_enough: Duration,
) -> NeverLaunchedEvidence {
    let status = machine.status.as_ref();
    let is_annotated = owner.is_some() && matches!(AdoptAnnotation::of(machine), AdoptAnnotation::Instance(_));
    if is_annotated || status.is_some_and(tells_of_instance) || owner.is_some_and(has_instance) {
        return NeverLaunchedEvidence::Refuted;
    }
    if status.is_some_and(tells_of_ended_instance) {
        return NeverLaunchedEvidence::WithOneLookup;
    }
    let metadata = &machine.metadata;
    let (Some(created), Some(deleted)) = (&metadata.creation_timestamp, &metadata.deletion_timestamp) else {
        return NeverLaunchedEvidence::Sufficient;
    };
    let was_young = !remaining(long_enough, created.0, deleted.0).is_zero();
    if was_young || tried_for >= long_enough {
        NeverLaunchedEvidence::Sufficient
    } else {
        NeverLaunchedEvidence::SufficientLater
    }
}

fn tells_of_instance(status: &AWSMachineStatus) -> bool {
    let ready = find(&status.conditions, ConditionType::InstanceReady);
    ready.is_some_and(|condition| condition.status == ConditionStatus::True.to_string())
        || status.has_run == Some(true)
        || status.provisioned()
        || status.instance_state.is_some()
}

/// Whether an instance of the machine was terminated, or has been in a target.
fn tells_of_ended_instance(status: &AWSMachineStatus) -> bool {
    !status.submitted_terminations.is_empty() || !status.targets.is_empty()
}

/// Cluster API takes the id over from the AWSMachine, and looks for the node by it.
fn has_instance(owner: &Machine) -> bool {
    let has_id = owner.spec.provider_id.as_ref().is_some_and(|id| !id.is_empty());
    has_id || owner.has_joined()
}

#[cfg(test)]
mod tests {
    use capa_api::meta::ADOPT_INSTANCE_ANNOTATION;

    use super::*;
    use crate::testing::read;

    const LONG_ENOUGH: Duration = Duration::from_mins(10);

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

    #[test]
    fn the_record_of_an_old_machine_is_believed_after_a_while() {
        let table = [
            ("09:59:00", 0, NeverLaunchedEvidence::Sufficient),
            ("09:50:01", 0, NeverLaunchedEvidence::Sufficient),
            ("09:50:00", 0, NeverLaunchedEvidence::SufficientLater),
            ("03:00:00", 599, NeverLaunchedEvidence::SufficientLater),
            ("03:00:00", 600, NeverLaunchedEvidence::Sufficient),
        ];
        for (created, tried, expected) in table {
            let machine = deleted(created, "");
            let found = evidence(&machine, Some(&owner("", "")), Duration::from_secs(tried), LONG_ENOUGH);
            assert_eq!(found, expected, "created at {created}, tried for {tried} s");
        }
    }

    #[test]
    fn a_record_is_no_proof_of_what_a_deletion_has_begun_to_end() {
        for status in [
            "submittedTerminations: [i-0000000a]",
            "targets: [{target: api, instanceID: i-0000000a, state: Deregistering}]",
        ] {
            let machine = deleted("09:59:00", &format!(", {status}"));
            assert_eq!(
                evidence(&machine, None, LONG_ENOUGH, LONG_ENOUGH),
                NeverLaunchedEvidence::WithOneLookup,
                "{status}"
            );
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
                evidence(&machine, None, LONG_ENOUGH, LONG_ENOUGH),
                NeverLaunchedEvidence::Refuted,
                "{status}"
            );
        }
        let mut annotated = deleted("09:59:00", "");
        let annotations = annotated.metadata.annotations.get_or_insert_default();
        annotations.insert(ADOPT_INSTANCE_ANNOTATION.to_owned(), "i-0000000a".to_owned());
        for (owner, expected) in [
            (Some(owner("", "")), NeverLaunchedEvidence::Refuted),
            (None, NeverLaunchedEvidence::Sufficient),
        ] {
            let found = evidence(&annotated, owner.as_ref(), LONG_ENOUGH, LONG_ENOUGH);
            assert_eq!(found, expected, "annotation, owner {owner:?}");
        }
        let machine = deleted("09:59:00", "");
        for owner in [
            owner("providerID: 'aws:///eu-west-1a/i-0000000a'", ""),
            owner("", "nodeRef: {name: node}"),
        ] {
            let found = evidence(&machine, Some(&owner), LONG_ENOUGH, LONG_ENOUGH);
            assert_eq!(found, NeverLaunchedEvidence::Refuted, "{owner:?}");
        }
    }
}
