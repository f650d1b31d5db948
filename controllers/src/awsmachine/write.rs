//! Writes to the AWSMachine within a pass: the status, the finalizer, and the annotation that blocks `clusterctl move`.

use capa_api::machine::{AWSMachine, AWSMachineStatus, ElasticIpPhase, InstanceState};
use capa_api::meta;

use super::context::MachineContext;
use super::inputs::location;
use super::launch::protocol::{IllegalTransition, LaunchEvent};
use super::ownership::AdoptAnnotation;
use super::scope::{FlowError, MachineScope};
use super::status;
use crate::kubernetes_api::KubernetesError;
use crate::launching::stored_bootstrap_data::StoredBootstrapData;

/// Writes the status of the scope. The API server refuses the write if the AWSMachine has changed meanwhile.
pub(super) async fn store(scope: &mut MachineScope, context: &MachineContext) -> Result<(), KubernetesError> {
    scope.machine = context.kubernetes.write_status(&scope.machine, &scope.status).await?;
    Ok(())
}

/// Writes the status with the conditions that the pass has found. If the pass finds nothing else, there is no further
/// write at its end.
pub(super) async fn store_with_conditions(
    scope: &mut MachineScope,
    context: &MachineContext,
) -> Result<(), KubernetesError> {
    scope.status = status::summarize(scope, context.kubernetes.now());
    store(scope, context).await
}

/// Records that an AWSMachine has launched nothing, which holds for every AWSMachine without the finalizer. The record
/// is stored before the finalizer, because an AWSMachine with the finalizer and without a record counts as restored or
/// moved.
pub(super) fn plan_launch(scope: &mut MachineScope) -> Result<(), IllegalTransition> {
    let may_have_launched = meta::has_finalizer(&scope.machine.metadata, meta::MACHINE_FINALIZER)
        || scope.machine.instance_id().is_some()
        || matches!(AdoptAnnotation::of(&scope.machine), AdoptAnnotation::Instance(_))
        || location::account_of_lost_attempt(&scope.machine, &scope.status).is_some();
    if may_have_launched || scope.status.launch.is_some() {
        return Ok(());
    }
    scope.record_launch(LaunchEvent::Planned)
}

/// Ensures that the AWSMachine has the finalizer, even if a user removed it.
pub(super) async fn ensure_finalizer(scope: &mut MachineScope, context: &MachineContext) -> Result<(), FlowError> {
    if meta::has_finalizer(&scope.machine.metadata, meta::MACHINE_FINALIZER) {
        return Ok(());
    }
    let stored = scope.stored_status().and_then(|status| status.launch.as_ref());
    if stored != scope.status.launch.as_ref() {
        store(scope, context).await?;
    }
    scope.machine = context.kubernetes.add_finalizer(&scope.machine).await?;
    Ok(())
}

/// Adds the annotation that blocks `clusterctl move`, because the manager of another management cluster would not know
/// of the attempt that follows. Its value is the account of the attempt, in case the status is lost.
pub(super) async fn block_move(
    scope: &mut MachineScope,
    account_id: &str,
    context: &MachineContext,
) -> Result<(), KubernetesError> {
    if meta::annotation(&scope.machine.metadata, meta::BLOCK_MOVE_ANNOTATION) != Some(account_id) {
        scope.machine = context.kubernetes.block_move(&scope.machine, account_id).await?;
    }
    Ok(())
}

/// Removes the annotation, even one that a crash left behind, if no attempt is open, no Elastic IP is being allocated,
/// and neither a secret nor a host without an instance is left. It stays if the status was lost, because an attempt may
/// be open. The status without an open attempt is stored first. If the spec does not name the instance yet, the
/// function adds the annotation `adopt-instance`: a move loses the status, and the moved AWSMachine has another UID
/// than the client token.
pub(super) async fn allow_move(
    machine: AWSMachine,
    status: &AWSMachineStatus,
    context: &MachineContext,
) -> Result<AWSMachine, KubernetesError> {
    let blocked = meta::has_annotation(&machine.metadata, meta::BLOCK_MOVE_ANNOTATION);
    let is_lost = location::account_of_lost_attempt(&machine, status).is_some();
    // The AWSMachine in another management cluster would have another UID, and would not find secrets that are named by
    // this UID.
    let keeps_secrets = !StoredBootstrapData::all(status).is_empty();
    // After a move, the client token of the instance contains the UID under which the host was allocated.
    let host = status.dedicated_host.as_ref().filter(|host| host.may_exist());
    let is_launched = status.launch.as_ref().is_some_and(|launch| launch.instance_id().is_some());
    let keeps_host = host.is_some() && !is_launched;
    let elastic_ip = status.elastic_ip.as_ref().map(|address| address.effective_phase());
    let may_get_address = elastic_ip == Some(ElasticIpPhase::Requested);
    if !blocked || is_lost || keeps_secrets || keeps_host || may_get_address || status.has_open_attempt() {
        return Ok(machine);
    }
    let stored = machine.status.as_ref();
    let machine = if stored.is_some_and(AWSMachineStatus::has_open_attempt) {
        context.kubernetes.write_status(&machine, status).await?
    } else {
        machine
    };
    let instance = instance_to_name(&machine, status);
    context.kubernetes.allow_move(&machine, instance).await
}

/// The recorded instance, if the spec does not name it and it is not known to have ended.
fn instance_to_name<'a>(machine: &AWSMachine, status: &'a AWSMachineStatus) -> Option<&'a str> {
    let id = status.launch.as_ref()?.instance_id()?;
    let has_ended = status.instance_state.is_some_and(InstanceState::has_ended);
    (!has_ended && machine.spec.claimed_instance_id().is_none()).then_some(id)
}
