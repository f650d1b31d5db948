//! Finds ids and names in a machine spec, and in a network, that no AWS resource can have. Pure.

use capa_api::conditions::Reason;
use capa_api::forms::{IdKind, is_instance_type, is_kms_key, is_region};
use capa_api::machine::AWSMachineSpec;
use capa_api::network::MachineNetwork;
use capa_network::Problem;

use super::image::image_id;

/// The longest part of a wrong value that a message repeats.
const MAX_SHOWN_CHARACTERS: usize = 32;

/// What a field holds.
#[derive(Clone, Copy)]
enum Form {
    Id(IdKind),
    InstanceType,
    KmsKey,
    Region,
}

impl Form {
    fn fits(self, text: &str) -> bool {
        match self {
            Self::Id(kind) => kind.is_id(text),
            Self::InstanceType => is_instance_type(text),
            Self::KmsKey => is_kms_key(text),
            Self::Region => is_region(text),
        }
    }

    /// What to set the field to.
    fn described(self) -> String {
        match self {
            Self::Id(kind) => kind.form(),
            Self::InstanceType => "the name of an instance type, for example m7i.large".to_owned(),
            Self::KmsKey => "the id, alias or ARN of a KMS key, for example alias/nodes".to_owned(),
            Self::Region => "the name of a region, for example eu-west-1".to_owned(),
        }
    }
}

/// Says which field of a machine spec holds an id or a name that AWS cannot have given, and what to set it to. An empty
/// text counts as absent.
pub(crate) fn first_invalid_id(spec: &AWSMachineSpec) -> Option<String> {
    let optional = |path: &str, form, text: &Option<String>| text.as_deref().and_then(|text| invalid(path, form, text));
    let of_groups = || {
        let mut groups = spec.additional_security_groups.iter().enumerate();
        groups.find_map(|(index, group)| {
            let path = format!("additionalSecurityGroups[{index}].id");
            optional(&path, Form::Id(IdKind::SecurityGroup), &group.id)
        })
    };
    let of_interfaces = || {
        let mut interfaces = spec.network_interfaces.iter().enumerate();
        interfaces.find_map(|(index, id)| {
            let path = format!("networkInterfaces[{index}]");
            invalid(&path, Form::Id(IdKind::NetworkInterface), id)
        })
    };
    let of_overrides = || {
        let mut overrides = spec.security_group_overrides.iter();
        overrides.find_map(|(role, id)| {
            invalid(&format!("securityGroupOverrides.{role}"), Form::Id(IdKind::SecurityGroup), id)
        })
    };
    let of_volumes = || {
        let root = spec.root_volume.iter().map(|volume| ("rootVolume".to_owned(), volume));
        let others = spec.non_root_volumes.iter().enumerate();
        let others = others.map(|(index, volume)| (format!("nonRootVolumes[{index}]"), volume));
        root.chain(others).find_map(|(path, volume)| {
            let path = format!("{path}.encryptionKey");
            optional(&path, Form::KmsKey, &volume.encryption_key)
        })
    };
    let subnet = spec.subnet.as_ref();
    invalid("instanceType", Form::InstanceType, &spec.instance_type)
        .or_else(|| invalid("ami.id", Form::Id(IdKind::Image), image_id(spec)?))
        .or_else(|| optional("region", Form::Region, &spec.region))
        .or_else(|| optional("subnet.id", Form::Id(IdKind::Subnet), &subnet?.id))
        .or_else(of_groups)
        .or_else(of_overrides)
        .or_else(of_interfaces)
        .or_else(of_volumes)
        .or_else(|| {
            let reservation = Form::Id(IdKind::CapacityReservation);
            optional("capacityReservationId", reservation, &spec.capacity_reservation_id)
        })
        .or_else(|| optional("hostID", Form::Id(IdKind::Host), &spec.host_id))
}

/// The problem of the text at a path, if the text is not empty.
fn invalid(path: &str, form: Form, text: &str) -> Option<String> {
    if text.is_empty() || form.fits(text) {
        return None;
    }
    let shown: String = text.chars().take(MAX_SHOWN_CHARACTERS).collect();
    let cut = if shown.len() < text.len() { "…" } else { "" };
    Some(format!("{path} is {shown:?}{cut}: set it to {}", form.described()))
}

/// The problem of a network with an invalid region name. For such a region, the provider creates no client and stores
/// nothing.
pub(crate) fn misnamed_region(region: &str) -> Option<Problem> {
    let message = "region of the network is no name of a region: set it to one such as eu-west-1 in its source";
    (!is_region(region)).then(|| Problem::new(Reason::InvalidSpec, message))
}

