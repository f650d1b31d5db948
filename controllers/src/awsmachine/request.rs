//! From spec, placement and user data to the one RunInstances call. Pure.

use std::collections::BTreeMap;

use capa_api::common::{MachineRole, ResourceReference, Volume};
use capa_api::conditions::{ConditionType, ConditionUpdate, Reason};
use capa_api::machine::{AWSMachine, AWSMachineSpec};
use capa_api::meta;
use capa_api::network::{ID_LENGTH, MachineNetwork, Oversized, is_longer};
use capa_api::unsupported::{self, Found, When};
use capa_cloud::{LaunchRequest, LaunchVolume, MetadataOptions, UserData};
use capa_network::{Placement, Problem};
use kube::Resource as _;

use super::overrides;
use crate::tags;

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
        iam_instance_profile: instance_profile(spec, ingredients),
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

/// The machine's own, else the network's for its role.
fn instance_profile(spec: &AWSMachineSpec, ingredients: &Ingredients<'_>) -> Option<String> {
    let of_network = ingredients
        .network
        .instance_profiles
        .as_ref()
        .and_then(|profiles| match ingredients.role {
            MachineRole::ControlPlane => profiles.control_plane.clone(),
            MachineRole::Worker => profiles.worker.clone(),
        });
    let own = spec.iam_instance_profile.clone().filter(|name| !name.is_empty());
    own.or(of_network)
}

/// The image the spec names by id.
pub(crate) fn image_id(spec: &AWSMachineSpec) -> Option<&str> {
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
    let path = "additionalTags";
    let mut refused = tags::refused(path, &spec.additional_tags).chain(tags::refused(path, &network.additional_tags));
    refused.next()
}

/// What no launch could honour: named instead of being left out.
pub(super) fn invalid(spec: &AWSMachineSpec) -> Option<ConditionUpdate> {
    let unnamed = |volume: &Volume| volume.device_name.as_ref().is_none_or(String::is_empty);
    let message = if let Some(contradiction) = super::dereference::contradiction(spec) {
        contradiction
    } else if let Some(path) = oversized(spec) {
        format!("{path} has more than {ID_LENGTH} characters, which nothing of that kind has in AWS: correct it")
    } else if let Some(index) = spec.non_root_volumes.iter().position(unnamed) {
        format!("nonRootVolumes[{index}] has no deviceName: set it, for example to /dev/sdb")
    } else if let Some(wrong) = overrides::wrong(spec) {
        format!("securityGroupOverrides: {wrong}")
    } else if spec.subnet.as_ref().is_some_and(names_nothing) {
        "subnet has neither id nor filters: set one of them, or leave it out".to_owned()
    } else {
        let index = spec.additional_security_groups.iter().position(names_nothing)?;
        format!("additionalSecurityGroups[{index}] has neither id nor filters: set one of them")
    };
    Some(ConditionType::InstanceReady.is_false(Reason::InvalidSpec, message))
}

fn names_nothing(reference: &ResourceReference) -> bool {
    reference.id.as_ref().is_none_or(String::is_empty) && reference.filters.is_empty()
}

/// What the record of a launch has no room for.
fn oversized(spec: &AWSMachineSpec) -> Option<String> {
    let too_long = |text: Option<&str>| text.is_some_and(|text| is_longer(text, ID_LENGTH));
    if too_long(Some(&spec.instance_type)) {
        return Some("instanceType".to_owned());
    }
    if too_long(image_id(spec)) {
        return Some("ami.id".to_owned());
    }
    let groups = &spec.additional_security_groups;
    let index = groups.iter().position(|group| too_long(group.id.as_deref()))?;
    Some(format!("additionalSecurityGroups[{index}].id"))
}

/// What the sources of the network supply and the status of a machine has no room for. `cluster_name` stands in tags
/// where no source says otherwise.
pub(super) fn oversized_network(network: &MachineNetwork, cluster_name: &str) -> Option<Problem> {
    let mut network = network.clone();
    network.cluster_tag.get_or_insert_with(|| cluster_name.to_owned());
    let Oversized { field, limit } = *network.take_oversized().first()?;
    let message = format!(
        "{field} of the network has more than {limit} characters, which nothing of that kind has in AWS: correct it in \
         its source"
    );
    Some(Problem::new(Reason::InvalidSpec, message))
}

