//! Recovers a lost status from the instance and the network sources, and the instance of a later call if the launch
//! record was restored from a backup that is older than that attempt.

use std::num::NonZeroU32;

use capa_api::machine::{LaunchRecord, MachineNetworkInUse, RecordedRequest};
use capa_cloud::Instance;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::awsmachine::context::MachineContext;
use crate::awsmachine::inputs::location::InstanceLocation;
use crate::awsmachine::instance::observation;
use crate::awsmachine::launch::protocol::LaunchEvent;
use crate::awsmachine::ownership::{Ownership, attempt_number, launch_token};
use crate::awsmachine::scope::{FlowError, MachineScope, adoption_event};
use crate::awsmachine::{bootstrap_data, elastic_ip, hosts, inputs, write};
use crate::blocked::{Blocked, earlier};
use crate::launching::image::image_id;
use crate::launching::lost;

/// Recovers the network in use and the launch record, if the status lacks them.
pub(in crate::awsmachine) async fn recover(
    scope: &mut MachineScope,
    instance: &Instance,
    location: &InstanceLocation,
    context: &MachineContext,
) -> Result<(), FlowError> {
    if scope.status.network.is_none() {
        scope.status.network = Some(recovered_network(instance, location));
        scope.events.push(adoption_event(&instance.id));
        elastic_ip::recover(scope, context);
    }
    let is_unknown = scope.has_no_attempt();
    if is_unknown && let Err(blocked) = hosts::recover(scope, instance, location).await {
        // A deletion looks for the host again. This pass follows the instance all the same.
        scope.next = earlier(scope.next, blocked.next);
    }
    let Some(cluster) = scope.owners.cluster.clone().filter(|_| is_unknown) else {
        return Ok(());
    };
    let merged = inputs::network(scope, &cluster, context).await?;
    let format = bootstrap_data::format(scope, context).await;
    if merged.problem.is_some() && lost::may_be_in_bucket(&scope.machine.spec, format) {
        // The sources may name the bucket with the bootstrap data once they can be used.
        return Ok(());
    }
    if let Some(event) = launch_of(instance, scope, context) {
        scope.record_launch(event)?;
        let client_token = instance.client_token.as_deref().unwrap_or_default();
        bootstrap_data::recover(scope, client_token, format, merged.network.bootstrap_bucket());
    }
    Ok(())
}

/// Recovers the launch record of a machine that is being deleted, before its instance ends, and stores it: its
/// Dedicated Hosts and its bootstrap data are found by the client token of the instance, which AWS forgets. An Elastic
/// IP may be allocated that EC2 does not show yet.
pub(in crate::awsmachine) async fn recover_before_end(
    scope: &mut MachineScope,
    instance: &Instance,
    location: &InstanceLocation,
    context: &MachineContext,
) -> Result<(), FlowError> {
    if !scope.has_no_attempt() {
        return Ok(());
    }
    elastic_ip::recover(scope, context);
    let Some(event) = launch_of(instance, scope, context) else {
        // The status does not record its token, and AWS soon stops showing it.
        hosts::recover(scope, instance, location).await?;
        return Ok(());
    };
    let (format, bucket) = bootstrap_data::format_and_bucket(scope, context).await?;
    // Targets that are not all known are looked up again.
    if scope.status.network.is_none() && location.pending_targets.is_none() {
        scope.status.network = Some(recovered_network(instance, location));
    }
    scope.record_launch(event)?;
    let client_token = instance.client_token.as_deref().unwrap_or_default();
    bootstrap_data::recover(scope, client_token, format, bucket.as_ref());
    write::store(scope, context).await?;
    Ok(())
}

/// The network of the instance, as far as it is known.
fn recovered_network(instance: &Instance, location: &InstanceLocation) -> MachineNetworkInUse {
    MachineNetworkInUse {
        account_id: Some(location.session.account_id.clone()),
        region: Some(location.session.region.clone()),
        availability_zone: Some(instance.availability_zone.clone()),
        subnet_id: instance.subnet_id.clone(),
        identity_ref: Some(location.session.identity_ref.clone()),
        control_plane_targets: location.targets.clone(),
        cluster_tag: Some(location.session.cluster_tag.clone()),
        ..MachineNetworkInUse::default()
    }
}

/// The launch of the instance, as far as it is known. Image and type come from the spec, because no call will be made
/// from this record. `None` if the instance does not show its subnet and security groups any more.
fn launch_of(instance: &Instance, scope: &MachineScope, context: &MachineContext) -> Option<LaunchEvent> {
    let spec = &scope.machine.spec;
    let interface = instance.primary_interface.as_ref();
    let groups = interface.map(|interface| interface.security_group_ids.clone());
    let token = instance.client_token.clone().filter(|token| !token.is_empty());
    let first_token = || launch_token(scope.uid(), NonZeroU32::MIN);
    let request = RecordedRequest {
        client_token: token.unwrap_or_else(first_token),
        subnet_id: instance.subnet_id.clone()?,
        image_id: image_id(spec).map(str::to_owned),
        instance_type: spec.instance_type.clone(),
        security_group_ids: groups.filter(|groups| !groups.is_empty())?,
        parameters_hash: None,
        requested_at: Time(instance.launch_time?),
    };
    let number = attempt_number(&request.client_token, scope.uid());
    Some(LaunchEvent::Adopted {
        number: number.and_then(NonZeroU32::new).unwrap_or(NonZeroU32::MIN),
        request,
        holder: context.memory.holder().to_owned(),
        instance_id: instance.id.clone(),
    })
}

/// Records the living instance of a later call than the recorded one, and returns its id. The recorded instance is gone
/// and never ran, so another attempt may have followed it. If there are several, the instance of the earliest attempt
/// is recorded.
///
/// # Errors
/// The lookup failed.
pub(in crate::awsmachine) async fn adopt_newer_attempt(
    scope: &mut MachineScope,
    location: &InstanceLocation,
    context: &MachineContext,
) -> Result<Option<String>, FlowError> {
    let Some((instance, event)) = newer_attempt(scope, location, context).await? else {
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

async fn newer_attempt(
    scope: &MachineScope,
    location: &InstanceLocation,
    context: &MachineContext,
) -> Result<Option<(Instance, LaunchEvent)>, Blocked> {
    let Some(record @ LaunchRecord::Answered { .. }) = &scope.status.launch else {
        return Ok(None);
    };
    let tags = scope.tags(&location.session.cluster_tag);
    let found = observation::look_up(location.session.cloud.as_ref(), &tags, None).await;
    let found = found.map_err(|error| observation::blocked_by_lookup(&error))?;
    let later = found.into_iter().filter(|instance| {
        let ownership = inputs::ownership(scope, instance, &location.session.cluster_tag, context);
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
        parameters_hash: None,
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
