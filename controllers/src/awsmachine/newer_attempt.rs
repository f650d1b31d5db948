//! Finds the instance of a later call, if the launch record was restored from a backup that is older than that
//! attempt.

use std::num::NonZeroU32;

use capa_api::machine::{LaunchRecord, RecordedRequest};
use capa_cloud::Instance;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::blocked::{Blocked, FlowError};
use super::context::MachineContext;
use super::launch::record::LaunchEvent;
use super::locate::InstanceLocation;
use super::lookup;
use super::ownership::{Ownership, attempt_number};
use super::read;
use super::scope::MachineScope;

/// Records the living instance of a later call than the recorded one, and returns its id. The recorded instance is
/// gone and never ran, so another attempt may have followed it. Of several instances that of the earliest attempt is
/// recorded.
///
/// # Errors
/// The lookup failed.
pub(super) async fn adopt_newer_attempt(
    scope: &mut MachineScope,
    location: &InstanceLocation,
    context: &MachineContext,
) -> Result<Option<String>, FlowError> {
    let Some((instance, event)) = find_later(scope, location, context).await? else {
        return Ok(None);
    };
    scope.record_launch(event)?;
    if let Some(network) = &mut scope.status.network {
        network.availability_zone = Some(instance.availability_zone.clone());
        network.subnet_id.clone_from(&instance.subnet_id);
    }
    context.clouds.forget(&scope.key());
    Ok(Some(instance.id))
}

async fn find_later(
    scope: &MachineScope,
    location: &InstanceLocation,
    context: &MachineContext,
) -> Result<Option<(Instance, LaunchEvent)>, Blocked> {
    let Some(record @ LaunchRecord::Answered { .. }) = &scope.status.launch else {
        return Ok(None);
    };
    let tags = scope.tags(&location.cluster_tag);
    let found = lookup::find(location.cloud.as_ref(), &tags, None).await;
    let found = found.map_err(|error| lookup::failed(&error))?;
    let later = found.into_iter().filter(|instance| {
        let ownership = read::ownership(scope, instance, &location.cluster_tag, context);
        !instance.state.has_ended() && matches!(ownership, Ownership::Ours(_))
    });
    let later = later.filter_map(|instance| {
        let number = attempt_number(instance.client_token.as_deref()?, scope.uid());
        let number = number.filter(|number| *number >= record.attempt_number())?;
        let is_other = record.instance_id() != Some(&instance.id);
        let event = adoption(NonZeroU32::new(number)?, record, &instance, context)?;
        is_other.then_some((number, instance, event))
    });
    let earliest = later.min_by_key(|(number, ..)| *number);
    Ok(earliest.map(|(_, instance, event)| (instance, event)))
}

/// The record of an instance that a later call launched. No call will be made from it, so what the instance does not
/// show is taken from the earlier attempt.
fn adoption(
    number: NonZeroU32,
    record: &LaunchRecord,
    instance: &Instance,
    context: &MachineContext,
) -> Option<LaunchEvent> {
    let earlier = record.request()?;
    let request = RecordedRequest {
        client_token: instance.client_token.clone()?,
        subnet_id: instance.subnet_id.clone().unwrap_or_else(|| earlier.subnet_id.clone()),
        parameters_hash: "recovered".to_owned(),
        requested_at: instance.launch_time.map_or_else(|| earlier.requested_at.clone(), Time),
        ..earlier.clone()
    };
    Some(LaunchEvent::Adopted {
        number,
        request,
        holder: context.memory.holder().to_owned(),
        instance_id: instance.id.clone(),
    })
}
