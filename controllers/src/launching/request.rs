//! Builds the RunInstances request from spec, placement and user data. Pure.

use std::collections::BTreeMap;

use capa_api::common::{MachineRole, Volume};
use capa_api::machine::{AWSMachine, AWSMachineSpec};
use capa_api::meta;
use capa_api::network::MachineNetwork;
use capa_cloud::{LaunchRequest, UserData, launch_tags};
use capa_network::Placement;

/// The inputs of a request besides the machine and its placement.
pub(crate) struct RequestInputs<'a> {
    /// The merged network.
    pub(crate) network: &'a MachineNetwork,
    /// Name of the cluster in tags.
    pub(crate) cluster_tag: &'a str,
    /// Name of the owning Machine.
    pub(crate) owner_name: &'a str,
    /// The identifier of the management cluster, if it is known.
    pub(crate) management_cluster: Option<&'a str>,
    /// Role of the machine.
    pub(crate) role: MachineRole,
    /// User data.
    pub(crate) user_data: &'a UserData,
    /// The machine image.
    pub(crate) image_id: &'a str,
    /// The Dedicated Host that was allocated for the machine.
    pub(crate) allocated_host: Option<&'a str>,
    /// Device of the image's root volume. Known if the spec sets the root volume.
    pub(crate) root_device: Option<&'a str>,
}

/// The request that launches the machine at a placement, with the token of an attempt.
pub(crate) fn build_request(
    machine: &AWSMachine,
    inputs: &RequestInputs<'_>,
    placement: &Placement,
    client_token: String,
) -> LaunchRequest {
    let spec = &machine.spec;
    let mut subnets = inputs.network.subnets.iter();
    let subnet = subnets.find(|subnet| subnet.id == placement.subnet_id);
    let subnet_has_ipv6 = subnet.is_some_and(|subnet| subnet.ipv6 == Some(true));
    LaunchRequest {
        client_token,
        image_id: inputs.image_id.to_owned(),
        instance_type: spec.instance_type.clone(),
        subnet_id: placement.subnet_id.clone(),
        security_group_ids: placement.security_group_ids.clone(),
        iam_instance_profile: instance_profile(spec, inputs),
        key_name: spec.effective_ssh_key_name(inputs.network.ssh_key_name.as_deref()).map(str::to_owned),
        public_ip: spec.public_ip,
        root_volume: spec.root_volume.as_ref().and_then(|volume| launch_volume(volume, inputs.root_device)),
        data_volumes: spec
            .non_root_volumes
            .iter()
            .filter_map(|volume| launch_volume(volume, volume.device_name.as_deref()))
            .collect(),
        metadata_options: spec.effective_metadata_options(),
        tags: tags(machine, inputs),
        user_data: inputs.user_data.clone(),
        options: spec.launch_options(subnet_has_ipv6, inputs.allocated_host),
    }
}

/// The instance profile of the machine, else that of the network for the machine's role.
fn instance_profile(spec: &AWSMachineSpec, inputs: &RequestInputs<'_>) -> Option<String> {
    let of_network = inputs.network.instance_profiles.as_ref().and_then(|profiles| match inputs.role {
        MachineRole::ControlPlane => profiles.control_plane.clone(),
        MachineRole::Worker => profiles.worker.clone(),
    });
    let own = spec.iam_instance_profile.clone().filter(|name| !name.is_empty());
    own.or(of_network)
}

/// The volume at this device, without values that stand for EC2's default. A retry must equal the first call, however
/// the default is written.
fn launch_volume(volume: &Volume, device: Option<&str>) -> Option<Volume> {
    Some(Volume {
        device_name: Some(device.filter(|name| !name.is_empty())?.to_owned()),
        size: volume.size,
        volume_type: volume.volume_type.clone().filter(|kind| !kind.is_empty()),
        iops: volume.iops.filter(|iops| *iops != 0),
        throughput: volume.throughput.filter(|throughput| *throughput != 0),
        encrypted: volume.effective_encrypted(),
        encryption_key: volume.encryption_key.clone().filter(|key| !key.is_empty()),
    })
}

/// The tags of an instance. Tags of the machine take precedence over tags of the cluster. Both can replace `Name`, but no
/// tag of the provider.
fn tags(machine: &AWSMachine, inputs: &RequestInputs<'_>) -> BTreeMap<String, String> {
    let name = machine.metadata.name.as_deref().unwrap_or_default();
    let namespace = machine.metadata.namespace.as_deref().unwrap_or_default();
    let mut tags = launch_tags(name, &machine.spec, inputs.network, inputs.cluster_tag, inputs.role);
    let machine_name = meta::machine_name_tag_value(namespace, inputs.owner_name);
    tags.insert(meta::MACHINE_NAME_TAG.to_owned(), machine_name);
    let management_cluster = inputs.management_cluster;
    tags.extend(management_cluster.map(|id| (meta::MANAGEMENT_CLUSTER_TAG.to_owned(), id.to_owned())));
    tags
}

#[cfg(test)]
mod tests {
    use capa_api::machine::{HttpTokens, Switch};

