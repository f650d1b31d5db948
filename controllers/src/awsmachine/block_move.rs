//! The annotation that holds `clusterctl move` back, exactly as long as an attempt to launch is open: in another
//! management cluster nobody would know of it.

use capa_api::machine::{AWSMachine, AWSMachineStatus};
use capa_api::meta;
use capa_runtime::reconcile::ReconcileError;

use super::MachineContext;

/// Takes the annotation off where no attempt is open, also one that a crash left behind. The status that says so is
/// stored first.
pub(super) async fn lift(
    machine: AWSMachine,
    status: &AWSMachineStatus,
    context: &MachineContext,
) -> Result<AWSMachine, ReconcileError> {
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
    Ok(context.kubernetes.block_move(&machine, false).await?)
}
