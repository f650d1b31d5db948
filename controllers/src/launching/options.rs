//! Launch options in the spec of a machine that exclude each other. Pure.

use capa_api::machine::{AWSMachineSpec, NetworkInterfaceType, Switch};

/// The message about security groups for network interfaces of the user, which the provider never changes.
pub(crate) const GROUPS_OF_BROUGHT_INTERFACES: &str = "additionalSecurityGroups are for a new network interface: leave \
                                                       them out, and give the networkInterfaces the groups";

/// The message about options of a spec that exclude each other or prevent the start of a node. The message names the
/// fields and the remedy.
pub(crate) fn contradiction(spec: &AWSMachineSpec) -> Option<&'static str> {
    let metadata = spec.effective_metadata_options();
    if metadata.instance_metadata_tags == Switch::Enabled {
        return Some(
            "EC2 refuses instances with instanceMetadataTags: enabled and a slash in the keys of their tags, as the \
             tags of the provider have: leave it out, and read tags from the EC2 API",
        );
    }
    if metadata.http_endpoint == Switch::Disabled {
        return Some(
            "httpEndpoint: disabled leaves a node that can never fetch its bootstrap data: leave it out, and restrict \
             the metadata service by httpTokens and httpPutResponseHopLimit",
        );
    }
    if spec.placement_group_partition.is_some() && spec.placement_group().is_none() {
        return Some("placementGroupPartition needs placementGroupName: name the placement group, or leave it out");
    }
    if spec.network_interfaces.is_empty() {
        return None;
    }
    if spec.public_ip == Some(true) {
        return Some(
            "publicIP: true is for a new network interface: leave it out, and associate an Elastic IP address with the \
             first of networkInterfaces",
        );
    }
    if !spec.additional_security_groups.is_empty() {
        return Some(GROUPS_OF_BROUGHT_INTERFACES);
    }
    if spec.network_interface_type == Some(NetworkInterfaceType::Efa) {
        return Some(
            "networkInterfaceType: efa is for a new network interface: leave it out, and create the networkInterfaces \
             with that type",
        );
    }
    (spec.assign_primary_ipv6 == Some(Switch::Enabled)).then_some(
        "assignPrimaryIPv6: enabled is for a new network interface: leave it out, and give the first of \
         networkInterfaces such an address",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::read;

    #[test]
    fn fields_that_exclude_each_other_are_named() {
        let said = |fields: &str| contradiction(&read(&format!("{{instanceType: m7i.large, {fields}}}")));
        assert_eq!(said("placementGroupName: racks, placementGroupPartition: 1"), None);
        assert_eq!(said("networkInterfaces: [eni-0000000a], publicIP: false"), None);
        for (fields, named) in [
            ("placementGroupPartition: 1", "placementGroupPartition"),
            ("networkInterfaces: [eni-0000000a], publicIP: true", "publicIP"),
            (
                "networkInterfaces: [eni-0000000a], additionalSecurityGroups: [{id: sg-0000000a}]",
                "additionalSecurityGroups",
            ),
            ("networkInterfaces: [eni-0000000a], networkInterfaceType: efa", "networkInterfaceType"),
            ("networkInterfaces: [eni-0000000a], assignPrimaryIPv6: enabled", "assignPrimaryIPv6"),
        ] {
            let message = said(fields).unwrap_or_else(|| panic!("{fields} passes"));
            assert!(message.starts_with(named), "{message}");
        }
    }
}
