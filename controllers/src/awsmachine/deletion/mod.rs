//! The deletion flow: from a deleted AWSMachine to a terminated instance. The deletion either ends, or shows in a
//! condition what it waits for.

pub(super) mod plan;
pub(super) mod search;

use capa_api::conditions::{ConditionType, ConditionUpdate, Reason};
use capa_api::machine::AWSMachine;
use capa_api::meta;
use capa_runtime::reconcile::{EventDraft, Next, Outcome};

use self::plan::{DeletionCall, DeletionStep, Known, plan_deletion};
use self::search::InstanceToEnd;
use crate::awsmachine::context::MachineContext;
use crate::awsmachine::inputs::location::InstanceLocation;
use crate::awsmachine::instance::observation;
use crate::awsmachine::ownership::Ids;
use crate::awsmachine::scope::{self, MachineScope};
use crate::blocked::Blocked;
use crate::identity;
use crate::kubernetes_api::KubernetesError;
use crate::launching::stored_bootstrap_data::StoredBootstrapData;

pub(super) use plan::merged;
pub(super) use search::{Found, find};

/// The most submitted terminations that the status has room for. A further termination publishes no event, and waits
/// again if the instance reappears in its targets.
const MAX_SUBMITTED: usize = 16;

/// The state of an instance after a step.
pub(super) enum Ended {
    /// Nothing of the instance is left.
    Gone,
    /// The deletion waits, and this blocks it.
    Waits(Blocked),
    /// The termination is submitted. The next instance of the machine is terminated only after EC2 has answered,
    /// because the informer keeps one answer for each machine.
    Submitted(Blocked),
}

/// Takes the next step to end an instance. `has_left` is whether it has left its load balancer targets.
pub(super) async fn end_instance(
    scope: &mut MachineScope,
    instance: &InstanceToEnd,
    has_left: bool,
    location: &InstanceLocation,
    context: &MachineContext,
) -> Ended {
    let InstanceToEnd { id, observation, .. } = instance;
    let youth = observation::remaining_youth(scope, id, location, context);
    let known = Known {
        is_old_enough: youth.is_none(),
        has_left,
        is_submitted: scope.status.submitted_terminations.contains(id),
    };
    let step = plan_deletion(observation, known);
    let mut blocked = match step {
        DeletionStep::Release => {
            report_termination(scope, id);
            return Ended::Gone;
        }
        DeletionStep::Terminate => match terminate(scope, location, id, context).await {
            Ok(submitted) => return Ended::Submitted(submitted),
            Err(blocked) => blocked,
        },
        DeletionStep::AwaitDrained => {
            // The informer wakes the machine. If it does not, the next pass looks at the instance again.
            let message = format!("instance {id} is terminated once it has left its load balancer targets");
            let draining = ConditionType::InstanceReady.is_false(Reason::Draining, message);
            Blocked::new(draining, Next::Requeue(context.timing.listing_interval))
        }
        DeletionStep::AwaitTermination => {
            if instance.is_alone {
                // The informer follows the instance from here on and wakes the machine.
                location.session.cloud.observe_instance(&scope.key(), id);
            }
            Blocked::new(awaiting(under_way(id), location), Next::AwaitChange)
        }
        DeletionStep::AwaitObservation => {
            let message = format!("instance {id} is looked up before it is terminated");
            Blocked::new(awaiting(message, location), Next::Retry)
        }
        DeletionStep::AwaitAge => {
            observation::watch_anew(scope, id, location, context);
            let message =
                format!("AWS does not show instance {id}, which proves nothing while the instance is this young");
            let next = youth.map_or(Next::Retry, Next::Requeue);
            Blocked::new(awaiting(message, location), next)
        }
    };
    if !instance.is_named && blocked.next == Next::AwaitChange {
        // The informer follows only one of several instances.
        blocked.next = Next::Requeue(context.timing.listing_interval);
    }
    Ended::Waits(blocked)
}

/// The message stays the same from the submission to the end, so that EC2's answer causes no write of the status.
fn under_way(id: &str) -> String {
    format!("the termination of instance {id} is under way")
}

/// The condition of a deletion that waits for AWS. If AWS cannot be read, or is read too seldom, the condition says so.
fn awaiting(message: String, location: &InstanceLocation) -> ConditionUpdate {
    if let Some(error) = location.session.cloud.reading_failure() {
        let message = format!("{message}, and AWS does not show its state: {error}");
        return ConditionType::InstanceReady.is_false(Reason::DeletionBlocked, message);
    }
    let message = match observation::overdue(location) {
        Some((_, why)) => format!("{message}, and {why}"),
        None => message,
    };
    ConditionType::InstanceReady.is_false(Reason::Terminating, message)
}