/// Fields that are set but have no effect yet. A machine that asks for them is not launched without them.
pub(super) fn unsupported(spec: &AWSMachineSpec) -> Option<ConditionUpdate> {
    let condition = ConditionType::InstanceReady;
    let found = unsupported::found(AWSMachine::kind(&()).as_ref(), spec);
    let stops_launch = |found: &&Found| {
        let shown_by = found.field.consequence.condition;
        found.field.when == When::Set && shown_by.is_some_and(|(shown_by, _)| shown_by == condition)
    };
    let names = unsupported::names(found.iter().filter(stops_launch));
    let message = if !names.is_empty() {
        format!("the spec asks for what has no effect yet, and is not launched without it: {names}")
    } else if image_id(spec).is_none() {
        "looking up an image by name is not supported yet: set ami.id".to_owned()
    } else {
        return None;
    };
    Some(condition.is_false(Reason::UnsupportedField, message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::read;

    const IMAGE: &str = "instanceType: t3.large, ami: {id: ami-00000001}";

    fn machine(spec: &str) -> AWSMachine {
        read(&format!(
            "{{apiVersion: infrastructure.cluster.x-k8s.io/v1beta2, kind: AWSMachine, \
              metadata: {{name: m, namespace: team-a}}, spec: {{{IMAGE}, {spec}}}}}"
        ))
    }

    fn request(spec: &str, network: &str, role: MachineRole) -> LaunchRequest {
        let ingredients = Ingredients {
            network: &read(network),
            cluster_tag: "dev",
            owner_name: "m",
            role,
            user_data: &UserData::new(b"data".to_vec()),
            root_device: Some("/dev/xvda"),
        };
        let placement = Placement {
            subnet_id: "subnet-0000000a".into(),
            availability_zone: None,
            security_group_ids: vec!["sg-0000000a".into()],
        };
        build(&machine(spec), &ingredients, &placement, "token".into())
    }

    #[test]
    fn the_instance_profile_is_the_machines_or_the_networks() {
        let network = "{instanceProfiles: {controlPlane: masters, worker: workers}}";
        let profile = |spec, role| request(spec, network, role).iam_instance_profile;
        assert_eq!(
            profile("iamInstanceProfile: own", MachineRole::Worker).as_deref(),
            Some("own")
        );
        assert_eq!(
            profile("iamInstanceProfile: ''", MachineRole::Worker).as_deref(),
            Some("workers")
        );
        assert_eq!(
            profile("publicIP: false", MachineRole::ControlPlane).as_deref(),
            Some("masters")
        );
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
            ("sigs.k8s.io/cluster-api-provider-aws/role", "control-plane"),
            ("stage", "prod"),
            ("team", "b"),
        ];
        let tags: Vec<_> = tags.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        assert_eq!(tags, expected);
        let worker = request("", "{}", MachineRole::Worker).tags;
        assert_eq!(
            (worker["Name"].as_str(), worker[meta::ROLE_TAG].as_str()),
            ("m", "node")
        );
    }

    #[test]
    fn tags_by_which_instances_are_recognised_are_refused_wherever_they_come_from() {
        for key in [
            "sigs.k8s.io/cluster-api-provider-aws/cluster/other",
            "sigs.k8s.io/cluster-api-provider-aws/role",
            "kubernetes.io/cluster/other",
            "aws:cloudformation:stack-id",
            "MachineName",
        ] {
            let tags = format!("additionalTags: {{'{key}': owned}}");
            let of_machine = refused_tags(&machine(&tags).spec, &MachineNetwork::default()).unwrap();
            let of_network = refused_tags(&machine("").spec, &read(&format!("{{{tags}}}"))).unwrap();
            for problem in [of_machine, of_network] {
                assert_eq!(problem.reason, Reason::Conflict);
                assert!(problem.message.contains(key), "{}", problem.message);
            }
        }
        let own = machine("additionalTags: {team: a, Name: mine}").spec;
        assert_eq!(refused_tags(&own, &MachineNetwork::default()), None);
    }

    #[test]
    fn every_field_without_effect_stops_the_launch_and_is_named() {
        let table = [
            ("ami: {id: ami-1, eksLookupType: AmazonLinux}", "ami.eksLookupType"),
            ("elasticIpPool: {}", "elasticIpPool"),
            ("networkInterfaces: [eni-1]", "networkInterfaces"),
            ("networkInterfaceType: efa", "networkInterfaceType"),
            ("assignPrimaryIPv6: enabled", "assignPrimaryIPv6"),
            ("privateDnsName: {}", "privateDnsName"),
            ("spotMarketOptions: {}", "spotMarketOptions"),
            ("marketType: Spot", "marketType"),
            ("capacityReservationId: cr-1", "capacityReservationId"),
            ("capacityReservationPreference: None", "capacityReservationPreference"),
            ("tenancy: dedicated", "tenancy"),
            ("hostID: h-1", "hostID"),
            ("hostAffinity: host", "hostAffinity"),
            ("dynamicHostAllocation: {}", "dynamicHostAllocation"),
            ("placementGroupName: g", "placementGroupName"),
            ("placementGroupPartition: 1", "placementGroupPartition"),
            ("cpuOptions: {confidentialCompute: Disabled}", "cpuOptions"),
        ];
        for (spec, name) in table {
            let spec: AWSMachineSpec = read(&format!("{{instanceType: t3.large, {spec}}}"));
            let update = unsupported(&spec).unwrap_or_else(|| panic!("{name} passes"));
            assert_eq!(update.reason, Reason::UnsupportedField);
            let (_, names) = update.message.rsplit_once("without it: ").unwrap();
            assert!(names.starts_with(name), "{name}: {}", update.message);
        }
        let stopping = unsupported::fields().iter().filter(|field| {
            let condition = field.consequence.condition.map(|(condition, _)| condition);
            field.kind == "AWSMachine" && condition == Some(ConditionType::InstanceReady)
        });
        let stopping: Vec<&str> = stopping.map(|field| field.path).collect();
        assert_eq!(
            table.map(|(_, name)| name).as_slice(),
            stopping,
            "the table and nothing else"
        );
    }

    #[test]
    fn values_that_ask_for_nothing_and_supported_fields_pass() {
        for spec in [
            "",
            "tenancy: default, hostAffinity: default, marketType: OnDemand, capacityReservationPreference: Open",
            "imageLookupFormat: none-is-looked-up-with-an-id, controlPlaneTargets: [{classicLoadBalancerName: api}]",
            "publicIP: true, iamInstanceProfile: p, sshKeyName: k, rootVolume: {size: 8}, nonRootVolumes: [{deviceName: d, size: 8}]",
        ] {
            assert_eq!(unsupported(&machine(spec).spec), None, "{spec}");
        }
    }

    #[test]
    fn without_an_image_id_the_message_names_the_field() {
        let spec: AWSMachineSpec = read("{instanceType: t3.large, ami: {id: ''}}");
        assert!(unsupported(&spec).unwrap().message.contains("ami.id"));
    }

    #[test]
    fn the_call_says_what_the_spec_says() {
        let spec = "iamInstanceProfile: nodes, sshKeyName: mine, publicIP: true, \
                    rootVolume: {size: 40, type: gp3, iops: 4000, throughput: 200, encryptionKey: k}, \
                    nonRootVolumes: [{deviceName: /dev/sdb, size: 100, encrypted: false}], \
                    instanceMetadataOptions: {httpTokens: required, httpPutResponseHopLimit: 3, instanceMetadataTags: enabled}";
        let request = request(spec, "{sshKeyName: cluster}", MachineRole::Worker);
        assert_eq!(request.client_token, "token");
        assert_eq!(
            (request.image_id.as_str(), request.instance_type.as_str()),
            ("ami-00000001", "t3.large")
        );
        assert_eq!(request.iam_instance_profile.as_deref(), Some("nodes"));
        assert_eq!(request.key_name.as_deref(), Some("mine"));
        assert_eq!(request.public_ip, Some(true));
        let root = request.root_volume.unwrap();
        assert_eq!((root.device_name.as_str(), root.size), ("/dev/xvda", 40));
        assert_eq!(
            (root.volume_type.as_deref(), root.iops, root.throughput),
            (Some("gp3"), Some(4000), Some(200))
        );
        assert_eq!(
            (root.encrypted, root.encryption_key.as_deref()),
            (Some(true), Some("k")),
            "a key means encryption"
        );
        let [data] = request.data_volumes.as_slice() else {
            panic!("one data volume")
        };
        assert_eq!((data.device_name.as_str(), data.encrypted), ("/dev/sdb", Some(false)));
        let metadata = request.metadata_options;
        assert_eq!(
            (metadata.http_tokens.as_str(), metadata.http_put_response_hop_limit),
            ("required", 3)
        );
        assert_eq!(
            (
                metadata.http_endpoint.as_str(),
                metadata.http_protocol_ipv6.as_str(),
                metadata.instance_metadata_tags.as_str()
            ),
            ("enabled", "disabled", "enabled")
        );
    }

    #[test]
    fn what_the_spec_leaves_open_is_left_to_the_cluster_or_to_aws() {
        let silent = request("", "{sshKeyName: cluster}", MachineRole::Worker);
        assert_eq!(silent.key_name.as_deref(), Some("cluster"));
        assert_eq!((silent.iam_instance_profile, silent.public_ip), (None, None));
        assert_eq!((silent.root_volume, silent.data_volumes), (None, vec![]));
        assert_eq!(
            (
                silent.metadata_options.http_tokens.as_str(),
                silent.metadata_options.http_put_response_hop_limit
            ),
            ("required", 2)
        );
        let no_key = request("sshKeyName: ''", "{sshKeyName: cluster}", MachineRole::Worker);
        assert_eq!(no_key.key_name, None);
    }

    #[test]
    fn what_no_launch_could_honour_is_named() {
        let named = |spec| invalid(&machine(spec).spec).map(|update| update.message);
        assert_eq!(named("nonRootVolumes: [{size: 8, deviceName: /dev/sdb}]"), None);
        let volumes = named("nonRootVolumes: [{size: 8}]").unwrap();
        assert!(volumes.contains("nonRootVolumes[0]"), "{volumes}");
        let groups = named("additionalSecurityGroups: [{id: sg-1}, {}]").unwrap();
        assert!(groups.contains("additionalSecurityGroups[1]"), "{groups}");
    }

    #[test]
    fn a_subnet_that_names_nothing_is_named() {
        for subnet in ["{}", "{id: ''}", "{filters: []}"] {
            let spec = machine(&format!("subnet: {subnet}")).spec;
            let message = invalid(&spec).map(|update| update.message).unwrap_or_default();
            assert_eq!(
                message,
                "subnet has neither id nor filters: set one of them, or leave it out"
            );
        }
    }

    #[test]
    fn what_the_status_has_no_room_for_is_named_and_not_quoted() {
        let long = "x".repeat(65);
        let in_spec = |spec: &AWSMachineSpec| invalid(spec).map(|update| update.message).unwrap_or_default();
        let mut with_type = machine("").spec;
        with_type.instance_type.clone_from(&long);
        let mut with_image = machine("").spec;
        with_image.ami = read(&format!("{{id: {long}}}"));
        let with_group = machine(&format!("additionalSecurityGroups: [{{id: sg-1}}, {{id: {long}}}]")).spec;
        for (spec, path) in [
            (with_type, "instanceType has more"),
            (with_image, "ami.id has more"),
            (with_group, "additionalSecurityGroups[1].id has more"),
        ] {
            let said = in_spec(&spec);
            assert!(said.starts_with(path) && !said.contains(&long), "{said}");
        }
        let in_network =
            |network: &str, cluster: &str| oversized_network(&read(network), cluster).map(|problem| problem.message);
        assert_eq!(in_network("{region: eu-west-1}", "dev"), None);
        let said = in_network(&format!("{{subnets: [{{id: {long}}}]}}"), "dev").unwrap();
        assert!(
            said.starts_with("subnets[].id of the network") && !said.contains(&long),
            "{said}"
        );
        let said = in_network("{region: eu-west-1}", &"x".repeat(101)).unwrap();
        assert!(said.starts_with("clusterTag"), "{said}");
    }
}