    use super::*;
    use crate::testing::{plain_machine, read};

    fn request(spec: &str, network: &str, role: MachineRole) -> LaunchRequest {
        let inputs = RequestInputs {
            image_id: "ami-00000001",
            network: &read(network),
            cluster_tag: "dev",
            owner_name: "m",
            management_cluster: Some("c"),
            role,
            user_data: &UserData::new(b"data".to_vec()),
            allocated_host: None,
            root_device: Some("/dev/xvda"),
        };
        let placement = Placement {
            subnet_id: "subnet-0000000a".into(),
            availability_zone: None,
            security_group_ids: vec!["sg-0000000a".into()],
        };
        build_request(&plain_machine(spec), &inputs, &placement, "token".into())
    }

    #[test]
    fn the_instance_profile_is_the_machines_or_the_networks() {
        let network = "{instanceProfiles: {controlPlane: masters, worker: workers}}";
        let profile = |spec, role| request(spec, network, role).iam_instance_profile;
        assert_eq!(profile("iamInstanceProfile: own", MachineRole::Worker).as_deref(), Some("own"));
        assert_eq!(profile("iamInstanceProfile: ''", MachineRole::Worker).as_deref(), Some("workers"));
        assert_eq!(profile("publicIP: false", MachineRole::ControlPlane).as_deref(), Some("masters"));
    }

    #[test]
    fn machine_tags_win_over_cluster_tags_and_both_over_name() {
        let network = "{additionalTags: {team: a, stage: prod, Name: cluster}}";
        let tags = request("additionalTags: {team: b}", network, MachineRole::ControlPlane).tags;
        let expected = [
            ("MachineName", "team-a/m"),
            ("Name", "cluster"),
            ("kubernetes.io/cluster/dev", "owned"),
            ("sigs.k8s.io/cluster-api-provider-aws/cluster/dev", "owned"),
            ("sigs.k8s.io/cluster-api-provider-aws/management-cluster", "c"),
            ("sigs.k8s.io/cluster-api-provider-aws/role", "control-plane"),
            ("stage", "prod"),
            ("team", "b"),
        ];
        let tags: Vec<_> = tags.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        assert_eq!(tags, expected);
        let worker = request("", "{}", MachineRole::Worker).tags;
        assert_eq!((worker["Name"].as_str(), worker[meta::ROLE_TAG].as_str()), ("m", "node"));
    }

    #[test]
    fn the_call_says_what_the_spec_says() {
        let spec = "iamInstanceProfile: nodes, sshKeyName: mine, publicIP: true, \
                    rootVolume: {size: 40, type: gp3, iops: 4000, throughput: 200, encryptionKey: k}, \
                    nonRootVolumes: [{deviceName: /dev/sdb, size: 100, encrypted: false}], \
                    instanceMetadataOptions: {httpTokens: required, httpPutResponseHopLimit: 3, \
                     instanceMetadataTags: enabled}";
        let request = request(spec, "{sshKeyName: cluster}", MachineRole::Worker);
        assert_eq!(request.client_token, "token");
        assert_eq!((request.image_id.as_str(), request.instance_type.as_str()), ("ami-00000001", "t3.large"));
        assert_eq!(request.iam_instance_profile.as_deref(), Some("nodes"));
        assert_eq!(request.key_name.as_deref(), Some("mine"));
        assert_eq!(request.public_ip, Some(true));
        let root = request.root_volume.unwrap();
        assert_eq!((root.device_name.as_deref(), root.size), (Some("/dev/xvda"), 40));
        assert_eq!((root.volume_type.as_deref(), root.iops, root.throughput), (Some("gp3"), Some(4000), Some(200)));
        assert_eq!((root.encrypted, root.encryption_key.as_deref()), (Some(true), Some("k")), "a key means encryption");
        let [data] = request.data_volumes.as_slice() else { panic!("one data volume") };
        assert_eq!((data.device_name.as_deref(), data.encrypted), (Some("/dev/sdb"), Some(false)));
        let metadata = request.metadata_options;
        assert_eq!((metadata.http_tokens, metadata.http_put_response_hop_limit), (HttpTokens::Required, 3));
        assert_eq!(
            (metadata.http_endpoint, metadata.http_protocol_ipv6, metadata.instance_metadata_tags),
            (Switch::Enabled, Switch::Disabled, Switch::Enabled)
        );
    }

    #[test]
    fn what_the_spec_leaves_open_is_left_to_the_cluster_or_to_aws() {
        let silent = request("", "{sshKeyName: cluster}", MachineRole::Worker);
        assert_eq!(silent.key_name.as_deref(), Some("cluster"));
        assert_eq!((silent.iam_instance_profile, silent.public_ip), (None, None));
        assert_eq!((silent.root_volume, silent.data_volumes), (None, vec![]));
        assert_eq!(
            (silent.metadata_options.http_tokens, silent.metadata_options.http_put_response_hop_limit),
            (HttpTokens::Required, 2)
        );
        let no_key = request("sshKeyName: ''", "{sshKeyName: cluster}", MachineRole::Worker);
        assert_eq!(no_key.key_name, None);
    }
}