/// Submits the termination of an instance. If AWS does not show the instance as ending, the termination is submitted
/// again.
///
/// # Errors
/// AWS refuses the termination, or has refused it before.
async fn terminate(
    scope: &mut MachineScope,
    location: &InstanceLocation,
    id: &str,
    context: &MachineContext,
) -> Result<Blocked, Blocked> {
    context.await_change(scope, location.fingerprint(&DeletionCall::Terminate(id), &()))?;
    match location.session.cloud.terminate(&scope.key(), id).await {
        Ok(()) => {
            let submitted = &mut scope.status.submitted_terminations;
            if submitted.len() < MAX_SUBMITTED && !submitted.iter().any(|submitted| submitted == id) {
                submitted.push(id.to_owned());
            }
            let terminating = ConditionType::InstanceReady.is_false(Reason::Terminating, under_way(id));
            Ok(Blocked::new(terminating, Next::Requeue(context.timing.listing_interval)))
        }
        Err(error) => {
            let message = identity::described(&error, &location.session.identity_ref);
            let blocked = Blocked::by_call(ConditionType::InstanceReady, message, &error);
            Err(context.remember_refusal(scope, blocked))
        }
    }
}

/// Publishes an event once a termination that this provider submitted has taken effect.
fn report_termination(scope: &mut MachineScope, id: &str) {
    let before = scope.status.submitted_terminations.len();
    scope.status.submitted_terminations.retain(|submitted| submitted != id);
    if scope.status.submitted_terminations.len() < before {
        scope.events.push(EventDraft::normal("SuccessfulTerminate", format!("terminated instance {id}")));
    }
}

/// Releases an AWSMachine whose instance the user has given up, without a call to AWS.
pub(super) async fn abandoned(
    scope: &mut MachineScope,
    what: &str,
    context: &MachineContext,
) -> Result<(), KubernetesError> {
    let message = format!(
        "{what} is abandoned because annotation {} names it: if its instance runs, nobody but you will terminate it",
        meta::ABANDON_INSTANCE_ANNOTATION
    );
    let left = StoredBootstrapData::all(&scope.status).into_iter();
    let left = left.map(|left| format!("; its bootstrap data {} is left", left.shown()));
    let message = left.fold(message, |message, left| message + &left);
    let host = scope.status.dedicated_host.as_ref().filter(|host| host.may_exist());
    let host = host.and_then(|host| host.id.as_ref().or(host.client_token.as_ref()));
    let host = host.map(|host| format!("; its Dedicated Host {host} is left, and costs money until you release it"));
    let address = scope.status.elastic_ip.as_ref().filter(|address| address.may_exist());
    let address = address.map(|address| match &address.allocation_id {
        Some(id) => format!("; its Elastic IP {id} is left, and costs money until you release it"),
        None => format!("; an Elastic IP with its tag {} may be left, and costs money", meta::MACHINE_NAME_TAG),
    });
    let message = [host, address].into_iter().flatten().fold(message, |message, left| message + &left);
    scope.events.push(EventDraft::warning("InstanceAbandoned", message));
    release(scope, context).await
}

/// Releases an AWSMachine that is deleted because it has moved, without a call to AWS. `clusterctl move` removes the
/// finalizers before it deletes the object, so the provider's finalizer is still present only if another client deleted
/// the object.
pub(super) async fn moved(
    machine: AWSMachine,
    context: &MachineContext,
) -> Result<Outcome<AWSMachine>, KubernetesError> {
    let left = machine.instance_id().map(|id| {
        let message = format!(
            "annotation {} says that this AWSMachine has moved to another management cluster: instance {id} is left to \
             the AWSMachine there; if there is none, nobody but you will terminate it",
            meta::DELETE_FOR_MOVE_ANNOTATION
        );
        EventDraft::warning("InstanceAbandoned", message)
    });
    release_object(&machine, context).await?;
    Ok(Outcome::done(machine).with_events(left).because("the AWSMachine has moved to another management cluster"))
}

/// Publishes an event that names the instances that a release leaves behind.
pub(super) fn report_unowned(scope: &mut MachineScope, ids: &[String]) {
    if !ids.is_empty() {
        let message = format!(
            "the AWSMachine is released, and these instances, which carry its tags or are named by its spec, are not \
             terminated: {}; nothing proves that they are its own, so nobody terminates them unless another machine \
             has them",
            Ids(ids)
        );
        scope.events.push(EventDraft::warning(Reason::NotOwned.as_str(), message));
    }
}

/// Removes this provider's finalizer and forgets the machine.
pub(super) async fn release(scope: &mut MachineScope, context: &MachineContext) -> Result<(), KubernetesError> {
    release_object(&scope.machine, context).await
}

async fn release_object(machine: &AWSMachine, context: &MachineContext) -> Result<(), KubernetesError> {
    context.kubernetes.remove_finalizer(machine).await?;
    context.memory.forget(machine.metadata.uid.as_deref().unwrap_or_default());
    context.clouds.forget(&scope::key(machine));
    Ok(())
}