/// The field of a network that holds an id that AWS cannot have given, and the form of such ids. The text does not
/// repeat the value, because the source of the network may belong to anybody.
pub(crate) fn first_invalid_id_of_network(network: &MachineNetwork) -> Option<(&'static str, String)> {
    let groups = network.security_groups.as_ref();
    let subnets = network.subnets.iter().map(|subnet| ("subnets[].id", IdKind::Subnet, &subnet.id));
    let groups = groups.into_iter().flat_map(|groups| {
        [
            ("securityGroups.all", &groups.all),
            ("securityGroups.controlPlane", &groups.control_plane),
            ("securityGroups.worker", &groups.worker),
        ]
    });
    let groups = groups.flat_map(|(field, ids)| ids.iter().map(move |id| (field, IdKind::SecurityGroup, id)));
    let vpc = network.vpc.iter().map(|vpc| ("vpc.id", IdKind::Vpc, &vpc.id));
    let mut all = subnets.chain(groups).chain(vpc);
    let (field, kind, _) = all.find(|(_, kind, id)| !kind.is_id(id))?;
    Some((field, kind.form()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::read;

    const GOOD: &str = "instanceType: t3.large, ami: {id: ami-00000001}";

    fn said(fields: &str) -> Option<String> {
        first_invalid_id(&read(&format!("{{{fields}}}")))
    }

    #[test]
    fn every_id_and_name_of_a_spec_is_checked() {
        let table = [
            ("instanceType: '*'", "instanceType is \"*\""),
            ("instanceType: t3.large, ami: {id: ami-*}", "ami.id is \"ami-*\""),
            ("region: ../x", "region is \"../x\""),
            ("region: US EAST", "region is \"US EAST\""),
            ("subnet: {id: subnet-?}", "subnet.id is \"subnet-?\""),
            ("additionalSecurityGroups: [{id: sg-0000000a}, {id: sg-*}]", "additionalSecurityGroups[1].id is \"sg-*\""),
            ("networkInterfaces: [eni-0000000a, eni-*]", "networkInterfaces[1] is \"eni-*\""),
            ("securityGroupOverrides: {node: 'sg-*'}", "securityGroupOverrides.node is \"sg-*\""),
            ("rootVolume: {size: 8, encryptionKey: 'a b'}", "rootVolume.encryptionKey is \"a b\""),
            ("nonRootVolumes: [{size: 8}, {size: 8, encryptionKey: x}]", "nonRootVolumes[1].encryptionKey is \"x\""),
            ("capacityReservationId: cr-1", "capacityReservationId is \"cr-1\""),
            ("hostID: h-1", "hostID is \"h-1\""),
        ];
        for (fields, expected) in table {
            let with_type = format!("instanceType: t3.large, {fields}");
            let fields = if fields.starts_with("instanceType") { fields } else { &with_type };
            let said = said(fields).unwrap_or_else(|| panic!("{fields} passes"));
            assert!(said.starts_with(expected), "{said}");
        }
    }

    #[test]
    fn what_aws_gives_passes() {
        for fields in [
            "",
            "region: eu-west-1, subnet: {id: subnet-0000000a}, additionalSecurityGroups: [{id: sg-0000000a}]",
            "additionalSecurityGroups: [{filters: [{name: 'tag:a', values: ['*']}]}], subnet: {id: ''}",
            "securityGroupOverrides: {node: sg-0000000a, lb: ''}",
            "rootVolume: {size: 8, encryptionKey: alias/nodes}, nonRootVolumes: [{size: 8, encryptionKey: ''}]",
            "capacityReservationId: cr-0123456789abcdef0, hostID: h-0123456789abcdef0",
        ] {
            assert_eq!(said(&format!("{GOOD}, {fields}")), None, "{fields}");
        }
    }

    #[test]
    fn a_long_value_is_cut_in_the_message() {
        let said = said(&format!("instanceType: t3.large, ami: {{id: {}}}", "x".repeat(65))).unwrap();
        assert!(said.contains(&format!("{:?}…", "x".repeat(MAX_SHOWN_CHARACTERS))), "{said}");
        assert!(!said.contains(&"x".repeat(MAX_SHOWN_CHARACTERS + 1)), "{said}");
    }

    #[test]
    fn a_region_that_aws_cannot_have_is_a_problem() {
        for region in ["../x", "US EAST", "*", ""] {
            let problem = misnamed_region(region).unwrap_or_else(|| panic!("{region} passes"));
            assert_eq!(problem.reason, Reason::InvalidSpec);
        }
        assert!(misnamed_region("eu-west-1").is_none());
    }

    #[test]
    fn a_wrong_id_in_a_network_is_named_by_its_field_alone() {
        let field = |network: &str| first_invalid_id_of_network(&read(network)).map(|(field, _)| field);
        assert_eq!(field("{region: eu-west-1}"), None);
        for (network, expected) in [
            ("{subnets: [{id: subnet-0000000a}, {id: 'subnet-*'}]}", "subnets[].id"),
            ("{securityGroups: {all: ['sg-*']}}", "securityGroups.all"),
            ("{securityGroups: {controlPlane: [x]}}", "securityGroups.controlPlane"),
            ("{securityGroups: {worker: ['']}}", "securityGroups.worker"),
            ("{vpc: {id: 'vpc-*'}}", "vpc.id"),
        ] {
            assert_eq!(field(network), Some(expected), "{network}");
        }
    }
}
