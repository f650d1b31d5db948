//! Decides when an instance that AWS does not show counts as gone.

use std::time::Duration;

use capa_api::machine::LaunchRecord;

use super::account;
use super::context::MachineContext;
use super::deletion::abandon;
use super::locate::InstanceLocation;
use super::scope::MachineScope;
use super::time::age;

/// Whether the account of the instance is recorded. The location has compared a recorded account with the credentials.
/// The annotation of an attempt whose status was lost does not count: nothing tells the age of its instance, which may
/// not show yet.
pub(super) fn account_is_recorded(scope: &MachineScope) -> bool {
    account::in_use(scope).is_some()
}

/// The message about an instance that AWS does not show and whose account was never recorded.
pub(super) fn unproven(scope: &MachineScope, id: &str, location: &InstanceLocation) -> String {
    format!(
        "instance {id}, which this AWSMachine names, does not show in {} of account {}, and whether it lives there was \
         never recorded: correct identity or region if it does not; if it is gone, {} lets a deletion end without it",
        location.region,
        location.account_id,
        abandon::described(&scope.machine)
    )
}

/// The time until an absence counts. The instance must have been old enough at the time of the reads that did not show
/// it. These reads may be long ago, if calls failed or the process was suspended. An instance without a launch record
/// counts as old.
pub(super) fn remaining_youth(
    scope: &MachineScope,
    id: &str,
    location: &InstanceLocation,
    context: &MachineContext,
) -> Option<Duration> {
    let request = scope.status.launch.as_ref().and_then(LaunchRecord::request)?;
    let age = age(request.requested_at.0, context.kubernetes.now());
    let when_looked_for = age.saturating_sub(location.cloud.absence_age(id));
    let remaining = context.timing.visibility_age.checked_sub(when_looked_for);
    remaining.filter(|remaining| !remaining.is_zero())
}

/// Begins the proof of absence anew for a young instance. The reads until now cannot prove the absence of the older
/// instance.
pub(super) fn watch_anew(scope: &MachineScope, id: &str, location: &InstanceLocation, context: &MachineContext) {
    context.clouds.forget(&scope.key());
    location.cloud.observe_instance(&scope.key(), id);
}
