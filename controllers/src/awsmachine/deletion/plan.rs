//! The steps of a deletion, the annotation that gives an instance up, what a record without a launch proves, and the
//! blocks of a deletion. Pure.

#[cfg(test)]
mod tests;

use std::time::Duration;

use capa_api::conditions::{self, ConditionType, Reason};
use capa_api::contract::Machine;
use capa_api::machine::{AWSMachine, AWSMachineStatus, InstanceState};
use capa_api::meta;
use capa_cloud::{CloudError, Instance, Observation};

use crate::awsmachine::ownership::{AdoptAnnotation, search_token};
use crate::awsmachine::scope::{FlowError, MachineScope};
use crate::blocked::{Blocked, earlier};
use crate::invalid_value::shortened;
use crate::time::remaining;

/// A step of the deletion of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DeletionStep {
    /// The instance is still in load balancer targets.
    AwaitDrained,
    /// Terminate the instance.
    Terminate,
    /// Termination is under way.
    AwaitTermination,
    /// AWS has not shown the instance yet.
    AwaitObservation,
    /// The instance is too young for its absence to prove anything.
    AwaitAge,
    /// It is proven that nothing of the instance is left.
    Release,
}

/// A call of a deletion. Each instance and each host is a call of its own, because AWS may allow the end of one and
/// refuse that of another.
#[derive(Hash)]
pub(in crate::awsmachine) enum DeletionCall<'a> {
    /// The lookup of the machine's instances.
    Lookup,
    /// The termination of the instance with this id.
    Terminate(&'a str),
    /// The release of the host with this id.
    ReleaseHost(&'a str),
    /// The release of the machine's Elastic IPs.
    ReleaseAddresses,
}

/// How far the deletion of an instance is.
#[derive(Clone, Copy)]
pub(in crate::awsmachine) struct Known {
    /// Whether the absence of the instance proves that it is gone.
    pub(super) is_old_enough: bool,
    /// Whether nothing of the instance is left in load balancer targets, or the longest time for that is over.
    pub(in crate::awsmachine) has_left: bool,
    /// Whether its termination has been submitted.
    pub(super) is_submitted: bool,
}

/// The next step of the deletion of an instance. A submitted termination goes on, whatever the targets show later,
/// because its call may be under way. A target group keeps the address of an instance that is gone, so the release
/// waits until the address is deregistered.
pub(super) fn plan_deletion(observation: &Observation, known: Known) -> DeletionStep {
    let step = match observation {
        Observation::Seen(instance) => delete_seen(instance),
        Observation::Absent if known.is_old_enough => DeletionStep::Release,
        Observation::Absent => DeletionStep::AwaitAge,
        Observation::Unknown => DeletionStep::AwaitObservation,
    };
    match step {
        DeletionStep::Terminate if !known.has_left && !known.is_submitted => DeletionStep::AwaitDrained,
        DeletionStep::Release if !known.has_left => DeletionStep::AwaitDrained,
        step => step,
    }
}

fn delete_seen(instance: &Instance) -> DeletionStep {
    match instance.state {
        InstanceState::Terminated => DeletionStep::Release,
        InstanceState::ShuttingDown => DeletionStep::AwaitTermination,
        InstanceState::Pending | InstanceState::Running | InstanceState::Stopping | InstanceState::Stopped => {
            DeletionStep::Terminate
        }
    }
}

/// What the launch record `Planned` proves, which says that EC2 was never asked for an instance. The stored AWSMachine
/// may be an older state, restored from a backup that was made before the launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::awsmachine) enum NeverLaunchedEvidence {
    /// The record replaces a lookup that cannot be made.
    Sufficient,
    /// The record does not replace a lookup yet, but will later. The AWSMachine was old when it was deleted and may
    /// have been restored, so the provider first gives the user time to fix what prevents the lookup.
    SufficientLater,
    /// The record replaces no lookup, because an earlier pass has terminated an instance or recorded its targets. One
    /// lookup that finds no instance is enough.
    WithOneLookup,
    /// The record proves nothing, because something shows that there was an instance.
    Refuted,
}

