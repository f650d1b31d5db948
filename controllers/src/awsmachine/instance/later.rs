//! Finds the instance of a later attempt, if the launch record was restored from a backup that is older than that
//! attempt.

use std::num::NonZeroU32;

use capa_api::conditions::{ConditionType, Reason};
use capa_api::machine::{LaunchRecord, RecordedRequest};
use capa_cloud::Instance;
use capa_runtime::reconcile::Next;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::awsmachine::blocked::{Blocked, FlowError};
use crate::awsmachine::context::MachineContext;
use crate::awsmachine::launch::record::LaunchEvent;
use crate::awsmachine::locate::InstanceLocation;
use crate::awsmachine::lookup;
use crate::awsmachine::ownership::{Ownership, attempt_number};
use crate::awsmachine::read;
use crate::awsmachine::scope::{MachineScope, adoption_event};

/// Adopts the living instance of a later attempt than the recorded one. The recorded instance is gone and never ran, so
/// another attempt may have followed it.
///
/// # Errors
/// The lookup failed, or a later instance was recorded: the next pass follows it.
pub(super) async fn adopt_later(
    scope: &mut MachineScope,
    gone: &str,
    location: &InstanceLocation,
    context: &MachineContext,
) -> Result<(), FlowError> {
    let Some((instance, event)) = find_later(scope, location, context).await? else {
        return Ok(());
    };
    scope.record_launch(event)?;
    scope.events.push(adoption_event(&instance.id));
    if let Some(network) = &mut scope.status.network {
        network.availability_zone = Some(instance.availability_zone.clone());
        network.subnet_id.clone_from(&instance.subnet_id);
    }
    context.clouds.forget(&scope.key());
    let message = format!(
        "instance {gone}, which the launch record named, is gone, and instance {} of a later attempt is there: it is \
         followed from now on",
        instance.id
    );
    let found = ConditionType::InstanceReady.is_false(Reason::Pending, message);
    Err(Blocked::new(found, Next::Requeue(std::time::Duration::ZERO)).into())
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
    let mut later = later.filter_map(|instance| Some((adoption(scope, record, &instance, context)?, instance)));
    Ok(later.next().map(|(event, instance)| (instance, event)))
}

/// The record of an instance that a later attempt launched. No call will be made from it, so what the instance does not
/// show is taken from the earlier attempt.
fn adoption(
    scope: &MachineScope,
    record: &LaunchRecord,
    instance: &Instance,
    context: &MachineContext,
) -> Option<LaunchEvent> {
    let client_token = instance.client_token.clone()?;
    let number = attempt_number(&client_token, scope.uid()).filter(|number| *number > record.attempt_number())?;
    let earlier = record.request()?;
    let request = RecordedRequest {
        client_token,
        subnet_id: instance.subnet_id.clone().unwrap_or_else(|| earlier.subnet_id.clone()),
        parameters_hash: "recovered".to_owned(),
        requested_at: instance.launch_time.map_or_else(|| earlier.requested_at.clone(), Time),
        ..earlier.clone()
    };
    Some(LaunchEvent::Adopted {
        number: NonZeroU32::new(number)?,
        request,
        holder: context.memory.holder().to_owned(),
        instance_id: instance.id.clone(),
    })
}
