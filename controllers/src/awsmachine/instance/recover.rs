//! Recovers the status of a machine whose status was lost, from its instance and the network sources.

use std::num::NonZeroU32;

use capa_api::machine::{LaunchRecord, MachineNetworkInUse, RecordedRequest};
use capa_cloud::Instance;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::awsmachine::blocked::{FlowError, earlier};
use crate::awsmachine::context::MachineContext;
use crate::awsmachine::elastic_ip;
use crate::awsmachine::hosts;
use crate::awsmachine::launch::record::LaunchEvent;
use crate::awsmachine::locate::{self, InstanceLocation};
use crate::awsmachine::ownership::attempt_number;
use crate::awsmachine::read;
use crate::awsmachine::scope::{MachineScope, adoption_event};
use crate::awsmachine::secrets;
use crate::awsmachine::write;
use crate::launching::image::image_id;
use crate::launching::lost;

/// Recovers the network in use and the launch record, if the status lacks them.
pub(super) async fn recover(
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
    let is_unknown = matches!(scope.status.launch, None | Some(LaunchRecord::Planned));
    if is_unknown && let Err(blocked) = hosts::recover(scope, instance, location).await {
        // The next pass looks again. The instance is followed all the same.
        scope.next = earlier(scope.next, blocked.next);
    }
    let Some(cluster) = scope.owners.cluster.clone().filter(|_| is_unknown) else {
        return Ok(());
    };
    let merged = read::network(scope, &cluster, context).await?;
    let format = read::bootstrap_format(scope, context).await;
    if merged.problem.is_some() && lost::may_be_in_bucket(&scope.machine.spec, format) {
        // The sources may name the bucket with the bootstrap data once they can be used.
        return Ok(());
    }
    if let Some(event) = launch_of(instance, scope, context) {
        scope.record_launch(event)?;
        let client_token = instance.client_token.as_deref().unwrap_or_default();
        secrets::recover(scope, client_token, format, merged.network.bootstrap_bucket());
    }
    Ok(())
}

/// Recovers the launch record of a machine that is being deleted, before its instance ends, and stores it: its Dedicated
/// Hosts and its bootstrap data are found by the client token of the instance, which AWS forgets. An Elastic IP may be
/// allocated that EC2 does not show yet.
pub(in crate::awsmachine) async fn recover_before_end(
    scope: &mut MachineScope,
    instance: &Instance,
    location: &InstanceLocation,
    context: &MachineContext,
) -> Result<(), FlowError> {
    let is_unknown = matches!(scope.status.launch, None | Some(LaunchRecord::Planned));
    if !is_unknown {
        return Ok(());
    }
    elastic_ip::recover(scope, context);
    let Some(event) = launch_of(instance, scope, context) else {
        // Its token is not recorded, and AWS will not show it much longer.
        hosts::recover(scope, instance, location).await?;
        return Ok(());
    };
    let format = read::bootstrap_format(scope, context).await;
    let bucket = if lost::may_be_in_bucket(&scope.machine.spec, format) {
        locate::bootstrap_bucket(scope, context).await?
    } else {
        None
    };
    // Targets that are not all known are looked up again.
    if scope.status.network.is_none() && location.pending_targets.is_none() {
        scope.status.network = Some(recovered_network(instance, location));
    }
    scope.record_launch(event)?;
    let client_token = instance.client_token.as_deref().unwrap_or_default();
    secrets::recover(scope, client_token, format, bucket.as_ref());
    write::store(scope, context).await?;
    Ok(())
}

/// The network of the instance, as far as it is known.
fn recovered_network(instance: &Instance, location: &InstanceLocation) -> MachineNetworkInUse {
    MachineNetworkInUse {
        account_id: Some(location.account_id.clone()),
        region: Some(location.region.clone()),
        availability_zone: Some(instance.availability_zone.clone()),
        subnet_id: instance.subnet_id.clone(),
        identity_ref: Some(location.identity_ref.clone()),
        control_plane_targets: location.targets.clone(),
        cluster_tag: Some(location.cluster_tag.clone()),
        ..MachineNetworkInUse::default()
    }
}

/// Stands in a record for what only the launch knew.
const RECOVERED: &str = "recovered";

/// The launch of the instance, as far as it is known. Image and type come from the spec, because no call will be made from
/// this record. `None` if the instance does not show its subnet and security groups any more.
fn launch_of(instance: &Instance, scope: &MachineScope, context: &MachineContext) -> Option<LaunchEvent> {
    let spec = &scope.machine.spec;
    let interface = instance.primary_interface.as_ref();
    let groups = interface.map(|interface| interface.security_group_ids.clone());
    let token = instance.client_token.clone().filter(|token| !token.is_empty());
    let first_token = || format!("{}-1", scope.uid());
    let request = RecordedRequest {
        client_token: token.unwrap_or_else(first_token),
        subnet_id: instance.subnet_id.clone()?,
        image_id: image_id(spec).unwrap_or(RECOVERED).to_owned(),
        instance_type: spec.instance_type.clone(),
        security_group_ids: groups.filter(|groups| !groups.is_empty())?,
        parameters_hash: RECOVERED.to_owned(),
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
