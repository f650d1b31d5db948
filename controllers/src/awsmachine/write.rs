//! Writes to the AWSMachine within a pass: its status, our finalizer, and the annotation that holds `clusterctl move`
//! back.

use capa_api::machine::{AWSMachine, AWSMachineStatus, InstanceState};
use capa_api::meta;

use super::blocked::FlowError;
use super::context::MachineContext;
use super::launch::record::LaunchEvent;
use super::scope::MachineScope;
use super::spec;
use crate::kubernetes_api::KubernetesError;

/// Writes the status as the scope has it. The write is refused if the AWSMachine has changed meanwhile.
pub(super) async fn store(scope: &mut MachineScope, context: &MachineContext) -> Result<(), KubernetesError> {
    scope.machine = context.kubernetes.write_status(&scope.machine, &scope.status).await?;
    Ok(())
}

/// Ensures that the AWSMachine has our finalizer, also where somebody took it off.
pub(super) async fn ensure_finalizer(scope: &mut MachineScope, context: &MachineContext) -> Result<(), FlowError> {
    if meta::has_finalizer(&scope.machine.metadata, meta::MACHINE_FINALIZER) {
        return Ok(());
    }
    if spec::instance_id(&scope.machine).is_none() && scope.status.launch.is_none() {
        // Only before our finalizer is on is it known that nothing was launched: the record says so from here on. It is
        // stored first, because an AWSMachine with the finalizer and without a record counts as restored or moved.
        scope.record_launch(LaunchEvent::Planned)?;
        store(scope, context).await?;
    }
    scope.machine = context.kubernetes.add_finalizer(&scope.machine).await?;
    Ok(())
}

/// Puts on the annotation that holds `clusterctl move` back: in another management cluster nobody would know of the
/// attempt that is about to be made.
pub(super) async fn block_move(scope: &mut MachineScope, context: &MachineContext) -> Result<(), KubernetesError> {
    if !meta::has_annotation(&scope.machine.metadata, meta::BLOCK_MOVE_ANNOTATION) {
        scope.machine = context.kubernetes.block_move(&scope.machine).await?;
    }
    Ok(())
}

/// Takes the annotation off where no attempt is open, also one that a crash left behind. The status without an open
/// attempt is stored first. Where the spec does not name the instance yet, the annotation `adopt-instance` does from
/// then on: a move loses the status, and gives the AWSMachine another UID than the one in the client token.
pub(super) async fn allow_move(
    machine: AWSMachine,
    status: &AWSMachineStatus,
    context: &MachineContext,
) -> Result<AWSMachine, KubernetesError> {
    let blocked = meta::has_annotation(&machine.metadata, meta::BLOCK_MOVE_ANNOTATION);
    if !blocked || status.has_open_attempt() {
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

/// The instance on record that the spec does not name, while it lives as far as is known.
fn instance_to_name<'a>(machine: &AWSMachine, status: &'a AWSMachineStatus) -> Option<&'a str> {
    let id = status.launch.as_ref()?.instance_id()?;
    let has_ended = status.instance_state.is_some_and(InstanceState::has_ended);
    (!has_ended && spec::claimed_instance_id(&machine.spec).is_none()).then_some(id)
}
