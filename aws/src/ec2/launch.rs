//! RunInstances.

use std::collections::BTreeMap;

use aws_sdk_ec2::operation::run_instances::builders::RunInstancesFluentBuilder;
use aws_sdk_ec2::types::{
    BlockDeviceMapping, EbsBlockDevice, IamInstanceProfileSpecification, InstanceMetadataOptionsRequest, ResourceType,
    Tag, TagSpecification,
};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use capa_cloud::limits::CallRequest;
use capa_cloud::{CloudError, ErrorClass, Instance, InstanceMetadataOptions, LaunchRequest, MachineKey, Volume};

use super::instance::instance;
use super::launch_options::{interfaces, with_options};
use super::{Ec2Calls, once};

impl Ec2Calls {
    /// Reserves the turn for [`Ec2Calls::launch`].
    pub(crate) fn reserve_launch(&self, machine: &MachineKey) -> Result<(), CloudError> {
        let turn = CallRequest::launch(self.runner.flow(), machine);
        self.runner.limiter().reserve(&turn)
    }

    /// Launches one instance. The SDK does not retry this call: if the answer of an attempt is lost, a refusal of the
    /// retry would look as if no attempt had launched an instance. The holder of the launch record retries the call.
    pub(crate) async fn launch(&self, machine: &MachineKey, request: &LaunchRequest) -> Result<Instance, CloudError> {
        let input = run_instances(self.client.run_instances(), request)?;
        let turn = CallRequest::launch(self.runner.flow(), machine);
        let permit = self.runner.permit(&turn).await?;
        let action = permit.action;
        let call = input.customize().config_override(once()).send();
        let answer = self.runner.call(permit, call).await?;
        let shown = answer.instances().first();
        let shown = shown.ok_or_else(|| CloudError::no_answer(action, "the answer shows no instance"))?;
        instance(action, shown)
    }
}

/// Fills RunInstances for exactly one instance. Fails before any call if a number is too large for EC2's API.
pub(super) fn run_instances(
    input: RunInstancesFluentBuilder,
    request: &LaunchRequest,
) -> Result<RunInstancesFluentBuilder, CloudError> {
    let volumes = request.root_volume.iter().chain(&request.data_volumes);
    let volumes = volumes.map(block_device).collect::<Result<Vec<_>, _>>()?;
    let profile = request.iam_instance_profile.as_ref();
    let profile = profile.map(|name| IamInstanceProfileSpecification::builder().name(name).build());
    let user_data = request.user_data.expose();
    let input = with_options(input, &request.options);
    Ok(input
        .min_count(1)
        .max_count(1)
        .client_token(&request.client_token)
        .image_id(&request.image_id)
        .instance_type(request.instance_type.as_str().into())
        .set_key_name(request.key_name.clone())
        .set_iam_instance_profile(profile)
        .set_network_interfaces(Some(interfaces(request)))
        .set_block_device_mappings(Some(volumes).filter(|volumes| !volumes.is_empty()))
        .metadata_options(metadata_options(&request.metadata_options))
        .set_tag_specifications(tag_specifications(&request.tags, request.options.network_interfaces.is_empty()))
        .set_user_data((!user_data.is_empty()).then(|| STANDARD.encode(user_data))))
}

/// Volumes are deleted with their instance. By default, EC2 would keep data volumes.
fn block_device(volume: &Volume) -> Result<BlockDeviceMapping, CloudError> {
    let disk = EbsBlockDevice::builder()
        .delete_on_termination(true)
        .volume_size(number(volume, "size", volume.size)?)
        .set_volume_type(volume.volume_type.as_deref().map(Into::into))
        .set_iops(volume.iops.map(|iops| number(volume, "iops", iops)).transpose()?)
        .set_throughput(volume.throughput.map(|rate| number(volume, "throughput", rate)).transpose()?)
        .set_encrypted(volume.encrypted)
        .set_kms_key_id(volume.encryption_key.clone())
        .build();
    Ok(BlockDeviceMapping::builder().set_device_name(volume.device_name.clone()).ebs(disk).build())
}

fn number(volume: &Volume, field: &str, value: i64) -> Result<i32, CloudError> {
    i32::try_from(value).map_err(|_| CloudError {
        operation: "RunInstances",
        code: None,
        class: ErrorClass::Invalid,
        subject: None,
        message: format!(
            "volume {}: {field} {value} is out of range",
            volume.device_name.as_deref().unwrap_or_default()
        ),
        retry_after: None,
    })
}

pub(super) fn metadata_options(options: &InstanceMetadataOptions) -> InstanceMetadataOptionsRequest {
    InstanceMetadataOptionsRequest::builder()
        .http_endpoint(<&str>::from(options.http_endpoint).into())
        .http_tokens(<&str>::from(options.http_tokens).into())
        .http_put_response_hop_limit(hop_limit(options))
        .http_protocol_ipv6(<&str>::from(options.http_protocol_ipv6).into())
        .instance_metadata_tags(<&str>::from(options.instance_metadata_tags).into())
        .build()
}

/// The schema allows 64 hops at most.
pub(super) fn hop_limit(options: &InstanceMetadataOptions) -> i32 {
    i32::try_from(options.http_put_response_hop_limit).unwrap_or(i32::MAX)
}

/// The same tags for the instance, its volumes and its new interface. EC2 refuses a specification without tags, and a
/// specification for interfaces if the launch creates none.
fn tag_specifications(tags: &BTreeMap<String, String>, creates_interface: bool) -> Option<Vec<TagSpecification>> {
    let tags: Vec<_> = tags.iter().map(|(key, value)| Tag::builder().key(key).value(value).build()).collect();
    let mut kinds = vec![ResourceType::Instance, ResourceType::Volume];
    if creates_interface {
        kinds.push(ResourceType::NetworkInterface);
    }
    let specifications = kinds
        .into_iter()
        .map(|kind| TagSpecification::builder().resource_type(kind).set_tags(Some(tags.clone())).build());
    (!tags.is_empty()).then(|| specifications.collect())
}
