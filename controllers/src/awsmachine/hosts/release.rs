//! Releases the Dedicated Hosts of a machine that is being deleted, and whose instance is gone.

use capa_api::machine::{DedicatedHost, HostPhase};
use capa_cloud::{CloudError, ErrorClass};
use capa_runtime::reconcile::EventDraft;

use super::plan::{host_query, hosts_of};
use crate::awsmachine::context::MachineContext;
use crate::awsmachine::deletion::plan::{DeletionCall, DependentResource};
use crate::awsmachine::inputs::location::{self, InstanceLocation};
use crate::awsmachine::instance::observation;
use crate::awsmachine::scope::{FlowError, MachineScope};
use crate::blocked::Blocked;

/// What is released here.
const HOST: DependentResource = DependentResource { removal: "Dedicated Host is released", left: "the host allocated" };

/// Releases all hosts of a machine: the recorded one, and those whose record was lost.
///
/// # Errors
/// The deletion waits: a host is not released, or may still show.
pub(in crate::awsmachine) async fn release_all(
    scope: &mut MachineScope,
    context: &MachineContext,
) -> Result<(), FlowError> {
    let record = scope.status.dedicated_host.clone();
    if record.is_none() && scope.machine.spec.dynamic_host_allocation.is_none() {
        return Ok(());
    }
    // A lookup is tried all the same, because the AWSMachine may have been restored from an older backup.
    let was_never_asked = record.is_none() && observation::was_never_asked(scope, context);
    let location = match location::of_host(scope, record.as_deref(), context).await {
        Ok(location) => location,
        Err(FlowError::Blocked(blocked)) if was_never_asked && !blocked.is_throttled() => return Ok(()),
        Err(error) => return Err(HOST.awaits_location(scope, error)),
    };
    let listed = match location.session.cloud.hosts(&host_query()).await {
        Ok(listed) => listed,
        Err(error) if was_never_asked && error.class != ErrorClass::Throttled => return Ok(()),
        Err(error) => {
            let why = format!("its Dedicated Hosts cannot be looked up in {}: {error}", location.session.region);
            return Err(HOST.awaits_call(scope, &why, &error).into());
        }
    };
    let is_released = |id: &str| listed.iter().any(|host| host.id == id && host.is_released());
    let recorded = record.as_deref().and_then(|record| recorded_id(scope, record));
    let recorded = recorded.filter(|id| !is_released(id));
    let found = hosts_of(scope, listed);
    let open_token = record.as_deref().and_then(|record| record.client_token.as_deref());
    let shows_open = found.iter().any(|host| host.client_token.as_deref() == open_token);
    let mut ids: Vec<String> = found.into_iter().map(|host| host.id).collect();
    if let Some(id) = recorded.filter(|id| !ids.contains(id)) {
        ids.push(id);
    }
    let mut kept = None;
    for id in &ids {
        if let Err(blocked) = release(scope, id, &location, context).await {
            kept.get_or_insert(blocked);
        }
    }
    if let Some(blocked) = kept {
        return Err(blocked.into());
    }
    if !shows_open {
        await_absence(scope, record.as_deref(), context)?;
    }
    scope.status.dedicated_host = None;
    Ok(())
}

/// The id of the recorded host, unless it is released. A host that the spec names is the user's.
fn recorded_id(scope: &MachineScope, record: &DedicatedHost) -> Option<String> {
    let id = record.id.clone().filter(|_| record.effective_phase() != HostPhase::Released)?;
    (scope.machine.spec.host_id.as_ref() != Some(&id)).then_some(id)
}

async fn release(
    scope: &mut MachineScope,
    id: &str,
    location: &InstanceLocation,
    context: &MachineContext,
) -> Result<(), Blocked> {
    context.await_change(scope, location.fingerprint(&DeletionCall::ReleaseHost(id), &()))?;
    match location.session.cloud.release_host(&scope.key(), id).await {
        Ok(()) => {
            let message = format!("released Dedicated Host {id}");
            scope.events.push(EventDraft::normal("SuccessfulReleaseDedicatedHost", message));
            Ok(())
        }
        Err(error) if is_gone(scope, &error, context) => Ok(()),
        Err(error) => {
            Err(context.remember_refusal(scope, HOST.is_kept(scope, &format!("Dedicated Host {id}"), &error)))
        }
    }
}

/// Whether a call has found the recorded host gone. A new host may only not be visible yet.
pub(in crate::awsmachine) fn is_gone(scope: &MachineScope, error: &CloudError, context: &MachineContext) -> bool {
    error.class == ErrorClass::NotFound && !may_be_hidden(scope, context)
}

/// Whether AWS may not show the recorded host yet.
pub(in crate::awsmachine) fn may_be_hidden(scope: &MachineScope, context: &MachineContext) -> bool {
    let record = scope.status.dedicated_host.as_ref();
    context.may_be_hidden(record.and_then(|record| record.requested_at.as_ref()))
}

/// An allocation without an answer may have succeeded although AWS shows no host. The AWSMachine is released once the
/// absence is proven.
fn await_absence(
    scope: &MachineScope,
    record: Option<&DedicatedHost>,
    context: &MachineContext,
) -> Result<(), Blocked> {
    let open = record.filter(|record| record.effective_phase() == HostPhase::Requested);
    let Some(token) = open.and_then(|record| record.client_token.as_deref()) else {
        return Ok(());
    };
    let holder = open.and_then(|record| record.holder.as_deref());
    let message = "EC2 was asked for a Dedicated Host and has not answered, and no host shows yet: it is looked for \
                   before the AWSMachine is released";
    context.await_absence(context.memory.hosts(), scope, token, holder, message)
}