/// What the record of a machine with this verified owner proves. `tried_for` is how long the lookups of this process
/// have failed. After `long_enough`, the record of an old machine replaces the lookup.
pub(in crate::awsmachine) fn never_launched_evidence(
    machine: &AWSMachine,
    owner: Option<&Machine>,
    tried_for: Duration,
    long_enough: Duration,
) -> NeverLaunchedEvidence {
    let status = machine.status.as_ref();
    let is_annotated = owner.is_some() && matches!(AdoptAnnotation::of(machine), AdoptAnnotation::Instance(_));
    if is_annotated || status.is_some_and(had_instance) || owner.is_some_and(has_instance) {
        return NeverLaunchedEvidence::Refuted;
    }
    if status.is_some_and(ended_instance) {
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

fn had_instance(status: &AWSMachineStatus) -> bool {
    conditions::holds(&status.conditions, ConditionType::InstanceReady)
        || status.has_run == Some(true)
        || status.provisioned()
        || status.instance_state.is_some()
}

/// Whether an instance of the machine was terminated, or has been in a target.
fn ended_instance(status: &AWSMachineStatus) -> bool {
    !status.submitted_terminations.is_empty() || !status.targets.is_empty()
}

/// Whether the Machine has a provider ID, which Cluster API copies from the AWSMachine to find the node.
fn has_instance(owner: &Machine) -> bool {
    let has_id = owner.spec.provider_id.as_ref().is_some_and(|id| !id.is_empty());
    has_id || owner.has_joined()
}

/// The effect of the annotation on a machine that is being deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::awsmachine) enum Abandonment {
    /// There is no such annotation.
    NotAsked,
    /// It names the recorded instance, the token of the attempt that may have launched one, or the token of the search
    /// for one.
    Asked(String),
    /// It names something else and has no effect; the message for its author.
    Mismatch(String),
}

/// Reads the annotation. The value must name the instance or token of this AWSMachine, so that nobody gives up an
/// unknown instance.
pub(in crate::awsmachine) fn abandonment(machine: &AWSMachine) -> Abandonment {
    let Some(value) = meta::annotation(&machine.metadata, meta::ABANDON_INSTANCE_ANNOTATION) else {
        return Abandonment::NotAsked;
    };
    let expected = expected_value(machine);
    if value == expected {
        return Abandonment::Asked(expected);
    }
    let why = if recorded(machine).is_some() {
        "which is recorded"
    } else {
        "the value of this AWSMachine, which has no record of an instance"
    };
    let shown = shortened(value);
    Abandonment::Mismatch(format!(
        "annotation {} names \"{shown}\", not {expected}, {why}: it has no effect",
        meta::ABANDON_INSTANCE_ANNOTATION
    ))
}

/// The annotation with the value that lets the deletion of this machine end, for messages.
pub(in crate::awsmachine) fn abandonment_described(machine: &AWSMachine) -> String {
    format!("annotation {}: {}", meta::ABANDON_INSTANCE_ANNOTATION, expected_value(machine))
}

/// The value of the annotation that has an effect: the recorded instance or token, or else the token of the search.
fn expected_value(machine: &AWSMachine) -> String {
    recorded(machine).unwrap_or_else(|| search_token(machine))
}

/// The recorded instance, or else the token of the recorded attempt. `None` for a machine that never had a record, or
/// whose record is lost or says that EC2 was never asked.
fn recorded(machine: &AWSMachine) -> Option<String> {
    let launch = machine.status.as_ref().and_then(|status| status.launch.as_ref());
    let token = || Some(launch?.request()?.client_token.clone());
    machine.instance_id().or_else(token)
}

/// Merges the blocks of several instances into one: its condition has all messages, and its next pass is the earliest
/// of all. `None` without a block.
pub(in crate::awsmachine) fn merged(mut blocks: Vec<Blocked>) -> Option<Blocked> {
    // The reason comes from an instance that cannot be terminated, if there is one, rather than from one that is
    // ending.
    blocks.sort_by_key(|blocked| blocked.condition.reason == Reason::Terminating);
    blocks.into_iter().reduce(|mut first, other| {
        let (message, added) = (&mut first.condition.message, &other.condition.message);
        if message != added {
            message.push_str("; ");
            message.push_str(added);
        }
        first.next = earlier(first.next, other.next);
        first
    })
}

/// What a machine has in AWS beside its instance, and what the deletion of the AWSMachine removes.
pub(in crate::awsmachine) struct DependentResource {
    /// Its removal, in a sentence: "Dedicated Host is released".
    pub(in crate::awsmachine) removal: &'static str,
    /// What is left if the deletion ends without the removal: "the host allocated".
    pub(in crate::awsmachine) left: &'static str,
}

impl DependentResource {
    /// The message of a deletion that waits for the removal.
    pub(in crate::awsmachine) fn awaited(&self, scope: &MachineScope, why: &str) -> String {
        let Self { removal, left } = self;
        let abandonment = abandonment_described(&scope.machine);
        format!(
            "the AWSMachine is released once its {removal}: {why}; {abandonment} lets the deletion end, and leaves \
             {left}"
        )
    }

    /// The block of a deletion that waits for the removal. `blocked` has the time of the next pass.
    pub(in crate::awsmachine) fn awaits(&self, scope: &MachineScope, why: &str, blocked: &Blocked) -> Blocked {
        Blocked {
            condition: ConditionType::InstanceReady.is_false(Reason::DeletionBlocked, self.awaited(scope, why)),
            next: blocked.next,
            cause: blocked.cause,
        }
    }

    /// The same block, because the place in AWS is not known: the condition of `error` gives the reason.
    pub(in crate::awsmachine) fn awaits_location(&self, scope: &mut MachineScope, error: FlowError) -> FlowError {
        let FlowError::Blocked(blocked) = error else {
            return error;
        };
        let awaiting = self.awaits(scope, &blocked.condition.message, &blocked);
        scope.set_condition(blocked.condition);
        awaiting.into()
    }

    /// The same block, because a call failed.
    pub(in crate::awsmachine) fn awaits_call(&self, scope: &MachineScope, why: &str, error: &CloudError) -> Blocked {
        self.awaits(scope, why, &Blocked::by_call(ConditionType::InstanceReady, "", error))
    }

    /// The same block, because the removal itself failed.
    pub(in crate::awsmachine) fn is_kept(&self, scope: &MachineScope, described: &str, error: &CloudError) -> Blocked {
        let why = format!("{described} is not released, and costs money until then: {error}");
        self.awaits_call(scope, &why, error)
    }
}
