//! From spec, placement and user data to the one RunInstances call. Pure.

use std::collections::BTreeMap;

use capa_api::common::{MachineRole, Volume};
use capa_api::conditions::{ConditionType, ConditionUpdate, Reason};
use capa_api::machine::{AWSMachine, AWSMachineSpec, HostAffinity, MarketType, Tenancy};
use capa_api::meta;
use capa_api::network::MachineNetwork;
use capa_cloud::{LaunchRequest, LaunchVolume, MetadataOptions, UserData};
use capa_network::{Placement, Problem};

/// What a request is made from besides the machine itself.
pub(super) struct Ingredients<'a> {
    /// The merged network.
    pub(super) network: &'a MachineNetwork,
    /// Name of the cluster in tags.
    pub(super) cluster_tag: &'a str,
    /// Name of the owning Machine.
    pub(super) owner_name: &'a str,
    /// Role of the machine.
    pub(super) role: MachineRole,
    /// User data.
    pub(super) user_data: &'a UserData,
    /// Device of the image's root volume, known where the spec shapes that volume.
    pub(super) root_device: Option<&'a str>,
}

/// The call for a placement. The token is the attempt's.
pub(super) fn build(
    machine: &AWSMachine,
    ingredients: &Ingredients<'_>,
    placement: &Placement,
    client_token: String,
) -> LaunchRequest {
    let spec = &machine.spec;
    let metadata = spec.effective_metadata_options();
    LaunchRequest {
        client_token,
        image_id: image_id(spec).unwrap_or_default().to_owned(),
        instance_type: spec.instance_type.clone(),
        subnet_id: placement.subnet_id.clone(),
        security_group_ids: placement.security_group_ids.clone(),
        iam_instance_profile: spec.iam_instance_profile.clone().filter(|name| !name.is_empty()),
        key_name: spec
            .effective_ssh_key_name(ingredients.network.ssh_key_name.as_deref())
            .map(str::to_owned),
        public_ip: spec.public_ip,
        root_volume: spec
            .root_volume
            .as_ref()
            .and_then(|volume| launch_volume(volume, ingredients.root_device)),
        data_volumes: spec
            .non_root_volumes
            .iter()
            .filter_map(|volume| launch_volume(volume, None))
            .collect(),
        metadata_options: MetadataOptions {
            http_endpoint: metadata.http_endpoint.to_string(),
            http_tokens: <&str>::from(metadata.http_tokens).to_owned(),
            http_put_response_hop_limit: i32::try_from(metadata.http_put_response_hop_limit).unwrap_or(i32::MAX),
            http_protocol_ipv6: metadata.http_protocol_ipv6.to_string(),
            instance_metadata_tags: metadata.instance_metadata_tags.to_string(),
        },
        tags: tags(machine, ingredients),
        user_data: ingredients.user_data.clone(),
    }
}

/// The image the spec names by id.
pub(super) fn image_id(spec: &AWSMachineSpec) -> Option<&str> {
    spec.ami.as_ref()?.id.as_deref().filter(|id| !id.is_empty())
}

fn launch_volume(volume: &Volume, root_device: Option<&str>) -> Option<LaunchVolume> {
    let device_name = volume
        .device_name
        .as_deref()
        .filter(|name| !name.is_empty())
        .or(root_device)?;
    Some(LaunchVolume {
        device_name: device_name.to_owned(),
        size: volume.size,
        volume_type: volume.volume_type.clone(),
        iops: volume.iops,
        throughput: volume.throughput,
        encrypted: volume.effective_encrypted(),
        encryption_key: volume.encryption_key.clone().filter(|key| !key.is_empty()),
    })
}

