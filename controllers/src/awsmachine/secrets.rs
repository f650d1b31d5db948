//! Bootstrap data in an AWS service for secrets: recorded and stored before the launch, deleted as soon as nobody needs
//! it any longer.

use std::sync::Arc;
use std::time::Duration;

use capa_api::conditions::{ConditionType, Reason};
use capa_api::machine::{BootstrapDelivery, BootstrapSecrets, LaunchRecord};
use capa_cloud::{CloudError, Instance, MachineCloud, StoredSecret};
use capa_runtime::reconcile::{EventDraft, Next};

use super::blocked::{Blocked, FlowError};
use super::context::MachineContext;
use super::locate::{self, InstanceLocation};
use super::scope::MachineScope;
use super::time::remaining;
use crate::call_inputs::Inputs;
use crate::launching::secrets::{self, LaunchSecrets};
use crate::retry;

/// Stores the bootstrap data of a launch, unless this process has stored it already. The record of the secrets is in
/// the status before.
pub(super) async fn store(
    scope: &MachineScope,
    of_launch: &LaunchSecrets,
    cloud: &dyn MachineCloud,
    context: &MachineContext,
) -> Result<(), Blocked> {
    // The user data has the digest of the bootstrap data.
    let stored_data = Inputs::of(&"bootstrap data", &of_launch.user_data.expose());
    if context.memory.has_stored(scope.uid(), stored_data) {
        return Ok(());
    }
    for secret in &of_launch.parts {
        let stored = cloud.store_secret(&scope.key(), secret).await;
        stored.map_err(|error| not_stored(secret, &error))?;
    }
    context.memory.stored(scope.uid(), stored_data);
    Ok(())
}

fn not_stored(secret: &StoredSecret, error: &CloudError) -> Blocked {
    let message = format!(
        "the bootstrap data cannot be stored as {} in {}, and nothing is launched without it: {error}",
        secret.name,
        secrets::service(secret.backend)
    );
    Blocked::by_call(ConditionType::BootstrapDataReady, message, error)
}

/// Deletes the secrets of a machine that has become a node, whose instance has ended, or whose instance is so old that
/// it will not fetch them any longer. Nothing waits for that: what keeps the secrets is shown, and tried again.
/// `instance` is absent if AWS does not show the instance any longer.
pub(super) async fn delete_unneeded(
    scope: &mut MachineScope,
    instance: Option<&Instance>,
    location: &InstanceLocation,
    context: &MachineContext,
) {
    let Some(kept) = scope.status.bootstrap_secrets.clone() else {
        return;
    };
    let left = needed_for(scope, instance, context);
    if !left.is_zero() {
        scope.next = sooner(scope.next, left);
        return;
    }
    let cloud = location.cloud.clone();
    if let Err(error) = delete(scope, &kept, &cloud, context).await {
        let mut shown = ConditionType::BootstrapDataReady.is_true(Reason::Ready);
        shown.message = not_deleted(&kept, &error);
        scope.set_condition(shown);
        scope.next = retry::after(&error);
    }
}

/// The time for which the secrets may still be needed.
fn needed_for(scope: &MachineScope, instance: Option<&Instance>, context: &MachineContext) -> Duration {
    let has_joined = scope.owners.machine.as_ref().is_ok_and(|owner| owner.has_joined());
    let living = instance.filter(|instance| !instance.state.has_ended() && !has_joined);
    let launched = living.and_then(|instance| instance.launch_time);
    match (living, launched) {
        (None, _) => Duration::ZERO,
        (Some(_), Some(launched)) => remaining(context.timing.bootstrap_data_age, launched, context.kubernetes.now()),
        (Some(_), None) => context.timing.bootstrap_data_age,
    }
}

fn sooner(next: Next, wait: Duration) -> Next {
    match next {
        Next::AwaitChange => Next::Requeue(wait),
        Next::Requeue(before) => Next::Requeue(before.min(wait)),
        Next::RateLimited(_) | Next::Retry => next,
    }
}

/// Deletes the secrets of a machine that is being deleted, and whose instance is gone. The status may have been lost,
/// and with it the record.
pub(super) async fn delete_all(scope: &mut MachineScope, context: &MachineContext) -> Result<(), FlowError> {
    let Some(kept) = recorded_or_assumed(scope) else {
        return Ok(());
    };
    let location = locate::of_secrets(scope, &kept, context).await?;
    let cloud = location.cloud.clone();
    delete(scope, &kept, &cloud, context).await.map_err(|error| {
        let message = format!(
            "the AWSMachine is released once its bootstrap data is deleted: {}",
            not_deleted(&kept, &error)
        );
        Blocked::by_call(ConditionType::InstanceReady, message, &error)
    })?;
    Ok(())
}

/// The recorded secrets, or those that a machine without a readable launch record may have.
fn recorded_or_assumed(scope: &MachineScope) -> Option<BootstrapSecrets> {
    let recorded = scope.status.bootstrap_secrets.clone();
    recorded.or_else(|| {
        let is_lost = matches!(scope.status.launch, None | Some(LaunchRecord::Unreadable(_)));
        is_lost.then(|| assumed(scope, scope.uid())).flatten()
    })
}

/// The secrets that a machine may have under this UID.
fn assumed(scope: &MachineScope, uid: &str) -> Option<BootstrapSecrets> {
    let spec = &scope.machine.spec;
    match spec.effective_bootstrap_delivery() {
        BootstrapDelivery::Secrets(backend) if spec.ignition.is_none() => Some(secrets::assumed(spec, backend, uid)),
        BootstrapDelivery::Secrets(_) | BootstrapDelivery::Inline => None,
    }
}

/// Records the secrets that a machine may have whose status was lost, and whose instance was launched with this token.
/// The token has the UID that the AWSMachine had then.
pub(super) fn recover(scope: &mut MachineScope, client_token: &str) {
    let has_joined = scope.owners.machine.as_ref().is_ok_and(|owner| owner.has_joined());
    let uid = client_token.rsplit_once('-').map(|(uid, _)| uid);
    if let Some(uid) = uid.filter(|_| !has_joined && scope.status.bootstrap_secrets.is_none()) {
        scope.status.bootstrap_secrets = assumed(scope, uid);
    }
}

async fn delete(
    scope: &mut MachineScope,
    kept: &BootstrapSecrets,
    cloud: &Arc<dyn MachineCloud>,
    context: &MachineContext,
) -> Result<(), CloudError> {
    let names = secrets::names(kept);
    cloud.delete_secrets(&scope.key(), kept.backend, &names).await?;
    context.memory.forget_stored(scope.uid());
    if scope.status.bootstrap_secrets.take().is_some() {
        let service = secrets::service(kept.backend);
        let message = format!("deleted the bootstrap data {} in {service}", kept.prefix);
        let event = EventDraft::normal("SuccessfulDeleteEncryptedBootstrapDataSecrets", message);
        scope.events.push(event);
    }
    Ok(())
}

fn not_deleted(kept: &BootstrapSecrets, error: &CloudError) -> String {
    let service = secrets::service(kept.backend);
    format!(
        "the bootstrap data {} in {service} cannot be deleted: {error}",
        kept.prefix
    )
}