/// CAPA's tags, so that each provider can take over the other's machines. The machine's own tags win over the
/// cluster's, both may override `Name`, none a system tag.
fn tags(machine: &AWSMachine, ingredients: &Ingredients<'_>) -> BTreeMap<String, String> {
    let name = machine.metadata.name.clone().unwrap_or_default();
    let namespace = machine.metadata.namespace.as_deref().unwrap_or_default();
    let mut tags = BTreeMap::from([(meta::NAME_TAG.to_owned(), name)]);
    tags.extend(ingredients.network.additional_tags.clone());
    tags.extend(machine.spec.additional_tags.clone());
    tags.extend([
        (
            meta::cluster_tag(ingredients.cluster_tag),
            meta::OWNED_TAG_VALUE.to_owned(),
        ),
        (
            meta::kubernetes_cluster_tag(ingredients.cluster_tag),
            meta::OWNED_TAG_VALUE.to_owned(),
        ),
        (
            meta::ROLE_TAG.to_owned(),
            meta::role_tag_value(ingredients.role).to_owned(),
        ),
        (
            meta::MACHINE_NAME_TAG.to_owned(),
            meta::machine_name_tag_value(namespace, ingredients.owner_name),
        ),
    ]);
    tags
}

/// Tags that claim ownership cannot be set by a user: they decide what is deleted.
pub(super) fn refused_tags(spec: &AWSMachineSpec, network: &MachineNetwork) -> Option<Problem> {
    const SYSTEM: [&str; 4] = [
        "sigs.k8s.io/cluster-api-provider-aws/",
        "kubernetes.io/cluster/",
        "aws:",
        "MachineName",
    ];
    let key = spec
        .additional_tags
        .keys()
        .chain(network.additional_tags.keys())
        .find(|key| SYSTEM.iter().any(|prefix| key.starts_with(prefix)))?;
    Some(Problem::new(
        Reason::Conflict,
        format!("additionalTags: {key} is a tag of the provider or of AWS: remove it"),
    ))
}

/// Fields that are set but have no effect yet. A machine that asks for them is not launched without them.
pub(super) fn unsupported(spec: &AWSMachineSpec) -> Option<ConditionUpdate> {
    let set = [
        (
            "ami.eksLookupType",
            spec.ami.as_ref().is_some_and(|ami| ami.eks_lookup_type.is_some()),
        ),
        ("elasticIpPool", spec.elastic_ip_pool.is_some()),
        ("networkInterfaces", !spec.network_interfaces.is_empty()),
        ("networkInterfaceType", spec.network_interface_type.is_some()),
        ("assignPrimaryIPv6", spec.assign_primary_ipv6.is_some()),
        ("privateDnsName", spec.private_dns_name.is_some()),
        ("spotMarketOptions", spec.spot_market_options.is_some()),
        ("marketType", spec.effective_market_type() != MarketType::OnDemand),
        ("capacityReservationId", spec.capacity_reservation_id.is_some()),
        (
            "capacityReservationPreference",
            spec.capacity_reservation_preference.is_some(),
        ),
        (
            "tenancy",
            spec.tenancy.is_some_and(|tenancy| tenancy != Tenancy::Default),
        ),
        ("hostID", spec.host_id.is_some()),
        ("hostAffinity", spec.host_affinity != HostAffinity::Default),
        ("dynamicHostAllocation", spec.dynamic_host_allocation.is_some()),
        ("placementGroupName", spec.placement_group_name.is_some()),
        ("placementGroupPartition", spec.placement_group_partition.is_some()),
        ("cpuOptions", spec.cpu_options.is_some()),
    ];
    let names: Vec<&str> = set.into_iter().filter(|(_, set)| *set).map(|(name, _)| name).collect();
    if names.is_empty() && image_id(spec).is_some() {
        return None;
    }
    let message = if names.is_empty() {
        "looking up an image by name is not supported yet: set ami.id".to_owned()
    } else {
        format!(
            "the spec asks for what has no effect yet, and is not launched without it: {}",
            names.join(", ")
        )
    };
    Some(ConditionType::InstanceReady.is_false(Reason::UnsupportedField, message))
}
